//! Pooled: batches become jobs of a pool's: rayon's, or whatever the user's executor is.

use super::job::{Job, Spawn};
use super::{BATCH, Batch, Dispatcher, Fire, WAITING_MAX};
use crate::sync::{AtomicUsize, Ordering};
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
        self.pool.spawn(move || submitted.begin(&pool));
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

impl Spawn for Arc<ThreadPool> {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        ThreadPool::spawn(self, work);
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
