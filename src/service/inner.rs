//! Inner: one running service: cells, clock, handler, counters. Shared by handles, shard threads and jobs.

use super::core::Cells;
use super::fire::Batch;
use super::hooks::Hooks;
use super::id::TimerId;
use super::stats::{ShardStats, Stats};
use crate::cell::Maintenance;
use crate::doorbell::Doorbell;
use crate::error::ScheduleError;
use crate::shard::worker::House;
use crate::shard::{Count, Counters};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::time::{Clock, TickLength};
use crossbeam_utils::CachePadded;
use std::any::Any;
use std::sync::Arc;

pub(super) type Handler<T> = dyn Fn(&mut Batch<'_, T>) + Send + Sync;

pub(crate) struct Inner<T> {
    pub(super) cells: Cells<T>,
    pub(super) clock: Clock,
    pub(super) tick: TickLength,
    pub(super) handler: Box<Handler<T>>,
    pub(super) hooks: Hooks,
    pub(super) counters: Box<[Arc<Counters>]>,
    /// Jobs that may be running tasks.
    pub(super) running: CachePadded<AtomicUsize>,
    pub(super) fired: CachePadded<AtomicU64>,
    pub(super) panics: AtomicU64,
    pub(super) unpinned: AtomicUsize,
}

impl<T: Send + 'static> Inner<T> {
    /// Arms a timer for the time that `at_ns` makes of the present, both in nanoseconds since the clock's origin.
    #[inline]
    pub(super) fn arm(&self, payload: T, at_ns: impl FnOnce(u64) -> u64) -> Result<TimerId, ScheduleError<T>> {
        self.cells.with_local(|local| {
            let now_ns = self.clock.arming_now_ns(&mut local.anchor);
            self.cells.schedule(local, self.tick.deadline(at_ns(now_ns)), payload)
        })
    }

    /// A handler's panic was caught.
    pub(super) fn panicked(&self, panic: Box<dyn Any + Send>) {
        // Ordering: Relaxed. A counter.
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.hooks.panicked(panic);
    }

    pub(super) fn count_fired(&self, by: u64) {
        // Ordering: Relaxed. A counter; touched once for a leaf.
        self.fired.fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn count_unpinned(&self) {
        // Ordering: Relaxed. A counter.
        self.unpinned.fetch_add(1, Ordering::Relaxed);
    }

    /// X5. Whether no job runs.
    pub(super) fn is_quiet(&self) -> bool {
        // Ordering: Acquire (X5). Pairs with F3; F1 of a job that claimed before X4 is visible through the claim.
        self.running.load(Ordering::Acquire) == 0
    }

    pub(super) fn stats(&self) -> Stats {
        let core = &self.cells.core;
        let shard = |(number, counters): (usize, &Arc<Counters>)| ShardStats {
            turns: counters.get(Count::Turns),
            wakeups: counters.get(Count::Wakeups),
            rings: core.bell(number).rings(),
            drained: counters.get(Count::Drained),
            annihilated: counters.get(Count::Annihilated),
            dispatched: counters.get(Count::Dispatched),
            cascaded: counters.get(Count::Cascaded),
            compactions: counters.get(Count::Compactions),
        };
        Stats {
            shards: self.counters.iter().enumerate().map(shard).collect(),
            // Ordering: Relaxed, as are those below. Counters.
            fired: self.fired.load(Ordering::Relaxed),
            // Ordering: Relaxed.
            panics: self.panics.load(Ordering::Relaxed),
            hook_panics: self.hooks.panics(),
            // Ordering: Relaxed.
            unpinned_shards: self.unpinned.load(Ordering::Relaxed),
        }
    }
}

/// One shard's view of its service.
pub(super) struct ShardHouse<T> {
    pub(super) inner: Arc<Inner<T>>,
    pub(super) shard: usize,
}

impl<T: Send + 'static> House for ShardHouse<T> {
    fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    fn tick(&self) -> TickLength {
        self.inner.tick
    }

    fn doorbell(&self) -> &Doorbell {
        self.inner.cells.core.bell(self.shard)
    }

    fn counters(&self) -> &Counters {
        &self.inner.counters[self.shard]
    }

    fn is_stopped(&self) -> bool {
        self.inner.cells.core.is_stopped()
    }

    fn maintain(&self, now_ns: u64) -> Maintenance {
        self.inner.cells.maintain(now_ns)
    }
}
