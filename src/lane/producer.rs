//! The producer's end of a lane: push, also in doubt, and recall. Protocol and proof: README.md of this room.

use super::segment::{LEN, Lane, RECENT, Segment};
use crate::mem::prefetch_to_write;
use crate::sync::{Fault, Ordering, broken, light_fence, ordering};
use std::ptr;

/// Bits of a message's number that a position has.
pub(crate) const POSITION_BITS: u32 = 24;

/// Slots that the producer asks for ahead of its writes.
const AHEAD: usize = 16;

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

/// A message that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Where it lies: to recall it.
    pub(crate) position: u32,
    /// How many messages wait, if it was a segment's last; else 0.
    pub(crate) waiting: u64,
}

impl<M: Copy> Producer<M> {
    pub(super) fn new(segment: *mut Segment<M>) -> Self {
        Self { lane: ptr::null(), segment, begin: 0, count: 0, recent_begin: 0, recent: [segment; RECENT], doubted: u64::MAX }
    }

    /// Appends a message and publishes it. One look at the shard's line per segment.
    ///
    /// # Safety
    /// The lane is alive.
    #[inline]
    pub(super) unsafe fn push(&mut self, message: M) -> Sent {
        let position = (self.count - self.begin) as usize;
        // SAFETY: the producer's own segment is in the chain, behind the shard or where the shard is: it is alive.
        let messages = unsafe { &(*self.segment).messages };
        let Some(slot) = messages.get(position) else {
            // SAFETY: the caller's promise. (A call in the last place needs no register to be saved here.)
            return unsafe { self.push_to_next_segment(message) };
        };
        // A reused segment lies in the shard's cache, and the full fences of the calls that follow wait for the stores before them: without this each would wait for the
        // line to come over.
        prefetch_to_write(messages.as_ptr().wrapping_add(position + AHEAD));
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
        let next = if broken(Fault::LaneDoubtsLeftOpen) { self.doubted } else { u64::MAX };
        let mut from = std::mem::replace(&mut self.doubted, next).max(self.recent_begin);
        while vouched && from < self.count {
            // SAFETY: `recent` has the newest segments, which `trim` does not free. (One that this producer has used again has later messages of these.)
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
    pub(super) fn leave_to_shard(&self, number: u64) -> bool {
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
        let is_unsure = !lane.tail.unsure.load(Ordering::Acquire).is_null() && !broken(Fault::LaneReuseUnsettled);
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
