//! The producer's end of a lane: push, also in doubt, and recall.
//!
//! One thread at a time has it, in a `Sender`. It has the steps PushLink to PushPublish,
//! RecallCheck to RecallConfirm, UnsureName, and DoubtWord to DoubtExpire. Protocol and proof:
//! README.md of this room.

use super::segment::{LEN, RECENT, Segment};
use super::shared::Lane;
use crate::mem::prefetch_to_write;
use crate::sync::{Fault, Ordering, broken, light_fence, ordering};
use std::ptr;

/// A position has this many low bits of a message's number.
pub(crate) const POSITION_BITS: u32 = 24;

/// Prefetch distance, in messages.
const AHEAD: usize = 16;

/// The producer's end. It moves from thread to thread, and one thread at a time has it.
pub(super) struct Producer<M> {
    pub(super) lane: *const Lane<M>,
    segment: *mut Segment<M>,
    /// Number of the segment's first message.
    begin: u64,
    /// How many messages were ever published.
    count: u64,
    /// Number of the first message that lies in the newest segments.
    recent_begin: u64,
    /// The newest segments. Segment number `i` is at `i % RECENT`.
    recent: [*mut Segment<M>; RECENT],
    /// Number of the first message that was sent in doubt since the last `settle_doubts`, or `MAX`.
    doubted: u64,
}

// SAFETY: a lane has one producer, and what it points to lives as long as the inbox (see `Sender`).
unsafe impl<M: Send> Send for Producer<M> {}

/// A message that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Where it lies, for a recall: the low bits of its number.
    pub(crate) position: u32,
    /// How many messages wait for the shard, if it was the last of its segment; else 0.
    pub(crate) waiting: u64,
}

impl<M: Copy> Producer<M> {
    pub(super) fn new(segment: *mut Segment<M>) -> Self {
        Self {
            lane: ptr::null(),
            segment,
            begin: 0,
            count: 0,
            recent_begin: 0,
            recent: [segment; RECENT],
            doubted: u64::MAX,
        }
    }

    /// Appends a message and publishes it (PushLink to PushPublish). Looks at the shard's cache
    /// line once per segment.
    ///
    /// # Safety
    /// The lane is alive.
    #[inline]
    pub(super) unsafe fn push(&mut self, message: M) -> Sent {
        let position = (self.count - self.begin) as usize;
        // SAFETY: the producer's own segment is in the chain, at the shard's segment or behind it:
        // it is alive.
        let messages = unsafe { &(*self.segment).messages };
        let Some(slot) = messages.get(position) else {
            // SAFETY: the caller's promise. (As a tail call it needs no saved registers.)
            return unsafe { self.push_to_next_segment(message) };
        };
        // A reused segment lies in the shard's cache, and a later full fence of the caller waits
        // for this store. Without the prefetch it would wait for the cache line to come over.
        prefetch_to_write(messages.as_ptr().wrapping_add(position + AHEAD));
        // SAFETY: PushWrite. The message is not published, so no thread reads it.
        slot.with_mut(|slot| unsafe { (*slot).write(message) });
        let sent = self.count as u32;
        self.count += 1;
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Release (PushPublish). Pairs with the Acquire of DrainLoad in `claim`;
        // publishes the message and `next`.
        lane.tail.count.store(
            self.count,
            ordering(Ordering::Release, Fault::LanePublishRelaxed),
        );
        if position + 1 < LEN {
            return Sent {
                position: sent,
                waiting: 0,
            };
        }
        // Ordering: Relaxed. A hint: an old `head` costs one ring too many.
        Sent {
            position: sent,
            waiting: self.count - lane.taken.head.load(Ordering::Relaxed),
        }
    }

    /// `push` at the end of a segment (PushLink).
    ///
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

    /// Appends a message that is in doubt (PushLink, DoubtWord, DoubtMark, PushWrite, PushPublish),
    /// after a `settle_doubts`. The shard gets the least word of the messages in doubt in its
    /// group.
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
        let (doubted, least) = (
            &segment.doubted[position / 64],
            &segment.doubt[position / 64],
        );
        // Ordering: Relaxed. The producer's own.
        let bits = doubted.load(Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        let before = if bits == 0 || broken(Fault::LaneDoubtNotLeast) {
            u64::MAX
        } else {
            least.load(Ordering::Relaxed)
        };
        // Ordering: Relaxed (DoubtWord). Published by PushPublish.
        least.store(word.min(before), Ordering::Relaxed);
        if broken(Fault::LaneDoubtLate) {
            // SAFETY: the caller's promise.
            let sent = unsafe { self.push(message) };
            // Ordering: Relaxed. The broken variant.
            doubted.store(bits | 1 << (position % 64), Ordering::Relaxed);
            return sent;
        }
        // Ordering: Relaxed (DoubtMark). Published by PushPublish.
        doubted.store(bits | 1 << (position % 64), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.push(message) }
    }

    /// Settles the messages sent in doubt since the last call. If `vouched`, the messages in the
    /// newest segments are in doubt no more (DoubtVouch); else all stay in doubt. Forgets the words
    /// of messages that were read (DoubtExpire). Returns whether there are unread messages.
    ///
    /// # Safety
    /// The lane is alive.
    pub(super) unsafe fn settle_doubts(&mut self, vouched: bool) -> bool {
        let next = if broken(Fault::LaneDoubtsLeftOpen) {
            self.doubted
        } else {
            u64::MAX
        };
        let mut from = std::mem::replace(&mut self.doubted, next).max(self.recent_begin);
        while vouched && from < self.count {
            // SAFETY: `recent` has the newest segments, which `trim` does not free. (A segment that
            // this producer has reused holds later messages of this range.)
            let segment = unsafe { &*self.recent[from as usize / LEN % RECENT] };
            let place = from as usize % LEN;
            let doubted = &segment.doubted[place / 64];
            // Ordering: Relaxed. The producer's own.
            let others = doubted.load(Ordering::Relaxed) & !(u64::MAX << (place % 64));
            // Ordering: Relaxed (DoubtVouch). If the shard does not see it, the messages are in
            // doubt for it.
            doubted.store(others, Ordering::Relaxed);
            from += (LEN.min(place / 64 * 64 + 64) - place) as u64;
        }
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Acquire (DoubtExpire). Pairs with the Release of DrainRelease: the shard has
        // read the word, and the producer may replace it from now on.
        let head = lane.taken.head.load(Ordering::Acquire);
        // SAFETY: the producer's own segment is alive.
        let segment = unsafe { &*self.segment };
        let group = (self.count - self.begin) / 64;
        if let Some(doubted) = segment.doubted.get(group as usize) {
            let read = head.saturating_sub(self.begin + 64 * group);
            // Ordering: Relaxed. The producer's own.
            let unread = doubted.load(Ordering::Relaxed) & u64::MAX << read;
            // Ordering: Relaxed. As above; the shard does not read these messages again.
            doubted.store(unread, Ordering::Relaxed);
        }
        head < self.count
    }

    /// How many messages the shard has read: a hint, it may be more by now.
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

    /// Recalls a message that was pushed lately and lies at this position, if the shard has not
    /// claimed it (RecallCheck to RecallConfirm).
    ///
    /// `true`: the shard does not get it; or the shard claimed it at this moment, and its next
    /// drain reports it as recalled (UnsureName). `false`: the shard gets it; or, if claims met two
    /// recalls in a row, it may not get it.
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
        // Ordering: Relaxed (RecallCheck). Not older than what ReuseCheck saw, so it excludes the
        // old numbers of a reused segment.
        let claimed = lane.taken.claimed.load(Ordering::Relaxed);
        if claimed == u64::MAX {
            return false;
        }
        // How many messages came after it.
        let later = self.count.wrapping_add(!u64::from(position)) & ((1 << POSITION_BITS) - 1);
        if later >= self.count.saturating_sub(claimed.max(self.recent_begin)) {
            return false;
        }
        let number = self.count - 1 - later;
        // SAFETY: one of the newest segments: `trim` does not free it (ReuseCheck), and this
        // producer has not reused it, because the shard has not claimed its messages.
        let segment = unsafe { &*self.recent[number as usize / LEN % RECENT] };
        let place = number as usize % LEN;
        // SAFETY: this producer wrote it, on this thread or an earlier one, and has not written it
        // again.
        let there = segment.messages[place].with(|there| unsafe { *there });
        // SAFETY: as above.
        if unsafe { there.assume_init() } != message {
            return false;
        }
        let recalled = &segment.recalled[place / 64];
        // Ordering: Relaxed. The producer's own.
        let bits = recalled.load(Ordering::Relaxed) | 1 << (place % 64);
        // Ordering: Relaxed (RecallMark). Ordered by RecallFence.
        recalled.store(bits, Ordering::Relaxed);
        if !broken(Fault::LaneNoRecallFence) {
            // Ordering: light (RecallFence). Pairs with DrainFence in `Drain::drain`: the shard
            // sees the bit, or this thread sees its claim.
            light_fence();
        }
        // Ordering: Relaxed (RecallConfirm). Ordered by RecallFence.
        number >= lane.taken.claimed.load(Ordering::Relaxed)
            || broken(Fault::LaneClaimIgnored)
            || self.leave_to_shard(number)
    }

    /// UnsureName. Whether the shard will settle it.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_to_shard(&self, number: u64) -> bool {
        // SAFETY: the lane is alive: the caller's promise to `recall`.
        let tail = unsafe { &(*self.lane).tail };
        // Ordering: Relaxed. The shard's UnsureClear comes before the claim that this thread has
        // seen. If it is not visible here, the recall fails, and the caller sends its tombstone.
        if !tail.unsure.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Ordering: Relaxed. Published by the next store.
        tail.unsure_number.store(number, Ordering::Relaxed);
        // Ordering: Release (UnsureName). Pairs with the Acquire of UnsureSettle; publishes the
        // number and the bit.
        tail.unsure.store(
            self.recent[number as usize / LEN % RECENT],
            Ordering::Release,
        );
        true
    }

    /// PushLink: links a reused or new segment behind the full one.
    ///
    /// # Safety
    /// The lane is alive.
    unsafe fn next_segment(&mut self) {
        // SAFETY: the caller's promise.
        let lane = unsafe { &*self.lane };
        // Ordering: Acquire. Pairs with the Release of UnsureClear: the shard has looked at the
        // message.
        let is_unsure = !lane.tail.unsure.load(Ordering::Acquire).is_null()
            && !broken(Fault::LaneReuseUnsettled);
        // Ordering: Relaxed. The producer's own.
        let end = if is_unsure {
            lane.tail.unsure_number.load(Ordering::Relaxed) / LEN as u64
        } else {
            u64::MAX
        };
        let segment = match lane.take_oldest(1, end) {
            // PushReuse.
            Some(segment) => {
                // SAFETY: unlinked, so no other thread has it.
                let reused = unsafe { &*segment };
                // SAFETY: as above.
                reused
                    .next
                    .with_mut(|next| unsafe { *next = ptr::null_mut() });
                reused.clear();
                segment
            }
            // PushAllocate.
            None => Segment::allocate(),
        };
        // SAFETY: PushLink. `next` of the producer's segment is written once, here, and read after
        // a later PushPublish.
        unsafe { &*self.segment }
            .next
            .with_mut(|next| unsafe { *next = segment });
        self.segment = segment;
        self.begin = self.count;
        self.recent_begin = self.begin.saturating_sub(((RECENT - 1) * LEN) as u64);
        self.recent[self.begin as usize / LEN % RECENT] = segment;
    }
}
