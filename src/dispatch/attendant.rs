//! Attendant: the one thread of a pool that parks here when it has nothing to do, so that a batch
//! costs one wake-up.
//!
//! The [`Post`] belongs to the queues of a pool. The pool's threads attend at it; shards and other
//! threads call. README.md of this room has the protocol, and why no work is forgotten.
//!
//! Ground rules:
//!
//! - Work is in a queue before anybody is called or deposed for it, and before it is announced.
//! - There is one attendant at a time. It has a *term*, which ends when it leaves or is deposed.
//! - A thread that leaves work to the attendant looks again, or the shard for which it works does.

use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Fault, Ordering, Thread, broken, full_fence,
    full_fence_unless, park,
};
use std::time::Duration;

/// States, in the lowest bits of the word. Nobody attends.
const VACANT: u64 = 0;
/// The attendant sleeps, or is about to.
const ASLEEP: u64 = 1;
/// The attendant works.
const AWAKE: u64 = 2;
/// The bits of the state.
const STATE: u64 = 3;

/// Above the state: the attendant's number among the pool's threads. Above that: the number of its
/// term.
const THREAD_SHIFT: u32 = 2;
const TERM_SHIFT: u32 = 18;

/// The pool's threads that may attend: the most threads that rayon can have.
const THREADS_MAX: usize = 1 << (TERM_SHIFT - THREAD_SHIFT);

/// Where the attendant waits and is called.
pub(crate) struct Post {
    word: AtomicU64,
    /// By number.
    threads: Vec<Thread>,
    /// Whether nobody will call any more.
    is_closed: AtomicBool,
    /// Shards that look after the attendant.
    watchers: AtomicUsize,
}

/// A thread's time as attendant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term(u64);

impl Term {
    /// The word of this term in a state.
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
    /// Nobody attends: the caller has to announce.
    Vacant,
    /// The attendant is awake. It has found or will find the work, unless something holds it up.
    Awake,
    /// The attendant was asleep, and is woken.
    Woken,
}

/// How a sleep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    /// There is work.
    Called,
    /// The term is over: nobody called in time, or it was deposed after a call.
    Left,
    /// The attendant was deposed: the term was over before.
    Deposed,
}

impl Post {
    /// A post for these threads, in the order of their numbers.
    pub(crate) fn new(mut threads: Vec<Thread>) -> Self {
        threads.truncate(THREADS_MAX);
        Self {
            word: AtomicU64::new(VACANT),
            threads,
            is_closed: AtomicBool::new(false),
            watchers: AtomicUsize::new(0),
        }
    }

    /// The word, for a thread that has just passed a fence.
    fn fenced_word(&self) -> u64 {
        // Ordering: Relaxed. Ordered by the fence (CallFence, KeepFence). README.md has its pairs.
        self.word.load(Ordering::Relaxed)
    }

    /// CallFence to CallWake. Called after work was pushed.
    pub(crate) fn call(&self) -> Called {
        full_fence_unless(Fault::AttendantCalledWithoutFence); // CallFence
        let mut word = self.fenced_word(); // CallLook
        loop {
            match word & STATE {
                VACANT => return Called::Vacant,
                AWAKE => return Called::Awake,
                _ => {}
            }
            let term = Term::of(word);
            // Ordering: AcqRel (CallWake). Pairs with AttendAnnounce and with itself: the attendant
            // that is woken sees what the caller did. Relaxed if lost: the loop looks again.
            match self.word.compare_exchange(
                word,
                term.word(AWAKE),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
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

    /// The thread with this number attends, if nobody does. Returns its term.
    pub(crate) fn begin(&self, number: usize) -> Option<Term> {
        // Ordering: Relaxed. The exchange below decides.
        let word = self.word.load(Ordering::Relaxed);
        if word & STATE != VACANT || number >= self.threads.len() {
            return None;
        }
        let term = Term(((word >> TERM_SHIFT) + 1) << TERM_SHIFT | (number as u64) << THREAD_SHIFT);
        // Ordering: AcqRel, Relaxed if lost. The word hands over only itself.
        self.word
            .compare_exchange(word, term.word(AWAKE), Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        Some(term)
    }

    /// KeepFence, KeepLook. Whether the attendant may leave what it has pushed to itself. It may if
    /// it still attends, and a shard watches.
    pub(crate) fn may_leave(&self, term: Term) -> bool {
        full_fence_unless(Fault::AttendantLeavesWithoutFence); // KeepFence
        let is_held = self.fenced_word() == term.word(AWAKE);
        // Ordering: Relaxed (KeepLook). Ordered by KeepFence, and the fence of WatchEnd.
        is_held && self.watchers.load(Ordering::Relaxed) > 0
    }

    /// WatchBegin. The caller looks from now on, until `unwatch`.
    pub(crate) fn watch(&self) {
        // Ordering: Relaxed. An attendant that does not see it announces.
        self.watchers.fetch_add(1, Ordering::Relaxed);
    }

    /// WatchEnd. The caller looks once more after this.
    pub(crate) fn unwatch(&self) {
        // Ordering: Relaxed. Ordered by the fence.
        self.watchers.fetch_sub(1, Ordering::Relaxed);
        full_fence_unless(Fault::UnwatchedWithoutFence);
    }

    /// The term of the attendant, if it is awake.
    pub(crate) fn awake(&self) -> Option<Term> {
        // Ordering: Relaxed. A hint: Depose decides.
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
    pub(super) fn is_asleep(&self) -> bool {
        // Ordering: Relaxed. A look from outside.
        self.word.load(Ordering::Relaxed) & STATE == ASLEEP
    }

    /// Depose. Ends the term of an attendant that is awake. Returns whether this call ended it:
    /// then the caller announces all that is in the queues.
    pub(crate) fn depose(&self, term: Term) -> bool {
        // Ordering: AcqRel, Relaxed if lost. Ordered by the fence below.
        let is_done = self
            .word
            .compare_exchange(
                term.word(AWAKE),
                term.word(VACANT),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok();
        if is_done {
            full_fence_unless(Fault::DeposedWithoutFence);
        }
        is_done
    }

    /// AttendAnnounce to AttendPark. Sleeps until called, unless `work_waits`; for at most twice
    /// `half_limit`.
    pub(crate) fn sleep(
        &self,
        term: Term,
        half_limit: Duration,
        work_waits: impl FnOnce() -> bool,
    ) -> Slept {
        // Ordering: AcqRel, Relaxed if lost (AttendAnnounce). Pairs with CallWake.
        if self
            .word
            .compare_exchange(
                term.word(AWAKE),
                term.word(ASLEEP),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_err()
        {
            return Slept::Deposed;
        }
        full_fence_unless(Fault::AttendantSleepsWithoutFence); // AttendFence
        if !broken(Fault::AttendantSleepsBlindly) && work_waits() {
            // Ordering: AcqRel, Acquire if lost (AttendLook). If CallWake won, the word is awake
            // already.
            let _ = self.word.compare_exchange(
                term.word(ASLEEP),
                term.word(AWAKE),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            return Slept::Called;
        }
        // Ordering: Relaxed. Ordered by AttendFence, and the fence in `close`.
        let half_limit = if self.is_closed.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            half_limit
        };
        // Twice: an unpark that was meant for an earlier sleep may end the first park at once.
        for _ in 0..2 {
            // Ordering: Acquire. Pairs with CallWake.
            if self.word.load(Ordering::Acquire) != term.word(ASLEEP) {
                break;
            }
            park(Some(half_limit)); // AttendPark
        }
        if self.leave(term) {
            Slept::Left
        } else {
            Slept::Called
        }
    }

    /// AttendPark. Ends the term, unless the attendant has just been called. Returns whether the
    /// term is over, ended by this call or by somebody else.
    pub(crate) fn leave(&self, term: Term) -> bool {
        if broken(Fault::AttendantLeavesBlindly) {
            // Ordering: AcqRel. The broken variant: the attendant may have been called.
            self.word.swap(term.word(VACANT), Ordering::AcqRel);
            return true;
        }
        // Ordering: AcqRel, Acquire if lost. Pairs with CallWake.
        match self.word.compare_exchange(
            term.word(ASLEEP),
            term.word(VACANT),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => true,
            Err(now) => now != term.word(AWAKE),
        }
    }

    /// Nobody will call any more: the attendant leaves when it has nothing to do.
    pub(crate) fn close(&self) {
        // Ordering: Relaxed. Ordered by the fence below: either the attendant sees it after
        // AttendFence, or the word says asleep here.
        self.is_closed.store(true, Ordering::Relaxed);
        full_fence();
        let word = self.fenced_word();
        if word & STATE == ASLEEP && self.leave(Term::of(word)) {
            self.wake(Term::of(word));
        }
    }
}
