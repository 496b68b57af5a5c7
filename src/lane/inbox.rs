//! Inbox: a shard's set of lanes.
//!
//! Any thread attaches and gets a [`Sender`] of its own. The shard has the one [`Drain`]. This file
//! has the steps by which a thread gets and leaves a lane, EndPush to EndCheck among them, and
//! DrainFence. It divides a drain among the lanes. Protocol and proof: README.md of this room.

use super::ahead::Outlook;
use super::allowance::{self, Allowance};
use super::consumer::{Arrival, Drained};
use super::deferral::{Deferral, Present};
use super::list::{EndedLeft, LaneList, Lanes};
use super::pair::{
    Advice, Backlog, Book, ClaimedMessages, DEFERRED, DRAINED_MAX, Lane, NUMBER_BITS, Producers,
    Sent, Taker, tell,
};
use super::producer::{Producer, Pushed};
use super::segment::LEN;
use super::track::Track;
use crate::sync::{
    AtomicPtr, AtomicU32, CountU64, Fault, Ordering, Queue, UnsafeCell, broken, heavy_fence_unless,
};
use crossbeam_utils::CachePadded;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

/// Lanes without a thread that are kept for the next threads.
pub(crate) const SPARE_LANES: usize = if cfg!(loom) { 0 } else { 16 };

/// No thread has ended since the last look began, or too few to give lanes back.
const CALM: u32 = 0;
/// Threads have ended, and their lanes should be given back.
const ASKED: u32 = 1;
/// As `ASKED`, and the shard knows it, or a thread rings the shard.
const RUNG: u32 = 2;

/// The most lanes that one step of a look checks. The step also walks the list once.
const TAKEN_MAX: usize = 512;

/// The most lanes that one step frees. Each has some memory from the system.
const FREED_MAX: usize = 32;

/// The lanes of one shard: producers attach to it, its [`Drain`] empties it.
pub(crate) struct Inbox<M> {
    lanes: LaneList<M>,
    /// Producers whose threads have ended. They are for the next threads, or the shard gives them
    /// up (EndPush, EndTake).
    free: Queue<Box<Producers<M>>>,
    /// Whether a look at `free` is wanted: `CALM`, `ASKED` or `RUNG` (EndAsk).
    wanted: AtomicU32,
}

// SAFETY: each field of a lane is atomic or has one owner at a time (README.md), and messages are
// Send.
unsafe impl<M: Send> Send for Inbox<M> {}
// SAFETY: as above.
unsafe impl<M: Send> Sync for Inbox<M> {}

/// The one consumer of an inbox.
pub(crate) struct Drain<M> {
    pub(super) inbox: Arc<Inbox<M>>,
    /// Whether the messages after the next drain may be recalled from the express tracks.
    may_recall: bool,
    waiting: WaitingMessages,
    allowance: Allowance,
    /// The last trim has kept segments that were used lately. Only `trim.rs` uses this.
    pub(super) keeps: bool,
    /// How many producers in `free` the shard has still to check.
    left: usize,
    /// There are lanes that are out of the list and not freed yet.
    has_ended: bool,
    /// Not Sync: `has_messages` uses the lanes' readers through `&self`.
    _not_sync: PhantomData<std::cell::Cell<()>>,
}

/// A thread's end of its lane. Dropping it leaves the lane to the next thread.
pub(crate) struct Sender<M: Copy> {
    /// Taken out when the sender is dropped.
    producers: ManuallyDrop<Producers<M>>,
    /// Keeps the lane alive.
    inbox: Arc<Inbox<M>>,
}

impl<M: Copy> Inbox<M> {
    pub(crate) fn new() -> (Arc<Self>, Drain<M>) {
        let inbox = Arc::new(Self {
            lanes: LaneList::new(),
            free: Queue::new(),
            wanted: AtomicU32::new(CALM),
        });
        (
            inbox.clone(),
            Drain {
                inbox,
                may_recall: false,
                waiting: WaitingMessages {
                    open: 0,
                    messages: 0,
                    has_more: false,
                    wants_at: u64::MAX,
                },
                allowance: Allowance::new(),
                keeps: false,
                left: 0,
                has_ended: false,
                _not_sync: PhantomData,
            },
        )
    }

    /// A lane for the calling thread: one that an earlier thread has left, or a new one.
    pub(crate) fn attach(self: &Arc<Self>) -> Sender<M> {
        let producers = match self.free.pop() {
            Some(producers) => *producers,
            None => self.add_lane(),
        };
        Sender {
            producers: ManuallyDrop::new(producers),
            inbox: self.clone(),
        }
    }

    fn add_lane(&self) -> Producers<M> {
        let lane = Box::new(Lane {
            express: Track::new(),
            deferred: Track::new(),
            advice: CachePadded::new(Advice {
                from: CountU64::new(u64::MAX),
                // The least, until a drain has counted the lanes. A thousand lanes may be made
                // before that.
                allowance: CountU64::new(allowance::MIN),
            }),
            book: UnsafeCell::new(Book {
                outlook: Outlook::new(),
                deferral: Deferral::new(),
                has_deferred: false,
                express: 0,
                active: 0,
                looked: [0; 2],
                has_ended: false,
            }),
            next: AtomicPtr::new(ptr::null_mut()),
            #[cfg(loom)]
            alive: UnsafeCell::new(()),
        });
        let lane = self.lanes.add(lane);
        Producers {
            lane,
            // SAFETY: on the list, and alive as long as it has producers.
            express: Producer::new(unsafe { &raw const (*lane).express }),
            // SAFETY: as above.
            deferred: Producer::new(unsafe { &raw const (*lane).deferred }),
        }
    }

    /// How many messages are in the lanes, including those that wait. For statistics. Reads four
    /// words of each lane.
    pub(crate) fn depth(&self) -> u64
    where
        M: Copy,
    {
        self.lanes.walk(|lanes| {
            lanes
                .map(|lane| lane.express.depth() + lane.deferred.depth())
                .sum()
        })
    }

    /// How many messages wait in the lanes, as far as the shard has looked. For statistics. Reads
    /// two words of each lane.
    pub(crate) fn waiting(&self) -> u64
    where
        M: Copy,
    {
        self.lanes
            .walk(|lanes| lanes.map(|lane| lane.deferred.waiting()).sum())
    }

    /// How many lanes there are. For tests and models.
    #[cfg(any(test, loom, feature = "__internals"))]
    pub(crate) fn lane_count(&self) -> usize {
        self.lanes.walk(|lanes| lanes.count())
    }

    /// All lanes.
    ///
    /// # Safety
    /// The caller is the one consumer of the lanes, and frees none while it has these.
    pub(super) unsafe fn lanes(&self) -> Lanes<'_, M> {
        // SAFETY: the caller's promise.
        unsafe { self.lanes.lanes() }
    }

    /// Leaves a lane to the next thread, or to the shard (EndPush, EndAsk).
    fn leave(&self, producers: Producers<M>) {
        self.free.push(Box::new(producers));
        if self.free.len() > SPARE_LANES {
            // Ordering: Release (EndAsk). Pairs with the Acquire in `begin_look`; publishes
            // EndPush.
            self.wanted.fetch_max(ASKED, Ordering::Release);
        }
    }

    /// Whether a thread that has left its lane has to ring the shard, so that the shard gives lanes
    /// back (EndRing). Of the threads that leave before the shard looks, one has to ring.
    pub(crate) fn wants_ring(&self) -> bool {
        // Ordering: Relaxed. This read-modify-write continues the release sequence of EndAsk. The
        // doorbell's RingFence orders it for a shard that sleeps.
        self.wanted
            .compare_exchange(ASKED, RUNG, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

impl<M: Copy> Lanes<'_, M> {
    /// Whether a drain would find messages that the shard has not seen.
    ///
    /// # Safety
    /// The caller is the one consumer of the lanes.
    unsafe fn has_messages(mut self) -> bool {
        self.any(|lane| {
            // SAFETY: the caller's promise.
            let express = unsafe { lane.express.has_messages() };
            let has_unseen = |book: &mut Book<M>| {
                book.has_deferred
                    && lane.deferred.has_unseen(book.outlook.seen)
                    && !broken(Fault::LaneUnseenIgnored)
            };
            // SAFETY: as above.
            express || unsafe { lane.with_book(has_unseen) }
        })
    }
}

impl<M: Copy> Drain<M> {
    /// Says whether the messages that come after the next drain may be recalled from the express
    /// tracks. If they may, the drain that finds them pays a heavy fence.
    pub(crate) fn let_recall(&mut self, may_recall: bool) {
        self.may_recall = may_recall;
    }

    /// From now on, far messages of the lanes that were busy in the last drain wait, except in
    /// lanes where that was in vain lately.
    pub(crate) fn defer(&mut self, present: Present) {
        // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
        let lanes = unsafe { self.inbox.lanes() };
        for lane in lanes {
            let open = |book: &mut Book<M>| {
                if book.express < LEN as u64 || !book.deferral.open(book.outlook.seen, present) {
                    return false;
                }
                // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
                let end = unsafe { lane.deferred.claimed_end() };
                // SAFETY: as above. What was published is claimed: the track was closed.
                unsafe { lane.deferred.claim(end, true) };
                lane.tell_from(book.deferral.from);
                book.has_deferred = true;
                true
            };
            // SAFETY: as above.
            let opened = unsafe { lane.with_book(open) };
            self.waiting.open += usize::from(opened);
        }
    }

    /// Gives the taker the messages that were published before the call and not recalled, in the
    /// order of each track. Before these it reports messages of an earlier drain that were recalled
    /// while that drain claimed them. It takes a bounded number of messages. `has_more` says
    /// whether more are to be taken at once. Of the deferred tracks it takes only what cannot wait
    /// longer.
    pub(crate) fn drain(&mut self, taker: &mut impl Taker<M>) -> Drained {
        let mut sum = Drained::default();
        // (A lane that is attached after this has no message that was published before the drain.)
        // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
        let lanes = unsafe { self.inbox.lanes() };
        let mut late = |message| {
            sum.messages += 1;
            taker.take(message, Arrival::Recalled);
        };
        for lane in lanes {
            // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
            unsafe { lane.express.settle(&mut late) };
            // SAFETY: as above.
            if let Some(deferred) = unsafe { lane.deferred() } {
                // SAFETY: as above.
                unsafe { deferred.settle(&mut late) };
            }
        }
        let (mut busy, mut active) = (0, 0);
        for lane in lanes {
            // SAFETY: as above.
            let found = unsafe { lane.express.load() };
            busy += u64::from(found > 0);
            // SAFETY: as above.
            active += u64::from(unsafe { lane.with_book(|book| book.note_activity(found)) });
            // SAFETY: as above.
            if let Some(deferred) = unsafe { lane.deferred() } {
                // SAFETY: as above.
                busy += u64::from(unsafe { deferred.load() } > 0);
            }
        }
        if busy == 0 && !self.waiting.waits() {
            return sum;
        }
        let quota = (DRAINED_MAX / busy.max(1)).max(LEN as u64);
        let allowance = self.allowance.of_each(busy.max(active));
        self.waiting.has_more = false;
        let mut fences = false;
        for lane in lanes {
            // SAFETY: as above.
            let (end, is_more) = unsafe { lane.express.next_claim(quota) };
            self.waiting.has_more |= is_more;
            tell(&lane.advice.allowance, allowance);
            // SAFETY: as above.
            fences |= unsafe { lane.express.claim(end, self.may_recall) };
        }
        taker.looked();
        pass_fence(fences);
        for lane in lanes {
            let drained = taker.take_all(ClaimedMessages(&lane.express));
            // SAFETY: as above.
            unsafe { lane.with_book(|book| book.express = drained.messages) };
            sum.add(drained);
        }
        taker.flush();
        // SAFETY: as above.
        unsafe { self.waiting.drain(lanes, quota, taker, &mut sum) };
        sum
    }

    /// Notes how long the last drain took, and how many messages came in it. This decides from
    /// which backlog on threads are slowed down.
    pub(crate) fn note_time(&mut self, came: u64, time_ns: u64) {
        self.allowance.note(came, time_ns);
    }

    /// Whether a drain would find messages that the shard has not seen.
    pub(crate) fn has_messages(&self) -> bool {
        // SAFETY: there is one `Drain` for an inbox, and it is not Sync. No drain is running,
        // because that takes it mutably.
        let lanes = unsafe { self.inbox.lanes() };
        // SAFETY: as above.
        unsafe { lanes.has_messages() }
    }

    /// Whether messages may wait in the lanes.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.waiting.waits()
    }

    /// How many messages waited in the lanes after the last drain.
    #[inline]
    pub(crate) fn messages_waiting(&self) -> u64 {
        if self.waits() {
            self.waiting.messages
        } else {
            0
        }
    }

    /// Whether the last drain left messages that have to be taken at once.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.waiting.has_more
    }

    /// The present key at which some message that waits has to be taken. `None` if no message
    /// waits.
    #[inline]
    pub(crate) fn wants_at(&self) -> Option<u64> {
        Some(self.waiting.wants_at).filter(|&key| key != u64::MAX)
    }
}

impl<M: Copy> Drain<M> {
    /// Begins a look at the lanes of threads that have ended. `give_back` continues it.
    pub(crate) fn begin_look(&mut self) {
        let wanted = &self.inbox.wanted;
        // Ordering: Relaxed. The swap comes after it.
        if wanted.load(Ordering::Relaxed) == CALM {
            return;
        }
        // Ordering: Acquire. Pairs with the Release of EndAsk: this look finds the lane of each
        // thread that does not ask for the next one.
        wanted.swap(CALM, Ordering::Acquire);
        self.left = self.inbox.free.len().saturating_sub(SPARE_LANES);
    }

    /// Whether a look should come, or an earlier one has more to do.
    pub(crate) fn wants_look(&self) -> bool {
        // Ordering: Relaxed. In SleepLook the doorbell's SleepFence orders it; elsewhere it is a
        // hint.
        let is_wanted = self.inbox.wanted.load(Ordering::Relaxed) != CALM;
        is_wanted || self.has_ended || self.left > 0
    }

    /// One step of a look: takes some lanes out of the list, or frees some. Returns whether there
    /// is more to do at once.
    #[inline]
    pub(crate) fn give_back(&mut self) -> bool {
        (self.has_ended || self.left > 0) && self.give_back_some()
    }

    #[cold]
    #[inline(never)]
    fn give_back_some(&mut self) -> bool {
        if self.left > 0 {
            self.take_ended();
            return true;
        }
        // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
        let left = unsafe { self.inbox.lanes.free_ended(FREED_MAX) };
        self.has_ended = left != EndedLeft::None;
        left == EndedLeft::Free
    }

    /// Takes lanes that threads have left out of the list, except some spare lanes, and lanes that
    /// still have messages (EndTake, EndCheck).
    fn take_ended(&mut self) {
        let inbox = &*self.inbox;
        let mut has_ended = false;
        for _ in 0..self.left.min(TAKEN_MAX) {
            self.left -= 1;
            let surplus = (inbox.free.len() > SPARE_LANES).then(|| inbox.free.pop());
            let Some(producers) = surplus.flatten() else {
                self.left = 0;
                break;
            };
            // SAFETY: on the list: this is where lanes are taken out.
            let lane = unsafe { &*producers.lane };
            // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
            if unsafe { lane.is_over() } {
                // SAFETY: as above.
                unsafe { lane.with_book(|book| book.has_ended = true) };
                has_ended = true;
            } else {
                inbox.free.push(producers);
                // Ordering: Relaxed. A reminder for the shard itself. (The maximum keeps what
                // others ask for.)
                inbox.wanted.fetch_max(RUNG, Ordering::Relaxed);
            }
        }
        if has_ended {
            // SAFETY: as above.
            let has_ended = |lane: &Lane<M>| unsafe { lane.with_book(|book| book.has_ended) };
            // SAFETY: as above. The producers of these lanes are dropped.
            unsafe { inbox.lanes.unlink(has_ended) };
            self.has_ended = true;
        }
    }
}

/// What a shard knows of the messages that wait.
struct WaitingMessages {
    /// How many lanes let messages wait.
    open: usize,
    /// How many messages waited in all lanes after the last drain.
    messages: u64,
    /// The last drain left messages that it should have taken.
    has_more: bool,
    /// The present key at which some message that waits has to be taken. `MAX` if there is none.
    wants_at: u64,
}

impl WaitingMessages {
    fn waits(&self) -> bool {
        self.open > 0 || self.has_more
    }

    /// The part of a drain for the messages that wait.
    ///
    /// # Safety
    /// The caller is the one consumer of the lanes, and has read what was claimed.
    unsafe fn drain<M: Copy>(
        &mut self,
        lanes: Lanes<'_, M>,
        quota: u64,
        taker: &mut impl Taker<M>,
        sum: &mut Drained,
    ) {
        let mut fences = false;
        (self.open, self.wants_at) = (0, u64::MAX);
        let waiting_all = std::mem::take(&mut self.messages);
        let has_deferred = |lane: &&Lane<M>| {
            // SAFETY: the caller's promise.
            unsafe { lane.deferred() }.is_some()
        };
        for lane in lanes.filter(has_deferred) {
            // SAFETY: as above.
            let (drained, needs_fence, is_more) =
                unsafe { lane.claim_deferred(quota, waiting_all, taker, &mut self.wants_at) };
            sum.add(drained);
            fences |= needs_fence;
            self.has_more |= is_more;
        }
        pass_fence(fences);
        for lane in lanes.filter(has_deferred) {
            // SAFETY: as above, and DrainFence.
            sum.add(unsafe { lane.read_deferred(taker) });
            // SAFETY: as above.
            self.open += usize::from(unsafe { lane.with_book(|book| book.deferral.is_open()) });
            self.messages += lane.deferred.depth();
        }
        taker.flush();
    }
}

/// Does DrainFence if messages were claimed that could be recalled.
fn pass_fence(needs_fence: bool) {
    if needs_fence {
        // Ordering: full (DrainFence). Pairs with RecallFence in `Producer::recall`.
        heavy_fence_unless(Fault::LaneNoDrainFence);
    }
}

impl<M: Copy> Sender<M> {
    /// Sends a message by the express track.
    #[inline]
    pub(crate) fn push(&mut self, message: M) -> Sent {
        let producer = &mut self.producers.express;
        if producer.is_at_edge() {
            return self.push_at_edge(message);
        }
        // SAFETY: `inbox` keeps the lane alive, and this is inside of a segment.
        Sent::inside(unsafe { producer.push_inside(message) }, 0)
    }

    /// Sends a message by the express track. Gives `f` the backlog, if it is known.
    #[inline(always)]
    pub(crate) fn push_or_tell(&mut self, message: M, f: impl FnOnce(Backlog)) {
        let producer = &mut self.producers.express;
        if producer.is_at_edge() {
            return f(self.push_at_edge(message).backlog);
        }
        // SAFETY: as in `push`.
        unsafe { producer.push_inside(message) };
    }

    /// `push` at the end of a segment. (As a tail call it saves no registers.)
    #[cold]
    #[inline(never)]
    fn push_at_edge(&mut self, message: M) -> Sent {
        // SAFETY: `inbox` keeps the lane alive.
        let pushed = unsafe { self.producers.express.push(message) };
        self.sent(pushed, 0)
    }

    #[inline]
    fn advice(&self) -> &Advice {
        // SAFETY: `inbox` keeps the lane alive.
        unsafe { &(*self.producers.lane).advice }
    }

    fn sent(&self, pushed: Pushed, track: u32) -> Sent {
        // Ordering: Relaxed. A hint.
        let allowance = self.advice().allowance.load(Ordering::Relaxed);
        Sent {
            backlog: Backlog::new(pushed.waiting, allowance),
            ..Sent::inside(pushed.number, track)
        }
    }

    /// Whether messages with this key wait.
    #[inline]
    fn waits(&self, key: u64) -> bool {
        // Ordering: Relaxed. A hint.
        key >= self.advice().from.load(Ordering::Relaxed)
    }

    /// Sends a message with a key. The message may wait in the lane until its key is near, or until
    /// it is recalled.
    #[inline]
    pub(crate) fn push_by_key(&mut self, message: M, key: u64) -> Sent {
        if self.waits(key) {
            return self.push_deferred(message, key);
        }
        self.push(message)
    }

    /// Sends a message by the deferred track. (A tail call, as above.)
    #[inline(never)]
    fn push_deferred(&mut self, message: M, key: u64) -> Sent {
        let producer = &mut self.producers.deferred;
        if producer.is_at_edge() || producer.is_less(key) {
            return self.push_least(message, key);
        }
        // SAFETY: `inbox` keeps the lane alive, and this is inside of a segment.
        Sent::inside(unsafe { producer.push_inside(message) }, DEFERRED)
    }

    /// `push_deferred` at the end of a segment, or with the segment's least key. (A tail call, as
    /// above.)
    #[cold]
    #[inline(never)]
    fn push_least(&mut self, message: M, key: u64) -> Sent {
        // SAFETY: `inbox` keeps the lane alive.
        let pushed = unsafe { self.producers.deferred.push_keyed(message, key) };
        if pushed.waiting == 0 {
            return Sent::inside(pushed.number, DEFERRED);
        }
        self.sent(pushed, DEFERRED)
    }

    /// Settles the messages that were sent in doubt since the last call. If `vouched`, they are no
    /// longer in doubt, except those that the shard has seen already. Returns whether there are
    /// messages that the shard has not seen.
    pub(crate) fn settle_doubts(&mut self, vouched: bool) -> bool {
        // SAFETY: as above.
        let express = unsafe { self.producers.express.settle_doubts(vouched) };
        // SAFETY: as above.
        let deferred = unsafe { self.producers.deferred.settle_doubts(vouched) };
        express || deferred
    }

    /// Sends a message that is in doubt, as `push_by_key` does. The caller has called
    /// `settle_doubts` since other messages were drained. The shard gets the message with this
    /// word, or with a lesser one of another message in doubt.
    #[inline]
    pub(crate) fn push_in_doubt(&mut self, message: M, key: u64, word: u64) -> Sent {
        if self.waits(key) {
            return self.push_deferred_in_doubt(message, key, word);
        }
        // SAFETY: `inbox` keeps the lane alive.
        let pushed = unsafe { self.producers.express.push_in_doubt(message, word) };
        if pushed.waiting == 0 {
            return Sent::inside(pushed.number, 0);
        }
        self.sent(pushed, 0)
    }

    /// Sends a message in doubt by the deferred track. (A tail call, as above.)
    #[inline(never)]
    fn push_deferred_in_doubt(&mut self, message: M, key: u64, word: u64) -> Sent {
        let producer = &mut self.producers.deferred;
        // SAFETY: `inbox` keeps the lane alive.
        unsafe { producer.note_key(key) };
        // SAFETY: as above.
        let pushed = unsafe { producer.push_in_doubt(message, word) };
        if pushed.waiting == 0 {
            return Sent::inside(pushed.number, DEFERRED);
        }
        self.sent(pushed, DEFERRED)
    }

    /// How many messages of this lane the shard has seen. A hint.
    #[inline]
    pub(crate) fn seen(&self) -> u64 {
        // SAFETY: as above.
        let express = unsafe { &(*self.producers.express.track).taken };
        // SAFETY: as above.
        let deferred = unsafe { &(*self.producers.deferred.track).taken };
        // Ordering: Relaxed. A hint.
        let express = express.seen.load(Ordering::Relaxed);
        // Ordering: Relaxed. A hint.
        express.wrapping_add(deferred.seen.load(Ordering::Relaxed))
    }

    /// Recalls a message that was sent here, if the shard has not claimed it. `position` is a hint.
    /// With a wrong one this finds another message or none, and recalls nothing. `true` means that
    /// the shard does not get the message, or gets it and then learns that it was recalled.
    #[inline]
    pub(crate) fn recall(&mut self, position: u32, message: M) -> bool
    where
        M: PartialEq,
    {
        let producers = &mut *self.producers;
        let producer = if position & DEFERRED == 0 {
            &mut producers.express
        } else {
            &mut producers.deferred
        };
        // SAFETY: as above.
        unsafe { producer.recall(position & (DEFERRED - 1), NUMBER_BITS, message) }
    }
}

impl<M: Copy> Drop for Sender<M> {
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used after.
        let producers = unsafe { ManuallyDrop::take(&mut self.producers) };
        self.inbox.leave(producers);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/inbox.rs"]
mod tests;
