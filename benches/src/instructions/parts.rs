//! Parts: lane, claim, magazines and doorbell by themselves.

use crate::count::{Count, OPERATIONS, counted};
use crate::setup::{Cell, Exchange, Lane};
use std::hint::black_box;
use wheelwork::internals::Doorbell;

pub(crate) const COUNTS: &[Count] = &[
    Count::new("lane_push_and_drain", lane_push_and_drain),
    Count::new("claim_of_an_id", claim_of_an_id),
    Count::new("claim_of_a_due_entry", claim_of_a_due_entry),
    Count::new("magazine_exchange", magazine_exchange),
    Count::new("doorbell_ring", doorbell_ring),
];

/// Messages of one drain.
const DRAINED: usize = 1_000;

fn lane_push_and_drain() {
    let mut lane = Lane::new();
    let mut rounds = |rounds| (0..rounds).for_each(|_| lane.push_and_drain(DRAINED));
    // Its segments are there.
    rounds(2);
    counted(|| rounds(OPERATIONS / DRAINED));
}

/// An arm with it.
fn claim_of_an_id() {
    let cell = Cell::new();
    counted(|| (0..OPERATIONS as u64).for_each(|payload| cell.claim_id(payload)));
}

/// An arm with it.
fn claim_of_a_due_entry() {
    let cell = Cell::new();
    counted(|| (0..OPERATIONS as u64).for_each(|payload| cell.claim_due(payload)));
}

fn magazine_exchange() {
    let mut exchange = Exchange::new();
    // Full magazines are in the depot.
    exchange.exchange(OPERATIONS);
    counted(|| exchange.exchange(OPERATIONS));
}

/// The shard is awake.
fn doorbell_ring() {
    let doorbell = Doorbell::new();
    counted(|| (0..OPERATIONS as u64).for_each(|deadline| doorbell.ring(black_box(deadline))));
}
