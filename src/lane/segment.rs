//! Lane: one producer's queue to one shard, in linked segments. Protocol and proof: README.md of this room.

use crate::mem::prefetch_to_write;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Fault, Ordering, UnsafeCell, broken, light_fence, ordering};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;
use std::ptr;

/// Messages in a segment: with 16-byte messages a page of memory, and some lines.
#[cfg(not(loom))]
pub(super) const LEN: usize = 256;
#[cfg(loom)]
pub(super) const LEN: usize = 2;

/// Segments, the newest of a lane, in which the producer may recall messages. They are not freed by `trim`.
#[cfg(not(loom))]
const RECENT: usize = 8;
#[cfg(loom)]
const RECENT: usize = 3;

/// Bits of a message's number that a position has.
pub(crate) const POSITION_BITS: u32 = 24;

/// Slots that the producer asks for ahead of its writes.
const AHEAD: usize = 16;

pub(super) struct Segment<M> {
    next: UnsafeCell<*mut Segment<M>>,
    /// A bit for each message that was taken back. Written by the producer alone.
    recalled: [AtomicU64; LEN.div_ceil(64)],
    /// A bit for each message that is in doubt, and for 64 of them the producer's least word. Written by the producer alone.
    doubted: [AtomicU64; LEN.div_ceil(64)],
    doubt: [AtomicU64; LEN.div_ceil(64)],
    messages: [UnsafeCell<MaybeUninit<M>>; LEN],
    /// The bits of `recalled` that the shard has seen, and skipped the messages. Written by the shard; cleared by the producer when the segment is used again.
    skipped: [AtomicU64; LEN.div_ceil(64)],
}

impl<M> Segment<M> {
    fn allocate() -> *mut Self {
        Box::into_raw(Box::new(Self {
            next: UnsafeCell::new(ptr::null_mut()),
            recalled: std::array::from_fn(|_| AtomicU64::new(0)),
            doubted: std::array::from_fn(|_| AtomicU64::new(0)),
            doubt: std::array::from_fn(|_| AtomicU64::new(0)),
            messages: std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
            skipped: std::array::from_fn(|_| AtomicU64::new(0)),
        }))
    }
}

/// The chain of a lane's segments from its oldest on.
struct Chain<M> {
    oldest: *mut Segment<M>,
    /// Number of the oldest segment: its first message is number `index * LEN`.
    index: u64,
}

/// What producer and shard share of a lane. See the README for who touches what.
pub(super) struct Lane<M> {
    tail: CachePadded<Tail<M>>,
    taken: CachePadded<Taken>,
    busy: AtomicBool,
    chain: UnsafeCell<Chain<M>>,
    consumer: UnsafeCell<Consumer<M>>,
    /// Next lane of the inbox; written before the lane is published, never after.
    pub(super) next: *const Lane<M>,
}

/// What the producer writes.
struct Tail<M> {
    /// Messages ever published.
    count: AtomicU64,
    /// The segment of a message that was recalled while the shard claimed it, for the shard to see to; or null. The shard sets it back.
    unsure: AtomicPtr<Segment<M>>,
    /// The number of that message.
    unsure_number: AtomicU64,
}

/// What the shard writes.
struct Taken {
    /// Messages that it has claimed: earlier ones are not recalled any more. `MAX`: later ones neither.
    claimed: AtomicU64,
    /// Messages that it has read.
    head: AtomicU64,
}

/// The producer's end: moves from thread to thread, but only one has it.
pub(super) struct Producer<M> {
    pub(super) lane: *const Lane<M>,
    segment: *mut Segment<M>,
    /// Number of the segment's first message.
    begin: u64,
    /// Messages ever published.
    count: u64,
    /// Number of the first message of the newest segments, that of their oldest.
    recent_begin: u64,
    /// The newest segments: number `i` at `i % RECENT`.
    recent: [*mut Segment<M>; RECENT],
    /// Number of the first message that was sent in doubt since `settle_doubts`, or `MAX`.
    doubted: u64,
}

// SAFETY: a producer is the only one of its lane, and what it points to lives as long as the inbox (see `Sender`).
unsafe impl<M: Send> Send for Producer<M> {}

/// The shard's end.
struct Consumer<M> {
    segment: *mut Segment<M>,
    position: usize,
    count: u64,
    /// The end of what may be read.
    claimed: u64,
}

/// What a drain found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Messages, each time that something was said of one.
    pub(crate) messages: u64,
    /// Those of them that their producers had recalled.
    pub(crate) recalled: u64,
}

/// What a drain says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It came.
    Came,
    /// It came, and is in doubt: its producer's word.
    InDoubt(u64),
    /// It came in an earlier drain, and its producer recalled it just then.
    Recalled,
}

/// A message that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Where it lies: to recall it.
    pub(crate) position: u32,
    /// How many messages wait, if it was a segment's last; else 0.
    pub(crate) waiting: u64,
}

impl<M: Copy> Lane<M> {
    pub(super) fn new() -> (Box<Self>, Producer<M>) {
        let segment = Segment::allocate();
        let lane = Box::new(Self {
            tail: CachePadded::new(Tail {
                count: AtomicU64::new(0),
                unsure: AtomicPtr::new(ptr::null_mut()),
                unsure_number: AtomicU64::new(0),
            }),
            taken: CachePadded::new(Taken { claimed: AtomicU64::new(u64::MAX), head: AtomicU64::new(0) }),
            busy: AtomicBool::new(false),
            chain: UnsafeCell::new(Chain { oldest: segment, index: 0 }),
            consumer: UnsafeCell::new(Consumer { segment, position: 0, count: 0, claimed: 0 }),
            next: ptr::null(),
        });
        let producer =
            Producer { lane: ptr::null(), segment, begin: 0, count: 0, recent_begin: 0, recent: [segment; RECENT], doubted: u64::MAX };
        (lane, producer)
    }

    /// Sees to a message that was recalled while a drain claimed it, or all that were to come: gives it to `late` if it was given out.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane.
    pub(super) unsafe fn settle(&self, late: impl FnOnce(M)) {
        // Ordering: Acquire (U2). Pairs with the Release of U1; the number, and a claim that covers it: a drain that has ended.
        let segment = self.tail.unsure.load(Ordering::Acquire);
        // SAFETY: as long as this is not null the segment is neither freed (`trim`) nor used again (`next_segment`).
        let Some(segment) = (unsafe { segment.as_ref() }) else { return };
        // Ordering: Relaxed. Published by U1.
        let number = self.tail.unsure_number.load(Ordering::Relaxed);
        // SAFETY: one consumer (the caller's promise).
        let is_read = number < self.consumer.with(|consumer| unsafe { (*consumer).count });
        let place = number as usize % LEN;
        // Ordering: Relaxed. Our own.
        let is_skipped = segment.skipped[place / 64].load(Ordering::Relaxed) >> (place % 64) & 1 != 0;
        // (If it is still to be read, it will be skipped: U2 has seen what came before U1, the bit too.)
        if is_read && !is_skipped && !broken(Fault::LaneUnsureSkipped) {
            // SAFETY: it was published, and is not written as long as `unsure` names its segment.
            let message = segment.messages[place].with(|message| unsafe { *message });
            // SAFETY: as above.
            late(unsafe { message.assume_init() });
        }
        // Ordering: Release (U3). Pairs with the Acquire in `next_segment`; our look at the segment comes before it is used again.
        self.tail.unsure.store(ptr::null_mut(), Ordering::Release);
    }

    /// Claims every message published so far, for `drain`; and, unless they may be recalled, those to come.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane.
    pub(super) unsafe fn claim(&self, may_recall: bool) {
        // Ordering: Acquire (D1). Pairs with the Release in `Producer::push`; publishes the messages below it.
        let tail = self.tail.count.load(Ordering::Acquire);
        // SAFETY: one consumer (the caller's promise).
        self.consumer.with_mut(|consumer| unsafe { (*consumer).claimed = tail });
        let claimed = if may_recall { tail } else { u64::MAX };
        // Ordering: Relaxed. Our own: what did not change is not written, for the producer's cache.
        if self.taken.claimed.load(Ordering::Relaxed) != claimed {
            // Ordering: Relaxed (D2). If it was not `MAX`, the fence of `Drain::drain` (D3) follows, which pairs with Y3.
            self.taken.claimed.store(claimed, Ordering::Relaxed);
        }
    }

    /// Gives `f` every message that was claimed and not recalled, oldest first, and whether it is in doubt.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane, and has passed a heavy fence since the claim, if messages might be recalled before it.
    pub(super) unsafe fn drain(&self, mut f: impl FnMut(M, Told)) -> Drained {
        self.consumer.with_mut(|consumer| {
            // SAFETY: one consumer (the caller's promise), and `f` has no way to this cell.
            let consumer = unsafe { &mut *consumer };
            let mut drained = Drained { messages: consumer.claimed - consumer.count, recalled: 0 };
            if drained.messages == 0 {
                return drained;
            }
            while consumer.count < consumer.claimed {
                if consumer.position == LEN {
                    // SAFETY: D4. There is a message beyond this segment, so its `next` was written before `tail`.
                    consumer.segment = unsafe { &*consumer.segment }.next.with(|next| unsafe { *next });
                    consumer.position = 0;
                    debug_assert!(!consumer.segment.is_null(), "a published message has a segment");
                }
                // SAFETY: the shard's own segment is not reused (R2), so it is alive.
                let segment = unsafe { &*consumer.segment };
                let (begin, shift) = (consumer.position, consumer.position % 64);
                let len = (64 - shift).min(LEN - begin).min((consumer.claimed - consumer.count) as usize);
                // Ordering: Relaxed (D4). What was recalled for good is seen: a D3 that pairs with its Y3 came before.
                let recalled = segment.recalled[begin / 64].load(Ordering::Relaxed) >> shift & (u64::MAX >> (64 - len));
                if recalled != 0 {
                    let skipped = &segment.skipped[begin / 64];
                    // Ordering: Relaxed. Our own, but for the clearing before D1.
                    skipped.store(skipped.load(Ordering::Relaxed) | recalled << shift, Ordering::Relaxed);
                    drained.recalled += u64::from(recalled.count_ones());
                }
                // Ordering: Relaxed (V5). Published by P3.
                let doubted = segment.doubted[begin / 64].load(Ordering::Relaxed) >> shift;
                let mut kept = !recalled & (u64::MAX >> (64 - len));
                while kept != 0 {
                    let place = kept.trailing_zeros();
                    let slot = &segment.messages[begin + place as usize];
                    kept &= kept - 1;
                    // SAFETY: D4. The message's number is below `tail`, so it is not written again before D5.
                    let message = slot.with(|message| unsafe { *message });
                    // SAFETY: as above, and it was written.
                    let message = unsafe { message.assume_init() };
                    // Ordering: Relaxed (V5). As above, or newer: not greater, unless the message is vouched for.
                    let doubt = || Told::InDoubt(segment.doubt[begin / 64].load(Ordering::Relaxed));
                    f(message, if doubted >> place & 1 == 0 { Told::Came } else { doubt() });
                }
                consumer.position += len;
                consumer.count += len as u64;
            }
            // Ordering: Release (D5). Pairs with the Acquire in `take_oldest`; our reads come before the reuse.
            self.taken.head.store(consumer.count, ordering(Ordering::Release, Fault::LaneRecycleRelaxed));
            drained
        })
    }

    /// Messages that are published and not drained, for statistics.
    pub(super) fn depth(&self) -> u64 {
        // Ordering: Relaxed. Two looks of a snapshot: what comes between them may make the first one the greater.
        let head = self.taken.head.load(Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.tail.count.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// Whether something is published that was not drained.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane.
    pub(super) unsafe fn has_messages(&self) -> bool {
        // SAFETY: one consumer (the caller's promise).
        let count = self.consumer.with(|consumer| unsafe { (*consumer).count });
        // Ordering: Relaxed. Ordered by the doorbell's fence where it matters; otherwise a hint.
        self.tail.count.load(Ordering::Relaxed) != count
    }

    /// Unlinks the oldest segment if its number is below `end`, the shard is so many segments beyond it, and nobody else is at the chain (R1 to R4).
    fn take_oldest(&self, beyond: usize, end: u64) -> Option<*mut Segment<M>> {
        // Ordering: Acquire (R1). Pairs with the Release of R4; the chain as the other side left it.
        if self.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() && !broken(Fault::LaneBusyIgnored) {
            return None;
        }
        // Ordering: Acquire (R2). Pairs with the Release of D5 in `drain`.
        let head = self.taken.head.load(Ordering::Acquire);
        let taken = self.chain.with_mut(|chain| {
            // SAFETY: we hold `busy`, which guards the chain.
            let chain = unsafe { &mut *chain };
            let read = (chain.index + beyond as u64) * LEN as u64 + u64::from(!broken(Fault::LaneReuseTooEarly));
            if head < read || chain.index >= end {
                return None;
            }
            let segment = chain.oldest;
            debug_assert!(!segment.is_null(), "the shard is beyond this segment");
            // SAFETY: the shard has gone beyond this segment, so `next` was written and is not written by anyone now.
            chain.oldest = unsafe { &*segment }.next.with(|next| unsafe { *next });
            chain.index += 1;
            Some(segment)
        });
        // Ordering: Release (R4). Pairs with the Acquire of R1.
        self.busy.store(false, ordering(Ordering::Release, Fault::LaneBusyRelaxed));
        taken
    }

    /// Frees the segments that wait for reuse, but for those in which the producer may look. For idle times: never waits, costs a deallocation each.
    pub(super) fn trim(&self) {
        // Ordering: Relaxed. What the producer did before it published a message that the shard has read is seen: among it a U1 in a segment that has become old.
        if !self.tail.unsure.load(Ordering::Relaxed).is_null() {
            return;
        }
        let beyond = if broken(Fault::LaneTrimTooEarly) { 1 } else { RECENT };
        while let Some(segment) = self.take_oldest(beyond, u64::MAX) {
            #[cfg(loom)]
            // SAFETY: unlinked. For the models, which do not notice what is freed: whoever reads it still is noticed, before it is freed.
            unsafe { &*segment }.messages.iter().for_each(|slot| slot.with_mut(|_| ()));
            if broken(Fault::LaneTrimTooEarly) {
                continue;
            }
            // SAFETY: unlinked, so we alone have it; it came from `Segment::allocate`.
            drop(unsafe { Box::from_raw(segment) });
        }
    }
}

impl<M> Drop for Lane<M> {
    fn drop(&mut self) {
        let mut segment = self.chain.with(|chain| {
            // SAFETY: `&mut self`: no producer, shard or trimmer is left.
            unsafe { (*chain).oldest }
        });
        while !segment.is_null() {
            // SAFETY: every segment of the chain came from `Segment::allocate` and is freed once, here.
            let owned = unsafe { Box::from_raw(segment) };
            // SAFETY: we own the segment. The newest one's `next` is null.
            segment = owned.next.with(|next| unsafe { *next });
        }
    }
}

impl<M: Copy> Producer<M> {
    /// Appends a message and publishes it. One look at the shard's line per segment.
    ///
    /// # Safety
    /// The lane is alive.
    #[inline]
    pub(super) unsafe fn push(&mut self, message: M) -> Sent {
        let position = (self.count - self.begin) as usize;
        // SAFETY: the producer's own segment is in the chain, behind the shard or where the shard is: it is alive.
        let Some(slot) = (unsafe { &(*self.segment).messages }).get(position) else {
            // SAFETY: the caller's promise. (A call in the last place needs no register to be saved here.)
            return unsafe { self.push_to_next_segment(message) };
        };
        // A reused segment lies in the shard's cache, and the full fences of the calls that follow wait for the stores before them: without this each would wait for the
        // line to come over.
        prefetch_to_write(self.segment.cast::<u8>().wrapping_add(size_of::<M>() * (position + AHEAD)));
        // SAFETY: P2. The slot is not published, so nobody reads it.
        slot.with_mut(|slot| unsafe { (*slot).write(message) });
        let sent = self.count as u32;
        self.count += 1;
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Release (P3). Pairs with the Acquire of D1 in `claim`; publishes the message and `next`.
        lane.tail.count.store(self.count, ordering(Ordering::Release, Fault::LanePublishRelaxed));
        if position + 1 < LEN {
            return Sent { position: sent, waiting: 0 };
        }
        // Ordering: Relaxed. A hint: a stale head asks for one ring too many.
        Sent { position: sent, waiting: self.count - lane.taken.head.load(Ordering::Relaxed) }
    }

    /// # Safety
    /// The lane is alive.
    #[cold]
    #[inline(never)]
    unsafe fn push_to_next_segment(&mut self, message: M) -> Sent {
        // SAFETY: the caller's promise.
        unsafe { self.next_segment() };
        // SAFETY: as above.
        unsafe { self.push(message) }
    }

    /// Appends a message that is in doubt (V1, V2, P1 to P3), after a `settle_doubts`. The shard is told the least word of the messages in doubt that lie around it.
    ///
    /// # Safety
    /// The lane is alive.
    #[inline]
    pub(super) unsafe fn push_in_doubt(&mut self, message: M, word: u64) -> Sent {
        if self.count - self.begin == LEN as u64 {
            // SAFETY: the caller's promise.
            unsafe { self.next_segment() };
        }
        self.doubted = self.doubted.min(self.count);
        let position = (self.count - self.begin) as usize;
        // SAFETY: the producer's own segment is alive.
        let segment = unsafe { &*self.segment };
        let (doubted, least) = (&segment.doubted[position / 64], &segment.doubt[position / 64]);
        // Ordering: Relaxed. The producer's own.
        let bits = doubted.load(Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        let before = if bits == 0 || broken(Fault::LaneDoubtNotLeast) { u64::MAX } else { least.load(Ordering::Relaxed) };
        // Ordering: Relaxed (V1). Published by P3.
        least.store(word.min(before), Ordering::Relaxed);
        if broken(Fault::LaneDoubtLate) {
            // SAFETY: the caller's promise.
            let sent = unsafe { self.push(message) };
            // Ordering: Relaxed. The broken variant.
            doubted.store(bits | 1 << (position % 64), Ordering::Relaxed);
            return sent;
        }
        // Ordering: Relaxed (V2). Published by P3.
        doubted.store(bits | 1 << (position % 64), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.push(message) }
    }

    /// What was sent in doubt since the last call stays so, or, if `vouched`, is in doubt no more (V3): as far as it lies in the newest segments. Returns whether there
    /// are messages that the shard has not read.
    ///
    /// # Safety
    /// The lane is alive.
    pub(super) unsafe fn settle_doubts(&mut self, vouched: bool) -> bool {
        let mut from = std::mem::replace(&mut self.doubted, u64::MAX).max(self.recent_begin);
        while vouched && from < self.count {
            // SAFETY: one of the newest segments: `trim` does not free it. (If this producer has used it again, it has later messages of these.)
            let segment = unsafe { &*self.recent[from as usize / LEN % RECENT] };
            let place = from as usize % LEN;
            let doubted = &segment.doubted[place / 64];
            // Ordering: Relaxed. The producer's own.
            let others = doubted.load(Ordering::Relaxed) & !(u64::MAX << (place % 64));
            // Ordering: Relaxed (V3). A shard that does not see it takes them for doubtful.
            doubted.store(others, Ordering::Relaxed);
            from += (LEN.min(place / 64 * 64 + 64) - place) as u64;
        }
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Acquire (V4). Pairs with the Release of D5: the shard has read the word that may be replaced from now on.
        let head = lane.taken.head.load(Ordering::Acquire);
        // SAFETY: the producer's own segment is alive.
        let segment = unsafe { &*self.segment };
        let group = (self.count - self.begin) / 64;
        if let Some(doubted) = segment.doubted.get(group as usize) {
            let read = head.saturating_sub(self.begin + 64 * group);
            // Ordering: Relaxed. The producer's own.
            let unread = doubted.load(Ordering::Relaxed) & u64::MAX << read;
            // Ordering: Relaxed. As above; what was read is not read again.
            doubted.store(unread, Ordering::Relaxed);
        }
        head < self.count
    }

    /// Messages that the shard has read, or more by now.
    ///
    /// # Safety
    /// The lane is alive.
    #[inline]
    pub(super) unsafe fn drained(&self) -> u64 {
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Relaxed. A hint.
        lane.taken.head.load(Ordering::Relaxed)
    }

    /// Takes a message back that was pushed here lately, and lies at this position, if the shard has not claimed it (Y1 to Y4). If so the shard does not get it, or, if its
    /// claim came just now, gets it and is told by its next drain (U1). If not, the shard gets it; or, if there was such a claim twice in a row, maybe not.
    ///
    /// # Safety
    /// The lane is alive.
    #[inline]
    pub(super) unsafe fn recall(&mut self, position: u32, message: M) -> bool
    where
        M: PartialEq,
    {
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Relaxed (Y1). Not older than what R2 saw: a segment that is used again has messages of other numbers.
        let claimed = lane.taken.claimed.load(Ordering::Relaxed);
        if claimed == u64::MAX {
            return false;
        }
        // How many came after it.
        let later = self.count.wrapping_add(!u64::from(position)) & ((1 << POSITION_BITS) - 1);
        if later >= self.count.saturating_sub(claimed.max(self.recent_begin)) {
            return false;
        }
        let number = self.count - 1 - later;
        // SAFETY: one of the newest segments: `trim` does not free it (R2), and this producer has not used it again, since the shard has not claimed its messages.
        let segment = unsafe { &*self.recent[number as usize / LEN % RECENT] };
        let place = number as usize % LEN;
        // SAFETY: written by this producer (or the lane's earlier ones), and not written again since.
        let there = segment.messages[place].with(|there| unsafe { *there });
        // SAFETY: as above.
        if unsafe { there.assume_init() } != message {
            return false;
        }
        let recalled = &segment.recalled[place / 64];
        // Ordering: Relaxed. The producer's own.
        let bits = recalled.load(Ordering::Relaxed) | 1 << (place % 64);
        // Ordering: Relaxed (Y2). Ordered by Y3.
        recalled.store(bits, Ordering::Relaxed);
        if !broken(Fault::LaneNoRecallFence) {
            // Ordering: light (Y3). Pairs with D3 in `Drain::drain`: either the shard sees the bit, or we see its claim.
            light_fence();
        }
        // Ordering: Relaxed (Y4). Ordered by Y3.
        number >= lane.taken.claimed.load(Ordering::Relaxed) || broken(Fault::LaneClaimIgnored) || self.leave_to_shard(number)
    }

    /// U1. Whether the shard will see to it.
    #[cold]
    #[inline(never)]
    fn leave_to_shard(&self, number: u64) -> bool {
        // SAFETY: the lane is alive: the caller's promise to `recall`.
        let tail = unsafe { &(*self.lane).tail };
        // Ordering: Relaxed. The shard's U3 comes before the claim that we have seen; if it is not seen, the caller sends what it would have sent.
        if !tail.unsure.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Ordering: Relaxed. Published by the next store.
        tail.unsure_number.store(number, Ordering::Relaxed);
        // Ordering: Release (U1). Pairs with the Acquire of U2.
        tail.unsure.store(self.recent[number as usize / LEN % RECENT], Ordering::Release);
        true
    }

    /// P1: links a reused or new segment behind the full one.
    ///
    /// # Safety
    /// The lane is alive.
    unsafe fn next_segment(&mut self) {
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Acquire. Pairs with the Release of U3: the shard has looked.
        let is_unsure = !lane.tail.unsure.load(Ordering::Acquire).is_null();
        // Ordering: Relaxed. This producer's own.
        let end = if is_unsure { lane.tail.unsure_number.load(Ordering::Relaxed) / LEN as u64 } else { u64::MAX };
        let segment = match lane.take_oldest(1, end) {
            Some(segment) => {
                // SAFETY: unlinked, so we alone have it.
                let reused = unsafe { &*segment };
                // SAFETY: as above.
                reused.next.with_mut(|next| unsafe { *next = ptr::null_mut() });
                // Ordering: Relaxed. The shard reads it after D1 of a message that comes after it.
                reused.recalled.iter().chain(&reused.skipped).for_each(|bits| bits.store(0, Ordering::Relaxed));
                if !broken(Fault::LaneDoubtKept) {
                    // Ordering: Relaxed. As above.
                    reused.doubted.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
                }
                segment
            }
            None => Segment::allocate(),
        };
        // SAFETY: `next` of the producer's segment is written once, here, and read after a later P3.
        unsafe { &*self.segment }.next.with_mut(|next| unsafe { *next = segment });
        self.segment = segment;
        self.begin = self.count;
        self.recent_begin = self.begin.saturating_sub(((RECENT - 1) * LEN) as u64);
        self.recent[self.begin as usize / LEN % RECENT] = segment;
    }
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;

    const SEGMENT: u64 = LEN as u64;

    struct Fixture {
        lane: Box<Lane<u64>>,
        producer: Producer<u64>,
        sent: u64,
        came: u64,
    }

    impl Fixture {
        fn new() -> Self {
            let (lane, mut producer) = Lane::new();
            producer.lane = &raw const *lane;
            Self { lane, producer, sent: 0, came: 0 }
        }

        /// Sends messages. What the last push said.
        fn send(&mut self, messages: u64) -> u64 {
            let mut waiting = 0;
            for _ in 0..messages {
                // SAFETY: the lane is alive.
                let sent = unsafe { self.producer.push(self.sent) };
                assert_eq!(u64::from(sent.position), self.sent);
                self.sent += 1;
                waiting = sent.waiting;
                assert!(waiting == 0 || self.sent.is_multiple_of(SEGMENT), "told at the end of a segment");
            }
            waiting
        }

        fn recall(&mut self, position: u64, message: u64) -> bool {
            // SAFETY: the lane is alive.
            unsafe { self.producer.recall(position as u32, message) }
        }

        fn claim(&mut self, may_recall: bool) {
            // SAFETY: there is one thread.
            unsafe { self.lane.claim(may_recall) }
        }

        /// What is claimed: the messages that come, and how many were recalled.
        fn read(&mut self) -> (Vec<u64>, u64) {
            let mut came = Vec::new();
            // SAFETY: there is one thread.
            let drained = unsafe { self.lane.drain(|message, _| came.push(message)) };
            assert_eq!(drained.messages, came.len() as u64 + drained.recalled);
            (came, drained.recalled)
        }

        fn drain(&mut self) -> u64 {
            let came = &mut self.came;
            let next = |message, told| {
                assert_eq!((message, told), (*came, Told::Came));
                *came += 1;
            };
            // SAFETY: there is one thread.
            unsafe { self.lane.claim(false) };
            // SAFETY: as above.
            let Drained { messages: drained, recalled } = unsafe { self.lane.drain(next) };
            assert_eq!((self.came, recalled), (self.sent, 0));
            // SAFETY: as above.
            assert!(!unsafe { self.lane.has_messages() });
            drained
        }

        fn segments(&self) -> usize {
            segments(&self.lane)
        }
    }

    /// Segments of a lane. The tests of this room have one thread.
    pub(in super::super) fn segments<M>(lane: &Lane<M>) -> usize {
        let mut segment = lane.chain.with(|chain| {
            // SAFETY: there is one thread.
            unsafe { (*chain).oldest }
        });
        let mut segments = 0;
        while !segment.is_null() {
            segments += 1;
            // SAFETY: the chain's segments are alive.
            segment = unsafe { &*segment }.next.with(|next| unsafe { *next });
        }
        segments
    }

    #[test]
    fn messages_come_once_and_in_order() {
        let mut fixture = Fixture::new();
        for messages in [1, 5, SEGMENT - 6, 1, SEGMENT, 3 * SEGMENT + 7, 2] {
            fixture.send(messages);
            assert_eq!(fixture.lane.depth(), messages);
            // SAFETY: there is one thread.
            assert!(unsafe { fixture.lane.has_messages() });
            assert_eq!((fixture.drain(), fixture.lane.depth(), fixture.drain()), (messages, 0, 0));
        }
    }

    #[test]
    fn a_full_segment_tells_how_many_wait() {
        let mut fixture = Fixture::new();
        assert_eq!((fixture.send(SEGMENT - 1), fixture.send(1), fixture.send(SEGMENT)), (0, SEGMENT, 2 * SEGMENT));
        fixture.drain();
        assert_eq!((fixture.send(7), fixture.send(SEGMENT - 7)), (0, SEGMENT));
    }

    /// The shard has to be beyond a segment: it comes back to the one that it has read to the end, for what lies behind.
    #[test]
    fn segments_are_used_again_when_the_shard_has_gone_beyond_them() {
        let mut fixture = Fixture::new();
        fixture.send(SEGMENT);
        fixture.drain();
        assert_eq!((fixture.lane.take_oldest(1, u64::MAX), fixture.segments()), (None, 1));
        fixture.send(1);
        assert_eq!((fixture.lane.take_oldest(1, u64::MAX), fixture.segments()), (None, 2));
        fixture.drain();
        for _ in 0..5 {
            fixture.send(SEGMENT);
            fixture.drain();
            assert_eq!(fixture.segments(), 2, "one to write, one that waits");
        }
        fixture.send(4 * SEGMENT);
        assert_eq!(fixture.segments(), 5);
        fixture.lane.trim();
        assert_eq!(fixture.segments(), 5, "nothing was read");
        fixture.drain();
        fixture.lane.trim();
        assert_eq!(fixture.segments(), 5, "messages of the newest might be recalled");
        fixture.send(10 * SEGMENT);
        fixture.drain();
        fixture.lane.trim();
        assert_eq!(fixture.segments(), RECENT);
        fixture.send(10);
        assert_eq!(fixture.drain(), 10);
    }

    /// Doubts, as a drain tells them: a message, and its word or a lesser one.
    fn doubts(fixture: &mut Fixture) -> Vec<(u64, u64)> {
        let mut doubts = Vec::new();
        fixture.claim(false);
        let doubtful = |message, told| match told {
            Told::InDoubt(word) => doubts.push((message, word)),
            _ => assert_eq!(told, Told::Came),
        };
        // SAFETY: there is one thread.
        unsafe { fixture.lane.drain(doubtful) };
        doubts
    }

    /// Sets of ten messages, of which a third is in doubt. A call vouches for the set before, or not.
    #[test]
    fn what_is_in_doubt_comes_with_a_word() {
        const SETS: u64 = 5 * SEGMENT / 10;
        let mut fixture = Fixture::new();
        let mut round = |vouched: &[u64]| {
            let first = fixture.sent;
            let is_vouched = |set: u64| vouched.contains(&(set % 4));
            for set in 0..SETS {
                // SAFETY: the lane is alive.
                assert_eq!(unsafe { fixture.producer.settle_doubts(is_vouched(set)) }, set > 0);
                for message in fixture.sent..fixture.sent + 10 {
                    let producer = &mut fixture.producer;
                    // SAFETY: the lane is alive.
                    let push_in_doubt = |producer: &mut Producer<u64>| unsafe { producer.push_in_doubt(message, 1_000 + message) };
                    // SAFETY: as above.
                    let push = |producer: &mut Producer<u64>| unsafe { producer.push(message) };
                    let sent = if message.is_multiple_of(3) { push_in_doubt(producer) } else { push(producer) };
                    assert_eq!(u64::from(sent.position), message);
                }
                fixture.sent += 10;
            }
            let doubts = doubts(&mut fixture);
            let is_doubted = |message: u64| {
                let next = (message - first) / 10 + 1;
                message.is_multiple_of(3) && (next == SETS || !is_vouched(next))
            };
            assert!(doubts.iter().map(|&(message, _)| message).eq((first..fixture.sent).filter(|&message| is_doubted(message))));
            for (message, word) in doubts {
                let around = (message / 64 * 64).max(first)..=message;
                assert!(around.contains(&(word - 1_000)), "message {message} with {word}");
            }
        };
        [&[][..], &[0, 1, 2, 3], &[1], &[0, 2], &[]].into_iter().for_each(&mut round);
        assert!(fixture.segments() <= 7, "they are used again");
    }

    #[test]
    fn the_word_of_what_was_read_is_not_heard_again() {
        let mut fixture = Fixture::new();
        // Beyond the first group, and in the last place of one.
        for (before, word) in [(0, 10), (70, 20), (57, 30), (63, 40), (1, 50)] {
            fixture.send(before);
            assert_eq!(doubts(&mut fixture), []);
            // SAFETY: the lane is alive.
            assert!(!unsafe { fixture.producer.settle_doubts(false) });
            // SAFETY: as above.
            unsafe { fixture.producer.push_in_doubt(fixture.sent, word) };
            fixture.sent += 1;
            assert_eq!(doubts(&mut fixture), [(fixture.sent - 1, word)]);
        }
    }

    #[test]
    fn what_was_recalled_does_not_come() {
        let mut fixture = Fixture::new();
        fixture.claim(true);
        let sent = 3 * SEGMENT + 70;
        fixture.send(sent);
        // Alone, beside each other, at the ends of words and segments, and the last.
        let recalled = [0, 1, 5, 62, 63, 64, 128, SEGMENT - 1, SEGMENT, SEGMENT + 63, 2 * SEGMENT - 1, 3 * SEGMENT, sent - 1];
        assert!(recalled.iter().all(|&message| fixture.recall(message, message)));
        assert!(fixture.recall(5, 5), "a second time: as before");
        fixture.claim(true);
        let (came, count) = fixture.read();
        assert!(came.iter().copied().eq((0..sent).filter(|message| !recalled.contains(message))));
        assert_eq!(count, recalled.len() as u64);
        // A whole word, in segments that are used again: nothing is left of their bits.
        for _ in 0..5 {
            let first = fixture.sent;
            fixture.send(SEGMENT);
            assert!((first + 100..first + 200).all(|message| fixture.recall(message, message)));
            fixture.claim(true);
            let (came, count) = fixture.read();
            assert!(came.into_iter().eq((first..first + 100).chain(first + 200..first + SEGMENT)));
            assert_eq!(count, 100);
        }
    }

    /// Neither trim nor the producer takes its segment away meanwhile.
    #[test]
    fn what_is_recalled_during_its_claim_is_left_to_the_shard() {
        let mut fixture = Fixture::new();
        let settle = |fixture: &Fixture| {
            let mut late = None;
            // SAFETY: there is one thread.
            unsafe { fixture.lane.settle(|message| late = Some(message)) };
            late
        };
        fixture.claim(true);
        fixture.send(4);
        fixture.claim(true);
        assert_eq!(settle(&fixture), None);
        // As if the claim had come between Y2 and Y4, and the shard had read what it claimed before the first, or before the second.
        assert!(fixture.producer.leave_to_shard(1) && !fixture.producer.leave_to_shard(2), "one at a time");
        assert_eq!(fixture.read(), (vec![0, 1, 2, 3], 0));
        let segments = RECENT as u64 + 5;
        fixture.send(segments * SEGMENT);
        fixture.claim(true);
        assert_eq!(fixture.read().0.len() as u64, segments * SEGMENT);
        fixture.lane.trim();
        fixture.send(2 * SEGMENT);
        assert_eq!(fixture.segments() as u64, segments + 3, "none was freed, or used again");
        assert_eq!((settle(&fixture), settle(&fixture)), (Some(1), None));
        fixture.claim(true);
        fixture.read();
        fixture.lane.trim();
        assert_eq!(fixture.segments(), RECENT);
        let message = fixture.sent;
        fixture.send(1);
        assert!(fixture.recall(message, message));
        fixture.claim(true);
        assert!(fixture.producer.leave_to_shard(message));
        assert_eq!(fixture.read(), (vec![], 1));
        assert_eq!(settle(&fixture), None, "it did not come");
    }

    #[test]
    fn only_what_is_there_and_not_claimed_is_recalled() {
        let mut fixture = Fixture::new();
        fixture.send(3);
        assert!(!fixture.recall(2, 2), "the shard does not let messages be recalled");
        fixture.claim(true);
        fixture.send(3);
        assert!(!fixture.recall(2, 2) && fixture.recall(3, 3), "three are claimed");
        assert!(!fixture.recall(4, 5) && !fixture.recall(6, 6), "another message, and none");
        // A position is the end of a number.
        assert!(!fixture.recall(1 << 20, 5) && fixture.recall((1 << POSITION_BITS) + 5, 5));
        fixture.claim(false);
        assert_eq!(fixture.read(), (vec![0, 1, 2, 4], 2));
        fixture.send(1);
        assert!(!fixture.recall(6, 6), "the shard does not let them any more");
        fixture.claim(true);
        assert_eq!(fixture.read(), (vec![6], 0));
        // Only in the newest segments.
        let first = fixture.sent;
        fixture.send(RECENT as u64 * SEGMENT);
        let oldest = fixture.sent / SEGMENT * SEGMENT - (RECENT as u64 - 1) * SEGMENT;
        assert!(first < oldest && !fixture.recall(oldest - 1, oldest - 1) && fixture.recall(oldest, oldest));
        fixture.claim(true);
        assert_eq!(fixture.read().1, 1);
    }

    #[test]
    fn one_at_a_time_is_at_the_chain() {
        let mut fixture = Fixture::new();
        fixture.send(SEGMENT + 1);
        fixture.drain();
        // Ordering: Relaxed. There is one thread.
        fixture.lane.busy.store(true, Ordering::Relaxed);
        assert_eq!(fixture.lane.take_oldest(1, u64::MAX), None);
        // Ordering: Relaxed. As above.
        fixture.lane.busy.store(false, Ordering::Relaxed);
        let taken = fixture.lane.take_oldest(1, u64::MAX).expect("the shard is beyond it");
        // SAFETY: unlinked, so we alone have it; it came from `Segment::allocate`.
        drop(unsafe { Box::from_raw(taken) });
        assert_eq!(fixture.segments(), 1);
        // Ordering: Relaxed. As above.
        assert!(!fixture.lane.busy.load(Ordering::Relaxed), "the chain is free again");
    }
}
