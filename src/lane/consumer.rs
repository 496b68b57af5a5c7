//! The shard's end of a track: settle, claim, read.
//!
//! Only the shard calls it, by way of the inbox's one `Drain`. It has the steps UnsureSettle,
//! UnsureClear, DrainLoad to DrainRelease (DrainFence is in `inbox.rs`) and DoubtRead. Protocol and
//! proof: README.md of this room.

use super::segment::{LEN, Segment};
use super::track::Track;
use crate::sync::{Fault, Ordering, broken, ordering};
use std::ptr;

/// What a drain found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// How many messages the drain saw for the first time.
    pub(crate) came: u64,
    /// How many messages it reported or passed over. A message that an earlier drain had reported,
    /// and that it reports as recalled, counts again.
    pub(crate) messages: u64,
    /// How many messages it passed over, because their producers had recalled them, or because the
    /// shard knew that they were dead.
    pub(crate) recalled: u64,
}

impl Drained {
    pub(super) fn add(&mut self, other: Self) {
        self.came += other.came;
        self.messages += other.messages;
        self.recalled += other.recalled;
    }
}

/// What a drain reports of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It came.
    Came,
    /// It came in doubt, with its producer's word or with a lesser word.
    InDoubt(u64),
    /// It is due this much later than it says. The shard has settled its doubt already.
    Late(u64),
    /// It came in an earlier drain. Its producer recalled it while that drain claimed it.
    Recalled,
}

/// The part of DrainRead for messages that were recalled: notes that the shard passes them over.
/// `recalled` has their bits, from the place `begin` on.
#[cold]
pub(super) fn skip<M>(segment: &Segment<M>, begin: usize, recalled: u64) {
    let skipped = &segment.skipped[begin / 64];
    // Ordering: Relaxed. The shard's own, except at a reuse, which comes before DrainLoad.
    skipped.store(
        skipped.load(Ordering::Relaxed) | recalled << (begin % 64),
        Ordering::Relaxed,
    );
}

/// Where a drain's messages go.
pub(crate) trait MessageSink<M> {
    /// A message, and its number in its track.
    fn accept(&mut self, number: u64, message: M, arrival: Arrival);
}

impl<M, F: FnMut(u64, M, Arrival)> MessageSink<M> for F {
    #[inline(always)]
    fn accept(&mut self, number: u64, message: M, arrival: Arrival) {
        self(number, message, arrival);
    }
}

impl<M: Copy> Track<M> {
    /// Settles a message that a recall has left to the shard (UnsureSettle, UnsureClear). Gives it
    /// to `late` if an earlier drain has reported it.
    ///
    /// # Safety
    /// The caller is the one consumer of this track.
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

    /// Looks how many messages are published (DrainLoad). Returns how many are not claimed.
    ///
    /// # Safety
    /// The caller is the one consumer of this track.
    pub(super) unsafe fn load(&self) -> u64 {
        // Ordering: Acquire (DrainLoad). Pairs with the Release of PushPublish; publishes the
        // messages below it.
        let tail = self.tail.count.load(Ordering::Acquire);
        self.reader.with_mut(|reader| {
            // SAFETY: one consumer (the caller's promise).
            let reader = unsafe { &mut *reader };
            reader.published = tail;
            tail - reader.claimed
        })
    }

    /// Where a claim of at most `quota` messages ends, and whether `load` found more.
    ///
    /// # Safety
    /// The caller is the one consumer of this track.
    pub(super) unsafe fn next_claim(&self, quota: u64) -> (u64, bool) {
        self.reader.with(|reader| {
            // SAFETY: one consumer (the caller's promise).
            let reader = unsafe { &*reader };
            let end = reader.published.min(reader.claimed + quota);
            (end, end < reader.published)
        })
    }

    /// How many messages were recalled that the shard has not passed over. A hint.
    ///
    /// # Safety
    /// The caller is the one consumer of this track.
    pub(super) unsafe fn dead(&self) -> u64 {
        // SAFETY: one consumer (the caller's promise).
        let passed = self.reader.with(|reader| unsafe { (*reader).recalled });
        // Ordering: Relaxed. A hint.
        let recalled = self.tail.recalled.load(Ordering::Relaxed);
        recalled.saturating_sub(passed)
    }

    /// The end of what is claimed.
    ///
    /// # Safety
    /// The caller is the one consumer of this track.
    pub(super) unsafe fn claimed_end(&self) -> u64 {
        // SAFETY: one consumer (the caller's promise).
        self.reader.with(|reader| unsafe { (*reader).claimed })
    }

    /// Claims the messages below `end`, of those that `load` found, for `read` (DrainClaim). Unless
    /// `may_recall`, claims all later messages too. Returns whether it has claimed messages that
    /// could be recalled before. If so, the caller has to do DrainFence.
    ///
    /// # Safety
    /// The caller is the one consumer of this track.
    pub(super) unsafe fn claim(&self, end: u64, may_recall: bool) -> bool {
        self.reader.with_mut(|reader| {
            // SAFETY: one consumer (the caller's promise).
            let reader = unsafe { &mut *reader };
            debug_assert!(
                (reader.claimed..=reader.published).contains(&end),
                "claims only rise, and no message is beyond the last one"
            );
            reader.claimed = end;
        });
        let claimed = if may_recall { end } else { u64::MAX };
        // Ordering: Relaxed. The shard's own. It writes only a change, so that the producer keeps
        // its cache line.
        let before = self.taken.claimed.load(Ordering::Relaxed);
        if before != claimed {
            // Ordering: Relaxed (DrainClaim). If the old value was not `MAX`, DrainFence in
            // `Drain::drain` follows, which pairs with RecallFence.
            self.taken.claimed.store(claimed, Ordering::Relaxed);
        }
        before != u64::MAX && before != claimed
    }

    /// Gives the sink every message that was claimed and not recalled, oldest first, with its
    /// number and whether it is in doubt (DrainRead, DoubtRead, DrainRelease). Gives the segments
    /// back one by one. `is_seen`: the shard has looked at the messages before.
    ///
    /// # Safety
    /// The caller is the one consumer of this track, and has passed a heavy fence since the claim,
    /// if messages could be recalled before it.
    #[inline(always)]
    pub(super) unsafe fn read(&self, sink: &mut impl MessageSink<M>, is_seen: bool) -> Drained {
        self.reader.with_mut(|reader| {
            // SAFETY: one consumer (the caller's promise), and `f` cannot reach this cell.
            let reader = unsafe { &mut *reader };
            let messages = reader.claimed - reader.count;
            let mut drained = Drained {
                came: messages,
                messages,
                recalled: 0,
            };
            while reader.count < reader.claimed {
                if reader.position == LEN {
                    self.release(reader.count);
                    if !is_seen {
                        self.tell_seen(reader.count);
                    }
                }
                let left = (reader.claimed - reader.count) as usize;
                // SAFETY: the caller's promise; there is a claimed message.
                unsafe { reader.enter(self) };
                // SAFETY: the shard's own segment is not reused (ReuseCheck), so it is alive.
                let segment = unsafe { &*reader.segment };
                let (begin, shift) = (reader.position, reader.position % 64);
                let len = (64 - shift).min(LEN - begin).min(left);
                // Ordering: Relaxed (DrainRead). The bit of a message that was recalled for good is
                // visible: a DrainFence that pairs with its RecallFence came before.
                let recalled = segment.recalled[begin / 64].load(Ordering::Relaxed) >> shift
                    & (u64::MAX >> (64 - len));
                if recalled != 0 {
                    skip(segment, begin, recalled);
                    drained.recalled += u64::from(recalled.count_ones());
                    reader.recalled += u64::from(recalled.count_ones());
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
                    sink.accept(
                        reader.count + u64::from(place),
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
            if messages > 0 {
                self.release(reader.count);
                if !is_seen {
                    self.tell_seen(reader.count);
                }
            }
            drained
        })
    }

    /// DrainRelease, of all messages below `count`.
    pub(super) fn release(&self, count: u64) {
        // Ordering: Release (DrainRelease). Pairs with the Acquire of ReuseCheck; the shard's reads
        // come before the reuse.
        self.taken.head.store(
            count,
            ordering(Ordering::Release, Fault::LaneReleaseRelaxed),
        );
    }

    /// LookTell: says that the shard has settled the doubts of the messages below `count`.
    pub(super) fn tell_seen(&self, count: u64) {
        // Ordering: Release (LookTell). Pairs with the Acquire of DoubtExpire; the shard's look at
        // the words comes before the producer replaces them.
        self.taken.seen.store(count, Ordering::Release);
    }

    /// Whether messages are published that the shard, which has seen `seen`, has not seen.
    pub(super) fn has_unseen(&self, seen: u64) -> bool {
        // Ordering: Relaxed. As in `has_messages`.
        self.tail.count.load(Ordering::Relaxed) != seen
    }

    /// Whether messages are published that were not claimed.
    ///
    /// # Safety
    /// The caller is the one consumer of this track.
    pub(super) unsafe fn has_messages(&self) -> bool {
        // SAFETY: one consumer (the caller's promise).
        let count = self.reader.with(|reader| unsafe { (*reader).count });
        // Ordering: Relaxed. In SleepLook the doorbell's SleepFence orders it; elsewhere it is a
        // hint.
        self.tail.count.load(Ordering::Relaxed) != count
    }
    /// Whether the shard has taken all messages, and none is left to be settled.
    ///
    /// # Safety
    /// The caller is the one consumer of this track, and has its producer.
    pub(super) unsafe fn is_over(&self) -> bool {
        // SAFETY: the caller's promise.
        let has_messages = unsafe { self.has_messages() };
        // Ordering: Relaxed. The queue of free producers has published it.
        let is_unsure = !self.tail.unsure.load(Ordering::Relaxed).is_null();
        (!has_messages || broken(Fault::LaneEndUnread))
            && (!is_unsure || broken(Fault::LaneEndUnsettled))
    }
}
