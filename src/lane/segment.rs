//! Lane: one producer's queue to one shard, in linked segments. Protocol and proof: README.md of this room.

use crate::mem::prefetch_to_write;
use crate::sync::{AtomicBool, AtomicU64, Fault, Ordering, UnsafeCell, broken, ordering};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;
use std::ptr;

/// Messages in a segment: with 16-byte messages it is a page of memory.
#[cfg(not(loom))]
pub(super) const LEN: usize = 255;
#[cfg(loom)]
pub(super) const LEN: usize = 2;

/// Slots that the producer asks for ahead of its writes.
const AHEAD: usize = 16;

pub(super) struct Segment<M> {
    next: UnsafeCell<*mut Segment<M>>,
    messages: [UnsafeCell<MaybeUninit<M>>; LEN],
}

impl<M> Segment<M> {
    fn allocate() -> *mut Self {
        Box::into_raw(Box::new(Self {
            next: UnsafeCell::new(ptr::null_mut()),
            messages: std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
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
    tail: CachePadded<AtomicU64>,
    head: CachePadded<AtomicU64>,
    busy: AtomicBool,
    chain: UnsafeCell<Chain<M>>,
    consumer: UnsafeCell<Consumer<M>>,
    /// Next lane of the inbox; written before the lane is published, never after.
    pub(super) next: *const Lane<M>,
}

/// The producer's end: moves from thread to thread, but only one has it.
pub(super) struct Producer<M> {
    pub(super) lane: *const Lane<M>,
    segment: *mut Segment<M>,
    /// Number of the segment's first message.
    begin: u64,
    /// Messages ever published.
    count: u64,
}

// SAFETY: a producer is the only one of its lane, and what it points to lives as long as the inbox (see `Sender`).
unsafe impl<M: Send> Send for Producer<M> {}

/// The shard's end.
struct Consumer<M> {
    segment: *mut Segment<M>,
    position: usize,
    count: u64,
}

impl<M: Copy> Lane<M> {
    pub(super) fn new() -> (Box<Self>, Producer<M>) {
        let segment = Segment::allocate();
        let lane = Box::new(Self {
            tail: CachePadded::new(AtomicU64::new(0)),
            head: CachePadded::new(AtomicU64::new(0)),
            busy: AtomicBool::new(false),
            chain: UnsafeCell::new(Chain { oldest: segment, index: 0 }),
            consumer: UnsafeCell::new(Consumer { segment, position: 0, count: 0 }),
            next: ptr::null(),
        });
        let producer = Producer { lane: ptr::null(), segment, begin: 0, count: 0 };
        (lane, producer)
    }

    /// Gives `f` every message published so far, oldest first. Returns how many.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane.
    pub(super) unsafe fn drain(&self, mut f: impl FnMut(M)) -> u64 {
        // Ordering: Acquire (D1). Pairs with the Release in `Producer::push`; publishes the messages below it.
        let tail = self.tail.load(Ordering::Acquire);
        self.consumer.with_mut(|consumer| {
            // SAFETY: one consumer (the caller's promise), and `f` has no way to this cell.
            let consumer = unsafe { &mut *consumer };
            let drained = tail - consumer.count;
            if drained == 0 {
                return 0;
            }
            while consumer.count < tail {
                if consumer.position == LEN {
                    // SAFETY: D2. There is a message beyond this segment, so its `next` was written before `tail`.
                    consumer.segment = unsafe { &*consumer.segment }.next.with(|next| unsafe { *next });
                    consumer.position = 0;
                    debug_assert!(!consumer.segment.is_null(), "a published message has a segment");
                }
                // SAFETY: the shard's own segment is not reused (R2), so it is alive.
                let slot = unsafe { &(*consumer.segment).messages[consumer.position] };
                // SAFETY: D2. Message number `count` is below `tail`, so it is not written again before D3.
                let message = slot.with(|message| unsafe { *message });
                // SAFETY: as above, and it was written.
                let message = unsafe { message.assume_init() };
                consumer.position += 1;
                consumer.count += 1;
                f(message);
            }
            // Ordering: Release (D3). Pairs with the Acquire in `take_oldest`; our reads come before the reuse.
            self.head.store(consumer.count, ordering(Ordering::Release, Fault::LaneRecycleRelaxed));
            drained
        })
    }

    /// Messages that are published and not drained, for statistics.
    pub(super) fn depth(&self) -> u64 {
        // Ordering: Relaxed. Two looks of a snapshot: what comes between them may make the first one the greater.
        let head = self.head.load(Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.tail.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// Whether something is published that was not drained.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane.
    pub(super) unsafe fn has_messages(&self) -> bool {
        // SAFETY: one consumer (the caller's promise).
        let count = self.consumer.with(|consumer| unsafe { (*consumer).count });
        // Ordering: Relaxed. Ordered by the doorbell's fence where it matters; otherwise a hint.
        self.tail.load(Ordering::Relaxed) != count
    }

    /// Unlinks the oldest segment if the shard has left it and nobody else is at the chain (R1 to R4).
    fn take_oldest(&self) -> Option<*mut Segment<M>> {
        // Ordering: Acquire (R1). Pairs with the Release of R4; the chain as the other side left it.
        if self.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() && !broken(Fault::LaneBusyIgnored) {
            return None;
        }
        // Ordering: Acquire (R2). Pairs with the Release of D3 in `drain`.
        let head = self.head.load(Ordering::Acquire);
        let taken = self.chain.with_mut(|chain| {
            // SAFETY: we hold `busy`, which guards the chain.
            let chain = unsafe { &mut *chain };
            let beyond = (chain.index + 1) * LEN as u64 + u64::from(!broken(Fault::LaneReuseTooEarly));
            if head < beyond {
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

    /// Frees the segments that wait for reuse. For idle times: never waits, costs a deallocation each.
    pub(super) fn trim(&self) {
        while let Some(segment) = self.take_oldest() {
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
    /// Appends a message and publishes it. Returns how many wait, if it was a segment's last; else 0. One look at the shard's line per segment.
    ///
    /// # Safety
    /// The lane is alive.
    #[inline]
    pub(super) unsafe fn push(&mut self, message: M) -> u64 {
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
        self.count += 1;
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Release (P3). Pairs with the Acquire of D1 in `drain`; publishes the message and `next`.
        lane.tail.store(self.count, ordering(Ordering::Release, Fault::LanePublishRelaxed));
        if position + 1 < LEN {
            return 0;
        }
        // Ordering: Relaxed. A hint: a stale head asks for one ring too many.
        self.count - lane.head.load(Ordering::Relaxed)
    }

    /// # Safety
    /// The lane is alive.
    #[cold]
    #[inline(never)]
    unsafe fn push_to_next_segment(&mut self, message: M) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.next_segment() };
        // SAFETY: as above.
        unsafe { self.push(message) }
    }

    /// P1: links a reused or new segment behind the full one.
    ///
    /// # Safety
    /// The lane is alive.
    unsafe fn next_segment(&mut self) {
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        let segment = match lane.take_oldest() {
            Some(segment) => {
                // SAFETY: unlinked, so we alone have it.
                unsafe { &*segment }.next.with_mut(|next| unsafe { *next = ptr::null_mut() });
                segment
            }
            None => Segment::allocate(),
        };
        // SAFETY: `next` of the producer's segment is written once, here, and read after a later P3.
        unsafe { &*self.segment }.next.with_mut(|next| unsafe { *next = segment });
        self.segment = segment;
        self.begin = self.count;
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
                waiting = unsafe { self.producer.push(self.sent) };
                self.sent += 1;
                assert!(waiting == 0 || self.sent.is_multiple_of(SEGMENT), "told at the end of a segment");
            }
            waiting
        }

        fn drain(&mut self) -> u64 {
            let came = &mut self.came;
            let next = |message| {
                assert_eq!(message, *came);
                *came += 1;
            };
            // SAFETY: there is one thread.
            let drained = unsafe { self.lane.drain(next) };
            assert_eq!(self.came, self.sent);
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
        assert_eq!((fixture.lane.take_oldest(), fixture.segments()), (None, 1));
        fixture.send(1);
        assert_eq!((fixture.lane.take_oldest(), fixture.segments()), (None, 2));
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
        assert_eq!(fixture.segments(), 1);
        fixture.send(10);
        assert_eq!(fixture.drain(), 10);
    }

    #[test]
    fn one_at_a_time_is_at_the_chain() {
        let mut fixture = Fixture::new();
        fixture.send(SEGMENT + 1);
        fixture.drain();
        // Ordering: Relaxed. There is one thread.
        fixture.lane.busy.store(true, Ordering::Relaxed);
        assert_eq!(fixture.lane.take_oldest(), None);
        // Ordering: Relaxed. As above.
        fixture.lane.busy.store(false, Ordering::Relaxed);
        fixture.lane.trim();
        assert_eq!(fixture.segments(), 1);
        // Ordering: Relaxed. As above.
        assert!(!fixture.lane.busy.load(Ordering::Relaxed), "the chain is free again");
    }
}
