//! Plan: how many timers are in flight, whose they are, and for how long.

use super::ring;
use clap::ValueEnum;
use std::time::Duration;

/// Which thread cancels a timer, and when.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum CancelledBy {
    /// The thread that armed it, a window of inserts later
    Same,
    /// Another thread, which gets the ids by a ring that holds the window
    Other,
    /// The thread that armed it, which cancels a random one of its window with each insert
    Random,
}

/// A flight, as it is planned.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Timers that an arming thread leaves pending.
    pub window: usize,
    /// Threads that arm.
    pub threads: usize,
    /// Who cancels.
    pub cancelled_by: CancelledBy,
    /// For how long. The windows are filled within this time.
    pub time: Duration,
    /// Whether a probe is beside them. Else its thread arms nothing.
    pub has_probe: bool,
    /// For the random choices.
    pub seed: u64,
    /// The flight ends early when the process has more resident memory than this.
    pub resident_bytes_max: u64,
}

impl Plan {
    /// Timers that are pending at the most.
    pub fn pending(&self) -> usize {
        let of_each = match self.cancelled_by {
            CancelledBy::Other => ring::slots_for(self.window),
            CancelledBy::Same | CancelledBy::Random => self.window,
        };
        of_each * self.threads
    }

    /// Threads that arm, cancel or both.
    pub fn producers(&self) -> usize {
        match self.cancelled_by {
            CancelledBy::Other => 2 * self.threads,
            CancelledBy::Same | CancelledBy::Random => self.threads,
        }
    }
}
