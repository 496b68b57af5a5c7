//! Shared: the part of a service that does not depend on the payload's type.
//!
//! Owned by an `Arc`: the cells of the service, and the local of each thread that uses it. All
//! threads touch it. README.md of this room has the protocol of stop.

use super::company::Company;
use super::figures::lateness::Histogram;
use super::figures::tally::Tally;
use crate::cell::{Depot, Pins, SHARD_BITS};
use crate::counters::Registry;
use crate::doorbell::Doorbell;
use crate::entry::Entry;
use crate::lane::{Drain, Inbox};
use crate::sync::{
    AtomicBool, AtomicU32, AtomicUsize, Fault, Ordering, Process, broken, heavy_fence_unless, pause,
};
use crossbeam_utils::CachePadded;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The most shards: a shard's number lies beside the deadline, in these bits.
pub(super) const SHARDS_MAX: usize = 1 << SHARD_BITS;

const OPEN: u32 = 0;
/// Closed by a drain during which periodic timers run on.
const DRAINS: u32 = 1;
const CLOSED: u32 = 2;
/// Closed by a stop that fires all timers that wait. A timer for a time of day whose run has only
/// looked at the wall clock fires, too.
const FIRES_ALL: u32 = 3;

/// The part of a shard that producers use.
struct ShardPort {
    inbox: Arc<Inbox<Entry>>,
    bell: Doorbell,
    tallies: Arc<Registry<Tally>>,
    company: Company,
}

pub(crate) struct Shared {
    tag: NonZeroU32,
    /// `OPEN`; or `DRAINS`, `CLOSED` or `FIRES_ALL`, and no timer is accepted. It only rises.
    closed: AtomicU32,
    /// `OPEN`; or `CLOSED` or `FIRES_ALL`, as the first stop has decided.
    stopped: AtomicU32,
    /// Whether StopClaim is over.
    claimed: AtomicBool,
    ports: Box<[ShardPort]>,
    depot: Arc<Depot>,
    pins: Pins,
    /// How many threads have a home shard. The next thread gets the next shard.
    homes: AtomicU32,
    lateness: Arc<Registry<Histogram>>,
    /// The most timers that may be pending at one instant. `usize::MAX`: nobody counts them.
    pending_max: usize,
    pending: CachePadded<AtomicUsize>,
    /// Whether a periodic timer was ever armed.
    repeats: AtomicBool,
    /// The process that has the threads of the shards.
    made_in: Process,
    /// Whether nobody moves time but the program, in whatever process: there are no such threads.
    is_on_manual_clock: bool,
}

impl Shared {
    /// Makes it, with the consumers' ends of the shards' inboxes.
    pub(crate) fn new(
        tag: NonZeroU32,
        shards: usize,
        pending_max: usize,
        is_on_manual_clock: bool,
    ) -> (Arc<Self>, Vec<Drain<Entry>>) {
        let (mut ports, mut drains) = (Vec::new(), Vec::new());
        for _ in 0..shards {
            let (inbox, drain) = Inbox::new();
            ports.push(ShardPort {
                inbox,
                bell: Doorbell::new(),
                tallies: Registry::new(),
                company: Company::new(),
            });
            drains.push(drain);
        }
        let shared = Self {
            tag,
            closed: AtomicU32::new(OPEN),
            stopped: AtomicU32::new(OPEN),
            claimed: AtomicBool::new(false),
            ports: ports.into(),
            depot: Arc::new(Depot::new()),
            pins: Pins::new(),
            homes: AtomicU32::new(0),
            lateness: Registry::new(),
            pending_max,
            pending: CachePadded::new(AtomicUsize::new(0)),
            repeats: AtomicBool::new(false),
            made_in: Process::current(),
            is_on_manual_clock,
        };
        (Arc::new(shared), drains)
    }

    pub(super) fn is_on_manual_clock(&self) -> bool {
        self.is_on_manual_clock
    }

    /// Whether this is a copy, in a process that was forked off. That process has none of the
    /// threads that used the service, and waits for none of them.
    pub(crate) fn is_forked(&self) -> bool {
        self.made_in.is_forked()
    }

    /// Whether every timer is refused: the service is closed, or this is a copy that fires nothing.
    pub(crate) fn refuses_all(&self) -> bool {
        self.is_closed() || self.is_forked() && !self.is_on_manual_clock
    }

    /// A thread's first call. In a process that was forked off: closes the service, which fires
    /// nothing there. (On a manual clock it fires when that process moves the clock.)
    pub(super) fn note_process(&self) {
        if self.is_forked() && !self.is_on_manual_clock {
            // Ordering: Relaxed. This thread goes on to look at it. So does each other one, after
            // its own first call.
            self.closed.fetch_max(CLOSED, Ordering::Relaxed);
        }
    }

    /// The tag that names this service in ids.
    #[inline]
    pub(crate) fn tag(&self) -> NonZeroU32 {
        self.tag
    }

    pub(crate) fn shards(&self) -> usize {
        self.ports.len()
    }

    /// Reserves room for one more timer. `false`: the limit is reached.
    #[inline]
    pub(super) fn reserve(&self) -> bool {
        // Ordering: Relaxed. A counter: whoever finds room after a `release` needs nothing else
        // from there.
        let one_more = |pending| (pending < self.pending_max).then_some(pending + 1);
        self.pending_max == usize::MAX
            || self
                .pending
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
                .is_ok()
    }

    /// Gives back the room of `timers` timers.
    #[inline]
    pub(crate) fn release(&self, timers: usize) {
        if self.pending_max != usize::MAX {
            // Ordering: Relaxed. As in `reserve`.
            self.pending.fetch_sub(timers, Ordering::Relaxed);
        }
    }

    /// A periodic timer is about to be armed.
    pub(super) fn note_repeat(&self) {
        // Ordering: Relaxed. PushPublish of the timer's entry publishes it for the shard, and the
        // pool's queue for the workers. It is set once, so that it is not written again and again.
        if !self.repeats.load(Ordering::Relaxed) {
            // Ordering: Relaxed. As above.
            self.repeats.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a periodic timer was ever armed. Whoever has the entry of one sees it.
    #[inline]
    pub(crate) fn repeats(&self) -> bool {
        // Ordering: Relaxed. As in `note_repeat`.
        self.repeats.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn bell(&self, shard: usize) -> &Doorbell {
        &self.ports[shard].bell
    }

    /// The cores of the threads that send this shard much.
    pub(super) fn company(&self, shard: usize) -> &Company {
        &self.ports[shard].company
    }

    #[inline]
    pub(crate) fn inbox(&self, shard: usize) -> &Arc<Inbox<Entry>> {
        &self.ports[shard].inbox
    }

    pub(super) fn tallies(&self, shard: usize) -> &Arc<Registry<Tally>> {
        &self.ports[shard].tallies
    }

    pub(crate) fn lateness(&self) -> &Arc<Registry<Histogram>> {
        &self.lateness
    }

    #[inline]
    pub(crate) fn depot(&self) -> &Arc<Depot> {
        &self.depot
    }

    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The home shard of the next thread: threads are spread evenly over shards.
    pub(super) fn next_home(&self) -> usize {
        // Ordering: Relaxed. Only the number matters.
        self.homes.fetch_add(1, Ordering::Relaxed) as usize % self.ports.len()
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Ordering: Relaxed. ScheduleCheck is a hint. The fence of ScheduleRing orders
        // ScheduleRecheck.
        self.closed.load(Ordering::Relaxed) != OPEN
    }

    /// Whether periodic timers end: it is closed, and not by a drain during which they run on.
    #[inline]
    pub(super) fn ends_periodic(&self) -> bool {
        // Ordering: Relaxed. As in `is_closed`: RunRecheck comes after a light fence too.
        self.closed.load(Ordering::Relaxed) > DRAINS
    }

    /// Whether a stop that fires all has closed it.
    #[inline]
    pub(crate) fn fires_all(&self) -> bool {
        // Ordering: Relaxed. As in `is_closed`.
        self.closed.load(Ordering::Relaxed) == FIRES_ALL
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Ordering: Relaxed. A shard that sees it late takes one more turn.
        self.stopped.load(Ordering::Relaxed) != OPEN
    }

    /// StopMark, StopFence, of a drain. No timer is accepted any more. The caller sees the timers
    /// that were accepted before. `runs_on`: periodic timers run on.
    pub(crate) fn close(&self, runs_on: bool) {
        self.close_for(if runs_on { DRAINS } else { CLOSED });
    }

    fn close_for(&self, mark: u32) {
        // Ordering: Relaxed (StopMark). Ordered by StopFence.
        self.closed.fetch_max(mark, Ordering::Relaxed);
        // Ordering: heavy (StopFence). Pairs with ScheduleRing: RingFence of the doorbell.
        heavy_fence_unless(Fault::StopNoFence);
    }

    /// StopMark, StopFence. Returns whether this is the first stop.
    pub(crate) fn stop(&self, fires_all: bool) -> bool {
        let mark = if fires_all { FIRES_ALL } else { CLOSED };
        // Ordering: Relaxed (StopMark). The exchange decides which stop is the first. StopFence
        // orders it for shards that sleep.
        let stopped =
            self.stopped
                .compare_exchange(OPEN, mark, Ordering::Relaxed, Ordering::Relaxed);
        // A further stop marks what the first one has decided, which may not have marked it yet. By
        // another mark a run would end a timer that is to fire.
        self.close_for(match stopped {
            Err(first) if !broken(Fault::FurtherStopMarksItsOwn) => first,
            _ => mark,
        });
        stopped.is_ok()
    }

    /// StopClaim of the first stop is over: notes that it has claimed everything.
    pub(crate) fn note_claims(&self) {
        // Ordering: Release (StopClaim). Pairs with the Acquire of `wait_for_claims`: whoever sees
        // the note sees that the first stop's job has begun (FireBegin).
        self.claimed.store(true, Ordering::Release);
    }

    /// StopClaim of a further stop: waits for the note of the first stop.
    pub(crate) fn wait_for_claims(&self) {
        // Ordering: Acquire (StopClaim). Pairs with the Release of `note_claims`.
        while !self.claimed.load(Ordering::Acquire) && !broken(Fault::FurtherStopWaitsForNobody) {
            pause();
        }
    }
}
