//! Dispatch: how batches of due entries get to the threads that fire them.
//!
//! A shard fills a [`Batch`] and submits it to its [`Dispatcher`]; what firing means is behind [`Fire`], which the service implements.
//! Inline, the shard's own thread does it all. On a rayon pool a batch becomes a [`job`], which idle workers share down to the single
//! task, so that a slow task delays nobody as long as one worker is idle.
//!
//! At most [`WAITING_MAX`] batches of a shard wait in the pool; while they do, what else is due stays in the shard's wheel, where it costs no further memory
//! and can be cancelled. A pool whose workers are all blocked delays what is due until one is free.

pub(crate) mod job;
pub(crate) mod leaf;

use crate::entry::Entry;
use crate::sync::{AtomicUsize, Ordering};
use crossbeam_queue::ArrayQueue;
use job::{Job, Spawn};
use leaf::{Leaf, Leaves};
use rayon::ThreadPool;
use std::fmt;
use std::sync::Arc;

/// Entries that one worker claims at a time.
#[cfg(not(loom))]
pub(crate) const LEAF: usize = 64;
#[cfg(loom)]
pub(crate) const LEAF: usize = 3;

/// Entries of one job: some 20 us of empty tasks, so that the cost of a job does not count and a burst spreads over the pool.
pub(crate) const BATCH: usize = 1024;

/// Batches that may wait for a worker: some milliseconds of work for two. Jobs that have begun do not count, however long they take.
pub(crate) const WAITING_MAX: usize = 64;

/// Buffers kept for the next batches: in a burst the same ones go round, warm.
const BUFFERS_KEPT: usize = WAITING_MAX;

/// Due entries on their way.
pub(crate) type Batch = Vec<Entry>;

/// Fires due entries: claims them, and runs their tasks. Does not unwind.
pub(crate) trait Fire: Send + Sync + 'static {
    /// What a timer was armed with.
    type Payload: Send;

    /// A thread begins: from here to `end` it may claim, and run tasks.
    fn begin(&self);

    /// Claims at most [`LEAF`] entries, and adds their payloads.
    fn claim(&self, entries: &[Entry], add: impl FnMut(Self::Payload));

    /// Takes payloads and runs their tasks, until none is left.
    fn run(&self, leaf: &Leaf<'_, Self::Payload>);

    /// A thread that has begun has ended.
    fn end(&self);
}

/// A shard's way to its workers.
pub(crate) trait Dispatcher: Send {
    /// How many entries may be submitted now.
    fn room(&self) -> usize;

    /// Has the entries fired, and leaves the batch empty. Inline that is done when it returns.
    fn submit(&mut self, batch: &mut Batch);
}

/// Where the tasks of expired timers run.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Dispatch {
    /// A rayon pool of the service's own, with one thread for each core. The default.
    #[default]
    Rayon,
    /// A rayon pool of the service's own with this many threads (at least 1).
    RayonThreads(usize),
    /// A rayon pool shared with others.
    Pool(Arc<ThreadPool>),
    /// The shard's own thread, for handlers of a few microseconds at most: while one runs, its shard's other timers wait.
    Inline,
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rayon => f.write_str("Rayon"),
            Self::RayonThreads(threads) => f.debug_tuple("RayonThreads").field(threads).finish(),
            Self::Pool(pool) => f.debug_tuple("Pool").field(&pool.current_num_threads()).finish(),
            Self::Inline => f.write_str("Inline"),
        }
    }
}

/// Fires on the shard's own thread.
pub(crate) struct Inline<F: Fire> {
    fire: Arc<F>,
    /// One leaf, used again and again.
    leaves: Leaves<F::Payload>,
}

impl<F: Fire> Inline<F> {
    pub(crate) fn new(fire: Arc<F>) -> Self {
        Self { fire, leaves: Leaves::new(LEAF) }
    }
}

impl<F: Fire> Dispatcher for Inline<F> {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn submit(&mut self, batch: &mut Batch) {
        job::alone(&*self.fire, batch, &mut self.leaves);
        batch.clear();
    }
}

/// Fires on a rayon pool.
pub(crate) struct Pooled<F> {
    fire: Arc<F>,
    pool: Arc<ThreadPool>,
    buffers: Arc<ArrayQueue<Batch>>,
    /// Batches that were submitted and have not begun.
    waiting: Arc<AtomicUsize>,
    /// So many of them may.
    waiting_max: usize,
}

impl<F: Fire> Pooled<F> {
    /// On this pool, in which so many batches may wait. How many do is in `waiting`.
    pub(crate) fn new(fire: Arc<F>, pool: Arc<ThreadPool>, waiting: Arc<AtomicUsize>, waiting_max: usize) -> Self {
        Self { fire, pool, buffers: Arc::new(ArrayQueue::new(BUFFERS_KEPT)), waiting, waiting_max }
    }
}

impl<F: Fire> Dispatcher for Pooled<F> {
    fn room(&self) -> usize {
        // Ordering: Relaxed. A hint: the shard alone adds, so a stale count is too high at worst.
        self.waiting_max.saturating_sub(self.waiting.load(Ordering::Relaxed)).saturating_mul(BATCH)
    }

    fn submit(&mut self, batch: &mut Batch) {
        let empty = self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
        let job = Job::new(self.fire.clone(), std::mem::replace(batch, empty), self.buffers.clone());
        let waiting = self.waiting.clone();
        // Ordering: Relaxed, as below. A count for `room`; the batch itself is handed over by rayon.
        waiting.fetch_add(1, Ordering::Relaxed);
        self.pool.spawn(move || {
            // Ordering: Relaxed.
            waiting.fetch_sub(1, Ordering::Relaxed);
            job.work(&ThisPool);
        });
    }
}

/// The rayon pool of the worker that spawns.
#[derive(Clone)]
struct ThisPool;

impl Spawn for ThisPool {
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        rayon::spawn(work);
    }
}
