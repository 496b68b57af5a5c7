//! Inbox: a shard's set of lanes.
//!
//! Any thread attaches and gets a [`Sender`] of its own; the shard has the one [`Drain`]. It has
//! the steps attach, detach and DrainFence, and divides a drain among the lanes. Protocol and
//! proof: README.md of this room.

use super::ahead::Outlook;
use super::consumer::{Arrival, Drained, MessageSink};
use super::deferral::{Deferral, Present, Sight};
use super::producer::{Producer, Pushed};
use super::segment::LEN;
use super::track::Track;
use crate::sync::{
    AtomicPtr, CountU64, Fault, Ordering, Queue, UnsafeCell, broken, heavy_fence, ordering,
};
use crossbeam_utils::CachePadded;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

/// A position has this many low bits of a message's number, and above them `DEFERRED` or 0.
pub(crate) const POSITION_BITS: u32 = 24;
const NUMBER_BITS: u32 = POSITION_BITS - 1;

/// Set in the position of a message of a deferred track.
const DEFERRED: u32 = 1 << NUMBER_BITS;

/// Messages of a lane that the shard need not have seen: so many come in two milliseconds at full
/// speed. Many lanes share twice this number.
const ALLOWANCE: u64 = 65_536;
const ALLOWANCE_MIN: u64 = 4_096;

/// Messages that a drain takes. A lane may have some more.
const DRAINED_MAX: u64 = 32_768;

/// Messages of a lane that a drain passes over.
const PASSED_MAX: u64 = 1 << 20;

/// A lane: the two tracks of one producer.
struct Lane<M> {
    /// Messages that are taken at once.
    express: Track<M>,
    /// Messages that wait.
    deferred: Track<M>,
    advice: CachePadded<Advice>,
    /// The shard's own.
    book: UnsafeCell<Book<M>>,
    /// The next lane of the inbox. Written before the lane is published, never after.
    next: *const Lane<M>,
}

/// What the shard tells the producer.
struct Advice {
    /// Messages with this key or a later one go to the deferred track. `MAX`: none.
    from: CountU64,
    /// With more messages than this that the shard has not seen, the producer is too fast.
    allowance: CountU64,
}

/// What the shard knows of a lane.
struct Book<M> {
    outlook: Outlook<M>,
    deferral: Deferral,
    /// The deferred track was opened once. Before that the shard does not look at it.
    has_deferred: bool,
    /// Messages of the express track that the last drain took.
    express: u64,
    /// How many messages of each track were published when `trim_quiet` last looked.
    looked: [u64; 2],
    /// Whether each track is being trimmed.
    is_chosen: [bool; 2],
}

/// The producer's ends of a lane's tracks.
struct Producers<M> {
    lane: *const Lane<M>,
    express: Producer<M>,
    deferred: Producer<M>,
}

// SAFETY: a lane has one producer, and it lives as long as the inbox (see `Sender`).
unsafe impl<M: Send> Send for Producers<M> {}

/// A message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Where it lies, for a recall.
    pub(crate) position: u32,
    /// Known if it was the last of its segment.
    pub(crate) backlog: Backlog,
}

impl Sent {
    /// A message that was not the last of its segment.
    #[inline]
    fn inside(number: u32, track: u32) -> Self {
        Self {
            position: number & (DEFERRED - 1) | track,
            backlog: Backlog::NONE,
        }
    }
}

/// How many messages of a track the shard has not seen, and how many times as many as it allows.
/// The greater backlog has the greater overload, or the same and more messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Backlog(u64);

impl Backlog {
    /// Unknown, or nothing.
    pub(crate) const NONE: Self = Self(0);

    fn new(waiting: u64, allowance: u64) -> Self {
        let overload = (waiting / allowance).min(u32::MAX.into());
        Self(overload << 32 | waiting.min(u32::MAX.into()))
    }

    /// Whether there are more messages than this, or more than the shard allows.
    #[inline]
    pub(crate) fn is_above(self, waiting: u64) -> bool {
        self.0 > waiting
    }

    /// How many times as many messages as the shard allows.
    pub(crate) fn overload(self) -> u64 {
        self.0 >> 32
    }
}

/// The messages of an express track that a drain has claimed.
pub(crate) trait Messages<M> {
    /// Gives each of them to the sink.
    fn give(self, sink: &mut impl MessageSink<M>) -> Drained;
}

/// A track of which messages are claimed.
struct ClaimedMessages<'a, M>(&'a Track<M>);

impl<M: Copy> Messages<M> for ClaimedMessages<'_, M> {
    #[inline(always)]
    fn give(self, sink: &mut impl MessageSink<M>) -> Drained {
        // SAFETY: `drain` makes this, which is the one consumer, after DrainFence.
        unsafe { self.0.read(sink, false) }
    }
}

/// What takes the messages of a drain.
pub(crate) trait Taker<M> {
    /// The drain has looked which messages are there (DrainLoad). What it takes was sent before.
    fn looked(&mut self) {}

    /// A message.
    fn take(&mut self, message: M, arrival: Arrival);

    /// The messages of an express track.
    #[inline(always)]
    fn take_all(&mut self, messages: impl Messages<M>) -> Drained {
        messages.give(&mut |_, message, arrival| self.take(message, arrival))
    }

    /// All messages of the express tracks, or of the deferred ones, were given.
    fn flush(&mut self) {}

    /// How much later than it says a message with this word in doubt is. 0: it is not late.
    fn lateness(&self, _word: u64) -> u64 {
        0
    }

    /// Whether a message that waits is dead.
    fn is_dead(&mut self, _message: M) -> bool {
        false
    }

    /// The present, for the messages that wait.
    fn present(&self) -> Present;
}

/// The lanes of one shard: producers attach to it, its [`Drain`] empties it.
pub(crate) struct Inbox<M> {
    /// List of all lanes, newest first. A lane is never removed before the inbox is dropped.
    lanes: AtomicPtr<Lane<M>>,
    /// Producers whose threads have ended, for the next threads.
    free: Queue<Producers<M>>,
}

// SAFETY: each field of a lane is atomic or has one owner at a time (README.md), and messages are
// Send.
unsafe impl<M: Send> Send for Inbox<M> {}
// SAFETY: as above.
unsafe impl<M: Send> Sync for Inbox<M> {}

/// The one consumer of an inbox.
pub(crate) struct Drain<M> {
    inbox: Arc<Inbox<M>>,
    /// Whether the messages after the next drain may be recalled from the express tracks.
    may_recall: bool,
    /// Lanes of which messages wait.
    open: usize,
    /// How many messages waited in all lanes after the last drain.
    waiting: u64,
    /// The last drain left messages that it should have taken.
    has_more: bool,
    /// The present key at which messages that wait have to be taken. `MAX`: there is none.
    wants_at: u64,
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
            lanes: AtomicPtr::new(ptr::null_mut()),
            free: Queue::new(),
        });
        (
            inbox.clone(),
            Drain {
                inbox,
                may_recall: false,
                open: 0,
                waiting: 0,
                has_more: false,
                wants_at: u64::MAX,
                _not_sync: PhantomData,
            },
        )
    }

    /// A lane for the calling thread: one that an earlier thread has left, or a new one.
    pub(crate) fn attach(self: &Arc<Self>) -> Sender<M> {
        let producers = self.free.pop().unwrap_or_else(|| self.add_lane());
        Sender {
            producers: ManuallyDrop::new(producers),
            inbox: self.clone(),
        }
    }

    fn add_lane(&self) -> Producers<M> {
        let mut lane = Box::new(Lane {
            express: Track::new(),
            deferred: Track::new(),
            advice: CachePadded::new(Advice {
                from: CountU64::new(u64::MAX),
                allowance: CountU64::new(ALLOWANCE),
            }),
            book: UnsafeCell::new(Book {
                outlook: Outlook::new(),
                deferral: Deferral::new(),
                has_deferred: false,
                express: 0,
                looked: [0; 2],
                is_chosen: [false; 2],
            }),
            next: ptr::null(),
        });
        // Ordering: Relaxed. The compare-and-swap below confirms it before it is used.
        let mut first = self.lanes.load(Ordering::Relaxed);
        let lane = loop {
            lane.next = first;
            let raw = Box::into_raw(lane);
            // Ordering: Release. Pairs with the Acquire in `lanes`; publishes the lane.
            match self.lanes.compare_exchange(
                first,
                raw,
                ordering(Ordering::Release, Fault::LaneAttachRelaxed),
                Ordering::Relaxed,
            ) {
                Ok(_) => break raw,
                Err(now) => {
                    first = now;
                    // SAFETY: not published: still this thread's, from `into_raw` above.
                    lane = unsafe { Box::from_raw(raw) };
                }
            }
        };
        Producers {
            lane,
            // SAFETY: from a box, and alive as long as the inbox.
            express: Producer::new(unsafe { &raw const (*lane).express }),
            // SAFETY: as above.
            deferred: Producer::new(unsafe { &raw const (*lane).deferred }),
        }
    }

    /// How many messages are in the lanes, those that wait too. For statistics: reads four words
    /// of each lane.
    pub(crate) fn depth(&self) -> u64
    where
        M: Copy,
    {
        self.lanes()
            .map(|lane| lane.express.depth() + lane.deferred.depth())
            .sum()
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane<M>> {
        // Ordering: Acquire. Pairs with the Release in `add_lane`; publishes the lane. In SleepLook
        // the SleepFence before it makes every lane visible whose producer has passed its
        // RingFence.
        let mut lane: *const Lane<M> = self.lanes.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: lanes live as long as the inbox, and `next` does not change after
            // publication.
            let this = unsafe { lane.as_ref() }?;
            lane = this.next;
            Some(this)
        })
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        // Ordering: Acquire. Pairs with the Release in `add_lane`.
        let mut lane: *const Lane<M> = self.lanes.load(Ordering::Acquire);
        while !lane.is_null() {
            // SAFETY: every `Sender` and the `Drain` hold the inbox, and this is `&mut self`: none
            // of them is left. Each lane came from a box.
            let owned = unsafe { Box::from_raw(lane.cast_mut()) };
            lane = owned.next;
        }
    }
}

impl<M: Copy> Lane<M> {
    /// Gives `f` what the shard knows of the lane.
    ///
    /// # Safety
    /// The caller is the one consumer, and `f` does not get here again.
    unsafe fn with_book<R>(&self, f: impl FnOnce(&mut Book<M>) -> R) -> R {
        // SAFETY: the caller's promise.
        self.book.with_mut(|book| f(unsafe { &mut *book }))
    }

    fn tracks(&self) -> [&Track<M>; 2] {
        [&self.express, &self.deferred]
    }

    /// Tells the producer which messages wait.
    fn tell_from(&self, from: u64) {
        tell(&self.advice.from, from);
    }

    /// The deferred track, if messages were ever allowed to wait there.
    ///
    /// # Safety
    /// The caller is the one consumer.
    unsafe fn deferred(&self) -> Option<&Track<M>> {
        // SAFETY: the caller's promise.
        unsafe { self.with_book(|book| book.has_deferred) }.then_some(&self.deferred)
    }

    /// Looks at the deferred track, passes over dead messages, and claims those that have to be
    /// taken, at most `quota`. Returns what it found, whether a fence has to follow, and whether
    /// there are more to be taken.
    ///
    /// # Safety
    /// The caller is the one consumer, has called `load`, and has read what was claimed.
    unsafe fn claim_deferred(
        &self,
        quota: u64,
        waiting_all: u64,
        taker: &mut impl Taker<M>,
        wants_at: &mut u64,
    ) -> (Drained, bool, bool) {
        let track = &self.deferred;
        let decided = |book: &mut Book<M>| {
            let outlook = &mut book.outlook;
            // SAFETY: the caller's promise.
            let came = unsafe { track.look(outlook, |word| taker.lateness(word)) };
            // SAFETY: as above.
            let head = track.reader.with(|reader| unsafe { (*reader).count });
            if came == 0 && outlook.seen == head && !book.deferral.is_open() {
                return (Drained::default(), false, false);
            }
            let mut drained = Drained::default();
            if book.deferral.is_open() {
                let end = outlook.seen.min(head + PASSED_MAX);
                // SAFETY: as above.
                drained = unsafe { track.pass_dead(end, |message| taker.is_dead(message)) };
            }
            drained.came = came;
            let present = taker.present();
            // SAFETY: as above.
            let recalled = unsafe { track.dead() };
            let head = head + drained.messages;
            let share = present.dead.saturating_mul(outlook.seen - head) / waiting_all.max(1);
            let waiting = Sight {
                dead: recalled.max(share),
                all: waiting_all,
                head,
                seen: outlook.seen,
                came,
                passed: drained.messages,
            };
            let (limit, end) = book.deferral.decide(waiting, present);
            let (due, next) = outlook.due(waiting.head, limit);
            if next != u64::MAX {
                *wants_at = (*wants_at).min(next - (limit - present.now));
            }
            let wanted = end.max(due);
            let end = wanted.min(waiting.head + quota);
            // SAFETY: as above.
            let fences = unsafe { track.claim(end, book.deferral.is_open()) };
            self.tell_from(book.deferral.from);
            (drained, fences, wanted > end)
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_book(decided) }
    }

    /// Takes what `claim_deferred` has claimed.
    ///
    /// # Safety
    /// As above, and the fence has followed.
    unsafe fn read_deferred(&self, taker: &mut impl Taker<M>) -> Drained {
        let read = |book: &mut Book<M>| {
            let mut dead = 0;
            let take = |message, arrival| {
                if taker.is_dead(message) {
                    dead += 1;
                } else {
                    taker.take(message, arrival);
                }
            };
            // SAFETY: the caller's promise.
            let mut drained = unsafe { self.deferred.read_seen(&mut book.outlook, take) };
            drained.recalled += dead;
            let alive = drained.messages - drained.recalled;
            book.deferral.note(drained.recalled, alive);
            drained
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_book(read) }
    }
}
impl<M: Copy> Drain<M> {
    /// Says whether the messages that come after the next drain may be recalled from the express
    /// tracks. If they may, the drain that finds them pays a heavy fence.
    pub(crate) fn let_recall(&mut self, may_recall: bool) {
        self.may_recall = may_recall;
    }

    /// Has the far messages of the lanes wait that were busy in the last drain, unless that was in
    /// vain lately.
    pub(crate) fn defer(&mut self, present: Present) {
        for lane in self.inbox.lanes() {
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
            self.open += usize::from(opened);
        }
    }

    /// Gives the taker the messages that were published before the call and not recalled, in order
    /// of each track. Before these it reports messages of an earlier drain that were recalled at
    /// that time. Takes a bounded number of messages: `has_more` says whether more are to be taken
    /// at once. Of the deferred tracks it takes what cannot wait longer.
    pub(crate) fn drain(&mut self, taker: &mut impl Taker<M>) -> Drained {
        let mut sum = Drained::default();
        let mut late = |message| {
            sum.messages += 1;
            taker.take(message, Arrival::Recalled);
        };
        for lane in self.inbox.lanes() {
            // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
            unsafe { lane.express.settle(&mut late) };
            // SAFETY: as above.
            if let Some(deferred) = unsafe { lane.deferred() } {
                // SAFETY: as above.
                unsafe { deferred.settle(&mut late) };
            }
        }
        if !self.has_messages() && self.open == 0 && !self.has_more {
            return sum;
        }
        let mut busy = 0;
        for lane in self.inbox.lanes() {
            // SAFETY: as above.
            busy += u64::from(unsafe { lane.express.load() } > 0);
            // SAFETY: as above.
            if let Some(deferred) = unsafe { lane.deferred() } {
                // SAFETY: as above.
                busy += u64::from(unsafe { deferred.load() } > 0);
            }
        }
        let quota = (DRAINED_MAX / busy.max(1)).max(LEN as u64);
        let allowance = (2 * ALLOWANCE / busy.max(1)).clamp(ALLOWANCE_MIN, ALLOWANCE);
        self.has_more = false;
        let mut fences = false;
        for lane in self.inbox.lanes() {
            // SAFETY: as above.
            let (end, is_more) = unsafe { lane.express.next_claim(quota) };
            self.has_more |= is_more;
            tell(&lane.advice.allowance, allowance);
            // SAFETY: as above.
            fences |= unsafe { lane.express.claim(end, self.may_recall) };
        }
        taker.looked();
        pass_fence(fences);
        for lane in self.inbox.lanes() {
            // (A lane that was attached since has nothing claimed.)
            let drained = taker.take_all(ClaimedMessages(&lane.express));
            // SAFETY: as above.
            unsafe { lane.with_book(|book| book.express = drained.messages) };
            sum.add(drained);
        }
        taker.flush();
        self.drain_deferred(quota, taker, &mut sum);
        sum
    }

    /// The part of a drain for the messages that wait.
    fn drain_deferred(&mut self, quota: u64, taker: &mut impl Taker<M>, sum: &mut Drained) {
        let mut fences = false;
        (self.open, self.wants_at) = (0, u64::MAX);
        let waiting_all = std::mem::take(&mut self.waiting);
        let has_deferred = |lane: &&Lane<M>| {
            // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
            unsafe { lane.deferred() }.is_some()
        };
        let lanes = || self.inbox.lanes().filter(has_deferred);
        for lane in lanes() {
            // SAFETY: as above.
            let (drained, needs_fence, is_more) =
                unsafe { lane.claim_deferred(quota, waiting_all, taker, &mut self.wants_at) };
            sum.add(drained);
            fences |= needs_fence;
            self.has_more |= is_more;
        }
        pass_fence(fences);
        for lane in lanes() {
            // SAFETY: as above, and DrainFence.
            sum.add(unsafe { lane.read_deferred(taker) });
            // SAFETY: as above.
            self.open += usize::from(unsafe { lane.with_book(|book| book.deferral.is_open()) });
            self.waiting += lane.deferred.depth();
        }
        taker.flush();
    }

    /// Whether a drain would find messages that the shard has not seen.
    pub(crate) fn has_messages(&self) -> bool {
        self.inbox.lanes().any(|lane| {
            // SAFETY: there is one `Drain` for an inbox, and it is not Sync. No drain is running,
            // because that takes it mutably.
            let express = unsafe { lane.express.has_messages() };
            let has_unseen = |book: &mut Book<M>| {
                book.has_deferred && lane.deferred.has_unseen(book.outlook.seen)
            };
            // SAFETY: as above.
            express || unsafe { lane.with_book(has_unseen) }
        })
    }

    /// Whether messages may wait in the lanes.
    pub(crate) fn waits(&self) -> bool {
        self.open > 0 || self.has_more
    }

    /// Whether the last drain left messages that have to be taken at once.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// The present key at which messages that wait have to be taken. `None`: none of them has to.
    pub(crate) fn wants_at(&self) -> Option<u64> {
        Some(self.wants_at).filter(|&key| key != u64::MAX)
    }

    /// Frees the segments that the tracks keep for reuse, except the newest of each. Leaves tracks
    /// of which messages wait.
    pub(crate) fn trim(&mut self) {
        self.trim_if(|_, _, _| true);
    }

    /// The same for the tracks to which nothing was sent since the last call.
    pub(crate) fn trim_quiet(&mut self) {
        self.trim_if(|book, track, published| {
            let before = std::mem::replace(&mut book.looked[track], published);
            before == published
        });
    }

    /// TrimClose to TrimLook, for the tracks of which `is_chosen`. It gets the number of each track
    /// in its lane, and how many messages were published.
    fn trim_if(&mut self, mut is_chosen: impl FnMut(&mut Book<M>, usize, u64) -> bool) {
        let mut has_chosen = false;
        for lane in self.inbox.lanes() {
            let choose = |book: &mut Book<M>| {
                for (number, track) in lane.tracks().into_iter().enumerate() {
                    let is_left = number > 0 && (book.deferral.is_open() || !book.has_deferred);
                    let is_chosen =
                        !is_left && is_chosen(book, number, track.published()) && track.has_spare();
                    book.is_chosen[number] = is_chosen;
                    if is_chosen {
                        track.close();
                        has_chosen = true;
                    }
                }
            };
            // SAFETY: there is one `Drain` for an inbox, and this is `&mut self`.
            unsafe { lane.with_book(choose) };
        }
        if !has_chosen {
            return;
        }
        // Ordering: full. Pairs with the light fence of RecallEnter.
        heavy_fence();
        for lane in self.inbox.lanes() {
            // SAFETY: as above.
            let chosen = unsafe { lane.with_book(|book| std::mem::take(&mut book.is_chosen)) };
            let tracks = lane.tracks().into_iter().zip(chosen);
            tracks.for_each(|(track, is_chosen)| {
                if is_chosen {
                    track.trim();
                }
            });
        }
    }
}

/// Writes a word of the shard's advice.
fn tell(word: &CountU64, advice: u64) {
    // Ordering: Relaxed. The shard's own. It writes only a change, so that the producer keeps its
    // cache line.
    if word.load(Ordering::Relaxed) != advice {
        // Ordering: Relaxed. A hint.
        word.store(advice, Ordering::Relaxed);
    }
}

/// DrainFence, if messages were claimed that could be recalled.
fn pass_fence(needs_fence: bool) {
    if needs_fence && !broken(Fault::LaneNoDrainFence) {
        // Ordering: full (DrainFence). Pairs with RecallFence in `Producer::recall`.
        heavy_fence();
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

    /// `push` at the end of a segment. (As a tail call it needs no saved registers.)
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

    /// Sends a message with a key. It may wait in the lane: until its key is near, or it is
    /// recalled.
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
        // SAFETY: `inbox` keeps the lane alive.
        let pushed = unsafe { producer.push_keyed(message, key) };
        if pushed.waiting == 0 {
            return Sent::inside(pushed.number, DEFERRED);
        }
        self.sent(pushed, DEFERRED)
    }

    /// Settles the messages sent in doubt since the last call: if `vouched`, they are in doubt no
    /// more, unless the shard has seen them. Returns whether there are messages that it has not
    /// seen.
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

    /// Recalls a message that was sent here, if the shard has not claimed it. `position` is a hint:
    /// a wrong one finds another message, or none. `true`: the shard does not get it, or gets it
    /// and then learns that it is recalled.
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
        self.inbox.free.push(producers);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/inbox.rs"]
mod tests;
