//! The producer's end of a track: push, also in doubt, and recall.
//!
//! One thread at a time has the producer, in a `Sender`. This file has the steps PushLink to
//! PushPublish, RecallEnter to RecallLeave, UnsureName, and DoubtWord to DoubtExpire. README.md of
//! this room has the protocol and its proof.

use super::directory::Directory;
use super::segment::{LEN, RECENT, Segment};
use super::slab::{SegmentSlabs, free};
use super::track::Track;
use crate::prefetch::prefetch_to_write;
use crate::sync::{Fault, Ordering, broken, light_fence_unless, ordering};
use std::ptr;

/// The most segments that a track keeps for reuse. There may be more for a while, because the
/// producer frees only one of the surplus each time it begins a segment.
const SPARE: u64 = if cfg!(loom) { 4 } else { 1024 };

/// Prefetch distance, in messages.
const AHEAD: usize = 16;

/// The producer's end of a track. It moves from thread to thread, and one thread at a time has it.
pub(super) struct Producer<M> {
    pub(super) track: *const Track<M>,
    /// Null before the first push.
    segment: *mut Segment<M>,
    /// Number of the segment's first message.
    begin: u64,
    /// How many messages were ever published.
    count: u64,
    /// Number of the first message that lies in the `RECENT` newest segments.
    recent_begin: u64,
    /// Finds the segments that the shard has not read to the end, and the newest ones.
    directory: Directory<M>,
    /// Number of the first message that was sent in doubt since the last `settle_doubts`, or `MAX`.
    doubted: u64,
    /// The least key of the segment's messages.
    least: u64,
    /// How many messages were recalled.
    recalled: u64,
    slabs: SegmentSlabs<M>,
}

// SAFETY: a track has one producer, and what it points to lives as long as the inbox (`Sender`).
unsafe impl<M: Send> Send for Producer<M> {}

/// A message that was pushed to a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pushed {
    /// The low bits of its number.
    pub(super) number: u32,
    /// How many messages the shard has not seen, if this message was the last one of its segment.
    /// Otherwise 0.
    pub(super) waiting: u64,
}

impl<M: Copy> Producer<M> {
    pub(super) fn new(track: *const Track<M>) -> Self {
        Self {
            track,
            segment: ptr::null_mut(),
            // The end of a segment: the first push makes one.
            begin: (LEN as u64).wrapping_neg(),
            count: 0,
            recent_begin: 0,
            directory: Directory::new(),
            doubted: u64::MAX,
            least: u64::MAX,
            recalled: 0,
            slabs: SegmentSlabs::new(),
        }
    }

    /// The place of the next message in the segment. `LEN` at the segment's end.
    #[inline]
    fn position(&self) -> usize {
        self.count.wrapping_sub(self.begin) as usize
    }

    /// Whether the next message is the last one of its segment, or needs another segment.
    #[inline]
    pub(super) fn is_at_edge(&self) -> bool {
        self.position() >= LEN - 1
    }

    /// Whether a key is less than those of the segment's messages.
    #[inline]
    pub(super) fn is_less(&self, key: u64) -> bool {
        key < self.least
    }

    /// Appends a message to a segment that has room, and publishes it (PushWrite, PushPublish).
    /// Returns the low bits of its number.
    ///
    /// # Safety
    /// The track is alive, and the producer's segment has room.
    #[inline]
    pub(super) unsafe fn push_inside(&mut self, message: M) -> u32 {
        let position = self.position();
        debug_assert!(position < LEN, "the segment has room");
        // SAFETY: the producer's own segment is in the chain, at the shard's segment or behind it:
        // it is alive.
        let messages = unsafe { &(*self.segment).messages };
        // A reused segment lies in the cache of the shard's core. Without the prefetch this store
        // would wait for the cache line, and a later full fence of the caller for this store.
        prefetch_to_write(messages.as_ptr().wrapping_add(position + AHEAD));
        // SAFETY: PushWrite. The message is not published, so no thread reads it.
        messages[position % LEN].with_mut(|slot| unsafe { (*slot).write(message) });
        let number = self.count as u32;
        self.count += 1;
        // SAFETY: the caller's promise.
        let track = unsafe { &*self.track };
        // Ordering: Release (PushPublish). Pairs with the Acquire of DrainLoad; publishes the
        // message and `next`.
        track.tail.count.store(
            self.count,
            ordering(Ordering::Release, Fault::LanePublishRelaxed),
        );
        number
    }

    /// Appends a message and publishes it (PushLink to PushPublish). Once per segment it reads the
    /// cache line that the shard writes to.
    ///
    /// # Safety
    /// The track is alive.
    #[inline]
    pub(super) unsafe fn push(&mut self, message: M) -> Pushed {
        if self.position() == LEN {
            // SAFETY: the caller's promise.
            unsafe { self.next_segment() };
        }
        // SAFETY: as above, and there is a segment with room.
        unsafe { self.push_with_room(message) }
    }

    /// `push` when the segment has room.
    ///
    /// # Safety
    /// The track is alive, and the producer's segment has room.
    #[inline]
    unsafe fn push_with_room(&mut self, message: M) -> Pushed {
        // SAFETY: the caller's promise.
        let number = unsafe { self.push_inside(message) };
        let waiting = if self.position() < LEN {
            0
        } else {
            // SAFETY: the caller's promise.
            let track = unsafe { &*self.track };
            // Ordering: Relaxed. A hint: an old `seen` costs one ring too many.
            self.count - track.taken.seen.load(Ordering::Relaxed)
        };
        Pushed { number, waiting }
    }

    /// Appends a message with a key (PushKey). The shard can read the least key of a segment
    /// without taking the segment's messages.
    ///
    /// # Safety
    /// The track is alive.
    #[inline]
    pub(super) unsafe fn push_keyed(&mut self, message: M, key: u64) -> Pushed {
        // SAFETY: the caller's promise.
        unsafe { self.note_key(key) };
        // SAFETY: as above, and `note_key` has made room.
        unsafe { self.push_with_room(message) }
    }

    /// PushKey: notes a key for the next message.
    ///
    /// # Safety
    /// The track is alive.
    #[inline]
    pub(super) unsafe fn note_key(&mut self, key: u64) {
        if self.position() == LEN {
            // SAFETY: the caller's promise.
            unsafe { self.next_segment() };
        }
        if key < self.least {
            self.least = key;
            // SAFETY: the producer's own segment is alive.
            let segment = unsafe { &*self.segment };
            // Ordering: Relaxed (PushKey). Published by PushPublish.
            segment.least.store(
                if broken(Fault::LaneKeyForgotten) {
                    u64::MAX
                } else {
                    key
                },
                Ordering::Relaxed,
            );
        }
    }

    /// Appends a message that is in doubt (PushLink, DoubtWord, DoubtMark, PushWrite, PushPublish).
    /// The caller has called `settle_doubts` since other messages were drained. Each 64 messages of
    /// a segment are a group. With the message, the shard gets the least word of all messages in
    /// doubt in its group.
    ///
    /// # Safety
    /// The track is alive.
    #[inline]
    pub(super) unsafe fn push_in_doubt(&mut self, message: M, word: u64) -> Pushed {
        if self.position() == LEN {
            // SAFETY: the caller's promise.
            unsafe { self.next_segment() };
        }
        self.doubted = self.doubted.min(self.count);
        let position = self.position();
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
        // SAFETY: the caller's promise, and there is room.
        unsafe { self.push_with_room(message) }
    }

    /// Settles the messages that were sent in doubt since the last call. If `vouched`, those of
    /// them in the `RECENT` newest segments are no longer in doubt (DoubtVouch); else all stay in
    /// doubt. Forgets the words of messages that the shard has seen (DoubtExpire). Returns whether
    /// there are messages that the shard has not seen.
    ///
    /// # Safety
    /// The track is alive.
    pub(super) unsafe fn settle_doubts(&mut self, vouched: bool) -> bool {
        let next = if broken(Fault::LaneDoubtsLeftOpen) {
            self.doubted
        } else {
            u64::MAX
        };
        let mut from = std::mem::replace(&mut self.doubted, next).max(self.recent_begin);
        while vouched && from < self.count {
            // SAFETY: it is one of the newest segments, which `trim` does not free. (If this
            // producer has reused the segment, it holds later messages of this range.)
            let segment = unsafe { &*self.directory.at(from) };
            #[cfg(loom)]
            segment.alive.with(|_| ());
            let place = from as usize % LEN;
            let doubted = &segment.doubted[place / 64];
            // Ordering: Relaxed. The producer's own.
            let others = doubted.load(Ordering::Relaxed) & !(u64::MAX << (place % 64));
            // Ordering: Relaxed (DoubtVouch). A shard that does not see this store takes the
            // messages as still in doubt.
            doubted.store(others, Ordering::Relaxed);
            from += (LEN.min(place / 64 * 64 + 64) - place) as u64;
        }
        // SAFETY: the caller's promise.
        let track = unsafe { &*self.track };
        // Ordering: Acquire (DoubtExpire). Pairs with the Release of LookTell and DrainRelease: the
        // shard has read the word, and the producer may replace it from now on.
        let seen = track.taken.seen.load(Ordering::Acquire);
        if self.position() < LEN {
            // SAFETY: the producer's own segment is alive.
            let segment = unsafe { &*self.segment };
            let group = (self.count - self.begin) / 64;
            let doubted = &segment.doubted[group as usize];
            let read = seen.saturating_sub(self.begin + 64 * group);
            // Ordering: Relaxed. The producer's own.
            let unread = doubted.load(Ordering::Relaxed) & u64::MAX << read;
            // Ordering: Relaxed. As above; the shard does not read the words of these messages
            // again.
            doubted.store(unread, Ordering::Relaxed);
        }
        seen < self.count
    }

    /// Recalls a message, unless the shard has claimed it (RecallCheck to RecallLeave). The caller
    /// names the message by the `bits` low bits of its number (`low`) and gives the message itself.
    /// If another message lies there, nothing is recalled.
    ///
    /// `true`: the shard does not get the message; or the shard claimed it at this moment, and its
    /// next drain reports it as recalled (UnsureName). `false`: the shard gets it. There is one
    /// exception: if the shard's claims met two recalls in a row, it may not get the second
    /// message.
    ///
    /// # Safety
    /// The track is alive.
    #[inline]
    pub(super) unsafe fn recall(&mut self, low: u32, bits: u32, message: M) -> bool
    where
        M: PartialEq,
    {
        // SAFETY: the caller's promise.
        let track = unsafe { &*self.track };
        // Ordering: Relaxed. A hint: if nothing can be recalled, the steps below are not needed.
        if track.taken.claimed.load(Ordering::Relaxed) == u64::MAX {
            return false;
        }
        // Ordering: Relaxed (RecallEnter). Ordered by the light fence; pairs with TrimLook.
        track.tail.looking.store(true, Ordering::Relaxed);
        // Ordering: light. Pairs with DrainFence, which lies between TrimLook and each
        // DrainClaim of messages that could be recalled: the shard sees RecallEnter, or this
        // thread sees the claim.
        light_fence_unless(Fault::LaneNoEnterFence);
        // SAFETY: this thread has entered.
        let is_recalled = unsafe { self.recall_entered(track, low, bits, message) };
        // Ordering: Release (RecallLeave). Pairs with the Acquire of TrimLook: this thread reads
        // the segments before they are freed.
        track.tail.looking.store(
            false,
            ordering(Ordering::Release, Fault::LaneRecallLeftRelaxed),
        );
        is_recalled
    }

    /// RecallCheck to RecallConfirm.
    ///
    /// # Safety
    /// This thread has passed RecallEnter.
    #[inline(always)]
    unsafe fn recall_entered(&mut self, track: &Track<M>, low: u32, bits: u32, message: M) -> bool
    where
        M: PartialEq,
    {
        // Ordering: Relaxed (RecallCheck). Not older than what ReuseCheck saw, so it excludes the
        // old numbers of a reused segment.
        let claimed = track.taken.claimed.load(Ordering::Relaxed);
        // How many messages came after the message to be recalled.
        let later = self.count.wrapping_add(!u64::from(low)) & ((1 << bits) - 1);
        if later >= self.count.saturating_sub(claimed) {
            return false;
        }
        let number = self.count - 1 - later;
        // SAFETY: when RecallCheck looked, the shard had not claimed the message. So this producer
        // has not reused its segment, and `trim` does not free it before RecallLeave.
        let segment = unsafe { &*self.directory.at(number) };
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
        let marked = recalled.load(Ordering::Relaxed) | 1 << (place % 64);
        // Ordering: Relaxed (RecallMark). Ordered by RecallFence.
        recalled.store(marked, Ordering::Relaxed);
        self.recalled += 1;
        // Ordering: Relaxed. A hint.
        track.tail.recalled.store(self.recalled, Ordering::Relaxed);
        // Ordering: light (RecallFence). Pairs with DrainFence in `Drain::drain`: the shard
        // sees the bit, or this thread sees its claim.
        light_fence_unless(Fault::LaneNoRecallFence);
        // Ordering: Relaxed (RecallConfirm). Ordered by RecallFence.
        number >= track.taken.claimed.load(Ordering::Relaxed)
            || broken(Fault::LaneClaimIgnored)
            || self.leave_to_shard(number)
    }

    /// UnsureName. A claim of the shard has met the recall of this message. Leaves the message to
    /// the shard, which drops it or reports it as recalled. Returns `false`, and leaves nothing, if
    /// the shard has not settled an earlier such message yet.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_to_shard(&self, number: u64) -> bool {
        // SAFETY: the track is alive: the caller's promise to `recall`.
        let tail = unsafe { &(*self.track).tail };
        // Ordering: Relaxed. The shard's UnsureClear comes before the claim that this thread has
        // seen. If it is not visible here, the recall fails, and the caller sends its tombstone.
        if !tail.unsure.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Ordering: Relaxed. Published by the next store.
        tail.unsure_number.store(number, Ordering::Relaxed);
        // Ordering: Release (UnsureName). Pairs with the Acquire of UnsureSettle; publishes the
        // number and the bit.
        tail.unsure
            .store(self.directory.at(number), Ordering::Release);
        true
    }

    /// PushLink: links a reused or new segment behind the full one.
    ///
    /// # Safety
    /// The track is alive.
    #[cold]
    #[inline(never)]
    unsafe fn next_segment(&mut self) {
        // SAFETY: the caller's promise.
        let track = unsafe { &*self.track };
        // Ordering: Acquire. Pairs with the Release of UnsureClear: if there is no unsure message,
        // the shard has settled the last one, and its segment may be reused.
        let is_unsure = !track.tail.unsure.load(Ordering::Acquire).is_null()
            && !broken(Fault::LaneReuseUnsettled);
        // Ordering: Relaxed. The producer's own.
        let end = if is_unsure {
            track.tail.unsure_number.load(Ordering::Relaxed) / LEN as u64
        } else {
            u64::MAX
        };
        let segment = match track.take_oldest(1, end) {
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
            None => self.slabs.take(),
        };
        if let Some(spare) = track.take_oldest(SPARE, end) {
            // SAFETY: unlinked, so no other thread has it.
            unsafe { free(spare) };
        }
        // SAFETY: PushLink. `next` of the producer's segment is written once, here, and read after
        // a later PushPublish.
        match unsafe { self.segment.as_ref() } {
            Some(full) => full.next.with_mut(|next| {
                // SAFETY: as above.
                unsafe { *next = segment }
            }),
            None => track.first.with_mut(|first| {
                // SAFETY: as above: before the first push.
                unsafe { *first = segment }
            }),
        }
        self.segment = segment;
        self.begin = self.count;
        self.least = u64::MAX;
        self.recent_begin = self.begin.saturating_sub(((RECENT - 1) * LEN) as u64);
        // Ordering: Relaxed. An old value is a smaller one, with which the directory keeps more
        // segments than it has to.
        let head = track.taken.head.load(Ordering::Relaxed);
        self.directory.add(self.begin, segment, head);
    }
}
