//! Dispatch: how batches of due entries get to the threads that fire them.
//!
//! A shard fills a [`Batch`] and submits it to its [`Dispatcher`]; what firing means is behind [`Fire`], which the service implements.
//! On a rayon pool a batch is split by `rayon::join` down to leaves of [`LEAF`] entries, so that idle workers steal; and a leaf offers
//! itself to idle workers too ([`Help`]), so that a slow task delays nobody as long as one worker is idle. Inline, the shard's own thread does it all.
//!
//! At most [`WAITING_MAX`] batches of a shard wait in the pool; while they do, what else is due stays in the shard's wheel, where it costs no further memory
//! and can be cancelled. A pool whose workers are all blocked delays what is due until one is free.

use crate::entry::Entry;
use crate::sync::{AtomicUsize, Ordering, per_thread};
use crossbeam_queue::ArrayQueue;
use rayon::ThreadPool;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// Entries that one worker claims at a time.
pub(crate) const LEAF: usize = 64;

/// Entries of one job: some 20 us of empty tasks, so that the cost of a job does not count and a burst spreads over the pool.
pub(crate) const BATCH: usize = 1024;

/// Batches that may wait for a worker: some milliseconds of work for two. Jobs that have begun do not count, however long they take.
pub(crate) const WAITING_MAX: usize = 64;

/// Buffers kept for the next batches: in a burst the same ones go round, warm.
const BUFFERS_KEPT: usize = WAITING_MAX;

per_thread! {
    /// How many jobs this thread is inside of.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread is inside a job of some dispatcher: it runs a handler, or waits there for the other half of a batch and does something
/// else meanwhile, as rayon's workers do. Whoever waits for jobs to end must not wait for these.
pub(crate) fn inside_job() -> bool {
    DEPTH.with(Cell::get) > 0
}

/// Runs a part of a job, which does not unwind.
fn inside(part: impl FnOnce()) {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    part();
    DEPTH.with(|depth| depth.set(depth.get() - 1));
}

/// Due entries on their way.
pub(crate) type Batch = Vec<Entry>;

/// Fires due entries: claims each, runs its task.
pub(crate) trait Fire: Send + Sync {
    /// Fires at most [`LEAF`] entries. Does not unwind.
    fn fire(&self, entries: &[Entry], help: &dyn Help);

    /// A job begins: from here to `end` tasks may run.
    fn begin(&self);

    /// A job has ended.
    fn end(&self);
}

/// Lets idle threads help with a leaf.
pub(crate) trait Help {
    /// Runs `work` here, and on other threads that are idle while `more` says that something is left.
    fn share(&self, work: &(dyn Fn() + Sync), more: &(dyn Fn() -> bool + Sync));
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

/// A shard's way to its workers.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    pool: Option<Arc<ThreadPool>>,
    buffers: Arc<ArrayQueue<Batch>>,
    /// Batches that were submitted and have not begun.
    waiting: Arc<AtomicUsize>,
    /// So many of them may.
    waiting_max: usize,
}

impl Dispatcher {
    /// On a pool in which so many batches may wait, or inline.
    pub(crate) fn new(pool: Option<Arc<ThreadPool>>, waiting_max: usize) -> Self {
        Self { pool, buffers: Arc::new(ArrayQueue::new(BUFFERS_KEPT)), waiting: Arc::new(AtomicUsize::new(0)), waiting_max }
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> Batch {
        self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(BATCH))
    }

    /// How many entries may be submitted now.
    pub(crate) fn room(&self) -> usize {
        // Ordering: Relaxed. A hint: the shard alone adds, so a stale count is too high at worst.
        self.waiting_max.saturating_sub(self.waiting.load(Ordering::Relaxed)).saturating_mul(BATCH)
    }

    /// Has the entries fired, and leaves the batch empty. Inline that is done when it returns.
    pub(crate) fn submit(&self, fire: &Arc<dyn Fire>, batch: &mut Batch) {
        match &self.pool {
            None => {
                fire.begin();
                inside(|| batch.chunks(LEAF).for_each(|leaf| fire.fire(leaf, &Alone)));
                fire.end();
                batch.clear();
            }
            Some(pool) => {
                let mut job = std::mem::replace(batch, self.batch());
                let (fire, buffers, waiting) = (fire.clone(), self.buffers.clone(), self.waiting.clone());
                // Ordering: Relaxed, as below. A count for `room`; the batch itself is handed over by rayon.
                waiting.fetch_add(1, Ordering::Relaxed);
                pool.spawn(move || {
                    // Ordering: Relaxed.
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    fire.begin();
                    inside(|| split(&*fire, &job));
                    fire.end();
                    job.clear();
                    // A full queue: the buffer goes back to the allocator.
                    let _ = buffers.push(job);
                });
            }
        }
    }
}

fn split(fire: &dyn Fire, entries: &[Entry]) {
    if entries.len() <= LEAF {
        fire.fire(entries, &Idle);
        return;
    }
    let middle = (entries.len() / 2).next_multiple_of(LEAF);
    let (left, right) = entries.split_at(middle);
    rayon::join(|| split(fire, left), || inside(|| split(fire, right)));
}

/// No help: the thread does it all.
struct Alone;

impl Help for Alone {
    fn share(&self, work: &(dyn Fn() + Sync), _more: &(dyn Fn() -> bool + Sync)) {
        work();
    }
}

/// The idle workers of the rayon pool on which this runs.
struct Idle;

impl Help for Idle {
    fn share(&self, work: &(dyn Fn() + Sync), more: &(dyn Fn() -> bool + Sync)) {
        // The second half is worth something only if it is stolen: on this thread it comes when nothing is left. A thief offers it again.
        let help = || {
            if more() {
                self.share(work, more);
            }
        };
        rayon::join(work, || inside(help));
    }
}
