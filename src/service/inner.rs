//! Inner: one running service: cells, clock, handler, counters. Shared by handles, shard threads and jobs.

use super::cells::{Cells, Date};
use super::fire::Batch;
use super::hooks::{Hooks, Users};
use super::id::TimerId;
use super::lateness::LatenessHistogram;
use super::local::Local;
use super::running::Running;
use super::stats::{ShardStats, Stats};
use super::tally::Event;
use crate::cell::{Maintenance, Payload, Place};
use crate::count::Counter;
use crate::dispatch::channel::Outbox;
use crate::dispatch::pool::Woken;
use crate::doorbell::Doorbell;
use crate::error::ScheduleError;
use crate::shard::worker::House;
use crate::shard::{Count, Counters};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::time::{Clock, TickLength};
use std::any::Any;
use std::sync::Arc;

pub(super) type Handler<T> = dyn Fn(&mut Batch<'_, T>) + Send + Sync;

pub(crate) struct Inner<T> {
    pub(crate) cells: Cells<T>,
    pub(super) clock: Clock,
    pub(super) tick: TickLength,
    /// How much later than need be timers that share a reading may be.
    pub(super) shared_slack_ns: u64,
    /// The spin margin.
    pub(super) spin_ns: u64,
    /// A shard wakes up once in this time, on average.
    pub(super) wakeup_ns: u64,
    pub(super) handler: Users<Box<Handler<T>>>,
    /// Where payloads go in place of the handler, if the builder was asked for a channel.
    pub(super) outbox: Option<Outbox<T>>,
    /// What `cancel_all` does with a payload: it drops it, or wakes a task.
    pub(super) let_go: fn(T),
    pub(super) hooks: Hooks,
    pub(crate) counters: Box<[Arc<Counters>]>,
    /// Each shard's stalls, written by the watchdog.
    pub(super) stalls: Box<[Counter]>,
    /// Each shard's batches that wait in the pool.
    pub(super) backlogs: Box<[Arc<AtomicUsize>]>,
    /// Jobs that may be running tasks.
    pub(super) running: Running,
    pub(super) panics: AtomicU64,
    pub(super) unpinned: AtomicUsize,
    /// What it has woken of its pool.
    pub(super) woken: Arc<Woken>,
}

impl<T: Send + 'static> Inner<T> {
    /// Arms a timer for the time that `at_ns` makes of the present, both in nanoseconds since the clock's origin; in the thread's own shard, or another.
    #[inline]
    pub(crate) fn arm(&self, payload: T, shard: Option<usize>, at_ns: impl FnOnce(u64) -> u64) -> Result<TimerId, ScheduleError<T>> {
        self.cells.with_local(|local| {
            let home = local.home();
            let shard = shard.unwrap_or(home);
            if shard == home
                && let Some(date_ns) = local.shared_date()
            {
                let at_ns = at_ns(date_ns);
                let deadline = self.tick.deadline(at_ns);
                let rounded_ns = self.tick.start(deadline).saturating_sub(at_ns);
                return self.cells.schedule(local, Place::new(deadline, home), Payload(payload), Date::Shared { rounded_ns });
            }
            self.arm_by_clock(local, payload, shard, at_ns)
        })
    }

    /// The same by a reading of the clock.
    #[inline(never)]
    fn arm_by_clock(
        &self,
        local: &mut Local,
        payload: T,
        shard: usize,
        at_ns: impl FnOnce(u64) -> u64,
    ) -> Result<TimerId, ScheduleError<T>> {
        let now_ns = self.clock.arming_now_ns(&mut local.anchor);
        let place = Place::new(self.tick.deadline(at_ns(now_ns)), shard);
        let armed = self.cells.schedule(local, place, Payload(payload), Date::Read);
        local.note_reading(now_ns, self.shared_slack_ns);
        armed
    }

    /// Moves a timer to the time that `at_ns` makes of the present.
    #[inline]
    pub(crate) fn rearm(&self, id: TimerId, at_ns: impl FnOnce(u64) -> u64) -> bool {
        // First of all: so the processor comes to it while it waits for the cell of the call before.
        self.cells.prefetch(&[id]);
        self.cells.with_local(|local| {
            let now_ns = self.clock.arming_now_ns(&mut local.anchor);
            self.cells.rearm(local, id, self.tick.deadline(at_ns(now_ns)))
        })
    }

    /// A handler's panic was caught.
    pub(super) fn panicked(&self, panic: Box<dyn Any + Send>) {
        // Ordering: Relaxed. A counter.
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.hooks.panicked(panic);
    }

    pub(super) fn count_unpinned(&self) {
        // Ordering: Relaxed. A counter.
        self.unpinned.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> Stats {
        let shards: Vec<_> = (0..self.counters.len()).map(|shard| self.shard_stats(shard)).collect();
        let mut lateness = LatenessHistogram::default();
        self.cells.core.lateness().for_each(|histogram| lateness.merge(histogram));
        Stats {
            fired: shards.iter().map(|shard| shard.fired).sum(),
            // Ordering: Relaxed. A counter.
            panics: self.panics.load(Ordering::Relaxed),
            hook_panics: self.hooks.panics(),
            // Ordering: Relaxed. A counter.
            unpinned_shards: self.unpinned.load(Ordering::Relaxed),
            // Ordering: Relaxed. Counters.
            pool_calls: self.woken.attendant.load(Ordering::Relaxed),
            pool_announcements: self.woken.told.load(Ordering::Relaxed),
            lateness,
            shards,
        }
    }

    fn shard_stats(&self, shard: usize) -> ShardStats {
        let (core, counters) = (&self.cells.core, &self.counters[shard]);
        let sum = |event| {
            let mut sum = 0;
            core.tallies(shard).for_each(|tally| sum += tally.get(event));
            sum
        };
        // What became of timers first: whoever is counted here was armed before.
        let [fired, cancelled, handed_back, ended] = [Event::Fired, Event::Cancelled, Event::HandedBack, Event::Ended].map(sum);
        let armed = sum(Event::Armed);
        ShardStats {
            armed,
            fired,
            dropped: sum(Event::Dropped),
            cancelled,
            handed_back,
            ended,
            pending: armed.saturating_sub(fired + cancelled + handed_back + ended),
            rearmed: sum(Event::Rearmed),
            runs: sum(Event::Run),
            lane_depth: core.inbox(shard).depth(),
            // Ordering: Relaxed. A count for statistics.
            pool_backlog: self.backlogs[shard].load(Ordering::Relaxed) as u64,
            stalls: self.stalls[shard].get(),
            held: counters.get(Count::Held),
            turns: counters.get(Count::Turns),
            wakeups: counters.get(Count::Wakeups),
            rings: core.bell(shard).rings(),
            drained: counters.get(Count::Drained),
            annihilated: counters.get(Count::Annihilated),
            dispatched: counters.get(Count::Dispatched),
            cascaded: counters.get(Count::Cascaded),
            compactions: counters.get(Count::Compactions),
            holes: counters.get(Count::Holes),
            due: counters.get(Count::Due),
            levels: counters.levels(),
        }
    }

    /// A shard's view of this service.
    pub(crate) fn house(self: &Arc<Self>, shard: usize) -> Arc<ShardHouse<T>> {
        Arc::new(ShardHouse { inner: self.clone(), shard })
    }
}

/// One shard's view of its service: what its thread needs, and what fires its timers.
pub(crate) struct ShardHouse<T> {
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

    fn spin_ns(&self) -> u64 {
        self.inner.spin_ns
    }

    fn wakeup_ns(&self) -> u64 {
        self.inner.wakeup_ns
    }

    fn maintain(&self, now_ns: u64) -> Maintenance {
        self.inner.cells.maintain(now_ns)
    }
}
