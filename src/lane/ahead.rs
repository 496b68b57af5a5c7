//! The shard's end of a deferred track: it looks at messages, and leaves them there.
//!
//! Only the shard calls it. A message that is recalled while it waits costs the shard next to
//! nothing. README.md has the steps LookAhead, LookTell and PassDead, and their proof.

use super::consumer::{Arrival, Drained, skip};
use super::segment::{LEN, Segment};
use super::track::Track;
use crate::sync::{Fault, Ordering, broken};
use std::collections::VecDeque;
use std::ptr;

/// What the shard knows of the messages of a deferred track that it has not taken.
pub(super) struct Outlook<M> {
    segment: *mut Segment<M>,
    /// The place of the next message in the segment.
    position: usize,
    /// How many messages were looked at.
    pub(super) seen: u64,
    /// Segments that the shard has looked at, with their least keys, in the order of the track. The
    /// keys rise: an earlier segment whose key is as great as a later one's is left out.
    marks: VecDeque<Mark>,
    /// Messages that were in doubt when the shard looked at them, and that are late. For each its
    /// number, and how much later than it says it is.
    late: VecDeque<(u64, u64)>,
}

/// A segment with its least key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The number after its last message.
    end: u64,
    least: u64,
}

impl<M> Outlook<M> {
    pub(super) const fn new() -> Self {
        Self {
            segment: ptr::null_mut(),
            position: LEN,
            seen: 0,
            marks: VecDeque::new(),
            late: VecDeque::new(),
        }
    }

    /// How many segments and late messages are noted.
    #[cfg(all(test, not(loom)))]
    pub(super) fn noted(&self) -> usize {
        self.marks.len() + self.late.len()
    }

    fn mark(&mut self, end: u64, least: u64) {
        while self.marks.back().is_some_and(|mark| mark.least >= least) {
            self.marks.pop_back();
        }
        self.marks.push_back(Mark { end, least });
    }

    /// The end of the messages that have to be taken, and the least key of those after it. A
    /// segment has to be taken if its least key is at most `limit`, and so have all segments before
    /// it. The messages below `count` are taken already.
    pub(super) fn due(&mut self, count: u64, limit: u64) -> (u64, u64) {
        while self.marks.front().is_some_and(|mark| mark.end <= count) {
            self.marks.pop_front();
        }
        while self.late.front().is_some_and(|&(late, _)| late < count) {
            self.late.pop_front();
        }
        let due = self.marks.partition_point(|mark| mark.least <= limit);
        let end = due
            .checked_sub(1)
            .map_or(count, |last| self.marks[last].end);
        let next = self.marks.get(due).map_or(u64::MAX, |mark| mark.least);
        (end, next)
    }

    /// How much later than it says the message with this number is. The caller asks for each number
    /// once, in order.
    fn lateness(&mut self, number: u64) -> u64 {
        while let Some(&(late, by)) = self.late.front() {
            if late > number {
                break;
            }
            self.late.pop_front();
            if late == number {
                return by;
            }
        }
        0
    }
}

impl<M: Copy> Track<M> {
    /// Looks at the messages that `load` found and that were not looked at before (LookAhead).
    /// Notes their keys. For those in doubt it notes what `doubt` returns for their words: by how
    /// much they are late, or 0. Returns how many messages it has looked at.
    ///
    /// # Safety
    /// The caller is the one consumer of this track.
    pub(super) unsafe fn look(&self, outlook: &mut Outlook<M>, doubt: impl Fn(u64) -> u64) -> u64 {
        // SAFETY: one consumer (the caller's promise).
        let published = self.reader.with(|reader| unsafe { (*reader).published });
        let before = outlook.seen;
        while outlook.seen < published {
            if outlook.position == LEN {
                // SAFETY: there is a message beyond this segment; it is not read, so it is alive.
                outlook.segment = unsafe { self.after(outlook.segment) };
                outlook.position = 0;
            }
            // SAFETY: the shard has not read it to its end, so it is not reused.
            let segment = unsafe { &*outlook.segment };
            let (begin, shift) = (outlook.position, outlook.position % 64);
            let len = (64 - shift)
                .min(LEN - begin)
                .min((published - outlook.seen) as usize);
            // Ordering: Relaxed (LookAhead). Published by PushPublish.
            let mut doubted = segment.doubted[begin / 64].load(Ordering::Relaxed) >> shift
                & (u64::MAX >> (64 - len));
            if doubted != 0 {
                // Ordering: Relaxed (LookAhead). As above, or a newer word: not a greater one,
                // unless the producer has vouched for the message.
                let by = doubt(segment.doubt[begin / 64].load(Ordering::Relaxed));
                while by > 0 && doubted != 0 {
                    let number = outlook.seen + u64::from(doubted.trailing_zeros());
                    doubted &= doubted - 1;
                    outlook.late.push_back((number, by));
                }
            }
            outlook.position += len;
            outlook.seen += len as u64;
            if outlook.position == LEN || outlook.seen == published {
                // Ordering: Relaxed (LookAhead). Published by PushPublish, or a lesser one.
                let least = segment.least.load(Ordering::Relaxed);
                outlook.mark(outlook.seen, least);
            }
        }
        if outlook.seen > before {
            self.tell_seen(outlook.seen);
        }
        outlook.seen - before
    }

    /// Passes over the messages at the front that are dead (PassDead): those that were recalled,
    /// and those for which `is_dead` is true. They need no claim and no fence, because no thread
    /// recalls them any more. Stops at the first message that may live, or at `end`.
    ///
    /// # Safety
    /// The caller is the one consumer of this track, has looked at the messages up to `end`, and
    /// has read what it has claimed.
    pub(super) unsafe fn pass_dead(&self, end: u64, mut is_dead: impl FnMut(M) -> bool) -> Drained {
        self.reader.with_mut(|reader| {
            // SAFETY: one consumer (the caller's promise).
            let reader = unsafe { &mut *reader };
            let first = reader.count;
            while reader.count < end {
                if reader.position == LEN {
                    self.pass(first, reader.count);
                }
                let left = (end - reader.count) as usize;
                // SAFETY: the caller's promise; there is a published message.
                unsafe { reader.enter(self) };
                // SAFETY: the shard's own segment is not reused (ReuseCheck), so it is alive.
                let segment = unsafe { &*reader.segment };
                let (begin, shift) = (reader.position, reader.position % 64);
                let len = (64 - shift).min(LEN - begin).min(left);
                let all = u64::MAX >> (64 - len);
                // Ordering: Relaxed (PassDead). A bit that is not seen yet is seen later.
                let mut dead = segment.recalled[begin / 64].load(Ordering::Relaxed) >> shift & all;
                let recalled = dead;
                while dead != all {
                    let place = (!dead).trailing_zeros();
                    let slot = &segment.messages[begin + place as usize];
                    // SAFETY: PassDead. The message's number is below `tail`, so it is not written
                    // again before DrainRelease.
                    let message = slot.with(|message| unsafe { *message });
                    // SAFETY: as above, and it was written.
                    if !is_dead(unsafe { message.assume_init() }) {
                        break;
                    }
                    dead |= 1 << place;
                }
                let passed = (!dead).trailing_zeros().min(len as u32);
                let bits = dead & (u64::MAX.checked_shr(64 - passed).unwrap_or(0));
                if bits != 0 && !broken(Fault::LanePassedUnnoted) {
                    skip(segment, begin, bits);
                }
                reader.recalled += u64::from((bits & recalled).count_ones());
                reader.position += passed as usize;
                reader.count += u64::from(passed);
                if (passed as usize) < len {
                    break;
                }
            }
            reader.claimed = reader.count;
            self.pass(first, reader.count);
            let passed = reader.count - first;
            Drained {
                came: 0,
                messages: passed,
                recalled: passed,
            }
        })
    }

    /// Gives the messages from `first` up to `count` back, without a claim.
    fn pass(&self, first: u64, count: u64) {
        if count == first {
            return;
        }
        // Ordering: Relaxed. The shard's own.
        if self.taken.claimed.load(Ordering::Relaxed) < count {
            // Ordering: Relaxed (DrainClaim). Published by DrainRelease. No fence follows, because
            // no thread recalls the messages that it claims.
            self.taken.claimed.store(count, Ordering::Relaxed);
        }
        self.release(count);
    }

    /// Gives `f` every message that was claimed and not recalled, oldest first (DrainRead,
    /// DrainRelease).
    ///
    /// # Safety
    /// As for `read`; and the caller has looked at the messages.
    pub(super) unsafe fn read_seen(
        &self,
        outlook: &mut Outlook<M>,
        mut f: impl FnMut(M, Arrival),
    ) -> Drained {
        let mut seen = |number, message, _| {
            f(
                message,
                match outlook.lateness(number) {
                    0 => Arrival::Came,
                    by => Arrival::Late(by),
                },
            )
        };
        // SAFETY: the caller's promise.
        let drained = unsafe { self.read(&mut seen, true) };
        Drained { came: 0, ..drained }
    }
}
