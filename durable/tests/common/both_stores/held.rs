//! Held: demands of rows that are held, and of what few rows have.

use super::demands::{Demand, Opened};
use super::{Both, Unasked, at};
use std::slice;
use std::time::Duration;
use wheelwork_durable::contract::{
    Held, HeldWhy, Outcome, Position, Settled, SliceLimit, Target, Write,
};
use wheelwork_durable::{Cause, DurableId, Row, StoreTime};

/// All of them that one node meets alone, by name.
pub fn held_demands<S: Both>() -> [(&'static str, Demand<S>); 4] {
    [
        ("what few rows have comes back", parts_come_back),
        ("a held row leaves the order", a_held_row_leaves_the_order),
        ("a superseded row ends", a_superseded_row_is_not_held),
        ("a stale hold does nothing", a_stale_hold_does_nothing),
    ]
}

/// Gives a row the parts that these bits say.
pub fn with_parts(row: &mut Row, bits: u8) {
    row.set_expires((bits & 1 != 0).then(|| at(9_000)));
    row.set_time_limit((bits & 2 != 0).then(|| Duration::from_millis(250)));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    row.set_traceparent((bits & 4 != 0).then(|| trace.into()));
}

/// A row that differs in this.
fn with(row: &Row, change: impl FnOnce(&mut Row)) -> Row {
    let mut row = row.clone();
    change(&mut row);
    row
}

/// The row as it is once it is held.
fn as_held(row: &Row, held: Held) -> Row {
    with(row, |row| {
        row.due = at((1 << 47) + row.due.as_millis());
        row.set_held(Some(held));
    })
}

const HELD: Held = Held {
    why: HeldWhy::Unhandled,
    since: at(55),
};

fn hold(of: Settled, held: Held) -> Write {
    let Held { why, since, .. } = held;
    Write::Hold { of, why, since }
}

fn bury(of: Settled, next: Option<(StoreTime, DurableId)>) -> Write {
    Write::Bury {
        of,
        cause: Cause::GivenUp("no such order".into()),
        since: at(777),
        attempts: 5,
        crashes: 3,
        next,
    }
}

fn parts_come_back<S: Both>(open: &mut Opened<S>) {
    let dues = 100..108;
    let mut rows: Vec<Row> = dues.map(|due| open.row(due, None)).collect();
    for (bits, row) in (0..).zip(&mut rows) {
        with_parts(row, bits);
    }
    // The largest that there are.
    let mut large = open.row(200, Some("large"));
    large.set_expires(Some(StoreTime::MAX));
    large.set_time_limit(Some(Duration::MAX));
    large.set_traceparent(Some("x".repeat(128).into()));
    rows.push(large);
    // (In one commit: some have parts, and others not.)
    let arms = rows.iter().cloned().map(Write::Arm).collect();
    open.store.commit(arms, &mut Unasked).unwrap();
    assert_eq!(open.all(), rows);
    for row in &rows {
        let target = Target::Id(row.id);
        assert_eq!(open.store.get(&target).unwrap().as_ref(), Some(row));
        // They survive all that becomes of the row.
        let moved = with(row, |row| row.due = at(300));
        let outcome = open.one(Write::Move(target, moved.due));
        assert_eq!(outcome, Outcome::Moved(Some(moved.clone())));
        let (of, again) = (open.of(&moved), with(&moved, |row| row.due = at(400)));
        let retry = Write::Retry {
            of,
            at: again.due,
            attempts: 0,
            crashes: 0,
        };
        let outcome = open.one(retry);
        assert_eq!(outcome, Outcome::Settled(true, Some(again.clone())));
        let held = as_held(&again, HELD);
        let outcome = open.one(hold(open.of(&again), HELD));
        assert_eq!(outcome, Outcome::Settled(true, Some(held.clone())));
        // A copy of it becomes a dead letter, with the deadline that it had before it was held.
        let copy = open.store.new_id(None, at(1));
        let next = with(row, |row| row.due = at(500));
        let outcome = open.one(bury(open.of(&held), Some((next.due, copy))));
        assert_eq!(outcome, Outcome::Settled(true, Some(next.clone())));
        let letter = |open: &mut Opened<S>, id| {
            let letters = open.store.dead(None, SliceLimit::rows(1_000)).unwrap();
            letters.into_iter().find(|letter| letter.row.id == id)
        };
        let copied = letter(open, copy).unwrap();
        let buried = with(&again, |row| {
            (row.id, row.key, row.attempts, row.crashes) = (copy, None, 5, 3);
        });
        assert_eq!(copied.row, buried);
        assert_eq!(copied.cause, Cause::GivenUp("no such order".into()));
        let mut last = bury(open.of(&next), None);
        if let Write::Bury { cause, .. } = &mut last {
            *cause = Cause::Expired;
        }
        assert_eq!(open.one(last), Outcome::Settled(true, None));
        let buried = letter(open, row.id).unwrap();
        assert_eq!(buried.cause, Cause::Expired);
        assert_eq!((&buried.row.key, buried.row.due), (&row.key, at(500)));
        let revived = with(row, |row| (row.due, row.key) = (at(600), None));
        let outcome = open.one(Write::Revive(row.id, revived.due));
        assert_eq!(outcome, Outcome::Revived(Some(revived)));
    }
}

fn a_held_row_leaves_the_order<S: Both>(open: &mut Opened<S>) {
    let rows = [(10, "first"), (20, "second"), (30, "third")];
    let rows = rows.map(|(due, key)| {
        let mut row = open.row(due, Some(key));
        (row.attempts, row.crashes) = (7, 2);
        row
    });
    rows.iter().for_each(|row| open.arm(row));
    open.claim(20);
    let held = [&rows[0], &rows[1]].map(|row| as_held(row, HELD));
    for (row, held) in rows.iter().zip(&held).rev() {
        let write = hold(open.of(row), HELD);
        let outcome = open.one(write.clone());
        assert_eq!(outcome, Outcome::Settled(true, Some(held.clone())));
        let again = open.one(write);
        assert_eq!(again, Outcome::Settled(false, None), "another deadline");
    }
    assert_eq!(held[0].held(), Some(HELD));
    // Behind all others, in the order of deadlines.
    let all = [rows[2].clone(), held[0].clone(), held[1].clone()];
    assert_eq!(open.all(), all);
    let by_key = open.store.get(&Target::Key("first".into())).unwrap();
    assert_eq!(by_key.as_ref(), Some(&held[0]));
    let due = open.load(Position::MIN, at(1 << 46), 9);
    assert_eq!(due, slice::from_ref(&rows[2]), "it does not fall due");
    // For another reason: the deadline stays.
    let paused = Held {
        why: HeldWhy::Paused,
        since: at(66),
    };
    let again = with(&held[0], |row| row.set_held(Some(paused)));
    let outcome = open.one(hold(open.of(&held[0]), paused));
    assert_eq!(outcome, Outcome::Settled(true, Some(again)));
    // A move is a release, though the row was handed out before.
    let moved = with(&rows[0], |row| row.due = at(70));
    let outcome = open.one(Write::Move(Target::Key("first".into()), moved.due));
    assert_eq!(outcome, Outcome::Moved(Some(moved.clone())));
    assert_eq!(
        open.load(Position::MIN, at(70), 9),
        [rows[2].clone(), moved.clone()]
    );
    // So is a retry, and a move to a deadline that held rows have.
    let outcome = open.one(hold(open.of(&moved), HELD));
    let held_again = as_held(&moved, HELD);
    assert_eq!(outcome, Outcome::Settled(true, Some(held_again.clone())));
    let retry = Write::Retry {
        of: open.of(&held_again),
        at: at(80),
        attempts: 7,
        crashes: 2,
    };
    let retried = with(&moved, |row| row.due = at(80));
    assert_eq!(open.one(retry), Outcome::Settled(true, Some(retried)));
    let late = with(&rows[1], |row| row.due = at(3 << 46));
    let outcome = open.one(Write::Move(Target::Id(late.id), late.due));
    assert_eq!(outcome, Outcome::Moved(Some(late.clone())));
    // Such a row is not held, and cannot be.
    let outcome = open.one(hold(open.of(&late), HELD));
    assert_eq!(outcome, Outcome::Settled(false, None));
    assert_eq!(open.store.get(&Target::Id(late.id)).unwrap(), Some(late));
    // The key of a held row is another's to take.
    let of = open.of(&rows[2]);
    open.one(hold(of, HELD));
    let next = open.row(90, Some("third"));
    let armed = open.one(Write::Arm(next));
    assert_eq!(armed, Outcome::Armed(Some(rows[2].id)));
    assert_eq!(open.store.get(&Target::Id(rows[2].id)).unwrap(), None);
}

fn a_superseded_row_is_not_held<S: Both>(open: &mut Opened<S>) {
    let row = open.row(10, Some("key"));
    open.arm(&row);
    open.claim(10);
    let next = open.row(20, Some("key"));
    open.arm(&next);
    let outcome = open.one(hold(open.of(&row), HELD));
    assert_eq!(outcome, Outcome::Settled(true, None));
    assert_eq!(open.all(), [next]);
}

fn a_stale_hold_does_nothing<S: Both>(open: &mut Opened<S>) {
    let row = open.row(10, None);
    open.arm(&row);
    open.claim(10);
    let right = open.of(&row);
    for (epoch, due) in [(-1, 10), (1, 10), (0, 11)] {
        let wrong = Settled {
            epoch: right.epoch.strict_add_signed(epoch),
            due: at(due),
            ..right.clone()
        };
        let outcome = open.one(hold(wrong, HELD));
        assert_eq!(outcome, Outcome::Settled(false, None));
    }
    assert_eq!(open.all(), [row]);
}

/// A node that owns nothing cancels and moves rows that another one has held.
pub fn any_node_ends_a_held_row<S: Both>(owner: &mut Opened<S>, other: &mut S) {
    other.renew().unwrap();
    let rows = [10, 20].map(|due| owner.row(due, Some(["a", "b"][due as usize / 20])));
    rows.iter().for_each(|row| owner.arm(row));
    owner.claim(20);
    for row in &rows {
        let held = as_held(row, HELD);
        let outcome = owner.one(hold(owner.of(row), HELD));
        assert_eq!(outcome, Outcome::Settled(true, Some(held)));
    }
    let mut one = |write| other.commit(vec![write], &mut Unasked).unwrap().remove(0);
    let far = at(4_102_444_800_000);
    let moved = with(&rows[1], |row| row.due = far);
    let outcome = one(Write::Move(Target::Key("b".into()), far));
    assert_eq!(outcome, Outcome::Moved(Some(moved)));
    let outcome = one(Write::Cancel(Target::Id(rows[0].id)));
    assert_eq!(outcome, Outcome::Cancelled(Some(rows[0].id)));
    let outcome = one(Write::Cancel(Target::Key("a".into())));
    assert_eq!(outcome, Outcome::Cancelled(None));
}
