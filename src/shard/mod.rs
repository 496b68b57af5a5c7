//! Shard: one core's part of the service. [`turn`] is one pass over lanes and wheel; [`worker`] is the thread that takes turns and sleeps.
//!
//! A shard's state is private to whoever takes its turns: its thread, or the manual clock. All that reaches it comes through
//! its inbox, all that leaves it goes to its dispatcher. It never touches a cell.

mod nursery;
pub(crate) mod turn;
mod upkeep;
pub(crate) mod worker;

use crate::count::Counter;
use crossbeam_utils::CachePadded;

/// A shard's counters: written by its thread alone, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Counters(CachePadded<[Counter; COUNTERS]>);

const COUNTERS: usize = 10;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Turns,
    Wakeups,
    Drained,
    Annihilated,
    Dispatched,
    Cascaded,
    Compactions,
    Holes,
    Held,
    /// No count: the tick after the next event, zero if there is none.
    NextEvent,
}

impl Counters {
    /// Adds to a counter. The shard's thread only.
    pub(crate) fn add(&self, which: Count, by: u64) {
        self.0[which as usize].add(by);
    }

    /// Sets a counter. The shard's thread only.
    pub(crate) fn set(&self, which: Count, to: u64) {
        self.0[which as usize].set(to);
    }

    pub(crate) fn get(&self, which: Count) -> u64 {
        self.0[which as usize].get()
    }
}
