//! Demands of what few rows have, and of rows that are held.

use super::rows::supersede;
use super::{Opened, Place, at, bury, with};
use std::slice;
use std::time::Duration;
use wheelwork_durable::contract::{Held, HeldWhy, Outcome, Position, Settled, Target, Write};
use wheelwork_durable::{Cause, DeadLetter, Row, StoreTime};

/// Gives a row the parts that these bits say.
pub fn with_parts(row: &Row, bits: u8) -> Row {
    with(row, |row| {
        row.set_expires((bits & 1 != 0).then(|| at(9_000)));
        row.set_time_limit((bits & 2 != 0).then(|| Duration::from_millis(250)));
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        row.set_traceparent((bits & 4 != 0).then(|| trace.into()));
    })
}

/// A row as it is once it is held.
fn as_held(row: &Row, why: HeldWhy, since: StoreTime) -> Row {
    with(row, |row| {
        // (The year 6429.)
        row.due = at((1 << 47) + row.due.as_millis());
        row.suspect = false;
        row.set_held(Some(Held { why, since }));
    })
}

fn hold(open: &mut Opened, row: &Row, why: HeldWhy, since: StoreTime) -> Outcome {
    let of = open.settled(row);
    let outcome = open.one(Write::Hold { of, why, since });
    open.gate.rows.remove(&row.id);
    outcome
}

pub fn parts_come_back(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows: Vec<_> = (0..8)
        .map(|bits| with_parts(&open.row(10 + u64::from(bits)), bits))
        .collect();
    // The largest that there are.
    rows.push(with(&open.row(18), |row| {
        row.set_expires(Some(StoreTime::MAX));
        row.set_time_limit(Some(Duration::MAX));
        row.set_traceparent(Some("x".repeat(128).into()));
    }));
    let longest = StoreTime::MAX.as_millis();
    assert_eq!(
        rows[8].time_limit(),
        Some(Duration::from_millis(longest)),
        "a store has no longer one"
    );
    assert_eq!(rows[7].time_limit(), Some(Duration::from_millis(250)));
    assert_eq!(rows[7].expires(), Some(at(9_000)));
    assert!(rows[7].traceparent().is_some() && rows[7].held().is_none());
    rows.iter().for_each(|row| open.arm(row));
    assert_eq!(open.all(), rows);
    let mut open = open.crash(place);
    assert_eq!(open.all(), rows);
    for row in &rows {
        // They survive all that becomes of the row.
        let moved = with(row, |row| row.due = at(100));
        let write = Write::Move(Target::Id(row.id), moved.due);
        assert_eq!(open.one(write), Outcome::Moved(Some(moved.clone())));
        open.hand_out(&[&moved]);
        let again = with(&moved, |row| {
            row.due = at(200);
            (row.attempts, row.crashes) = (1, 1);
        });
        let retried = Outcome::Settled(true, Some(again.clone()));
        assert_eq!(open.retry(&moved, again.due, 1), retried);
        let next = with(row, |row| row.due = at(300));
        let acked = Outcome::Settled(true, Some(next.clone()));
        assert_eq!(open.ack(&again, Some(next.due)), acked);
        assert_eq!(open.bury(&next, None), Outcome::Settled(true, None));
    }
    let mut open = open.crash(place);
    for (row, letter) in rows.iter().zip(open.dead()) {
        let buried = with(row, |row| {
            row.due = at(300);
            (row.attempts, row.crashes) = (25, 3);
        });
        assert_eq!(letter.row, buried);
        let revived = with(row, |row| row.due = at(400));
        let outcome = open.one(Write::Revive(row.id, revived.due));
        assert_eq!(outcome, Outcome::Revived(Some(revived)));
    }
}

pub fn holds(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows: Vec<_> = [10, 20, 30]
        .iter()
        .map(|&due| open.keyed(due, ""))
        .collect();
    for (row, key) in rows.iter_mut().zip(["first", "second", "third"]) {
        row.key = Some(key.into());
        (row.attempts, row.crashes) = (7, 2);
    }
    rows.iter().for_each(|row| open.arm(row));
    open.hand_out(&[&rows[0], &rows[1]]);
    // They are suspects: to be held ends that.
    let mut open = open.crash(place);
    open.hand_out(&[&rows[0], &rows[1]]);
    let held = [&rows[0], &rows[1]].map(|row| as_held(row, HeldWhy::Unhandled, at(55)));
    for (row, held) in rows.iter().zip(&held).rev() {
        let outcome = hold(&mut open, row, HeldWhy::Unhandled, at(55));
        assert_eq!(outcome, Outcome::Settled(true, Some(held.clone())));
        let again = hold(&mut open, row, HeldWhy::Unhandled, at(56));
        assert_eq!(again, Outcome::Settled(false, None), "another deadline");
    }
    let why = Held {
        why: HeldWhy::Unhandled,
        since: at(55),
    };
    assert_eq!(held[0].held(), Some(why));
    // Behind all others, in the order of deadlines.
    let mut open = open.crash(place);
    let all = [rows[2].clone(), held[0].clone(), held[1].clone()];
    assert_eq!(open.all(), all);
    assert_eq!(open.get_key("first").as_ref(), Some(&held[0]));
    let due = open.load(Position::MIN, at(1 << 46), 9);
    assert_eq!(
        due,
        slice::from_ref(&rows[2]),
        "a held row does not fall due"
    );
    // A move is a release.
    let moved = with(&rows[0], |row| row.due = at(70));
    let write = Write::Move(Target::Key("first".into()), moved.due);
    assert_eq!(open.one(write), Outcome::Moved(Some(moved.clone())));
    assert_eq!(moved.held(), None);
    // One that is cancelled, or whose key another takes, is gone.
    assert_eq!(open.cancel(held[1].id), Some(held[1].id));
    open.hand_out(&[&moved]);
    let held = as_held(&moved, HeldWhy::Paused, at(80));
    let outcome = hold(&mut open, &moved, HeldWhy::Paused, at(80));
    assert_eq!(outcome, Outcome::Settled(true, Some(held)));
    let other = open.keyed(90, "first");
    let armed = open.one(Write::Arm(other.clone()));
    assert_eq!(armed, Outcome::Armed(Some(moved.id)));
    let mut open = open.crash(place);
    let rest = with(&rows[2], |row| row.suspect = true);
    assert_eq!(open.all(), [rest, other]);
}

pub fn holds_again(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20]);
    open.hand_out(&[&rows[0], &rows[1]]);
    let parts = open.row(30);
    let parts = with_parts(&parts, 7);
    open.arm(&parts);
    for row in [&rows[0], &parts] {
        let held = as_held(row, HeldWhy::Unhandled, at(50));
        let outcome = hold(&mut open, row, HeldWhy::Unhandled, at(50));
        assert_eq!(outcome, Outcome::Settled(true, Some(held.clone())));
        // Another reason: the deadline stays.
        let paused = as_held(row, HeldWhy::Paused, at(60));
        let outcome = hold(&mut open, &held, HeldWhy::Paused, at(60));
        assert_eq!(outcome, Outcome::Settled(true, Some(paused.clone())));
        // As a dead letter it has its own deadline.
        assert_eq!(open.bury(&paused, None), Outcome::Settled(true, None));
        let buried = with(row, |row| (row.attempts, row.crashes) = (25, 3));
        let dead = open.dead();
        assert_eq!(
            dead.iter().find(|dead| dead.row.id == row.id).unwrap().row,
            buried
        );
    }
    // With the epoch before, it is not held.
    let of = Settled {
        epoch: open.epoch - 1,
        ..open.settled(&rows[1])
    };
    let (why, since) = (HeldWhy::Paused, at(70));
    let outcome = open.one(Write::Hold { of, why, since });
    assert_eq!(outcome, Outcome::Settled(false, None));
    // Nor is one that no held row could be told from.
    let late = open.row(1 << 47);
    open.arm(&late);
    let outcome = hold(&mut open, &late, why, since);
    assert_eq!(outcome, Outcome::Settled(false, None));
    let mut open = open.crash(place);
    assert_eq!(open.get(late.id), Some(late));
    // One whose key another has taken goes.
    let (superseded, second) = supersede(&mut open);
    let outcome = hold(&mut open, &superseded, why, since);
    assert_eq!(outcome, Outcome::Settled(true, None));
    assert_eq!(open.get(superseded.id), None);
    assert_eq!(open.get_key("key").map(|row| row.id), Some(second.id));
}

pub fn causes(place: &dyn Place) {
    let mut open = Opened::new(place);
    let causes = [
        Cause::GivenUp("no such order".into()),
        Cause::GivenUp("".into()),
        Cause::Expired,
    ];
    let rows = open.arm_at([10, 20, 30]);
    open.hand_out(&rows.iter().collect::<Vec<_>>());
    let mut letters = Vec::new();
    for (row, by) in rows.iter().zip(causes) {
        let mut write = bury(open.settled(row), None);
        if let Write::Bury { cause, .. } = &mut write {
            *cause = by.clone();
        }
        assert_eq!(open.one(write), Outcome::Settled(true, None));
        let buried = with(row, |row| (row.attempts, row.crashes) = (25, 3));
        letters.push(DeadLetter::new(buried, by, at(777)));
    }
    let mut open = open.crash(place);
    assert_eq!(open.dead(), letters);
}
