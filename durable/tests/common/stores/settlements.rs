//! Demands of settlements: what comes of rows that were handed out.

use super::rows::supersede;
use super::{Opened, Place, at, bury, with};
use std::collections::BTreeSet;
use std::slice;
use wheelwork_durable::contract::{Outcome, Settled, SliceLimit, Target, TrialBegun, Write};
use wheelwork_durable::{Cause, DeadLetter, DurableId, Row};

pub fn acks(place: &dyn Place) {
    let mut open = Opened::new(place);
    let (row, other) = (open.keyed(10, "key"), open.row(10));
    open.arm(&row);
    open.arm(&other);
    open.hand_out(&[&row, &other]);
    assert_eq!(open.ack(&row, None), Outcome::Settled(true, None));
    assert_eq!(open.get(row.id), None);
    assert_eq!(open.get_key("key"), None);
    assert_eq!(open.all(), [other]);
    assert_eq!(open.ack(&row, None), Outcome::Settled(false, None));
    let again = open.keyed(11, "key");
    open.arm(&again);
    let mut open = open.crash(place);
    assert_eq!(open.size(), (2, 0));
    assert_eq!(open.get_key("key").unwrap().id, again.id);
}

pub fn acks_recurring(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut row = open.keyed(10, "key");
    (row.attempts, row.crashes) = (7, 2);
    row.calendar = Some("* * * * *".into());
    open.arm(&row);
    open.hand_out(&[&row]);
    let next = with(&row, |row| {
        row.due = at(60_000);
        (row.attempts, row.crashes) = (0, 0);
    });
    assert_eq!(
        open.ack(&row, Some(next.due)),
        Outcome::Settled(true, Some(next.clone()))
    );
    assert_eq!(open.ack(&row, None), Outcome::Settled(false, None));
    assert_eq!(open.get_key("key"), Some(next.clone()));
    assert_eq!(open.all(), slice::from_ref(&next));
    let mut open = open.crash(place);
    assert_eq!(open.all(), slice::from_ref(&next));
    // Its last run.
    assert_eq!(open.ack(&next, None), Outcome::Settled(true, None));
    assert_eq!(open.size(), (0, 0));
}

pub fn retries(place: &dyn Place) {
    let mut open = Opened::new(place);
    let row = open.keyed(10, "key");
    open.arm(&row);
    open.hand_out(&[&row]);
    let again = with(&row, |row| {
        row.due = at(2_000);
        (row.attempts, row.crashes) = (1, 1);
    });
    assert_eq!(
        open.retry(&row, again.due, 1),
        Outcome::Settled(true, Some(again.clone()))
    );
    assert_eq!(open.retry(&row, at(1), 9), Outcome::Settled(false, None));
    assert_eq!(open.get_key("key"), Some(again.clone()));
    let mut open = open.crash(place);
    assert_eq!(open.all(), slice::from_ref(&again));
    assert_eq!(open.cancel(again.id), Some(again.id));
    assert_eq!(open.size(), (0, 0));
}

pub fn buries(place: &dyn Place) {
    let mut open = Opened::new(place);
    let (row, other) = (open.keyed(10, "key"), open.row(10));
    open.arm(&row);
    open.arm(&other);
    open.hand_out(&[&row]);
    assert_eq!(open.bury(&row, None), Outcome::Settled(true, None));
    assert_eq!(open.bury(&row, None), Outcome::Settled(false, None));
    assert_eq!((open.get(row.id), open.get_key("key")), (None, None));
    assert_eq!(open.cancel(row.id), None);
    assert_eq!(open.size(), (1, 1));
    let again = open.keyed(30, "key");
    open.arm(&again);
    let mut open = open.crash(place);
    assert_eq!(open.all().len(), 2);
    let cause = Cause::Failed("no answer".into());
    // The letter says which key it had.
    let buried = with(&row, |row| {
        (row.attempts, row.crashes) = (25, 3);
    });
    assert_eq!(open.dead(), [DeadLetter::new(buried, cause, at(777))]);
    assert_eq!(open.get_key("key").unwrap().id, again.id);
}

pub fn buries_recurring(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut row = open.keyed(10, "key");
    row.calendar = Some("* * * * *".into());
    open.arm(&row);
    open.hand_out(&[&row]);
    let copy = open.store.new_id(None, row.due);
    let next = with(&row, |row| {
        row.due = at(60_000);
    });
    assert_eq!(
        open.bury(&row, Some((next.due, copy))),
        Outcome::Settled(true, Some(next.clone()))
    );
    let letter = with(&row, |row| {
        row.id = copy;
        row.key = None;
        row.calendar = None;
        (row.attempts, row.crashes) = (25, 3);
    });
    let mut open = open.crash(place);
    assert_eq!(open.all(), slice::from_ref(&next));
    assert_eq!(open.get_key("key"), Some(next));
    let cause = Cause::Failed("no answer".into());
    assert_eq!(open.dead(), [DeadLetter::new(letter, cause, at(777))]);
    assert_eq!(open.size(), (1, 1));
}

pub fn dead_letters(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows: Vec<_> = (0..5).map(|at| open.row(10 + at)).collect();
    rows[2].key = Some("key".into());
    (rows[2].attempts, rows[2].crashes) = (3, 4);
    rows.iter().for_each(|row| open.arm(row));
    open.hand_out(&rows.iter().collect::<Vec<_>>());
    let causes = [
        Cause::UnknownKind,
        Cause::Undecodable("no JSON".into()),
        Cause::Failed("".into()),
        Cause::Crashed,
        Cause::UnknownKind,
    ];
    for (row, cause) in rows.iter().zip(&causes) {
        let write = Write::Bury {
            of: open.settled(row),
            cause: cause.clone(),
            since: at(50),
            attempts: row.attempts,
            crashes: row.crashes,
            next: None,
        };
        assert_eq!(open.one(write), Outcome::Settled(true, None));
    }
    let mut open = open.crash(place);
    let mut letters = rows.iter().zip(causes);
    let letters: Vec<_> = letters
        .by_ref()
        .map(|(row, cause)| DeadLetter::new(row.clone(), cause, at(50)))
        .collect();
    assert_eq!(open.dead(), letters);
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let mut page = |after, limit| {
        let limit = SliceLimit::rows(limit);
        open.store.dead(after, limit).unwrap()
    };
    assert_eq!(page(None, 2), letters[..2]);
    assert_eq!(page(Some(ids[1]), 2), letters[2..4]);
    assert_eq!(page(Some(ids[3]), 2), letters[4..]);
    assert_eq!(page(Some(ids[4]), 2), []);
    assert_eq!(page(None, 0), []);

    assert_eq!(open.one(Write::Discard(ids[0])), Outcome::Discarded(true));
    assert_eq!(open.one(Write::Discard(ids[0])), Outcome::Discarded(false));
    let none = Outcome::Revived(None);
    assert_eq!(open.one(Write::Revive(ids[0], at(1))), none);
    // Somebody else has the key by now.
    let other = open.keyed(90, "key");
    open.arm(&other);
    let alive = with(&rows[2], |row| {
        row.due = at(80);
        row.key = None;
        (row.attempts, row.crashes) = (0, 0);
    });
    assert_eq!(
        open.one(Write::Revive(ids[2], alive.due)),
        Outcome::Revived(Some(alive.clone()))
    );
    assert_eq!(open.one(Write::Revive(ids[2], at(1))), none);
    assert_eq!(open.one(Write::Discard(ids[2])), Outcome::Discarded(false));
    let mut open = open.crash(place);
    assert_eq!(open.all(), [alive, other.clone()]);
    assert_eq!(open.get_key("key"), Some(other));
    assert_eq!(open.size(), (2, 3));
}

pub fn stale_settlements(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20]);
    let earlier = open.epoch;
    open.hand_out(&[&rows[0]]);
    let mut open = open.crash(place);
    let before = open.all();
    let settled = open.settled(&rows[0]);
    let stale = [
        Settled {
            epoch: earlier,
            ..settled.clone()
        },
        Settled {
            epoch: open.epoch + 1,
            ..settled.clone()
        },
        Settled {
            due: at(11),
            ..settled.clone()
        },
        Settled {
            id: DurableId::from_bits(99),
            ..settled.clone()
        },
    ];
    let copy = open.row(10).id;
    for of in stale {
        let again = Write::Retry {
            of: of.clone(),
            at: at(30),
            attempts: 1,
            crashes: 0,
        };
        let ack = |next| Write::Ack {
            of: of.clone(),
            next,
        };
        let writes = [
            again,
            ack(None),
            ack(Some(at(30))),
            bury(of.clone(), None),
            bury(of.clone(), Some((at(30), copy))),
        ];
        for outcome in open.write(writes) {
            assert_eq!(outcome, Outcome::Settled(false, None), "{of:?}");
        }
    }
    assert_eq!(open.all(), before);
    assert_eq!(open.dead(), []);
    assert_eq!(open.ack(&rows[0], None), Outcome::Settled(true, None));
}

pub fn commits_in_order(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = [10, 20, 30].map(|due_ms| open.keyed(due_ms, "key"));
    let (gone, moved) = (open.row(40), open.row(50));
    let at_key = || Target::Key("key".into());
    let outcomes = open.write([
        Write::Arm(rows[0].clone()),
        Write::Arm(rows[1].clone()),
        Write::Cancel(at_key()),
        Write::Cancel(at_key()),
        Write::Arm(rows[2].clone()),
        Write::Move(at_key(), at(35)),
        Write::Arm(gone.clone()),
        Write::Cancel(Target::Id(gone.id)),
        Write::Arm(moved.clone()),
        Write::Move(Target::Id(moved.id), at(5)),
        Write::Move(Target::Id(moved.id), at(7)),
    ]);
    let last = with(&rows[2], |row| {
        row.due = at(35);
    });
    let to = |due_ms| {
        with(&moved, |row| {
            row.due = at(due_ms);
        })
    };
    assert_eq!(
        outcomes,
        [
            Outcome::Armed(None),
            Outcome::Armed(Some(rows[0].id)),
            Outcome::Cancelled(Some(rows[1].id)),
            Outcome::Cancelled(None),
            Outcome::Armed(None),
            Outcome::Moved(Some(last.clone())),
            Outcome::Armed(None),
            Outcome::Cancelled(Some(gone.id)),
            Outcome::Armed(None),
            Outcome::Moved(Some(to(5))),
            Outcome::Moved(Some(to(7))),
        ]
    );
    assert_eq!(open.all(), [to(7), last.clone()]);
    assert_eq!(open.write([]), []);
    // A delivery ends, and its key goes to the next row, in one commit.
    open.hand_out(&[&last]);
    let next = open.keyed(60, "key");
    let of = open.settled(&last);
    open.gate.rows.clear();
    let outcomes = open.write([Write::Ack { of, next: None }, Write::Arm(next.clone())]);
    assert_eq!(
        outcomes,
        [Outcome::Settled(true, None), Outcome::Armed(None)]
    );
    let mut open = open.crash(place);
    let ids: Vec<_> = open.all().iter().map(|row| row.id).collect();
    assert_eq!(ids, [moved.id, next.id]);
}

pub fn suspects(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut rows = open.arm_at([10, 20, 20, 21, 30]);
    open.store.hand_out(at(20)).unwrap();
    // It does not fall.
    open.store.hand_out(at(15)).unwrap();
    rows.extend(open.arm_at([5, 18]));
    assert!(open.all().iter().all(|row| !row.suspect), "in their epoch");
    let mut open = open.crash(place);
    // These are armed under the new epoch.
    let fresh = open.arm_at([1, 19]);
    for row in rows.iter_mut().filter(|row| row.due <= at(20)) {
        row.suspect = true;
    }
    rows.extend(fresh);
    rows.sort_by_key(Row::position);
    for row in &rows {
        assert_eq!(open.get(row.id).as_ref(), Some(row), "it is seen so");
    }
    assert_eq!(open.all(), rows);
    // Nothing was handed out under that epoch.
    let mut open = open.crash(place);
    assert_eq!(open.all(), rows);
    open.store.hand_out(at(10)).unwrap();
    let mut open = open.crash(place);
    for row in rows.iter_mut().filter(|row| row.due <= at(10)) {
        row.suspect = true;
    }
    assert_eq!(open.all(), rows);
}

pub fn suspects_stay(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20, 30, 40, 50]);
    let (superseded, second) = supersede(&mut open);
    open.store.hand_out(at(45)).unwrap();
    let open = open.crash(place);
    let open = open.crash(place);
    let mut open = open.restart(place);
    let seen: Vec<_> = open.all().iter().map(|row| (row.id, row.suspect)).collect();
    let mut expected = vec![
        (rows[0].id, true),
        (superseded.id, true),
        (rows[1].id, true),
        (second.id, true),
        (rows[2].id, true),
        (rows[3].id, true),
        (rows[4].id, false),
    ];
    let order: BTreeSet<_> = open.all().iter().map(Row::position).collect();
    expected.sort_by_key(|(id, _)| order.iter().position(|at| at.id == *id));
    assert_eq!(seen, expected);
    // One that is moved is still suspect; one that was settled, or is revived, is not.
    let suspect = |row: &Row| with(row, |row| row.suspect = true);
    let to = with(&suspect(&rows[0]), |row| row.due = at(60));
    assert_eq!(
        open.one(Write::Move(Target::Id(to.id), to.due)),
        Outcome::Moved(Some(to.clone()))
    );
    open.hand_out(&[&rows[1], &rows[2], &rows[3]]);
    let again = with(&rows[1], |row| {
        row.due = at(70);
        (row.attempts, row.crashes) = (4, 1);
    });
    assert_eq!(
        open.retry(&rows[1], again.due, 4),
        Outcome::Settled(true, Some(again.clone()))
    );
    let next = with(&rows[2], |row| row.due = at(80));
    assert_eq!(
        open.ack(&rows[2], Some(next.due)),
        Outcome::Settled(true, Some(next.clone()))
    );
    open.bury(&rows[3], None);
    assert!(!open.dead()[0].row.suspect);
    let mut open = open.crash(place);
    assert_eq!(open.get(to.id), Some(to));
    assert_eq!(open.get(again.id), Some(again));
    assert_eq!(open.get(next.id), Some(next));
    let revived = open.one(Write::Revive(rows[3].id, at(90)));
    let alive = with(&rows[3], |row| row.due = at(90));
    assert_eq!(revived, Outcome::Revived(Some(alive)));
}

pub fn begins(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20]);
    let begin = |open: &mut Opened, row: &Row, crashes| {
        let of = open.settled(row);
        match open.one(Write::Begin { of, crashes }) {
            Outcome::Begun(begun) => begun,
            other => panic!("{other:?}"),
        }
    };
    open.hand_out(&[&rows[0], &rows[1]]);
    let mut open = open.crash(place);
    open.hand_out(&[&rows[0], &rows[1]]);
    assert_eq!(begin(&mut open, &rows[0], 3), TrialBegun::Noted);
    let begun = with(&rows[0], |row| (row.crashes, row.suspect) = (3, true));
    assert_eq!(open.get(begun.id).as_ref(), Some(&begun));
    // It survives, and so does what is taken back.
    let mut open = open.crash(place);
    assert_eq!(open.get(begun.id).as_ref(), Some(&begun));
    assert_eq!(begin(&mut open, &rows[0], 0), TrialBegun::Noted);
    let mut open = open.restart(place);
    let before = with(&rows[0], |row| row.suspect = true);
    assert_eq!(open.get(begun.id).as_ref(), Some(&before));
    // Of another deadline, and of one that is gone.
    let moved = with(&rows[0], |row| row.due = at(11));
    assert_eq!(begin(&mut open, &moved, 1), TrialBegun::Refused);
    open.epoch -= 1;
    assert_eq!(begin(&mut open, &rows[0], 1), TrialBegun::Refused);
    open.epoch += 1;
    open.cancel(rows[1].id).unwrap();
    assert_eq!(begin(&mut open, &rows[1], 1), TrialBegun::Refused);
    assert_eq!(open.all(), [before]);
    // One whose key another has taken goes.
    let (superseded, second) = supersede(&mut open);
    assert_eq!(begin(&mut open, &superseded, 1), TrialBegun::Superseded);
    assert_eq!(open.get(superseded.id), None);
    assert_eq!(open.get_key("key").map(|row| row.id), Some(second.id));
}

/// The store is opened again in its process: nobody has had it meanwhile.
pub fn reopens(place: &dyn Place) {
    let mut open = Opened::new(place);
    if !open.store.can_reopen() {
        return;
    }
    let rows = open.arm_at([10, 20, 30]);
    open.hand_out(&[&rows[0], &rows[1]]);
    open.store.hand_out(at(25)).unwrap();
    let epoch = open.epoch;
    let leases = open.store.reopen().unwrap();
    let leases: Vec<_> = leases
        .iter()
        .map(|lease| (lease.partition, lease.epoch))
        .collect();
    assert_eq!(leases, [(0, epoch)], "the epoch goes on");
    assert_eq!(open.all(), rows, "all is there, and nothing is suspect");
    open.ack(&rows[0], None);
    let id = open.store.new_id(None, at(40));
    assert!(
        rows.iter().all(|row| row.id.number() < id.number()),
        "an id is new"
    );
    open.store.reopen().unwrap();
    assert_eq!(open.all(), rows[1..]);
    let mut open = open.crash(place);
    let suspect = with(&rows[1], |row| row.suspect = true);
    assert_eq!(
        open.all(),
        [suspect, rows[2].clone()],
        "the watermark was 25"
    );
}

pub fn releases(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20, 30]);
    open.hand_out(&[&rows[0]]);
    open.ack(&rows[0], None);
    open.store.hand_out(at(25)).unwrap();
    let mut open = open.restart(place);
    assert_eq!(open.all(), rows[1..]);
    open.store.hand_out(at(15)).unwrap();
    let mut open = open.crash(place);
    assert_eq!(open.all(), rows[1..], "the watermark was 15");
}
