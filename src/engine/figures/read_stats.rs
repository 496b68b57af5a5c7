//! Read stats: the counters of a service, summed up.
//!
//! Each thread counts what it does to timers in a `Tally` of its own. Each shard counts its turns
//! in `shard::Counters`. Any thread may read them at any time; the counters are read one after the
//! other, while their owners go on.

use super::lateness::LatenessHistogram;
use super::stats::{Machinery, PoolCounts, ShardStats, Stats, TimerCounts};
use super::tally::Event;
use crate::engine::Engine;
use crate::shard::Count;
use crate::sync::Ordering;

impl<T: Send + 'static> Engine<T> {
    pub(crate) fn stats(&self) -> Stats {
        let shards: Vec<_> = (0..self.counters.len())
            .map(|shard| ShardStats {
                timers: self.timer_counts(shard),
                machinery: self.machinery(shard),
            })
            .collect();
        let mut timers = TimerCounts::default();
        shards.iter().for_each(|shard| timers.add(&shard.timers));
        let mut lateness = LatenessHistogram::default();
        self.cells
            .shared
            .lateness()
            .for_each(|histogram| lateness.merge(histogram));
        Stats {
            timers,
            lateness,
            // Ordering: Relaxed. A counter.
            panics: self.panics.load(Ordering::Relaxed),
            hook_panics: self.hooks.panics(),
            // Ordering: Relaxed. A counter.
            unpinned_shards: self.unpinned.load(Ordering::Relaxed),
            pool: PoolCounts {
                // Ordering: Relaxed. Counters.
                calls: self.woken.attendant.load(Ordering::Relaxed),
                announcements: self.woken.announcements.load(Ordering::Relaxed),
            },
            shards,
        }
    }

    fn timer_counts(&self, shard: usize) -> TimerCounts {
        let sum = |event| {
            let mut sum = 0;
            self.cells
                .shared
                .tallies(shard)
                .for_each(|tally| sum += tally.get(event));
            sum
        };
        // The outcomes are read before `armed`: a timer that has an outcome here was armed before.
        let [fired, cancelled, handed_back, ended] = [
            Event::Fired,
            Event::Cancelled,
            Event::HandedBack,
            Event::Ended,
        ]
        .map(sum);
        let armed = sum(Event::Armed);
        TimerCounts {
            armed,
            fired,
            dropped: sum(Event::Dropped),
            cancelled,
            handed_back,
            ended,
            pending: armed.saturating_sub(fired + cancelled + handed_back + ended),
            rearmed: sum(Event::Rearmed),
            runs: sum(Event::Run),
        }
    }

    fn machinery(&self, shard: usize) -> Machinery {
        let (shared, counters) = (&self.cells.shared, &self.counters[shard]);
        // Before what waits: what the shard looks at meanwhile is in both.
        let lane_depth = shared.inbox(shard).depth();
        Machinery {
            lane_depth,
            lane_waiting: shared.inbox(shard).waiting().min(lane_depth),
            // Ordering: Relaxed. A count for statistics.
            pool_backlog: self.backlogs[shard].load(Ordering::Relaxed) as u64,
            held: counters.get(Count::Held),
            stalls: self.stalls[shard].get(),
            turns: counters.get(Count::Turns),
            wakeups: counters.get(Count::Wakeups),
            rings: shared.bell(shard).rings(),
            drained: counters.get(Count::Drained),
            eliminated: counters.get(Count::Eliminated),
            dispatched: counters.get(Count::Dispatched),
            cascaded: counters.get(Count::Cascaded),
            compactions: counters.get(Count::Compactions),
            holes: counters.get(Count::Holes),
            due: counters.get(Count::Due),
            levels: counters.levels(),
        }
    }
}
