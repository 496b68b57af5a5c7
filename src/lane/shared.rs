//! Shared: what both ends of a lane lean on, and the reuse of segments.
//!
//! The inbox owns the lanes. The producer's thread and the shard touch a lane; README.md of this
//! room says who touches what. `producer.rs` and `consumer.rs` are its ends. This file has the
//! steps ReuseEnter to ReuseLeave. Protocol and proof: README.md.

use super::segment::{LEN, RECENT, Segment};
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU64, Fault, Ordering, UnsafeCell, broken, ordering,
};
use crossbeam_utils::CachePadded;
use std::ptr;

/// The chain of a lane's segments.
pub(super) struct Chain<M> {
    pub(super) oldest: *mut Segment<M>,
    /// Number of the oldest segment. Its first message has the number `index * LEN`.
    index: u64,
}

/// The part of a lane that producer and shard share. README.md says who touches what.
pub(super) struct Lane<M> {
    pub(super) tail: CachePadded<Tail<M>>,
    pub(super) taken: CachePadded<Taken>,
    /// Guards `chain`: tried once, never waited for.
    pub(super) busy: AtomicBool,
    pub(super) chain: UnsafeCell<Chain<M>>,
    /// The shard's own.
    pub(super) reader: UnsafeCell<Reader<M>>,
    /// The next lane of the inbox. Written before the lane is published, never after.
    pub(super) next: *const Lane<M>,
}

/// The words that the producer writes.
pub(super) struct Tail<M> {
    /// How many messages were ever published.
    pub(super) count: AtomicU64,
    /// The segment of a message that was recalled while the shard claimed it, or null. The shard
    /// settles it and sets this to null.
    pub(super) unsure: AtomicPtr<Segment<M>>,
    /// The number of that message.
    pub(super) unsure_number: AtomicU64,
}

/// The words that the shard writes.
pub(super) struct Taken {
    /// Messages with lower numbers are claimed: they cannot be recalled any more. `MAX`: later
    /// messages cannot be recalled either.
    pub(super) claimed: AtomicU64,
    /// How many messages the shard has read.
    pub(super) head: AtomicU64,
}

/// Where the shard stands in the chain. Only the shard uses it.
pub(super) struct Reader<M> {
    pub(super) segment: *mut Segment<M>,
    /// The place of the next message in the segment.
    pub(super) position: usize,
    /// How many messages the shard has read.
    pub(super) count: u64,
    /// The end of what the shard may read.
    pub(super) claimed: u64,
}

impl<M: Copy> Lane<M> {
    /// A lane, and its first segment for its producer.
    pub(super) fn new() -> (Box<Self>, *mut Segment<M>) {
        let segment = Segment::allocate();
        let lane = Box::new(Self {
            tail: CachePadded::new(Tail {
                count: AtomicU64::new(0),
                unsure: AtomicPtr::new(ptr::null_mut()),
                unsure_number: AtomicU64::new(0),
            }),
            taken: CachePadded::new(Taken {
                claimed: AtomicU64::new(u64::MAX),
                head: AtomicU64::new(0),
            }),
            busy: AtomicBool::new(false),
            chain: UnsafeCell::new(Chain {
                oldest: segment,
                index: 0,
            }),
            reader: UnsafeCell::new(Reader {
                segment,
                position: 0,
                count: 0,
                claimed: 0,
            }),
            next: ptr::null(),
        });
        (lane, segment)
    }

    /// How many messages are published and not drained. For statistics.
    pub(super) fn depth(&self) -> u64 {
        // Ordering: Relaxed. Two looks at different instants: the first value may be the greater.
        let head = self.taken.head.load(Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.tail.count.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// Unlinks the oldest segment (ReuseEnter to ReuseLeave). `None` if its number is not below
    /// `end`, if the shard is not `beyond` segments further, or if another thread has `busy`.
    pub(super) fn take_oldest(&self, beyond: usize, end: u64) -> Option<*mut Segment<M>> {
        // Ordering: Acquire (ReuseEnter). Pairs with the Release of ReuseLeave; publishes the chain
        // as the other side left it.
        if self
            .busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
            && !broken(Fault::LaneBusyIgnored)
        {
            return None;
        }
        // Ordering: Acquire (ReuseCheck). Pairs with the Release of DrainRelease in `drain`.
        let head = self.taken.head.load(Ordering::Acquire);
        let taken = self.chain.with_mut(|chain| {
            // SAFETY: this thread holds `busy`, which guards the chain.
            let chain = unsafe { &mut *chain };
            let read = (chain.index + beyond as u64) * LEN as u64
                + u64::from(!broken(Fault::LaneReuseTooEarly));
            if head < read || chain.index >= end {
                return None;
            }
            let segment = chain.oldest;
            debug_assert!(!segment.is_null(), "the shard is beyond this segment");
            // SAFETY: ReuseUnlink. The shard has gone beyond this segment, so `next` was written,
            // and no thread writes it now.
            chain.oldest = unsafe { &*segment }.next.with(|next| unsafe { *next });
            chain.index += 1;
            Some(segment)
        });
        // Ordering: Release (ReuseLeave). Pairs with the Acquire of ReuseEnter; publishes the
        // chain.
        self.busy
            .store(false, ordering(Ordering::Release, Fault::LaneBusyRelaxed));
        taken
    }

    /// Frees the segments that wait for reuse, except the newest `RECENT`, which the producer may
    /// look into. For idle times: never waits, costs one deallocation per segment.
    pub(super) fn trim(&self) {
        // Ordering: Relaxed. The shard sees all that the producer did before it published a message
        // that the shard has read. This includes an UnsureName in a segment that is old by now.
        if !self.tail.unsure.load(Ordering::Relaxed).is_null() {
            return;
        }
        let beyond = if broken(Fault::LaneTrimTooEarly) {
            1
        } else {
            RECENT
        };
        while let Some(segment) = self.take_oldest(beyond, u64::MAX) {
            #[cfg(loom)]
            // SAFETY: unlinked. loom does not notice a read of freed memory. This access makes it
            // notice a thread that still reads the segment.
            unsafe { &*segment }
                .messages
                .iter()
                .for_each(|slot| slot.with_mut(|_| ()));
            if broken(Fault::LaneTrimTooEarly) {
                continue;
            }
            // SAFETY: unlinked, so no other thread has it; it came from `Segment::allocate`.
            drop(unsafe { Box::from_raw(segment) });
        }
    }
}

impl<M> Drop for Lane<M> {
    fn drop(&mut self) {
        let mut segment = self.chain.with(|chain| {
            // SAFETY: `&mut self`: neither producer nor shard is left.
            unsafe { (*chain).oldest }
        });
        while !segment.is_null() {
            // SAFETY: every segment of the chain came from `Segment::allocate` and is freed once,
            // here.
            let owned = unsafe { Box::from_raw(segment) };
            // SAFETY: this thread owns the segment. The newest one's `next` is null.
            segment = owned.next.with(|next| unsafe { *next });
        }
    }
}
