//! Lane: one producer's queue to one shard, in linked segments: what both share, and what becomes of segments. Protocol and proof: README.md of this room.

use super::consumer::Consumer;
use super::producer::Producer;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Fault, Ordering, UnsafeCell, broken, ordering};
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
pub(super) const RECENT: usize = 8;
#[cfg(loom)]
pub(super) const RECENT: usize = 3;

pub(super) struct Segment<M> {
    pub(super) next: UnsafeCell<*mut Segment<M>>,
    /// A bit for each message that was taken back. Written by the producer alone.
    pub(super) recalled: [AtomicU64; LEN.div_ceil(64)],
    /// A bit for each message that is in doubt, and for 64 of them the producer's least word. Written by the producer alone.
    pub(super) doubted: [AtomicU64; LEN.div_ceil(64)],
    pub(super) doubt: [AtomicU64; LEN.div_ceil(64)],
    pub(super) messages: [UnsafeCell<MaybeUninit<M>>; LEN],
    /// The bits of `recalled` that the shard has seen, and skipped the messages. Written by the shard; cleared by the producer when the segment is used again.
    pub(super) skipped: [AtomicU64; LEN.div_ceil(64)],
}

impl<M> Segment<M> {
    pub(super) fn allocate() -> *mut Self {
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
pub(super) struct Chain<M> {
    pub(super) oldest: *mut Segment<M>,
    /// Number of the oldest segment: its first message is number `index * LEN`.
    index: u64,
}

/// What producer and shard share of a lane. See the README for who touches what.
pub(super) struct Lane<M> {
    pub(super) tail: CachePadded<Tail<M>>,
    pub(super) taken: CachePadded<Taken>,
    pub(super) busy: AtomicBool,
    pub(super) chain: UnsafeCell<Chain<M>>,
    pub(super) consumer: UnsafeCell<Consumer<M>>,
    /// Next lane of the inbox; written before the lane is published, never after.
    pub(super) next: *const Lane<M>,
}

/// What the producer writes.
pub(super) struct Tail<M> {
    /// Messages ever published.
    pub(super) count: AtomicU64,
    /// The segment of a message that was recalled while the shard claimed it, for the shard to see to; or null. The shard sets it back.
    pub(super) unsure: AtomicPtr<Segment<M>>,
    /// The number of that message.
    pub(super) unsure_number: AtomicU64,
}

/// What the shard writes.
pub(super) struct Taken {
    /// Messages that it has claimed: earlier ones are not recalled any more. `MAX`: later ones neither.
    pub(super) claimed: AtomicU64,
    /// Messages that it has read.
    pub(super) head: AtomicU64,
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
            consumer: UnsafeCell::new(Consumer::new(segment)),
            next: ptr::null(),
        });
        (lane, Producer::new(segment))
    }

    /// Messages that are published and not drained, for statistics.
    pub(super) fn depth(&self) -> u64 {
        // Ordering: Relaxed. Two looks of a snapshot: what comes between them may make the first one the greater.
        let head = self.taken.head.load(Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.tail.count.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// Unlinks the oldest segment if its number is below `end`, the shard is so many segments beyond it, and nobody else is at the chain (R1 to R4).
    pub(super) fn take_oldest(&self, beyond: usize, end: u64) -> Option<*mut Segment<M>> {
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
