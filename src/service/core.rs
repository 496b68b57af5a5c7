//! Core: what all calls share, whatever the payload. The protocol of stop is in README.md of this room.

use super::lateness::Histogram;
use super::tally::Tally;
use crate::cell::{Depot, SHARD_BITS};
use crate::count::Registry;
use crate::doorbell::Doorbell;
use crate::entry::Entry;
use crate::lane::{Drain, Inbox};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Collector, Fault, Ordering, broken, heavy_fence, pause};
use crossbeam_utils::CachePadded;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Shards at the most: their number lies beside the deadline.
pub(super) const SHARDS_MAX: usize = 1 << SHARD_BITS;

const OPEN: u32 = 0;
const CLOSED: u32 = 1;
/// And what waits is fired: a run that has only looked at the wall clock, for its timer is due at a time of day, fires it too.
const FIRES_ALL: u32 = 2;

/// What producers see of a shard.
struct Door {
    inbox: Arc<Inbox<Entry>>,
    bell: Doorbell,
    tallies: Arc<Registry<Tally>>,
}

pub(crate) struct Core {
    tag: NonZeroU32,
    /// `OPEN`, or no timer is accepted any more: `CLOSED`, `FIRES_ALL`. It only rises.
    closed: AtomicU32,
    stopped: AtomicBool,
    /// X4 is over.
    claimed: AtomicBool,
    doors: Box<[Door]>,
    depot: Arc<Depot>,
    collector: Collector,
    /// Threads that have attached: each gets the next shard.
    homes: AtomicU32,
    lateness: Arc<Registry<Histogram>>,
    /// Timers that may be pending at a time; `usize::MAX`: nobody counts.
    pending_max: usize,
    pending: CachePadded<AtomicUsize>,
}

impl Core {
    /// A core with so many shards, and the consumers' ends of their inboxes.
    pub(crate) fn new(tag: NonZeroU32, shards: usize, pending_max: usize) -> (Self, Vec<Drain<Entry>>) {
        let (doors, drains): (Vec<_>, _) = (0..shards)
            .map(|_| {
                let (inbox, drain) = Inbox::new();
                (Door { inbox, bell: Doorbell::new(), tallies: Registry::new() }, drain)
            })
            .unzip();
        let core = Self {
            tag,
            closed: AtomicU32::new(OPEN),
            stopped: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            doors: doors.into(),
            depot: Arc::new(Depot::new()),
            collector: Collector::new(),
            homes: AtomicU32::new(0),
            lateness: Registry::new(),
            pending_max,
            pending: CachePadded::new(AtomicUsize::new(0)),
        };
        (core, drains)
    }

    /// What names this service in ids.
    #[inline]
    pub(super) fn tag(&self) -> NonZeroU32 {
        self.tag
    }

    pub(crate) fn shards(&self) -> usize {
        self.doors.len()
    }

    /// Room for one more timer. `false`: as many are pending as may be.
    #[inline]
    pub(super) fn reserve(&self) -> bool {
        // Ordering: Relaxed. A count; whoever finds room after a `release` needs nothing else of it.
        let one_more = |pending| (pending < self.pending_max).then_some(pending + 1);
        self.pending_max == usize::MAX || self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// So many timers have ended.
    #[inline]
    pub(super) fn release(&self, timers: usize) {
        if self.pending_max != usize::MAX {
            // Ordering: Relaxed. As in `reserve`.
            self.pending.fetch_sub(timers, Ordering::Relaxed);
        }
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

    pub(super) fn depot(&self) -> &Arc<Depot> {
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
    pub(crate) fn is_closed(&self) -> bool {
        // Ordering: Relaxed. S1 is a hint; S5 is ordered by the fence of S4.
        self.closed.load(Ordering::Relaxed) != OPEN
    }

    /// Whether it is closed by a stop that fires all.
    pub(super) fn fires_all(&self) -> bool {
        // Ordering: Relaxed. As above.
        self.closed.load(Ordering::Relaxed) == FIRES_ALL
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Ordering: Relaxed. A shard that sees it late takes a turn more.
        self.stopped.load(Ordering::Relaxed)
    }

    /// X1, X2: accepts no timer any more. Those that were accepted before are seen by the caller.
    pub(crate) fn close(&self) {
        self.close_for(CLOSED);
    }

    fn close_for(&self, what: u32) {
        // Ordering: Relaxed (X1). Ordered by X2.
        self.closed.fetch_max(what, Ordering::Relaxed);
        if !broken(Fault::StopNoFence) {
            // Ordering: heavy (X2). Pairs with S4, the fence B1 of the doorbell.
            heavy_fence();
        }
    }

    /// X1, X2. Whether this call was the first.
    pub(crate) fn stop(&self, fires_all: bool) -> bool {
        // Ordering: Relaxed. The swap decides which stop is the first; the fence of X2 is for those who sleep.
        let first = !self.stopped.swap(true, Ordering::Relaxed);
        self.close_for(if first && fires_all { FIRES_ALL } else { CLOSED });
        first
    }

    /// X4 is over: the stop that was the first has claimed everything.
    pub(super) fn note_claims(&self) {
        // Ordering: Release (X4). Pairs with the Acquire of `wait_for_claims`: who sees it sees the first stop's job begun (F1).
        self.claimed.store(true, Ordering::Release);
    }

    /// X4 of a further stop: waits until the first one's is over.
    pub(super) fn wait_for_claims(&self) {
        // Ordering: Acquire (X4). Pairs with the Release of `note_claims`.
        while !self.claimed.load(Ordering::Acquire) && !broken(Fault::FurtherStopWaitsForNobody) {
            pause();
        }
    }
}
