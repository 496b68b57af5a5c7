//! The shard's end of a lane: claim, drain, and what is left of recalls. Protocol and proof: README.md of this room.

use super::segment::{LEN, Lane, Segment};
use crate::sync::{Fault, Ordering, broken, ordering};
use std::ptr;

/// The shard's end.
pub(super) struct Consumer<M> {
    segment: *mut Segment<M>,
    position: usize,
    count: u64,
    /// The end of what may be read.
    claimed: u64,
}

impl<M> Consumer<M> {
    pub(super) fn new(segment: *mut Segment<M>) -> Self {
        Self { segment, position: 0, count: 0, claimed: 0 }
    }
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

impl<M: Copy> Lane<M> {
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
}
