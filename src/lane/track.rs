//! Track: a queue from one producer to the shard, and the reuse of its segments.
//!
//! A lane has two tracks. The producer's thread and the shard touch a track. README.md of this room
//! says which of them touches what, and has the protocol and its proof. `producer.rs`,
//! `consumer.rs` and `ahead.rs` are the ends of a track. This file has the steps ReuseEnter to
//! ReuseLeave, and TrimLook.

use super::segment::{LEN, Segment};
use super::slab::free;
use crate::sync::{
    AtomicBool, AtomicPtr, AtomicU64, CountU64, Fault, Ordering, UnsafeCell, broken, ordering,
};
use crossbeam_utils::CachePadded;
use std::ptr;

/// The chain of a track's segments.
pub(super) struct Chain<M> {
    /// The oldest segment. Null until a segment was taken out; until then the oldest one is
    /// `first`.
    pub(super) oldest: *mut Segment<M>,
    /// Number of the oldest segment. Its first message has the number `index * LEN`.
    index: u64,
}

/// The part of a track that producer and shard share. README.md says which of them touches what.
pub(super) struct Track<M> {
    pub(super) tail: CachePadded<Tail<M>>,
    pub(super) taken: CachePadded<Taken>,
    /// Guards `chain`. A thread that finds it taken gives up, so no thread waits for it.
    pub(super) busy: AtomicBool,
    pub(super) chain: UnsafeCell<Chain<M>>,
    /// The first segment; null before the first push. The producer writes it once, before that
    /// push is published.
    pub(super) first: UnsafeCell<*mut Segment<M>>,
    /// The shard's own.
    pub(super) reader: UnsafeCell<Reader<M>>,
}

/// The words that the producer writes.
pub(super) struct Tail<M> {
    /// How many messages were ever published.
    pub(super) count: AtomicU64,
    /// How many messages the producer has recalled.
    pub(super) recalled: CountU64,
    /// The producer recalls a message: it may look into any segment that is not read.
    pub(super) looking: AtomicBool,
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
    /// How many messages the shard has read or passed over.
    pub(super) head: AtomicU64,
    /// How many messages the shard has looked at: their doubts are settled. At least `head`.
    pub(super) seen: AtomicU64,
}

/// Where the shard stands in the chain. Only the shard uses it.
pub(super) struct Reader<M> {
    pub(super) segment: *mut Segment<M>,
    /// The place of the next message in the segment.
    pub(super) position: usize,
    /// How many messages the shard has read or passed over.
    pub(super) count: u64,
    /// The end of what the shard may read.
    pub(super) claimed: u64,
    /// How many messages were published at the last DrainLoad.
    pub(super) published: u64,
    /// How many recalled messages the shard has passed over.
    pub(super) recalled: u64,
}

impl<M> Reader<M> {
    const fn new() -> Self {
        Self {
            segment: ptr::null_mut(),
            // The end of a segment: the next step is to enter the first one.
            position: LEN,
            count: 0,
            claimed: 0,
            published: 0,
            recalled: 0,
        }
    }

    /// At the end of a segment goes on to the next one (DrainRead). Then the reader's segment has
    /// the message at its position.
    ///
    /// # Safety
    /// The caller is the one consumer of this track, and a message at or beyond the position is
    /// published.
    #[inline]
    pub(super) unsafe fn enter(&mut self, track: &Track<M>) {
        if self.position == LEN {
            // SAFETY: the caller's promise.
            self.segment = unsafe { track.after(self.segment) };
            self.position = 0;
        }
    }
}

impl<M> Track<M> {
    /// The segment behind this one. Behind null, the first one.
    ///
    /// # Safety
    /// A message beyond this segment is published, and the segment is alive.
    #[cold]
    pub(super) unsafe fn after(&self, segment: *mut Segment<M>) -> *mut Segment<M> {
        // SAFETY: the caller's promise.
        let next = match unsafe { segment.as_ref() } {
            // SAFETY: written before the `tail` of the message beyond this segment.
            Some(segment) => segment.next.with(|next| unsafe { *next }),
            // SAFETY: as above.
            None => self.first.with(|first| unsafe { *first }),
        };
        debug_assert!(!next.is_null(), "a published message has a segment");
        next
    }

    pub(super) fn new() -> Self {
        Self {
            tail: CachePadded::new(Tail {
                count: AtomicU64::new(0),
                recalled: CountU64::new(0),
                looking: AtomicBool::new(false),
                unsure: AtomicPtr::new(ptr::null_mut()),
                unsure_number: AtomicU64::new(0),
            }),
            taken: CachePadded::new(Taken {
                claimed: AtomicU64::new(u64::MAX),
                head: AtomicU64::new(0),
                seen: AtomicU64::new(0),
            }),
            busy: AtomicBool::new(false),
            chain: UnsafeCell::new(Chain {
                oldest: ptr::null_mut(),
                index: 0,
            }),
            first: UnsafeCell::new(ptr::null_mut()),
            reader: UnsafeCell::new(Reader::new()),
        }
    }

    /// How many messages are published and not taken. For statistics.
    pub(super) fn depth(&self) -> u64 {
        // Ordering: Relaxed. Two looks at different instants: the first value may be the greater.
        let head = self.taken.head.load(Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.tail.count.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// How many messages the shard has looked at and not taken. For statistics.
    pub(super) fn waiting(&self) -> u64 {
        // Ordering: Relaxed. Two looks at different instants: the first value may be the greater.
        let head = self.taken.head.load(Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.taken.seen.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// How many messages are published. A hint.
    pub(super) fn published(&self) -> u64 {
        // Ordering: Relaxed. A hint.
        self.tail.count.load(Ordering::Relaxed)
    }

    /// Unlinks the oldest segment (ReuseEnter to ReuseLeave). Returns `None` if its number is not
    /// below `end`, if the shard is not at least `beyond` segments further on, or if another thread
    /// has `busy`.
    pub(super) fn take_oldest(&self, beyond: u64, end: u64) -> Option<*mut Segment<M>> {
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
        // Ordering: Acquire (ReuseCheck). Pairs with the Release of DrainRelease.
        let head = self.taken.head.load(Ordering::Acquire);
        let taken = self.chain.with_mut(|chain| {
            // SAFETY: this thread holds `busy`, which guards the chain.
            let chain = unsafe { &mut *chain };
            let read =
                (chain.index + beyond) * LEN as u64 + u64::from(!broken(Fault::LaneReuseTooEarly));
            if head < read || chain.index >= end {
                return None;
            }
            let segment = if chain.oldest.is_null() {
                // SAFETY: the shard has read a message, so it is written, and not written again.
                self.first.with(|first| unsafe { *first })
            } else {
                chain.oldest
            };
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

    /// Whether `trim` would free segments. Gives up, with `false`, if another thread has `busy`.
    pub(super) fn has_spare(&self, beyond: u64) -> bool {
        // Ordering: Acquire (ReuseEnter). As in `take_oldest`.
        if self
            .busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        // SAFETY: this thread holds `busy`, which guards the chain.
        let index = self.chain.with(|chain| unsafe { (*chain).index });
        // Ordering: Release (ReuseLeave). As in `take_oldest`.
        self.busy.store(false, Ordering::Release);
        // Ordering: Relaxed. The shard's own.
        self.taken.head.load(Ordering::Relaxed) > (index + beyond) * LEN as u64
    }

    /// Frees the segments that wait for reuse, except the newest `beyond`. `beyond` is at least
    /// `RECENT`, because the producer may vouch for messages there. Never waits. Costs at most one
    /// deallocation for each slab. If messages were passed over here (PassDead), the caller has
    /// passed a heavy fence since then.
    pub(super) fn trim(&self, beyond: u64) {
        // Ordering: Acquire (TrimLook). Pairs with the Release of RecallLeave: the producer's look
        // into the segments is over. A later recall sees the claim of what they held, because of
        // the heavy fence that followed that claim (DrainFence).
        if self.tail.looking.load(Ordering::Acquire) && !broken(Fault::LaneTrimUnderRecall) {
            return;
        }
        // Ordering: Relaxed. The shard sees all that the producer did before it published a message
        // that the shard has read, or before RecallLeave. This includes an UnsureName in a segment
        // that is old by now.
        if !self.tail.unsure.load(Ordering::Relaxed).is_null() {
            return;
        }
        let beyond = if broken(Fault::LaneTrimTooEarly) {
            1
        } else {
            beyond
        };
        while let Some(segment) = self.take_oldest(beyond, u64::MAX) {
            #[cfg(loom)]
            {
                // SAFETY: unlinked. loom does not notice an access to freed memory. These accesses
                // make it notice a thread that still uses the segment.
                let segment = unsafe { &*segment };
                segment
                    .messages
                    .iter()
                    .for_each(|slot| slot.with_mut(|_| ()));
                segment.alive.with_mut(|_| ());
            }
            if [
                Fault::LaneTrimTooEarly,
                Fault::LaneTrimUnderRecall,
                Fault::LaneTrimUnfenced,
            ]
            .into_iter()
            .any(broken)
            {
                continue;
            }
            // SAFETY: unlinked, so no other thread has it.
            unsafe { free(segment) };
        }
    }
}

impl<M> Drop for Track<M> {
    fn drop(&mut self) {
        let mut segment = self.chain.with(|chain| {
            // SAFETY: `&mut self`: neither producer nor shard is left.
            unsafe { (*chain).oldest }
        });
        if segment.is_null() {
            // SAFETY: as above.
            segment = self.first.with(|first| unsafe { *first });
        }
        while !segment.is_null() {
            // SAFETY: this thread owns the segment. The newest one's `next` is null.
            let next = unsafe { &*segment }.next.with(|next| unsafe { *next });
            // SAFETY: every segment of the chain is freed once, here.
            unsafe { free(segment) };
            segment = next;
        }
    }
}
