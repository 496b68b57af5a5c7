//! Pooled: batches become jobs of a pool's: rayon's, or whatever the user's executor is.

use super::job::{Job, Spawn};
use super::{BATCH, Batch, Dispatcher, Fire, WAITING_MAX};
use crate::sync::{AtomicUsize, Ordering, Queue};
use crossbeam_queue::ArrayQueue;
use rayon::ThreadPool;
use std::sync::Arc;

/// Buffers kept for the next batches: in a burst the same ones go round, warm.
const BUFFERS_KEPT: usize = WAITING_MAX;

/// A user's way to run a job.
pub(crate) type Execute = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

/// Fires on a pool.
pub(crate) struct Pooled<F, S> {
    fire: Arc<F>,
    pool: S,
    buffers: Arc<ArrayQueue<Batch>>,
    /// Batches that were submitted and have not begun.
    waiting: Arc<AtomicUsize>,
    /// So many of them may.
    waiting_max: usize,
}

impl<F: Fire, S: Spawn> Pooled<F, S> {
    /// On this pool, in which so many batches may wait. How many do is in `waiting`.
    pub(crate) fn new(fire: Arc<F>, pool: S, waiting: Arc<AtomicUsize>, waiting_max: usize) -> Self {
        Self { fire, pool, buffers: Arc::new(ArrayQueue::new(BUFFERS_KEPT)), waiting, waiting_max }
    }
}

impl<F: Fire, S: Spawn> Dispatcher for Pooled<F, S> {
    fn room(&self) -> usize {
        // Ordering: Relaxed. A hint: the shard alone adds, so a stale count is too high at worst.
        self.waiting_max.saturating_sub(self.waiting.load(Ordering::Relaxed)).saturating_mul(BATCH)
    }

    fn submit(&mut self, batch: &mut Batch) {
        let empty = self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
        let job = Job::new(self.fire.clone(), std::mem::replace(batch, empty), self.buffers.clone());
        // Ordering: Relaxed. A count for `room`; the batch itself is handed over by the pool.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let (submitted, pool) = (Submitted { job: Some(job), waiting: self.waiting.clone() }, self.pool.clone());
        self.pool.submit(move || submitted.begin(&pool));
    }
}

/// A job that waits in the pool. If the pool drops it, its timers' payloads are dropped.
struct Submitted<F: Fire> {
    job: Option<Arc<Job<F>>>,
    waiting: Arc<AtomicUsize>,
}

impl<F: Fire> Submitted<F> {
    fn begin(mut self, pool: &impl Spawn) {
        if let Some(job) = self.leave() {
            job.work(pool);
        }
    }

    /// It waits no more.
    fn leave(&mut self) -> Option<Arc<Job<F>>> {
        // Ordering: Relaxed. As in `submit`.
        self.job.take().inspect(|_| _ = self.waiting.fetch_sub(1, Ordering::Relaxed))
    }
}

impl<F: Fire> Drop for Submitted<F> {
    fn drop(&mut self) {
        if let Some(job) = self.leave() {
            job.abandon();
        }
    }
}

/// A rayon pool, whose threads begin jobs before they help with others. Rayon alone would have a thread that has ended a job share its neighbour's, and the two
/// would pull the lines of one job from core to core, while others wait.
#[derive(Clone)]
pub(crate) struct Pool {
    threads: Arc<ThreadPool>,
    queues: Arc<Queues>,
}

type Work = Box<dyn FnOnce() + Send>;

/// Works that wait, each announced to the threads: an announcement is for whatever comes first.
struct Queues {
    jobs: Queue<Work>,
    offers: Queue<Work>,
}

impl Pool {
    pub(crate) fn new(threads: Arc<ThreadPool>) -> Self {
        Self { threads, queues: Arc::new(Queues { jobs: Queue::new(), offers: Queue::new() }) }
    }

    fn announce(&self) {
        let queues = self.queues.clone();
        self.threads.spawn(move || queues.jobs.pop().or_else(|| queues.offers.pop()).into_iter().for_each(|work| work()));
    }
}

impl Spawn for Pool {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.threads.spawn(work);
    }

    fn submit(&self, begin: impl FnOnce() + Send + 'static) {
        self.queues.jobs.push(Box::new(begin));
        self.announce();
    }

    fn offer(&self, take_up: impl FnOnce() + Send + 'static) {
        self.queues.offers.push(Box::new(take_up));
        self.announce();
    }
}

/// A user's executor, behind a function that does not unwind.
#[derive(Clone)]
pub(crate) struct Executor(pub(crate) Arc<Execute>);

impl Spawn for Executor {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        (self.0)(Box::new(work));
    }
}
