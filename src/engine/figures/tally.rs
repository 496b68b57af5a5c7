//! Tally: counts what one thread has done to the timers of one shard.
//!
//! Its thread alone writes it; `stats` reads all tallies. When a thread ends, its counts are added
//! to those of past threads.

use crate::counters::{Counter, CounterSet};
use crossbeam_utils::CachePadded;

/// What happens to timers. The thread that does it counts it, for the shard that has the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Armed,
    Cancelled,
    Fired,
    HandedBack,
    /// Periodic timers that ended, by themselves or with the service.
    Ended,
    Rearmed,
    /// Runs of periodic timers.
    Run,
    /// Timers that fired, but nobody took the payload.
    Dropped,
}

const EVENTS: usize = 8;

/// One thread's counters of one shard's events, in cache lines of their own.
#[derive(Debug, Default)]
pub(in crate::engine) struct Tally(CachePadded<[Counter; EVENTS]>);

impl Tally {
    /// Called by the owner only.
    #[inline]
    pub(crate) fn add(&self, event: Event, by: u64) {
        self.0[event as usize].add(by);
    }

    pub(crate) fn get(&self, event: Event) -> u64 {
        self.0[event as usize].get()
    }
}

impl CounterSet for Tally {
    fn add_all(&self, other: &Self) {
        let counters = self.0.iter().zip(other.0.iter());
        counters.for_each(|(counter, other)| counter.add(other.get()));
    }
}
