//! Pair: a lane, which is a pair of tracks, and what a drain does with one lane.
//!
//! The inbox owns the lanes. The producer's thread and the shard touch a lane. README.md of this
//! room says which of them touches what.

use super::ahead::Outlook;
use super::consumer::{Arrival, Drained, MessageSink};
use super::deferral::{Deferral, Present, Sight};
use super::producer::Producer;
use super::segment::LEN;
use super::track::Track;
use crate::sync::{AtomicPtr, CountU64, Fault, Ordering, UnsafeCell, broken};
use crossbeam_utils::CachePadded;

/// Bits of a position: the low bits of a message's number, and above them `DEFERRED` or 0.
pub(crate) const POSITION_BITS: u32 = 24;
pub(super) const NUMBER_BITS: u32 = POSITION_BITS - 1;

/// Set in the position of a message of a deferred track.
pub(super) const DEFERRED: u32 = 1 << NUMBER_BITS;

/// A lane takes part in the allowance if it had a segment's worth of messages in one of the last
/// drains. This is the number of these drains.
const ACTIVE_DRAINS: u8 = 64;

/// A drain takes at most this number of messages, or a segment's worth from each track if that is
/// more.
pub(super) const DRAINED_MAX: u64 = 32_768;

/// A drain passes over at most this number of dead messages of a lane.
const PASSED_MAX: u64 = 1 << 20;

/// A lane: the two tracks of one producer.
pub(super) struct Lane<M> {
    /// Messages that the next drain takes.
    pub(super) express: Track<M>,
    /// Messages that wait.
    pub(super) deferred: Track<M>,
    pub(super) advice: CachePadded<Advice>,
    /// The shard's own.
    pub(super) book: UnsafeCell<Book<M>>,
    /// The next lane of the inbox. Only `list.rs` uses it.
    pub(super) next: AtomicPtr<Lane<M>>,
    /// Shows loom that a thread uses a lane that the shard frees.
    #[cfg(loom)]
    pub(super) alive: UnsafeCell<()>,
}

/// What the shard tells the producer.
pub(super) struct Advice {
    /// Messages with this key or a later one go to the deferred track. `MAX`: none.
    pub(super) from: CountU64,
    /// If the shard has more messages than this still to see, the producer is too fast.
    pub(super) allowance: CountU64,
}

/// What the shard knows of a lane.
pub(super) struct Book<M> {
    pub(super) outlook: Outlook<M>,
    pub(super) deferral: Deferral,
    /// The deferred track was ever opened. Before that the shard does not look at it.
    pub(super) has_deferred: bool,
    /// Messages of the express track that the last drain took.
    pub(super) express: u64,
    /// In how many further drains the lane counts as active.
    pub(super) active: u8,
    /// How many messages of each track were published when `trim_unused` last looked.
    pub(super) looked: [u64; 2],
    /// The lane has no producer any more, and leaves the list.
    pub(super) has_ended: bool,
}

impl<M> Book<M> {
    /// Notes how many messages a drain has found in the express track. Returns whether the lane was
    /// active lately, which may be some drains ago: where many threads share a core, few of them
    /// have run since the last drain, and each of the others may send its allowance before the next
    /// one.
    pub(super) fn note_activity(&mut self, found: u64) -> bool {
        self.active = if found >= LEN as u64 {
            ACTIVE_DRAINS
        } else {
            self.active.saturating_sub(1)
        };
        self.active > 0
    }
}

/// The producer's ends of a lane's tracks.
pub(super) struct Producers<M> {
    pub(super) lane: *const Lane<M>,
    pub(super) express: Producer<M>,
    pub(super) deferred: Producer<M>,
}

// SAFETY: a lane has one producer, and it lives as long as the inbox (see `Sender`).
unsafe impl<M: Send> Send for Producers<M> {}

/// A message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Where it lies, for a recall.
    pub(crate) position: u32,
    /// Known if it was the last of its segment.
    pub(crate) backlog: Backlog,
}

impl Sent {
    /// A message that was not the last of its segment.
    #[inline]
    pub(super) fn inside(number: u32, track: u32) -> Self {
        Self {
            position: number & (DEFERRED - 1) | track,
            backlog: Backlog::NONE,
        }
    }
}

/// How many messages of a track the shard has not seen, and how many times the allowance fits into
/// that number (the overload). Backlogs are compared first by overload, then by messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Backlog(u64);

impl Backlog {
    /// Unknown, or nothing.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(waiting: u64, allowance: u64) -> Self {
        let overload = (waiting / allowance).min(u32::MAX.into());
        Self(overload << 32 | waiting.min(u32::MAX.into()))
    }

    /// Whether there are more messages than this, or more than the shard allows.
    #[inline]
    pub(crate) fn is_above(self, waiting: u64) -> bool {
        self.0 > waiting
    }

    /// How many messages there are.
    pub(crate) fn waiting(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }

    /// The overload: how many times the allowance fits into the number of messages.
    pub(crate) fn overload(self) -> u64 {
        self.0 >> 32
    }
}

/// The messages of an express track that a drain has claimed.
pub(crate) trait Messages<M> {
    /// Gives each of them to the sink.
    fn give(self, sink: &mut impl MessageSink<M>) -> Drained;
}

/// A track that has claimed messages.
pub(super) struct ClaimedMessages<'a, M>(pub(super) &'a Track<M>);

impl<M: Copy> Messages<M> for ClaimedMessages<'_, M> {
    #[inline(always)]
    fn give(self, sink: &mut impl MessageSink<M>) -> Drained {
        // SAFETY: `drain` makes this, which is the one consumer, after DrainFence.
        unsafe { self.0.read(sink, false) }
    }
}

/// What takes the messages of a drain.
pub(crate) trait Taker<M> {
    /// The drain has looked which messages there are (DrainLoad). All that it takes were sent
    /// before.
    fn looked(&mut self) {}

    /// A message.
    fn take(&mut self, message: M, arrival: Arrival);

    /// The messages of an express track.
    #[inline(always)]
    fn take_all(&mut self, messages: impl Messages<M>) -> Drained {
        messages.give(&mut |_, message, arrival| self.take(message, arrival))
    }

    /// All messages of the express tracks, or of the deferred ones, were given.
    fn flush(&mut self) {}

    /// How much later than it says a message in doubt with this word is. 0 if it is not late.
    fn lateness(&self, _word: u64) -> u64 {
        0
    }

    /// Whether a message that waits is dead.
    fn is_dead(&mut self, _message: M) -> bool {
        false
    }

    /// The present, for the messages that wait.
    fn present(&self) -> Present;
}

impl<M: Copy> Lane<M> {
    /// Gives `f` what the shard knows of the lane.
    ///
    /// # Safety
    /// The caller is the one consumer, and `f` does not get here again.
    #[inline]
    pub(super) unsafe fn with_book<R>(&self, f: impl FnOnce(&mut Book<M>) -> R) -> R {
        // SAFETY: the caller's promise.
        self.book.with_mut(|book| f(unsafe { &mut *book }))
    }

    /// Tells the producer which messages wait.
    pub(super) fn tell_from(&self, from: u64) {
        tell(&self.advice.from, from);
    }

    /// The deferred track, if messages were ever allowed to wait there.
    ///
    /// # Safety
    /// The caller is the one consumer.
    pub(super) unsafe fn deferred(&self) -> Option<&Track<M>> {
        // SAFETY: the caller's promise.
        unsafe { self.with_book(|book| book.has_deferred) }.then_some(&self.deferred)
    }

    /// Whether the shard has taken every message that was ever sent here, and none is left to be
    /// settled (EndCheck).
    ///
    /// # Safety
    /// The caller is the one consumer, and has the lane's producers.
    pub(super) unsafe fn is_over(&self) -> bool {
        // SAFETY: the caller's promise.
        let is_open = unsafe { self.with_book(|book| book.deferral.is_open()) };
        // SAFETY: as above.
        let is_over = |track: &Track<M>| unsafe { track.is_over() };
        let waits = || is_open || !is_over(&self.deferred);
        is_over(&self.express) && (broken(Fault::LaneEndWaiting) || !waits())
    }

    /// Looks at the deferred track, passes over dead messages, and claims the messages that have to
    /// be taken, at most `quota`. Returns what it found, whether a fence has to follow, and whether
    /// more messages have to be taken.
    ///
    /// # Safety
    /// The caller is the one consumer, has called `load`, and has read what was claimed.
    pub(super) unsafe fn claim_deferred(
        &self,
        quota: u64,
        waiting_all: u64,
        taker: &mut impl Taker<M>,
        wants_at: &mut u64,
    ) -> (Drained, bool, bool) {
        let track = &self.deferred;
        let decided = |book: &mut Book<M>| {
            let outlook = &mut book.outlook;
            // SAFETY: the caller's promise.
            let came = unsafe { track.look(outlook, |word| taker.lateness(word)) };
            // SAFETY: as above.
            let head = track.reader.with(|reader| unsafe { (*reader).count });
            if came == 0 && outlook.seen == head && !book.deferral.is_open() {
                return (Drained::default(), false, false);
            }
            let (mut drained, mut is_held_up) = (Drained::default(), false);
            if book.deferral.is_open() {
                let end = outlook.seen.min(head + PASSED_MAX);
                // SAFETY: as above.
                drained = unsafe { track.pass_dead(end, |message| taker.is_dead(message)) };
                is_held_up = head + drained.messages < end;
            }
            drained.came = came;
            let present = taker.present();
            // SAFETY: as above.
            let recalled = unsafe { track.dead() };
            let head = head + drained.messages;
            let share = present.dead.saturating_mul(outlook.seen - head) / waiting_all.max(1);
            let waiting = Sight {
                dead: recalled.max(share),
                all: waiting_all,
                head,
                seen: outlook.seen,
                came,
                passed: drained.messages,
                is_held_up,
            };
            let (limit, end) = book.deferral.decide(waiting, present);
            let (due, next) = outlook.due(waiting.head, limit);
            if next != u64::MAX {
                *wants_at = (*wants_at).min(next - (limit - present.now));
            }
            let wanted = end.max(due);
            let end = wanted.min(waiting.head + quota);
            // SAFETY: as above.
            let fences = unsafe { track.claim(end, book.deferral.is_open()) };
            self.tell_from(book.deferral.from);
            (drained, fences, wanted > end)
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_book(decided) }
    }

    /// Takes what `claim_deferred` has claimed.
    ///
    /// # Safety
    /// As above, and the fence has followed.
    pub(super) unsafe fn read_deferred(&self, taker: &mut impl Taker<M>) -> Drained {
        let read = |book: &mut Book<M>| {
            let mut dead = 0;
            let take = |message, arrival| {
                if taker.is_dead(message) {
                    dead += 1;
                } else {
                    taker.take(message, arrival);
                }
            };
            // SAFETY: the caller's promise.
            let mut drained = unsafe { self.deferred.read_seen(&mut book.outlook, take) };
            drained.recalled += dead;
            let alive = drained.messages - drained.recalled;
            book.deferral.note(drained.recalled, alive);
            drained
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_book(read) }
    }
}

/// Writes a word of the shard's advice.
pub(super) fn tell(word: &CountU64, advice: u64) {
    // Ordering: Relaxed. The shard's own. It writes only a change, so that the producer keeps its
    // cache line.
    if word.load(Ordering::Relaxed) != advice {
        // Ordering: Relaxed. A hint.
        word.store(advice, Ordering::Relaxed);
    }
}
