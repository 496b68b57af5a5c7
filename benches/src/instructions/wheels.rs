//! Wheels: what a record costs in the wheel of a shard, and a timer in the public wheel.

use crate::count::{Count, OPERATIONS, counted};
use fastrand::Rng;
use std::hint::black_box;
use wheelwork::door::{Entry, Wheel};
use wheelwork::wheel;

pub(crate) const COUNTS: &[Count] = &[
    Count::new("wheel_file", wheel_file),
    Count::new("wheel_bury", wheel_bury),
    Count::new("wheel_advance", wheel_advance),
    Count::new("wheel_cascade", wheel_cascade),
    Count::new("wheel_cascade_in_steps", wheel_cascade_in_steps),
    Count::new("keyed_wheel_insert", keyed_wheel_insert),
    Count::new("keyed_wheel_cancel", keyed_wheel_cancel),
    Count::new("keyed_wheel_advance", keyed_wheel_advance),
];

/// The pace of a service at a tick of 1 ms.
const PACE: u64 = 16_384;

/// Ticks of a slot of the second level.
const SLOT: u64 = 256;

/// A slot of so many is cascaded in one go.
const SMALL: usize = 4_000;

/// The latest deadline of `deadlines`.
const HORIZON: u64 = 60_000;

/// Uniform over a minute at a tick of 1 ms.
fn deadlines() -> Vec<u64> {
    let mut rng = Rng::with_seed(1);
    (0..OPERATIONS).map(|_| rng.u64(1_000..=HORIZON)).collect()
}

fn entries() -> Vec<Entry> {
    deadlines().into_iter().zip(0..).map(|(deadline, cell)| Entry::new(deadline, cell, 1)).collect()
}

/// A wheel with these.
fn wheel_of(entries: &[Entry]) -> Wheel {
    let mut wheel = Wheel::new(0, PACE);
    entries.iter().for_each(|&entry| wheel.file(entry));
    wheel
}

fn wheel_file() -> usize {
    let entries = entries();
    let mut wheel = wheel_of(&[]);
    counted(|| entries.iter().for_each(|&entry| wheel.file(entry)));
    OPERATIONS
}

/// Tombstones in random order, with the compactions that they bring.
fn wheel_bury() -> usize {
    let mut entries = entries();
    let mut wheel = wheel_of(&entries);
    Rng::with_seed(2).shuffle(&mut entries);
    counted(|| entries.iter().for_each(|&entry| wheel.file(entry.tombstone())));
    OPERATIONS
}

/// What is due at one tick.
fn wheel_advance() -> usize {
    let entries: Vec<_> = (0..OPERATIONS as u32).map(|cell| Entry::new(1, cell, 1)).collect();
    let mut wheel = wheel_of(&entries);
    let mut due = 0;
    counted(|| assert!(!wheel.advance(1, |entries| due += entries)));
    assert_eq!(due, OPERATIONS);
    OPERATIONS
}

/// A slot of the second level is moved to the first.
fn wheel_cascade() -> usize {
    let mut wheel = wheel_of(&in_one_slot(SMALL));
    assert!(!wheel.advance(SLOT - 1, |_| unreachable!("nothing is due")));
    counted(|| assert!(!wheel.advance(SLOT, |_| unreachable!("nothing is due yet"))));
    SMALL
}

/// A large slot, ahead of time.
fn wheel_cascade_in_steps() -> usize {
    let mut wheel = wheel_of(&in_one_slot(OPERATIONS));
    counted(|| (0..=SLOT).for_each(|now| while wheel.advance(now, |_| unreachable!("nothing is due yet")) {}));
    OPERATIONS
}

/// Entries of the second level's first slot, all over it, but for its start.
fn in_one_slot(entries: usize) -> Vec<Entry> {
    (0..entries as u32).map(|cell| Entry::new(SLOT + 1 + u64::from(cell) % (SLOT - 1), cell, 1)).collect()
}

/// A public wheel with a timer for each deadline, and their handles.
fn keyed(deadlines: &[u64]) -> (wheel::Wheel<u64>, Vec<wheel::Handle>) {
    let mut wheel = wheel::Wheel::new(0);
    // Its cells are there.
    let handles: Vec<_> = deadlines.iter().map(|&deadline| wheel.insert(deadline, 0)).collect();
    handles.into_iter().for_each(|handle| _ = wheel.cancel(handle));
    let handles = deadlines.iter().map(|&deadline| wheel.insert(deadline, 0)).collect();
    (wheel, handles)
}

fn keyed_wheel_insert() -> usize {
    let deadlines = deadlines();
    let (mut wheel, handles) = keyed(&deadlines);
    handles.into_iter().for_each(|handle| _ = wheel.cancel(handle));
    counted(|| deadlines.iter().for_each(|&deadline| _ = black_box(wheel.insert(deadline, 0))));
    OPERATIONS
}

fn keyed_wheel_cancel() -> usize {
    let (mut wheel, mut handles) = keyed(&deadlines());
    Rng::with_seed(2).shuffle(&mut handles);
    counted(|| handles.iter().for_each(|&handle| assert!(wheel.cancel(handle).is_some())));
    OPERATIONS
}

/// A minute, from deadline to deadline.
fn keyed_wheel_advance() -> usize {
    let (mut wheel, _) = keyed(&deadlines());
    counted(|| assert!(!wheel.advance(HORIZON, usize::MAX, |_, key| _ = black_box(key))));
    assert!(wheel.is_empty());
    OPERATIONS
}
