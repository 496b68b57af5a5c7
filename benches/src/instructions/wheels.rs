//! Wheels: what a record costs in the wheel of a shard, and a timer in the public wheel.

use crate::count::{Count, OPERATIONS, counted};
use crate::setup::{HORIZON, SLOT, at_once, deadlines, file_all, in_one_slot, spread, wheel_of};
use fastrand::Rng;
use std::hint::black_box;
use wheelwork::wheel;

pub(crate) const COUNTS: &[Count] = &[
    Count::new("wheel_file", wheel_file),
    Count::new("wheel_tombstone", wheel_tombstone),
    Count::new("wheel_advance", wheel_advance),
    Count {
        operations: SMALL,
        ..Count::new("wheel_cascade", wheel_cascade)
    },
    Count::new("wheel_cascade_in_steps", wheel_cascade_in_steps),
    Count::new("keyed_wheel_insert", keyed_wheel_insert),
    Count::new("keyed_wheel_cancel", keyed_wheel_cancel),
    Count::new("keyed_wheel_advance", keyed_wheel_advance),
];

/// The size of a slot that is cascaded in one go.
const SMALL: usize = 4_000;

fn wheel_file() {
    let (entries, mut wheel) = (spread(OPERATIONS), wheel_of(&[]));
    counted(|| file_all(&mut wheel, &entries));
}

/// Tombstones in random order, with the compactions that they bring.
fn wheel_tombstone() {
    let mut entries = spread(OPERATIONS);
    let mut wheel = wheel_of(&entries);
    Rng::with_seed(2).shuffle(&mut entries);
    counted(|| {
        for entry in &entries {
            wheel.file(entry.tombstone());
        }
    });
}

/// What is due at one tick.
fn wheel_advance() {
    let mut wheel = wheel_of(&at_once(OPERATIONS));
    let mut due = 0;
    counted(|| assert!(!wheel.advance(1, |entries| due += entries)));
    assert_eq!(due, OPERATIONS);
}

/// A slot of the second level is moved to the first.
fn wheel_cascade() {
    let mut wheel = wheel_of(&in_one_slot(SMALL));
    assert!(!wheel.advance(SLOT - 1, |_| unreachable!("nothing is due")));
    counted(|| assert!(!wheel.advance(SLOT, |_| unreachable!("nothing is due yet"))));
}

/// A large slot, ahead of time.
fn wheel_cascade_in_steps() {
    let mut wheel = wheel_of(&in_one_slot(OPERATIONS));
    counted(|| {
        (0..=SLOT)
            .for_each(|now| while wheel.advance(now, |_| unreachable!("nothing is due yet")) {})
    });
}

/// A public wheel with a timer for each deadline, and their handles. Its cells were used before.
fn keyed(deadlines: &[u64]) -> (wheel::Wheel<u64>, Vec<wheel::Handle>) {
    let mut wheel = wheel::Wheel::new(0);
    let used = insert(&mut wheel, deadlines);
    cancel(&mut wheel, used);
    let handles = insert(&mut wheel, deadlines);
    (wheel, handles)
}

fn insert(wheel: &mut wheel::Wheel<u64>, deadlines: &[u64]) -> Vec<wheel::Handle> {
    let deadlines = deadlines.iter();
    deadlines
        .map(|&deadline| wheel.insert(deadline, 0))
        .collect()
}

fn cancel(wheel: &mut wheel::Wheel<u64>, handles: Vec<wheel::Handle>) {
    handles
        .into_iter()
        .for_each(|handle| _ = wheel.cancel(handle));
}

fn keyed_wheel_insert() {
    let deadlines = deadlines(OPERATIONS);
    let (mut wheel, handles) = keyed(&deadlines);
    cancel(&mut wheel, handles);
    counted(|| {
        deadlines
            .iter()
            .for_each(|&deadline| _ = black_box(wheel.insert(deadline, 0)))
    });
}

fn keyed_wheel_cancel() {
    let (mut wheel, mut handles) = keyed(&deadlines(OPERATIONS));
    Rng::with_seed(2).shuffle(&mut handles);
    counted(|| {
        handles
            .iter()
            .for_each(|&handle| assert!(wheel.cancel(handle).is_some()))
    });
}

/// A minute, from deadline to deadline.
fn keyed_wheel_advance() {
    let (mut wheel, _) = keyed(&deadlines(OPERATIONS));
    counted(|| assert!(!wheel.advance(HORIZON, usize::MAX, |_, key| _ = black_box(key))));
    assert!(wheel.is_empty());
}
