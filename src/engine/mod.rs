#![doc = include_str!("README.md")]

mod affinity;
pub(crate) mod cells;
mod company;
pub(crate) mod drops;
pub(crate) mod figures;
mod host;
pub(crate) mod id;
pub(crate) mod life;
pub(crate) mod local;
pub(crate) mod manual;
pub(crate) mod notices;
pub(crate) mod shared;
pub(crate) mod start;
pub(crate) mod task;

use crate::cold_drop::ColdDrop;
use crate::counters::Counter;
use crate::dispatch::channel::Outgoing;
use crate::dispatch::queues::Woken;
use crate::shard::Counters;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::time::{Clock, TickLength};
use cells::Cells;
use life::batch::Batch;
use life::in_flight::InFlight;
use life::wall::WallTimers;
use notices::hooks::{Hooks, Users};
use std::any::Any;
use std::sync::Arc;

pub(crate) type Handler<T> = dyn Fn(&mut Batch<'_, T>) + Send + Sync;

/// One running service: cells, clock, handler, counters. Shared by handles, shard threads and jobs.
pub(crate) struct Engine<T> {
    pub(crate) cells: Cells<T>,
    pub(crate) clock: Clock,
    pub(crate) tick: TickLength,
    /// The slack of timers that share a reading of the clock. 0: no timer shares one.
    shared_slack_ns: u64,
    /// The spin margin, in nanoseconds.
    pub(crate) spin_ns: u64,
    /// A shard wakes up at most once in this time, on average. 0: without a limit.
    pub(crate) wakeup_ns: u64,
    pub(crate) handler: Users<Box<Handler<T>>>,
    /// The channel that gets the payloads in place of the handler, if the builder set one.
    pub(crate) channel: Option<Arc<dyn Outgoing<T>>>,
    /// What `cancel_all` does with a payload: drop it, or wake a task.
    pub(crate) let_go: fn(T),
    pub(crate) hooks: ColdDrop<Hooks>,
    pub(crate) counters: ColdDrop<Vec<Arc<Counters>>>,
    /// The stalls of each shard, written by the watchdog.
    pub(crate) stalls: Vec<Counter>,
    /// The batches of each shard that wait in the pool.
    backlogs: ColdDrop<Vec<Arc<AtomicUsize>>>,
    /// The threads that run jobs.
    pub(crate) in_flight: InFlight,
    pub(crate) panics: AtomicU64,
    pub(crate) unpinned: AtomicUsize,
    /// How often it has woken threads of a pool.
    pub(crate) woken: Arc<Woken>,
    /// On a manual clock: the timers that go by the time of day.
    wall_timers: Option<ColdDrop<WallTimers>>,
}

impl<T: Send + 'static> Engine<T> {
    /// Counts and reports a handler's panic that was caught.
    pub(crate) fn panicked(&self, panic: Box<dyn Any + Send>) {
        // Ordering: Relaxed. A counter.
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.hooks.panicked(panic);
    }

    /// Tells of the start, with the feature `tracing`.
    pub(crate) fn tell_start(&self) {
        #[cfg(feature = "tracing")]
        self.hooks.tell(|events| {
            let tick = std::time::Duration::from_nanos(self.tick.nanos());
            events.starts(self.cells.shared.shards(), tick);
        });
    }

    /// Counts a shard's thread that was, or was to be, pinned or not before, and is or is not now.
    fn count_pinning(&self, before: bool, now: bool) {
        match (before, now) {
            // Ordering: Relaxed. A counter.
            (true, false) => _ = self.unpinned.fetch_add(1, Ordering::Relaxed),
            // Ordering: Relaxed. A counter.
            (false, true) => _ = self.unpinned.fetch_sub(1, Ordering::Relaxed),
            _ => (),
        }
    }
}
