//! Target: a user's choice where tasks run.

use rayon::ThreadPool;
use std::fmt;
use std::sync::Arc;

/// Where the tasks of expired timers run.
///
/// # Many services
/// All services of a process that say [`Rayon`](Self::Rayon) share one pool. So each further
/// service costs only the threads of its shards: one for every four cores, rounded up, unless
/// [`shards`](crate::Builder::shards) was called. ([`on_stall`](crate::Builder::on_stall) costs one
/// more.) They also share the pool's workers:
///
/// - While all workers are blocked, no service of the pool fires. A slow task delays others by at
///   most 2 ms while a worker is idle, whatever service it belongs to.
/// - Tasks that block until another timer fires can block all workers. Then that timer has no
///   worker, and none of them ever goes on. This holds across services.
/// - A task that waits inside rayon (`join`, `scope`, parallel iterators) may run tasks of any of
///   these services meanwhile. It must not hold a lock that they take.
///
/// [`RayonThreads`](Self::RayonThreads) keeps a service apart: for tasks that block, and for timers
/// that must not wait for those of others.
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
    /// The rayon pool that all services of the process share. The default, but on a manual clock,
    /// where [`Inline`](Self::Inline) is.
    ///
    /// It has one thread for each core that the thread may use which starts the first of these
    /// services, but no more than the CPU quota of its cgroup has whole cores (and one at least).
    /// Its threads are named `wheelwork-pool-0` and so on (`wheelwor-pool-0` on Linux). It ends
    /// with the last of these services. Chosen for a service on a manual clock, it is a pool of its
    /// own, of this size.
    #[default]
    Rayon,
    /// A rayon pool of the service's own with this many threads, 1 to 4,096.
    RayonThreads(usize),
    /// A rayon pool of yours.
    Pool(Arc<ThreadPool>),
    /// The shard's own thread. For handlers of a few microseconds at most: while a handler runs,
    /// the shard's other timers wait.
    Inline,
    /// A user's function that is given jobs to run: see [`Dispatch::executor`].
    Executor(UserExecutor),
}

/// A user's executor. Made by [`Dispatch::executor`].
///
/// # Example
/// See [`Dispatch::executor`].
#[derive(Clone)]
pub struct UserExecutor(pub(crate) Arc<Execute>);

/// A user's function that is given jobs to run.
pub(crate) type Execute = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

impl Dispatch {
    /// Has jobs run by your own executor: a thread pool, or the blocking threads of an asynchronous
    /// runtime.
    ///
    /// `execute` is given jobs. Each job runs the tasks of some due timers.
    ///
    /// - `execute` may run jobs on any thread, at any time, in any order. Jobs do not unwind.
    /// - `execute` is called on the shard's thread and on threads that run jobs, so it should be
    ///   quick. If it runs the job before it returns, it works like [`Dispatch::Inline`].
    /// - While 64 or more jobs of a shard have not begun (at most 70), the shard gives no more. Due
    ///   timers then wait in its wheel.
    /// - A job may offer work to idle threads, by further jobs. A further job that runs late has
    ///   nothing to do. If one is dropped, its timers go without that help, and nothing is lost.
    /// - A job that is dropped before it runs drops the payloads of its timers. The timers count as
    ///   fired, and in [`TimerCounts::dropped`](crate::TimerCounts::dropped). A dropped run of a
    ///   periodic timer ends the timer, and no hook tells of that.
    /// - A panic of `execute` counts in [`Stats::hook_panics`](crate::Stats::hook_panics).
    ///
    /// Cost: two allocations more for each batch of up to 1,024 due timers.
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
        Self::Executor(UserExecutor(Arc::new(execute)))
    }
}

impl fmt::Debug for UserExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UserExecutor").finish_non_exhaustive()
    }
}

impl fmt::Debug for Dispatch {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rayon => f.write_str("Rayon"),
            Self::RayonThreads(threads) => f.debug_tuple("RayonThreads").field(threads).finish(),
            Self::Pool(pool) => f
                .debug_tuple("Pool")
                .field(&pool.current_num_threads())
                .finish(),
            Self::Inline => f.write_str("Inline"),
            Self::Executor(_) => f.write_str("Executor(..)"),
        }
    }
}
