//! Parts: lane, claim, magazines and doorbell by themselves.

use crate::count::{Count, OPERATIONS, counted};
use std::hint::black_box;
use wheelwork::door::{Arena, Doorbell, Entry, Inbox};

pub(crate) const COUNTS: &[Count] = &[
    Count::new("lane_push_and_drain", lane_push_and_drain),
    Count::new("claim_of_an_id", claim_of_an_id),
    Count::new("claim_of_a_due_entry", claim_of_a_due_entry),
    Count::new("magazine_exchange", magazine_exchange),
    Count::new("doorbell_ring", doorbell_ring),
];

/// Messages of one drain.
const DRAINED: usize = 1_000;

fn lane_push_and_drain() -> usize {
    let (inbox, mut drain) = Inbox::new();
    let mut sender = inbox.attach();
    let entry = Entry::new(30_000, 1, 1);
    let mut rounds = |rounds| {
        for _ in 0..rounds {
            (0..DRAINED).for_each(|_| sender.push(black_box(entry)));
            assert_eq!(drain.drain(|message, _| _ = black_box(message)), DRAINED as u64);
        }
    };
    // Its segments are there.
    rounds(2);
    counted(|| rounds(OPERATIONS / DRAINED));
    OPERATIONS
}

/// An arm with it.
fn claim_of_an_id() -> usize {
    let arena = Arena::new();
    let cell = arena.take(&mut arena.magazines()).expect("there are enough");
    counted(|| {
        (0..OPERATIONS as u64).for_each(|payload| {
            // SAFETY: the cell was taken, and each claim gives it back.
            let (_, claimed) = unsafe { arena.use_once(cell, payload) };
            assert_eq!(claimed, Some(payload));
        });
    });
    OPERATIONS
}

/// An arm with it.
fn claim_of_a_due_entry() -> usize {
    let arena = Arena::new();
    let cell = arena.take(&mut arena.magazines()).expect("there are enough");
    counted(|| {
        (0..OPERATIONS as u64).for_each(|payload| {
            // SAFETY: the cell was taken, and each claim gives it back.
            let entry = unsafe { arena.arm(cell, 1, payload) };
            // SAFETY: armed here, and nobody calls `maintain`.
            let claimed = unsafe { arena.claim_due(entry) };
            assert_eq!(claimed, Some(payload));
        });
    });
    OPERATIONS
}

/// Cells that one thread takes and another puts back: their magazines go through the depot.
fn magazine_exchange() -> usize {
    let arena = Arena::new();
    let (mut arming, mut firing) = (arena.magazines(), arena.magazines());
    let mut cells = |cells| {
        for _ in 0..cells {
            let cell = arena.take(&mut arming).expect("there are enough");
            arena.put(&mut firing, cell);
        }
    };
    // Full magazines are in the depot.
    cells(OPERATIONS);
    counted(|| cells(OPERATIONS));
    OPERATIONS
}

/// The shard is awake.
fn doorbell_ring() -> usize {
    let doorbell = Doorbell::new();
    counted(|| (0..OPERATIONS as u64).for_each(|deadline| doorbell.ring(black_box(deadline))));
    OPERATIONS
}
