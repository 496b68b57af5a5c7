//! Tally: what one thread has done to the timers of one shard.

use crate::count::Counter;
use crossbeam_utils::CachePadded;

/// What happens to timers. Each is counted by the thread that does it, for the shard that has the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Armed,
    Cancelled,
    Fired,
    HandedBack,
    /// Periodic timers that came to their end, or to that of the service.
    Ended,
    Rearmed,
    /// Runs of periodic timers.
    Run,
    /// Fired, but nobody took the payload.
    Dropped,
}

const EVENTS: usize = 8;

/// A thread's counts of a shard's events, in cache lines of their own.
#[derive(Debug, Default)]
pub(super) struct Tally(CachePadded<[Counter; EVENTS]>);

impl Tally {
    /// The owner only.
    #[inline]
    pub(super) fn add(&self, event: Event, by: u64) {
        self.0[event as usize].add(by);
    }

    pub(super) fn get(&self, event: Event) -> u64 {
        self.0[event as usize].get()
    }
}
