//! Core: what all calls share, whatever the payload; and `Inner`, which adds the cells. The protocol is in README.md of this room.

use super::id::TimerId;
use super::lateness::Histogram;
use super::local::{self, Local};
use super::tally::{Event, Tally};
use crate::cell::{Arena, Cell, Depot, Maintenance, Place, SHARD_BITS};
use crate::count::Registry;
use crate::doorbell::Doorbell;
use crate::entry::Entry;
use crate::error::ScheduleError;
use crate::lane::{Drain, Inbox};
use crate::sync::{AtomicBool, AtomicU32, Collector, Fault, Ordering, broken, heavy_fence};
use std::num::NonZeroU32;
use std::sync::Arc;

/// So many messages in a lane wake a sleeping shard, whatever their deadlines: memory that waits is bounded.
const BACKLOG_MAX: u64 = 2048;

/// Shards at the most: their number lies beside the deadline.
pub(super) const SHARDS_MAX: usize = 1 << SHARD_BITS;

/// What producers see of a shard.
struct Door {
    inbox: Arc<Inbox<Entry>>,
    bell: Doorbell,
    tallies: Arc<Registry<Tally>>,
}

pub(crate) struct Core {
    tag: NonZeroU32,
    stopped: AtomicBool,
    doors: Box<[Door]>,
    depot: Arc<Depot>,
    collector: Collector,
    /// Threads that have attached: each gets the next shard.
    homes: AtomicU32,
    lateness: Arc<Registry<Histogram>>,
}

impl Core {
    /// A core with so many shards, and the consumers' ends of their inboxes.
    pub(crate) fn new(tag: NonZeroU32, shards: usize) -> (Self, Vec<Drain<Entry>>) {
        let (doors, drains): (Vec<_>, _) = (0..shards)
            .map(|_| {
                let (inbox, drain) = Inbox::new();
                (Door { inbox, bell: Doorbell::new(), tallies: Registry::new() }, drain)
            })
            .unzip();
        let core = Self {
            tag,
            stopped: AtomicBool::new(false),
            doors: doors.into(),
            depot: Arc::new(Depot::new()),
            collector: Collector::new(),
            homes: AtomicU32::new(0),
            lateness: Registry::new(),
        };
        (core, drains)
    }

    pub(crate) fn shards(&self) -> usize {
        self.doors.len()
    }

    pub(crate) fn bell(&self, shard: usize) -> &Doorbell {
        &self.doors[shard].bell
    }

    pub(super) fn inbox(&self, shard: usize) -> &Arc<Inbox<Entry>> {
        &self.doors[shard].inbox
    }

    pub(super) fn tallies(&self, shard: usize) -> &Arc<Registry<Tally>> {
        &self.doors[shard].tallies
    }

    pub(super) fn lateness(&self) -> &Arc<Registry<Histogram>> {
        &self.lateness
    }

    pub(super) fn depot(&self) -> &Depot {
        &self.depot
    }

    pub(super) fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Spreads threads evenly over shards.
    pub(super) fn next_home(&self) -> usize {
        // Ordering: Relaxed. Only the number matters.
        self.homes.fetch_add(1, Ordering::Relaxed) as usize % self.doors.len()
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Ordering: Relaxed. S1 is a hint; S5 is ordered by the fence of S4; a shard that sees it late takes a turn more.
        self.stopped.load(Ordering::Relaxed)
    }

    /// X1, X2. Whether this call was the first.
    pub(crate) fn stop(&self) -> bool {
        // Ordering: Relaxed (X1). Ordered by X2; the swap decides which stop is the first.
        let first = !self.stopped.swap(true, Ordering::Relaxed);
        if !broken(Fault::StopNoFence) {
            // Ordering: heavy (X2). Pairs with S4, the fence B1 of the doorbell.
            heavy_fence();
        }
        first
    }
}

/// Cells and core: schedule, cancel, take.
pub(crate) struct Cells<T> {
    pub(crate) core: Arc<Core>,
    pub(super) arena: Arena<T>,
}

impl<T: Send + 'static> Cells<T> {
    pub(crate) fn new(core: Core) -> Self {
        let arena = Arena::new(core.depot.clone(), core.collector.clone());
        Self { core: Arc::new(core), arena }
    }

    /// Gives `f` the calling thread's local. See [`local::with`].
    #[inline]
    pub(super) fn with_local<R>(&self, f: impl FnOnce(&mut Local) -> R) -> R {
        local::with(&self.core, f)
    }

    /// Arms a timer for a tick.
    #[inline]
    pub(crate) fn schedule(&self, local: &mut Local, deadline: u64, payload: T) -> Result<TimerId, ScheduleError<T>> {
        let core = &*self.core;
        if core.is_stopped() {
            return Err(ScheduleError::Stopped(payload)); // S1
        }
        let Some(cell) = self.arena.take(&mut local.magazines) else {
            return Err(ScheduleError::Full(payload));
        };
        let shard = local.home;
        // SAFETY: `take` gave us the index.
        let armed = unsafe { self.arena.held(cell) };
        // SAFETY: S2. As above; from here on it belongs to whoever claims the timer.
        let generation = unsafe { armed.arm(Place::new(deadline, shard), payload) };
        let waiting = local.send(shard, Entry::new(deadline, cell, generation as u32)); // S3
        let bell = core.bell(shard);
        bell.ring(deadline); // S4
        if waiting > BACKLOG_MAX {
            bell.ring(0);
        }
        let id = TimerId { generation, cell, service: core.tag };
        if core.is_stopped() && !broken(Fault::StopNotSeenAfterArm) {
            return self.take_back(local, shard, id); // S5
        }
        local.count(shard, Event::Armed, 1);
        Ok(id)
    }

    #[cold]
    fn take_back(&self, local: &mut Local, shard: usize, id: TimerId) -> Result<TimerId, ScheduleError<T>> {
        match self.claim(local, id) {
            Some((_, payload)) => Err(ScheduleError::Stopped(payload)),
            None => {
                local.count(shard, Event::Armed, 1);
                Ok(id)
            }
        }
    }

    /// Gives `f` the cell of an id. `None` if there is no such cell (any more), or the id is another service's.
    #[inline]
    fn look_up<R>(&self, local: &mut Local, id: TimerId, f: impl FnOnce(&Cell<T>) -> Option<R>) -> Option<R> {
        if id.service != self.core.tag {
            return None;
        }
        let guarded = |held| Arena::<T>::same_page(held, id.cell) || broken(Fault::LookUpUnguarded);
        if local.magazines.peek().is_some_and(guarded) {
            // SAFETY: the magazine holds an index of that page, and keeps it until `f` is done: the page stays (T1). This is the usual case for
            // timers that are cancelled soon, and saves the pin.
            return f(unsafe { self.arena.held(id.cell) });
        }
        let pinned = local.epoch.pin();
        f(self.arena.get(id.cell, &pinned)?)
    }

    /// Claims a timer by its id and frees its cell.
    #[inline]
    fn claim(&self, local: &mut Local, id: TimerId) -> Option<(Place, T)> {
        let claimed = self.look_up(local, id, |cell| cell.claim_id(id.generation))?;
        local.magazines.put(id.cell, &self.core.depot);
        Some(claimed)
    }

    /// Takes a timer away before it fires.
    #[inline]
    pub(crate) fn take(&self, local: &mut Local, id: TimerId) -> Option<T> {
        let (place, payload) = self.claim(local, id)?;
        let entry = Entry::new(place.deadline(), id.cell, id.generation as u32);
        if local.send(place.shard(), entry.tombstone()) > BACKLOG_MAX {
            self.core.bell(place.shard()).ring(0);
        }
        local.count(place.shard(), Event::Cancelled, 1);
        Some(payload)
    }

    pub(crate) fn is_pending(&self, local: &mut Local, id: TimerId) -> bool {
        self.look_up(local, id, |cell| Some(cell.is_armed(id.generation))).unwrap_or(false)
    }

    /// Claims what a batch of due entries names, frees the cells, gives `f` the entries and their payloads.
    #[inline]
    pub(crate) fn claim_due(&self, local: &mut Local, entries: &[Entry], mut f: impl FnMut(Entry, T)) {
        /// A cell comes from memory in the time of about so many claims.
        const AHEAD: usize = 16;
        entries.iter().take(AHEAD).for_each(|entry| self.arena.prefetch(entry.cell()));
        let pinned = local.epoch.pin();
        for (position, &entry) in entries.iter().enumerate() {
            if let Some(next) = entries.get(position + AHEAD) {
                self.arena.prefetch(next.cell());
            }
            if let Some(payload) = self.arena.get(entry.cell(), &pinned).and_then(|cell| cell.claim_due(entry)) {
                local.magazines.put(entry.cell(), &self.core.depot);
                f(entry, payload);
            }
        }
    }

    /// X4. Claims everything that is armed; gives `f` deadline and payload.
    pub(crate) fn claim_all(&self, local: &mut Local, mut f: impl FnMut(u64, T)) {
        let pinned = local.epoch.pin();
        self.arena.claim_all(&pinned, |cell, place, payload| {
            local.magazines.put(cell, &self.core.depot);
            local.count(place.shard(), Event::HandedBack, 1);
            f(place.deadline(), payload);
        });
    }

    pub(crate) fn maintain(&self, now_ns: u64) -> Maintenance {
        self.arena.maintain(now_ns)
    }
}
