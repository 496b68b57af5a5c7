//! Dispatch: how batches of due entries get to the threads that fire them.
//!
//! A shard fills a [`Batch`] and submits it to its [`Dispatcher`]; what firing means is behind [`Fire`], which the service implements.
//! Inline, the shard's own thread does it all. On a pool, rayon's or the user's, a batch becomes a [`job`], which idle workers share down to the single
//! task, so that a slow task delays nobody as long as one worker is idle. Or the payloads are sent to a [`channel`].
//!
//! # Saturation
//!
//! At most [`WAITING_MAX`] batches of a shard wait in the pool. While they do the shard *holds* what else is due: it stays in the wheel, where it costs no further
//! memory and can be cancelled, and `stop` hands it back. The shard takes its messages in all the same, and looks for room every quarter of a millisecond,
//! every millisecond while no batch begins. Turns that hold something are counted (`ShardStats::held`), and so are the batches that wait
//! (`ShardStats::pool_backlog`). Nothing is dropped, and nothing is refused: a pool whose workers are all blocked delays what is due until one is free, and the
//! lateness shows it. A batch that has begun counts no more, so slow tasks hold up nothing while a worker is idle.
//!
//! The same holds for a channel that is full. A pool on a manual clock has no such limit: whoever moves the clock may be its only worker.

pub(crate) mod attendant;
pub(crate) mod channel;
pub(crate) mod job;
pub(crate) mod leaf;
pub(crate) mod pool;
pub(crate) mod pooled;

use crate::entry::Entry;
use leaf::{Leaf, Leaves};
use pooled::Execute;
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

/// Due entries on their way.
pub(crate) type Batch = Vec<Entry>;

/// Jobs are counted in two halves: all threads of a job in the one in which it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half(pub(crate) usize);

/// Fires due entries: claims them, and runs their tasks. Does not unwind.
pub(crate) trait Fire: Send + Sync + 'static {
    /// What a timer was armed with.
    type Payload: Send;

    /// A run of a periodic timer.
    type Run: Send + 'static;

    /// A thread begins a job: from here to `end` it may claim, and run tasks.
    fn begin(&self) -> Half;

    /// A further thread begins with a job, which is counted in this half.
    fn begin_in(&self, half: Half);

    /// Claims at most [`LEAF`] entries; adds their payloads, and gives `run` the runs of periodic timers.
    fn claim(&self, entries: &[Entry], add: impl FnMut(Self::Payload), run: impl FnMut(Self::Run));

    /// Takes payloads and runs their tasks, until none is left.
    fn run(&self, leaf: &Leaf<'_, Self::Payload>);

    /// Runs a periodic timer once, and files it for its next run.
    fn repeat(&self, run: Self::Run);

    /// Gives up a run that nobody will do: its timer ends.
    fn give_up(&self, run: Self::Run);

    /// Drops payloads that nobody is there to take.
    fn discard(&self, payloads: impl Iterator<Item = Self::Payload>);

    /// A thread that has begun a job of this half has ended.
    fn end(&self, half: Half);
}

/// A shard's way to its workers.
pub(crate) trait Dispatcher: Send {
    /// How many entries may be submitted now.
    fn room(&self) -> usize;

    /// Has the entries fired, and takes them off the batch. Those that it leaves there it had no room for after all: they are submitted again.
    fn submit(&mut self, batch: &mut Batch);

    /// Sees whether what was submitted is held up where others could help. Whether to look again, in
    /// a millisecond or less.
    fn look(&mut self) -> bool {
        false
    }
}

/// Where the tasks of expired timers run.
///
/// # Example
/// ```
/// use wheelwork::{Dispatch, TimerService};
///
/// let service = TimerService::builder().dispatch(Dispatch::RayonThreads(2)).start()?;
/// # Ok::<(), wheelwork::StartError>(())
/// ```
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
    /// Whatever this function does with the jobs that it is given: see [`Dispatch::executor`].
    Executor(Arc<Execute>),
}

impl Dispatch {
    /// Has jobs run by an executor of yours: a thread pool, an asynchronous runtime's blocking threads.
    ///
    /// `execute` is given jobs that each run some due timers' tasks. It may run them on any thread, at any time, in any order; they do not unwind. While
    /// 64 of a shard's have not begun, the shard gives no more, and what is due waits in its wheel. A job may offer work to idle threads by further
    /// jobs, which have nothing to do if they run late; one of these that is dropped costs its timers the help, and nothing else.
    ///
    /// A job that is dropped without being run has its timers' payloads dropped; they count as fired, and in
    /// [`ShardStats::dropped`](crate::ShardStats::dropped). A dropped run of a periodic timer ends the timer. A panic of `execute` counts in [`Stats::hook_panics`](crate::Stats::hook_panics). It is called on the
    /// shard's thread, and on threads that run jobs: it should be quick. One that runs the job before it returns is like [`Dispatch::Inline`].
    ///
    /// Cost: two allocations more for each 1,024 due timers.
    ///
    /// # Example
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use wheelwork::{Dispatch, TimerService};
    ///
    /// let (jobs, run) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    /// std::thread::spawn(move || run.into_iter().for_each(|job| job()));
    /// let execute = move |job| {
    ///     let _ = jobs.send(job);
    /// };
    /// let service = TimerService::builder().dispatch(Dispatch::executor(execute)).start()?;
    /// let (send, receive) = mpsc::channel();
    /// service.schedule(Duration::from_millis(1), move || send.send("due").unwrap())?;
    /// assert_eq!(receive.recv()?, "due");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn executor(execute: impl Fn(Box<dyn FnOnce() + Send>) + Send + Sync + 'static) -> Self {
        Self::Executor(Arc::new(execute))
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rayon => f.write_str("Rayon"),
            Self::RayonThreads(threads) => f.debug_tuple("RayonThreads").field(threads).finish(),
            Self::Pool(pool) => f.debug_tuple("Pool").field(&pool.current_num_threads()).finish(),
            Self::Inline => f.write_str("Inline"),
            Self::Executor(_) => f.write_str("Executor(..)"),
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
