//! Demands of records of runs that are done.

use super::rows::supersede;
use super::{Opened, Place, at};
use std::time::Duration;
use wheelwork_durable::contract::{DonePlace, DoneRange, Outcome, Settled, Write};
use wheelwork_durable::{DoneEnding, DoneTimer, Row, StoreTime};

/// A record of a row's run.
fn record(row: &Row, ended_ms: u64) -> DoneTimer {
    let mut done = DoneTimer::new(row.id, row.due, row.kind.clone(), at(ended_ms));
    done.key.clone_from(&row.key);
    done
}

/// Acknowledges a row. Its record stays if that was done.
fn ack(open: &mut Opened, of: Settled, next: Option<StoreTime>, done: &DoneTimer) -> Outcome {
    let kept = Box::new(done.clone());
    open.gate.rows.remove(&of.id);
    open.one(Write::AckKept { of, next, kept })
}

/// All records of a range, in slices of about three.
fn look(open: &mut Opened, mut range: DoneRange) -> Vec<DoneTimer> {
    let mut all = Vec::new();
    loop {
        let found = open.store.done().unwrap().look(&range, 3).unwrap();
        all.extend(found.done);
        let Some(next) = found.next else { return all };
        assert_eq!(all.last().map(DoneTimer::place), Some(next));
        if range.newest_first {
            range.below = next;
        } else {
            range.above = next;
        }
    }
}

fn all(open: &mut Opened) -> Vec<DoneTimer> {
    look(open, DoneRange::ALL)
}

pub fn records_come_back(place: &dyn Place) {
    let mut open = Opened::new(place);
    assert_eq!(all(&mut open), []);
    let mut rows: Vec<_> = (1..=7).map(|due_ms| open.row(due_ms * 10)).collect();
    rows[1] = open.keyed(20, "key");
    rows[2].calendar = Some("* * * * *".into());
    rows.iter().for_each(|row| open.arm(row));
    open.hand_out(&rows.iter().collect::<Vec<_>>());
    let mut records: Vec<_> = (rows.iter().enumerate())
        .map(|(number, row)| record(row, 100 - number as u64 / 2))
        .collect();
    records[0].took = Duration::from_micros(4_711);
    (records[0].attempts, records[0].crashes) = (3, 2);
    records[0].began = Some(at(95));
    records[0].node = "node 1".into();
    (records[2].began, records[2].ending) = (None, DoneEnding::LeftOut);
    for (row, done) in rows.iter().zip(&records) {
        let next = row.calendar.is_some().then(|| at(1_000));
        let of = open.settled(row);
        let outcome = ack(&mut open, of.clone(), next, done);
        assert!(matches!(outcome, Outcome::Settled(true, _)), "{outcome:?}");
        // It was acknowledged, and is not once more.
        let outcome = ack(&mut open, of, next, &record(row, 200));
        assert_eq!(outcome, Outcome::Settled(false, None));
    }
    records.sort_by_key(DoneTimer::place);
    assert_eq!(all(&mut open), records);
    let mut open = open.crash(place);
    assert_eq!(all(&mut open), records);
    assert_eq!(open.store.done().unwrap().count().unwrap(), 7);
    let newest = DoneRange {
        newest_first: true,
        ..DoneRange::ALL
    };
    let mut reversed = look(&mut open, newest);
    reversed.reverse();
    assert_eq!(reversed, records);
    // Both ends of a range are left out.
    for (first, last) in [(0, 6), (2, 5), (3, 4), (4, 4), (5, 1)] {
        for newest_first in [false, true] {
            let range = DoneRange {
                above: records[first].place(),
                below: records[last].place(),
                newest_first,
            };
            let mut found = look(&mut open, range);
            if newest_first {
                found.reverse();
            }
            let expected = records.get(first + 1..last).unwrap_or_default();
            assert_eq!(found, expected, "{first} to {last}");
        }
    }
    // A calendar's next run leaves a record of its own.
    let next = open.get(rows[2].id).unwrap();
    open.hand_out(&[&next]);
    let of = open.settled(&next);
    let done = record(&next, 300);
    assert_eq!(
        ack(&mut open, of, None, &done),
        Outcome::Settled(true, None)
    );
    records.push(done);
    assert_eq!(all(&mut open), records);
}

pub fn a_refused_answer_leaves_no_record(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at([10, 20, 30]);
    open.hand_out(&rows.iter().collect::<Vec<_>>());
    let of = open.settled(&rows[0]);
    let stale = [
        Settled {
            epoch: open.epoch - 1,
            ..of.clone()
        },
        Settled {
            due: at(11),
            ..of.clone()
        },
        Settled {
            id: open.row(10).id,
            ..of.clone()
        },
    ];
    for of in stale {
        for next in [None, Some(at(500))] {
            let outcome = ack(&mut open, of.clone(), next, &record(&rows[0], 50));
            assert_eq!(outcome, Outcome::Settled(false, None), "{of:?}");
        }
    }
    // Nor does another end.
    open.retry(&rows[0], at(40), 1);
    open.bury(&rows[1], None);
    assert_eq!(open.cancel(rows[2].id), None);
    assert_eq!(
        open.ack(&rows[2], None),
        Outcome::Settled(true, None),
        "without a record"
    );
    assert_eq!(all(&mut open), []);
    // One whose key was taken has done its work, too.
    let (superseded, _) = supersede(&mut open);
    let of = open.settled(&superseded);
    let done = record(&superseded, 60);
    let outcome = ack(&mut open, of, Some(at(600)), &done);
    assert_eq!(outcome, Outcome::Settled(true, None));
    let mut open = open.crash(place);
    assert_eq!(all(&mut open), [done]);
}

pub fn records_are_forgotten(place: &dyn Place) {
    let mut open = Opened::new(place);
    let rows = open.arm_at((1..=9).map(|due_ms| due_ms * 10));
    open.hand_out(&rows.iter().collect::<Vec<_>>());
    let mut records = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        // (Three end in each millisecond.)
        let done = record(row, 100 + number as u64 / 3);
        let of = open.settled(row);
        ack(&mut open, of, None, &done);
        records.push(done);
    }
    records.sort_by_key(DoneTimer::place);
    let forget = |open: &mut Opened, before, limit| {
        let done = open.store.done().unwrap();
        done.forget(at(before), limit).unwrap().has_more
    };
    assert!(!forget(&mut open, 100, 4), "each is kept for its time");
    assert_eq!(all(&mut open), records);
    while forget(&mut open, 101, 2) {}
    assert_eq!(all(&mut open), records[3..]);
    // What was removed without a commit may come back, and is removed again.
    let mut open = open.crash(place);
    while forget(&mut open, 102, 100) {}
    assert_eq!(all(&mut open), records[6..]);
    assert_eq!(open.store.done().unwrap().count().unwrap(), 3);
    let last = DoneRange {
        above: DonePlace::begin_of(at(102)),
        below: DonePlace::end_of(at(102)),
        newest_first: false,
    };
    assert_eq!(look(&mut open, last), records[6..]);
    while forget(&mut open, 1_000, 2) {}
    assert_eq!(all(&mut open), []);
}
