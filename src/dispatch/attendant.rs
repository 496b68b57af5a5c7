//! Attendant: the one thread of a pool that waits for work by itself, so that a batch costs one
//! wake-up.
//!
//! rayon wakes two threads for a job, and each looks around for a while before it sleeps again: 140
//! to 170 us of CPU, where a thread that is parked costs 5 to 10. So a thread that has nothing left
//! to do may *attend*: it parks here, and who has work calls it. It runs what is in the pool's
//! queues. Others are told of it only when the attendant has been at work for a while.
//!
//! Ground rules: **work is in a queue before anybody is called, told or deposed for it.** Whoever
//! finds the attendant awake may leave work to it without telling others; then that thread, or the
//! shard that it works for, looks again, and deposes an attendant that is held up. There is one
//! attendant at a time. It has a *term*, which ends when it leaves or is deposed; one that was
//! deposed leaves nothing to itself any more.
//!
//! # Protocol
//!
//! call (who has pushed work)
//!  - A1 fence
//!  - A2 look at the word. Vacant: tell others. Awake: leave it to the attendant, and look again later
//!  - A3 asleep: compare-and-swap to awake, and unpark; on failure back to A2
//!
//! sleep (the attendant)
//!  - A4 compare-and-swap from awake to asleep; on failure it was deposed
//!  - A5 fence
//!  - A6 look at the queues; if there is something, awake again
//!  - A7 park until the word is another. When the time is over, compare-and-swap from asleep to vacant
//!
//! leave to itself (the attendant, which has pushed work)
//!  - A8 fence, and look at the word: if it was deposed meanwhile, tell others
//!  - A10 look whether a shard watches; if none does, tell others
//!
//! depose (who finds the attendant at work for too long)
//!  - A9 compare-and-swap from awake to vacant; who succeeds passes a fence, and tells others of all
//!    that is in the queues
//!
//! watch, unwatch (a shard that looks again)
//!  - A11 count itself, before it submits what may be left
//!  - A12 count itself off, pass a fence, and look once more: depose an attendant that is awake, if
//!    something is in the queues
//!
//! # Why no work is forgotten
//!
//! A1 and A5 are ordered one way or the other: either A6 sees what was pushed, or A2 sees that the
//! attendant is asleep, or something later. The same holds for A8 and A9: either the attendant sees
//! that it was deposed, or who deposed it sees what was pushed. And for A1 and A9: whoever leaves
//! work to an attendant that is deposed meanwhile has pushed it before. A word that says vacant has
//! others told, so the rest is what an attendant does that is awake: it empties the queues before A4,
//! or is held up. That is what whoever left it work looks for. What it leaves to itself needs a shard
//! that looks, too (it may have been woken by a helper's offer): A8 and A12 are ordered one way or the
//! other, so either A10 sees that nobody watches, or the look after A12 sees what was pushed.

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Fault, Ordering, Thread, broken, full_fence, park};
use std::time::Duration;

/// States, in the lowest bits of the word.
const VACANT: u64 = 0;
const ASLEEP: u64 = 1;
const AWAKE: u64 = 2;
const STATE: u64 = 3;

/// Above it the attendant's number among the pool's threads, and above that the number of its term.
const THREAD_SHIFT: u32 = 2;
const TERM_SHIFT: u32 = 18;

/// The pool's threads that may attend: as many as rayon has at most.
const THREADS_MAX: usize = 1 << (TERM_SHIFT - THREAD_SHIFT);

/// Where an attendant is called.
pub(crate) struct Post {
    word: AtomicU64,
    /// By number.
    threads: Box<[Thread]>,
    /// Nobody will call any more.
    is_closed: AtomicBool,
    /// Shards that look after the attendant.
    watchers: AtomicUsize,
}

/// A thread's time as attendant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term(u64);

impl Term {
    /// The word, in a state.
    fn word(self, state: u64) -> u64 {
        self.0 | state
    }

    fn of(word: u64) -> Self {
        Self(word & !STATE)
    }
}

/// What a call found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// Nobody attends: others have to be told.
    Vacant,
    /// The attendant is awake, and has found or will find the work, unless something holds it up.
    Awake,
    /// It was asleep, and is woken.
    Woken,
}

/// How a sleep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    /// There is work.
    Called,
    /// There was none. The term is over.
    Left,
    /// There was none: the term was over before.
    Deposed,
}

impl Post {
    /// For these threads.
    pub(crate) fn new(threads: impl IntoIterator<Item = Thread>) -> Self {
        let threads: Box<[_]> = threads.into_iter().take(THREADS_MAX).collect();
        Self { word: AtomicU64::new(VACANT), threads, is_closed: AtomicBool::new(false), watchers: AtomicUsize::new(0) }
    }

    /// The word, after a fence.
    fn fenced_word(&self, is_fence_missing: bool) -> u64 {
        if !is_fence_missing {
            full_fence();
        }
        // Ordering: Relaxed. Ordered by the fence (A1, A5, A8): the pairs are above.
        self.word.load(Ordering::Relaxed)
    }

    /// A1 to A3. The caller has pushed work.
    pub(crate) fn call(&self) -> Called {
        let mut word = self.fenced_word(broken(Fault::AttendantCalledWithoutFence));
        loop {
            match word & STATE {
                VACANT => return Called::Vacant,
                AWAKE => return Called::Awake,
                _ => {}
            }
            let term = Term::of(word);
            // Ordering: AcqRel (A3). Pairs with A4 and itself: the attendant that is woken sees what
            // the caller did. Relaxed if lost: the loop looks again.
            match self.word.compare_exchange(word, term.word(AWAKE), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.wake(term);
                    return Called::Woken;
                }
                Err(now) => word = now,
            }
        }
    }

    fn wake(&self, term: Term) {
        if let Some(thread) = self.threads.get(Self::number(term)) {
            thread.unpark();
        }
    }

    fn number(term: Term) -> usize {
        term.0 as usize >> THREAD_SHIFT & (THREADS_MAX - 1)
    }

    /// The thread of this number attends, if nobody does.
    pub(crate) fn begin(&self, number: usize) -> Option<Term> {
        // Ordering: Relaxed. Decided by the exchange.
        let word = self.word.load(Ordering::Relaxed);
        if word & STATE != VACANT || number >= self.threads.len() {
            return None;
        }
        let term = Term(((word >> TERM_SHIFT) + 1) << TERM_SHIFT | (number as u64) << THREAD_SHIFT);
        // Ordering: AcqRel, Relaxed if lost. The word hands nothing over but itself.
        self.word.compare_exchange(word, term.word(AWAKE), Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(term)
    }

    /// A8, A10. Whether the calling thread may leave what it has pushed to itself: it still attends, and
    /// somebody watches. If it `takes_next` what it has pushed nobody need do that.
    pub(crate) fn may_leave(&self, term: Term, takes_next: bool) -> bool {
        let is_held = self.fenced_word(broken(Fault::AttendantLeavesWithoutFence)) == term.word(AWAKE);
        // Ordering: Relaxed. Ordered by the fence, and that of A12.
        is_held && (takes_next || self.watchers.load(Ordering::Relaxed) > 0)
    }

    /// A11. The caller is going to look, until `unwatch`.
    pub(crate) fn watch(&self) {
        // Ordering: Relaxed. Who does not see it tells others.
        self.watchers.fetch_add(1, Ordering::Relaxed);
    }

    /// A12. The caller looks once more, after this.
    pub(crate) fn unwatch(&self) {
        // Ordering: Relaxed. Ordered by the fence.
        self.watchers.fetch_sub(1, Ordering::Relaxed);
        if !broken(Fault::UnwatchedWithoutFence) {
            full_fence();
        }
    }

    /// The term of the attendant that is awake.
    pub(crate) fn awake(&self) -> Option<Term> {
        // Ordering: Relaxed. A hint: A9 decides.
        let word = self.word.load(Ordering::Relaxed);
        (word & STATE == AWAKE).then(|| Term::of(word))
    }

    /// The number of the thread that attends.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn attendant(&self) -> Option<usize> {
        // Ordering: Relaxed. A look from outside.
        let word = self.word.load(Ordering::Relaxed);
        (word & STATE != VACANT).then(|| Self::number(Term::of(word)))
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_asleep(&self) -> bool {
        // Ordering: Relaxed. A look from outside.
        self.word.load(Ordering::Relaxed) & STATE == ASLEEP
    }

    /// A9. Ends the term of an attendant that is awake. Whether it did: then the caller tells others of
    /// all that is in the queues.
    pub(crate) fn depose(&self, term: Term) -> bool {
        // Ordering: AcqRel, Relaxed if lost. Ordered by the fence below.
        let is_done = self.word.compare_exchange(term.word(AWAKE), term.word(VACANT), Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_done && !broken(Fault::DeposedWithoutFence) {
            full_fence();
        }
        is_done
    }

    /// A4 to A7. Sleeps until called, unless `work_waits`; at the longest for two times `half_limit`.
    pub(crate) fn sleep(&self, term: Term, half_limit: Duration, work_waits: impl FnOnce() -> bool) -> Slept {
        // Ordering: AcqRel, Relaxed if lost (A4). Pairs with A3.
        if self.word.compare_exchange(term.word(AWAKE), term.word(ASLEEP), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Slept::Deposed;
        }
        if !broken(Fault::AttendantSleepsWithoutFence) {
            full_fence(); // A5
        }
        if !broken(Fault::AttendantSleepsBlindly) && work_waits() {
            // Ordering: AcqRel, Acquire if lost (A6). Lost to A3: it is awake already.
            let _ = self.word.compare_exchange(term.word(ASLEEP), term.word(AWAKE), Ordering::AcqRel, Ordering::Acquire);
            return Slept::Called;
        }
        // Ordering: Relaxed. Ordered by A5, and the fence in `close`.
        let half_limit = if self.is_closed.load(Ordering::Relaxed) { Duration::ZERO } else { half_limit };
        // Two times: the first one may end at once, by an unpark that was meant for an earlier sleep.
        for _ in 0..2 {
            // Ordering: Acquire. Pairs with A3.
            if self.word.load(Ordering::Acquire) != term.word(ASLEEP) {
                break;
            }
            park(Some(half_limit)); // A7
        }
        if self.leave(term) { Slept::Left } else { Slept::Called }
    }

    /// A7. Ends the term, unless the attendant has just been called. Whether it did, or somebody else.
    pub(crate) fn leave(&self, term: Term) -> bool {
        if broken(Fault::AttendantLeavesBlindly) {
            // Ordering: AcqRel. The broken variant: it may have been called.
            self.word.swap(term.word(VACANT), Ordering::AcqRel);
            return true;
        }
        // Ordering: AcqRel, Acquire if lost. Pairs with A3.
        match self.word.compare_exchange(term.word(ASLEEP), term.word(VACANT), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now != term.word(AWAKE),
        }
    }

    /// Has the attendant leave when it has nothing to do: nobody will call any more.
    pub(crate) fn close(&self) {
        // Ordering: Relaxed. Ordered by the fence: either the attendant sees it after A5, or it is
        // asleep here.
        self.is_closed.store(true, Ordering::Relaxed);
        let word = self.fenced_word(false);
        if word & STATE == ASLEEP && self.leave(Term::of(word)) {
            self.wake(Term::of(word));
        }
    }
}
