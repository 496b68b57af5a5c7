//! The shard's end of a lane: settle, claim, drain.
//!
//! Only the shard calls it, by way of the inbox's one `Drain`. It has the steps UnsureSettle,
//! UnsureClear, DrainLoad to DrainRelease (DrainFence is in `inbox.rs`) and DoubtRead. Protocol and
//! proof: README.md of this room.

use super::segment::{LEN, Segment};
use super::shared::{Lane, Reader};
use crate::sync::{Fault, Ordering, broken, ordering};
use std::ptr;

/// What a drain found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// How many times it reported a message, or skipped one.
    pub(crate) messages: u64,
    /// How many messages it skipped, because their producers had recalled them.
    pub(crate) recalled: u64,
}

/// What a drain reports of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It came.
    Came,
    /// It came in doubt, with its producer's word or a lesser one.
    InDoubt(u64),
    /// It came in an earlier drain, and its producer recalled it at that time.
    Recalled,
}

impl<M> Reader<M> {
    /// DrainRead at the end of a segment: goes on to the next one.
    ///
    /// # Safety
    /// A message beyond this segment is published.
    #[cold]
    unsafe fn enter_next_segment(&mut self) {
        // SAFETY: a message beyond this segment is published (the caller's promise), so the
        // segment's `next` was written before `tail`.
        self.segment = unsafe { &*self.segment }.next.with(|next| unsafe { *next });
        self.position = 0;
        debug_assert!(!self.segment.is_null(), "a published message has a segment");
    }
}

/// DrainRead of recalled messages, whose bits are given from the place `begin` on: notes that the
/// shard skips them.
#[cold]
fn skip<M>(segment: &Segment<M>, begin: usize, recalled: u64) {
    let skipped = &segment.skipped[begin / 64];
    // Ordering: Relaxed. The shard's own, except at a reuse, which comes before DrainLoad.
    skipped.store(
        skipped.load(Ordering::Relaxed) | recalled << (begin % 64),
        Ordering::Relaxed,
    );
}

impl<M: Copy> Lane<M> {
    /// Settles a message that was left to the shard (UnsureSettle, UnsureClear): gives it to `late`
    /// if an earlier drain has reported it.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane.
    pub(super) unsafe fn settle(&self, late: impl FnOnce(M)) {
        // Ordering: Acquire (UnsureSettle). Pairs with the Release of UnsureName; publishes the
        // message's number and its bit.
        let segment = self.tail.unsure.load(Ordering::Acquire);
        // SAFETY: while this is not null the segment is neither freed (`trim`) nor reused
        // (`next_segment`).
        let Some(segment) = (unsafe { segment.as_ref() }) else {
            return;
        };
        // Ordering: Relaxed. Published by UnsureName.
        let number = self.tail.unsure_number.load(Ordering::Relaxed);
        // SAFETY: one consumer (the caller's promise).
        let is_read = number < self.reader.with(|reader| unsafe { (*reader).count });
        let place = number as usize % LEN;
        // Ordering: Relaxed. The shard's own.
        let is_skipped =
            segment.skipped[place / 64].load(Ordering::Relaxed) >> (place % 64) & 1 != 0;
        // (A message that is still unread will be skipped: UnsureSettle has seen what came before
        // UnsureName, so its bit too.)
        if is_read && !is_skipped && !broken(Fault::LaneUnsureSkipped) {
            // SAFETY: it was published, and is not written while `unsure` names its segment.
            let message = segment.messages[place].with(|message| unsafe { *message });
            // SAFETY: as above.
            late(unsafe { message.assume_init() });
        }
        // Ordering: Release (UnsureClear). Pairs with the Acquire in `next_segment`; the shard's
        // look at the segment comes before its reuse.
        self.tail.unsure.store(ptr::null_mut(), Ordering::Release);
    }

    /// Claims every message published so far, for `drain` (DrainLoad, DrainClaim). Unless
    /// `may_recall`, claims all later messages too.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane.
    pub(super) unsafe fn claim(&self, may_recall: bool) {
        // Ordering: Acquire (DrainLoad). Pairs with the Release of PushPublish; publishes the
        // messages below it.
        let tail = self.tail.count.load(Ordering::Acquire);
        // SAFETY: one consumer (the caller's promise).
        self.reader
            .with_mut(|reader| unsafe { (*reader).claimed = tail });
        let claimed = if may_recall { tail } else { u64::MAX };
        // Ordering: Relaxed. The shard's own. It writes only a change, so that the producer keeps
        // its cache line.
        if self.taken.claimed.load(Ordering::Relaxed) != claimed {
            // Ordering: Relaxed (DrainClaim). If the old value was not `MAX`, DrainFence in
            // `Drain::drain` follows, which pairs with RecallFence.
            self.taken.claimed.store(claimed, Ordering::Relaxed);
        }
    }

    /// Gives `f` every message that was claimed and not recalled, oldest first, and whether it is
    /// in doubt (DrainRead, DoubtRead, DrainRelease).
    ///
    /// # Safety
    /// The caller is the one consumer of this lane, and has passed a heavy fence since the claim,
    /// if messages could be recalled before it.
    #[inline(always)]
    pub(super) unsafe fn drain(&self, mut f: impl FnMut(M, Arrival)) -> Drained {
        self.reader.with_mut(|reader| {
            // SAFETY: one consumer (the caller's promise), and `f` cannot reach this cell.
            let reader = unsafe { &mut *reader };
            let mut drained = Drained {
                messages: reader.claimed - reader.count,
                recalled: 0,
            };
            if drained.messages == 0 {
                return drained;
            }
            while reader.count < reader.claimed {
                if reader.position == LEN {
                    // SAFETY: DrainRead. There is a message beyond this segment.
                    unsafe { reader.enter_next_segment() };
                }
                // SAFETY: the shard's own segment is not reused (ReuseCheck), so it is alive.
                let segment = unsafe { &*reader.segment };
                let (begin, shift) = (reader.position, reader.position % 64);
                let len = (64 - shift)
                    .min(LEN - begin)
                    .min((reader.claimed - reader.count) as usize);
                // Ordering: Relaxed (DrainRead). The bit of a message that was recalled for good is
                // visible: a DrainFence that pairs with its RecallFence came before.
                let recalled = segment.recalled[begin / 64].load(Ordering::Relaxed) >> shift
                    & (u64::MAX >> (64 - len));
                if recalled != 0 {
                    skip(segment, begin, recalled);
                    drained.recalled += u64::from(recalled.count_ones());
                }
                // Ordering: Relaxed (DoubtRead). Published by PushPublish.
                let doubted = segment.doubted[begin / 64].load(Ordering::Relaxed) >> shift;
                let mut kept = !recalled & (u64::MAX >> (64 - len));
                while kept != 0 {
                    let place = kept.trailing_zeros();
                    let slot = &segment.messages[begin + place as usize];
                    kept &= kept - 1;
                    // SAFETY: DrainRead. The message's number is below `tail`, so it is not written
                    // again before DrainRelease.
                    let message = slot.with(|message| unsafe { *message });
                    // SAFETY: as above, and it was written.
                    let message = unsafe { message.assume_init() };
                    // Ordering: Relaxed (DoubtRead). As above, or a newer word: not a greater one,
                    // unless the producer has vouched for the message.
                    let doubt =
                        || Arrival::InDoubt(segment.doubt[begin / 64].load(Ordering::Relaxed));
                    f(
                        message,
                        if doubted >> place & 1 == 0 {
                            Arrival::Came
                        } else {
                            doubt()
                        },
                    );
                }
                reader.position += len;
                reader.count += len as u64;
            }
            // Ordering: Release (DrainRelease). Pairs with the Acquire of ReuseCheck; the shard's
            // reads come before the reuse.
            self.taken.head.store(
                reader.count,
                ordering(Ordering::Release, Fault::LaneReleaseRelaxed),
            );
            drained
        })
    }

    /// Whether messages are published that were not drained.
    ///
    /// # Safety
    /// The caller is the one consumer of this lane.
    pub(super) unsafe fn has_messages(&self) -> bool {
        // SAFETY: one consumer (the caller's promise).
        let count = self.reader.with(|reader| unsafe { (*reader).count });
        // Ordering: Relaxed. In SleepLook the doorbell's SleepFence orders it; elsewhere it is a
        // hint.
        self.tail.count.load(Ordering::Relaxed) != count
    }
}
