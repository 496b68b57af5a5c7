//! Shard: one core's part of the service. [`turn`] is one pass over lanes and wheel; [`worker`] is the thread that takes turns and sleeps.
//!
//! A shard's state is private to whoever takes its turns: its thread, or the manual clock. All that reaches it comes through
//! its inbox, all that leaves it goes to its dispatcher. It never touches a cell.

mod arrivals;
mod budget;
mod nursery;
pub(crate) mod turn;
mod upkeep;
pub(crate) mod worker;

use crate::count::Counter;
use crate::wheel::LEVELS;
use crossbeam_utils::CachePadded;

/// A shard's counters: written by its thread alone, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Counters(CachePadded<Counted>);

#[derive(Debug, Default)]
struct Counted {
    counts: [Counter; COUNTERS],
    /// Entries in each level of the wheel.
    levels: [Counter; LEVELS],
}

const COUNTERS: usize = 11;

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
    /// Entries that are due and still in the wheel.
    Due,
    Held,
    /// No count: the tick after the next event, zero if there is none.
    NextEvent,
}

impl Counters {
    /// Adds to a counter. The shard's thread only.
    pub(crate) fn add(&self, which: Count, by: u64) {
        self.0.counts[which as usize].add(by);
    }

    /// Sets a counter. The shard's thread only.
    pub(crate) fn set(&self, which: Count, to: u64) {
        self.0.counts[which as usize].set(to);
    }

    pub(crate) fn get(&self, which: Count) -> u64 {
        self.0.counts[which as usize].get()
    }

    /// Sets the number of entries in each level of the wheel. The shard's thread only.
    fn set_levels(&self, levels: &[u64; LEVELS]) {
        self.0.levels.iter().zip(levels).for_each(|(counter, &entries)| counter.set(entries));
    }

    /// Entries in each level of the wheel.
    pub(crate) fn levels(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| self.0.levels[level].get())
    }
}
