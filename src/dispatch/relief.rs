//! Relief: threads beside a pool, for jobs at which no worker of the pool goes on.
//!
//! Owned by the shard, and touched by its thread alone. The shard notices that nothing of its jobs
//! was taken for [`STALLED_NS`]: then all workers are blocked, or busy for so long. It starts a
//! thread, which works at these jobs as a worker does, and ends. If that one is blocked too, it
//! starts the next, up to a bound.
//!
//! The service decides what such a thread may do: its handler asks [`is_relief_thread`].

use super::fire::Fire;
use super::job::{Job, Spawn};
use crate::sync::{AtomicUsize, Loose, Ordering, per_thread};
use crate::time::Clock;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Nothing is taken for this time: a thread is started.
const STALLED_NS: u64 = 10_000_000;

/// Between two looks at the jobs.
const LOOK_NS: u64 = 5_000_000;

per_thread! {
    /// Whether this thread was started here.
    static RELIEVES: Cell<bool> = const { Cell::new(false) };
}

/// What a thread does before it works: it may use the cores again that its shard left to others.
pub(crate) type Begin = Arc<dyn Fn() + Send + Sync>;

/// Whether the calling thread relieves a pool: a service has started it because all workers of its
/// pool are blocked, as [`max_relief_threads`](crate::Builder::max_relief_threads) says.
///
/// The handler of such a service asks here, and leaves to others what would block this thread for
/// long. Costs a look at a thread-local.
///
/// # Example
/// See [`Builder::max_relief_threads`](crate::Builder::max_relief_threads).
#[must_use]
pub fn is_relief_thread() -> bool {
    RELIEVES.with(Cell::get)
}

/// A job, and what was left of it when the shard looked last.
struct WatchedJob<F: Fire> {
    job: Loose<Job<F>>,
    left: usize,
}

/// The jobs of a shard that have not ended, and the threads that were started for them.
pub(super) struct Relief<F: Fire> {
    /// In the order in which they were submitted.
    jobs: VecDeque<WatchedJob<F>>,
    /// Batches that wait in the pool.
    waiting: Arc<AtomicUsize>,
    /// The threads that there are, and the most.
    threads: Arc<AtomicUsize>,
    threads_max: usize,
    begin: Begin,
    clock: Clock,
    /// Since when nothing was taken, and when to look again.
    since_ns: u64,
    look_at_ns: u64,
}

impl<F: Fire> Relief<F> {
    pub(super) fn new(waiting: Arc<AtomicUsize>, threads_max: usize, begin: Begin) -> Self {
        Self {
            begin,
            jobs: VecDeque::new(),
            waiting,
            threads: Arc::default(),
            threads_max,
            clock: Clock::monotonic(),
            since_ns: 0,
            look_at_ns: 0,
        }
    }

    /// A job is about to be submitted.
    pub(super) fn add(&mut self, job: &Arc<Job<F>>) {
        if self.jobs.is_empty() {
            self.since_ns = self.clock.now_ns();
            self.look_at_ns = self.since_ns + LOOK_NS;
        }
        self.jobs.push_back(WatchedJob {
            job: Loose::of(job),
            left: job.left(),
        });
    }

    /// Starts a thread, if the jobs need one. Returns whether to look again.
    pub(super) fn look(&mut self, pool: &impl Spawn) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let now_ns = self.clock.now_ns();
        // (A longer wait began before a step back of the clock.)
        if (1..=LOOK_NS).contains(&self.look_at_ns.saturating_sub(now_ns)) {
            return true;
        }
        self.since_ns = self.since_ns.min(now_ns);
        self.look_at_ns = now_ns + LOOK_NS;
        if self.is_taken_from() {
            self.since_ns = now_ns;
        } else if now_ns - self.since_ns >= STALLED_NS {
            self.since_ns = now_ns;
            self.start(pool);
        }
        !self.jobs.is_empty()
    }

    /// Whether something was taken since the last look. Forgets jobs of which nothing is left.
    ///
    /// The first jobs are those at which somebody works. So it looks at few: at those that are
    /// over, at those that do not go on, and at one that does.
    fn is_taken_from(&mut self) -> bool {
        let (mut at, mut is_taken_from) = (0, false);
        while let Some(watched) = self.jobs.get_mut(at) {
            let left = watched.job.get().map_or(0, |job| job.left());
            let before = std::mem::replace(&mut watched.left, left);
            is_taken_from |= left != before;
            if left == 0 {
                self.jobs.remove(at);
            } else if left != before {
                return true;
            } else {
                at += 1;
            }
        }
        is_taken_from
    }

    /// Starts a thread, unless there are too many.
    fn start(&self, pool: &impl Spawn) {
        // Ordering: Relaxed. Only this thread adds, so a stale value is too high at worst.
        if self.threads.load(Ordering::Relaxed) >= self.threads_max {
            return;
        }
        let mut jobs = Vec::new();
        for watched in &self.jobs {
            if let Some(job) = watched.job.get() {
                jobs.push(Loose::of(&job));
            }
        }
        // Ordering: Relaxed. As above.
        self.threads.fetch_add(1, Ordering::Relaxed);
        let counted = CountedThread(self.threads.clone());
        let (waiting, pool, begin) = (self.waiting.clone(), pool.clone(), self.begin.clone());
        start_thread(Box::new(move || {
            let _counted = counted;
            begin();
            for job in jobs {
                if let Some(job) = job.get() {
                    relieve(&job, &waiting, &pool);
                }
            }
        }));
    }
}

/// Starts a thread that relieves. (Without a thread the next look tries again.)
fn start_thread(work: Box<dyn FnOnce() + Send>) {
    let run = || {
        RELIEVES.with(|relieves| relieves.set(true));
        work();
    };
    let _ = crate::sync::start_thread("wheelwork-relief".to_owned(), Box::new(run));
}

/// Works at a job: as its first worker, if it has none.
fn relieve<F: Fire>(job: &Arc<Job<F>>, waiting: &AtomicUsize, pool: &impl Spawn) {
    if job.begin() {
        // Ordering: Relaxed. A hint, as in `PoolDispatcher::submit`.
        waiting.fetch_sub(1, Ordering::Relaxed);
        job.work(pool);
    } else {
        job.step_in(pool);
    }
}

/// Counts a thread until it has ended.
struct CountedThread(Arc<AtomicUsize>);

impl Drop for CountedThread {
    fn drop(&mut self) {
        // Ordering: Relaxed. A count.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
