//! Counters of a shard. Its thread alone writes them; any thread reads them.

use crate::counters::Counter;
use crate::entry_wheel::LEVELS;
use crossbeam_utils::CachePadded;

/// A shard's counters.
#[derive(Debug, Default)]
pub(crate) struct Counters(CachePadded<Counted>);

#[derive(Debug, Default)]
struct Counted {
    counts: [Counter; COUNTERS],
    /// Entries in each level of the wheel.
    levels: [Counter; LEVELS],
}

const COUNTERS: usize = 11;

/// The name of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Turns,
    Wakeups,
    /// Messages taken from the lanes.
    Drained,
    /// Pairs of an insert and its tombstone that met before the wheel.
    Eliminated,
    Dispatched,
    Cascaded,
    Compactions,
    /// Dead entries that the wheel's slots count.
    Holes,
    /// Entries that are due and still in the wheel.
    Due,
    /// Turns for whose due entries the dispatcher had no room.
    Held,
    /// Not a count: the tick after the next event; 0 if there is no event.
    NextEvent,
}

impl Counters {
    /// Adds to a counter. The shard's thread only.
    #[inline]
    pub(crate) fn add(&self, which: Count, by: u64) {
        self.0.counts[which as usize].add(by);
    }

    /// Sets a counter. The shard's thread only.
    #[inline]
    pub(crate) fn set(&self, which: Count, to: u64) {
        self.0.counts[which as usize].set(to);
    }

    pub(crate) fn get(&self, which: Count) -> u64 {
        self.0.counts[which as usize].get()
    }

    /// Sets the number of entries in each level of the wheel. The shard's thread only.
    #[inline]
    pub(super) fn set_levels(&self, levels: &[u64; LEVELS]) {
        #[expect(clippy::needless_range_loop, reason = "a zip would look at two ends")]
        for level in 0..LEVELS {
            self.0.levels[level].set(levels[level]);
        }
    }

    /// Entries in each level of the wheel.
    pub(crate) fn levels(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| self.0.levels[level].get())
    }
}
