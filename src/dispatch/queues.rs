//! Queues: the work that waits for a pool's threads, and what a thread does with it.
//!
//! Owned by the pool's [`Threads`](super::pool::Threads), by an `Arc` that announcements share.
//! Shards and the pool's threads push; the pool's threads take.
//!
//! # How it works
//!
//! - Jobs come before offers, except for one time in [`HELP_EVERY`]. rayon alone would have a
//!   thread that has ended a job help its neighbour's job. The two would pull the cache lines of
//!   one job from core to core, while other jobs wait.
//! - A thread **hears** an announcement: it takes the work that comes first. It then attends, if
//!   the pool has an attendant, nobody attends, and rayon's own loop is all that it would go back
//!   to.
//! - An attendant works until the queues are empty, and then parks in its [`Post`].

use super::announcements::Announcements;
use super::attendant::{Post, Slept, Term};
use crate::sync::{AtomicU64, AtomicUsize, CountU64, Ordering, Queue, per_thread, run_rayon_job};
use crate::time::Clock;
use std::cell::Cell;
use std::time::Duration;

/// Help comes first one time in this many. So work behind a slow task does not wait as long as jobs
/// keep coming.
pub(super) const HELP_EVERY: usize = 16;

/// An attendant that is at work for longer is helped: the time in which another thread wakes up.
pub(super) const LATE_NS: u64 = 50_000;

/// An attendant goes back to rayon after twice this time without work. Not in unit tests: whether
/// the test's thread is scheduled in time shall not matter there.
const IDLE_HALF: Duration = Duration::from_millis(if cfg!(test) { 3_600_000 } else { 100 });

/// `since_ns`: nobody has attended yet.
const IDLE: u64 = u64::MAX;

per_thread! {
    /// The address of the queues for which this thread attends, and its term.
    static ATTENDS: Cell<Option<(usize, Term)>> = const { Cell::new(None) };
}

per_thread! {
    /// Where the stack of this thread begins, if it may attend.
    static STACK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Marks the calling thread as one that may attend. Called just before the thread begins to run
/// rayon's jobs.
pub(crate) fn may_attend() {
    STACK.with(|stack| stack.set(Some(stack_address())));
}

#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// How often a service has woken threads of its pool.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    /// Calls that woke the attendant.
    pub(crate) attendant: CountU64,
    /// Announcements to rayon, which wakes some of its threads if they sleep.
    pub(crate) announcements: CountU64,
}

/// Work that waits.
pub(super) struct Queues {
    pub(super) jobs: Queue<Box<dyn FnOnce() + Send>>,
    pub(super) offers: Queue<Box<dyn FnOnce() -> bool + Send>>,
    /// Pieces of work taken so far: decides when help comes first.
    taken: AtomicUsize,
    pub(super) announcements: Announcements,
    /// Where the attendant is called, in a pool that has one.
    pub(super) post: Option<Post>,
    /// The least depth of the stack at which a thread has heard an announcement.
    outermost: AtomicUsize,
    /// Since when the attendant has been at work, if it is awake. Never in the future.
    since_ns: AtomicU64,
    clock: Clock,
}

impl Queues {
    pub(super) fn new(post: Option<Post>) -> Self {
        Self {
            jobs: Queue::new(),
            offers: Queue::new(),
            taken: AtomicUsize::new(0),
            announcements: Announcements::new(),
            post,
            outermost: AtomicUsize::new(usize::MAX),
            since_ns: AtomicU64::new(IDLE),
            clock: Clock::monotonic(),
        }
    }

    fn len(&self) -> usize {
        self.jobs.len() + self.offers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.offers.is_empty()
    }

    /// Does the work that comes first. Returns whether there was some.
    fn work(&self) -> bool {
        // Ordering: Relaxed. Only the number matters.
        let help_first = self.taken.fetch_add(1, Ordering::Relaxed) % HELP_EVERY == HELP_EVERY - 1;
        if help_first && self.help() {
            return true;
        }
        match self.jobs.pop() {
            Some(begin) => {
                begin();
                true
            }
            None => self.help(),
        }
    }

    /// Takes offers until one of them had something to do. Returns whether one had.
    fn help(&self) -> bool {
        std::iter::from_fn(|| self.offers.pop()).any(|take_up| take_up())
    }

    /// How many pieces of work wait for which no announcement is on its way.
    pub(super) fn unannounced(&self) -> u64 {
        self.announcements.missing(|| self.len())
    }

    /// Runs on the thread that takes an announcement. The thread attends afterwards, if nobody does
    /// and it has nothing else to go back to.
    pub(super) fn hear(&self) {
        let is_outermost = self.is_outermost();
        self.announcements.hear(|| self.work(), || self.len());
        if is_outermost {
            self.attend();
        }
    }

    /// Whether rayon's own loop hears this announcement. Else a task or a job hears it that waits
    /// (in a `join`, say), and must go on when its wait is over. rayon does not tell the two apart,
    /// but the stack of a task is deeper. The first announcement is heard before any task runs.
    #[inline(never)]
    fn is_outermost(&self) -> bool {
        let Some(stack) = self.post.as_ref().and_then(|_| STACK.with(Cell::get)) else {
            return false;
        };
        let depth = stack.abs_diff(stack_address());
        // Ordering: Relaxed. The first announcement writes before it runs work that may hear
        // another.
        depth <= self.outermost.fetch_min(depth, Ordering::Relaxed)
    }

    /// Attends until the thread has left, unless another thread attends.
    fn attend(&self) {
        let (Some(post), Some(number), None) = (
            &self.post,
            rayon::current_thread_index(),
            ATTENDS.with(Cell::get),
        ) else {
            return;
        };
        while self.is_empty()
            && let Some(term) = post.begin(number)
        {
            ATTENDS.with(|attends| attends.set(Some((self.address(), term))));
            let is_deposed = self.serve(post, term);
            ATTENDS.with(|attends| attends.set(None));
            if !is_deposed {
                break;
            }
        }
    }

    /// Works as attendant for a term. Returns whether the thread was deposed.
    fn serve(&self, post: &Post, term: Term) -> bool {
        loop {
            self.note_work();
            while !self.is_empty() {
                self.work();
                if post.awake() != Some(term) {
                    return true;
                }
            }
            // Work that tasks have left to rayon, and announcements whose work is done.
            while run_rayon_job() {}
            // Not `IDLE`: if the term is over, another thread may attend. With `IDLE` that thread
            // would not be late, however long it is held up.
            self.note_work();
            match post.sleep(term, IDLE_HALF, || !self.is_empty()) {
                Slept::Called => {}
                slept => return slept == Slept::Deposed,
            }
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The attendant begins to work now.
    pub(super) fn note_work(&self) {
        // Ordering: Relaxed. A hint, here and in `is_late`.
        self.since_ns.store(self.clock.now_ns(), Ordering::Relaxed);
    }

    /// The term of the calling thread, if it attends.
    pub(super) fn term(&self) -> Option<Term> {
        ATTENDS
            .with(Cell::get)
            .filter(|&(address, _)| address == self.address())
            .map(|(_, term)| term)
    }

    /// Whether the attendant has been at work for longer than [`LATE_NS`].
    pub(super) fn is_late(&self) -> bool {
        // Ordering: Relaxed. As in `note_work`.
        self.clock
            .now_ns()
            .saturating_sub(self.since_ns.load(Ordering::Relaxed))
            > LATE_NS
    }
}
