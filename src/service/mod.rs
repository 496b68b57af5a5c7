#![doc = include_str!("README.md")]

mod arming;
mod batch;
mod builder;
pub(crate) mod cells;
pub(crate) mod core;
mod ending;
#[cfg(feature = "tracing")]
mod events;
mod fire;
mod hooks;
mod id;
mod inner;
mod lateness;
pub(crate) mod local;
mod look;
#[cfg(feature = "async")]
mod nanos;
mod periodic;
mod reading;
pub(crate) mod running;
mod start;
mod stats;
mod stop;
mod tally;
mod task;
mod watchdog;

pub use builder::Builder;
pub use ending::TimerGuard;
pub use fire::Batch;
pub use id::TimerId;
pub use lateness::LatenessHistogram;
pub use periodic::Periodic;
pub use stats::{ShardStats, Stats};
pub use stop::StopPolicy;
pub use task::{IntoPayload, Task};

use crate::dispatch::job::inside;
use crate::error::ScheduleError;
use crate::shard::Count;
use crate::shard::turn::Shard;
use crate::sync::{JoinHandle, Mutex};
use crate::time::{self, Busy, Driven};
use ending::Drops;
use inner::Inner;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A running timer service. Dropping it stops it: timers that have not fired are dropped, and do not run. Keep it as long as they shall.
///
/// Payloads are of type `T`, handed in batches to the handler of the builder's [`on_expire`](Builder::on_expire); without one they are closures
/// ([`Task`]) that are run. All calls are those of [`TimerHandle`]. Share a service by reference, in an `Arc`, or by [`handle`](Self::handle).
///
/// # Example
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use wheelwork::TimerService;
///
/// let service = TimerService::builder().start()?;
/// let (send, receive) = mpsc::channel();
/// service.schedule(Duration::from_millis(5), move || send.send("due").unwrap())?;
/// assert_eq!(receive.recv()?, "due");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TimerService<T: Send + 'static = Task> {
    handle: TimerHandle<T>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// On a manual clock: what the clock drives, as long as the service lives.
    pub(crate) manual: Option<Arc<ManualShards<T>>>,
}

/// The calls of a service, for as many owners as you like. It does not keep the service running: after the service has stopped, calls give their
/// documented answers. It can't stop the service either: a task that is to do so has an `Arc` of the [`TimerService`].
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let handle = service.handle();
/// let again = handle.clone();
/// handle.schedule(Duration::from_secs(1), move || {
///     let _ = again.schedule(Duration::from_secs(1), || println!("the second"));
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TimerHandle<T: Send + 'static = Task> {
    pub(crate) inner: Arc<Inner<T>>,
}

/// A timer that `stop` handed back.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{Batch, TimerService};
///
/// let service = TimerService::builder().on_expire(|batch: &mut Batch<'_, &str>| batch.for_each(drop)).start()?;
/// service.schedule(Duration::from_secs(5), "not yet")?;
/// let unfired = service.stop();
/// assert_eq!(unfired[0].payload, "not yet");
/// assert!(unfired[0].remaining <= Duration::from_millis(5_001));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfired<T> {
    /// What the timer was armed with.
    pub payload: T,
    /// What was left until its deadline, rounded up to a tick; zero if it was due.
    pub remaining: Duration,
}

impl<T> fmt::Debug for Unfired<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfired").field("remaining", &self.remaining).finish_non_exhaustive()
    }
}

impl TimerService<Task> {
    /// Settings for a service; `.start()` starts it.
    ///
    /// # Example
    /// ```
    /// let service = wheelwork::TimerService::builder().start()?;
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn builder() -> Builder<Task> {
        Builder::new()
    }
}

impl<T: Send + 'static> TimerService<T> {
    /// A handle to the service. Costs a reference count.
    ///
    /// # Example
    /// See [`TimerHandle`].
    #[must_use]
    pub fn handle(&self) -> TimerHandle<T> {
        self.handle.clone()
    }
}

impl<T: Send + 'static> Drop for TimerService<T> {
    fn drop(&mut self) {
        Drops::all(self.stop().into_iter());
    }
}

impl<T: Send + 'static> Deref for TimerService<T> {
    type Target = TimerHandle<T>;

    fn deref(&self) -> &TimerHandle<T> {
        &self.handle
    }
}

impl<T: Send + 'static> fmt::Debug for TimerService<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerService").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Clone for TimerHandle<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T: Send + 'static> fmt::Debug for TimerHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.inner.cells.core;
        f.debug_struct("TimerHandle").field("shards", &core.shards()).field("stopped", &core.is_stopped()).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> TimerHandle<T> {
    /// Arms a timer: after `delay` the payload goes to the handler, or the closure is run.
    ///
    /// It fires at the first tick at or after now + `delay`, never before. Of timers that a thread arms in quick succession (some million a second) a few share a reading of the clock, and are late by up to a 128th
    /// of a tick; should the thread be held up among them, or stop just then, by up to a millisecond more. A delay of zero fires at the next tick; one that goes beyond 292 years from
    /// the service's start (142 at a tick of 1 us), [`Duration::MAX`], say, is kept as that.
    ///
    /// Lock-free, from any thread. Cost: some 30 ns (a clock reading, which others may share, a free cell, a message); a closure of more than three words is boxed.
    /// A shard that sleeps past the deadline is woken, at the cost of a system call.
    ///
    /// # Errors
    /// [`Stopped`](ScheduleError::Stopped) after the service has stopped, [`Full`](ScheduleError::Full) with as many timers pending as there can be; the payload comes back.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(30), || println!("no answer in 30 s"))?;
    /// // The answer came.
    /// service.cancel(id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn schedule(&self, delay: Duration, payload: impl IntoPayload<T>) -> Result<TimerId, ScheduleError<T>> {
        let payload = payload.into_payload();
        // Not the present tick, which may be over: a task that arms itself for now runs once a tick.
        let delay_ns = time::nanos(delay).max(1);
        self.inner.arm(payload, None, |now_ns| now_ns + delay_ns)
    }

    /// Arms a timer for a point in time. One that has passed fires at the next tick. Otherwise like [`schedule`](Self::schedule).
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// service.schedule_at(Instant::now() + Duration::from_secs(60), || println!("a minute has passed"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_at(&self, deadline: Instant, payload: impl IntoPayload<T>) -> Result<TimerId, ScheduleError<T>> {
        let payload = payload.into_payload();
        let at_ns = self.inner.clock.instant_ns(deadline);
        self.inner.arm(payload, None, |now_ns| at_ns.max(now_ns + 1))
    }

    /// Cancels a timer. `true`: it will never fire, and its payload has been dropped, here. `false`: it has fired (or is about to), was cancelled,
    /// handed back, or the id is another service's.
    ///
    /// Of a periodic timer whose run is in progress `true` means that no further run begins: this one goes on, and drops the closure at its end.
    /// [`cancel_and_wait`](Self::cancel_and_wait) waits for it.
    ///
    /// Lock-free, from any thread, waits for nobody. Cost: some 20 ns, and a cache miss if the timer is one of a million.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::MAX, || unreachable!())?;
    /// assert!(service.cancel(id));
    /// assert!(!service.cancel(id), "only once");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn cancel(&self, id: TimerId) -> bool {
        let inner = &*self.inner;
        // The payload is dropped when the local is free again.
        inner.cells.with_local(|local| inner.cells.take_first(local, id)).is_some() || self.cancel_any(id)
    }

    /// Cancels a timer and returns its payload. `None` where [`cancel`](Self::cancel) says `false`, and of a periodic timer, which goes on.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().on_expire(|_: &mut wheelwork::Batch<'_, String>| {}).start()?;
    /// let id = service.schedule(Duration::from_secs(5), "message".to_string())?;
    /// assert_eq!(service.take(id).as_deref(), Some("message"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn take(&self, id: TimerId) -> Option<T> {
        let inner = &*self.inner;
        inner.cells.with_local(|local| inner.cells.take_first(local, id).or_else(|| inner.cells.take(local, id)))
    }

    /// Cancels a timer that may have been moved, or repeats.
    #[cold]
    fn cancel_any(&self, id: TimerId) -> bool {
        let inner = &*self.inner;
        inner.cells.with_local(|local| inner.cells.cancel(local, id)).is_some()
    }

    /// Moves a timer's deadline to now + `delay`. `true`: it will not fire at the old one; the id stays valid. `false`: it has fired (or is about to), was
    /// cancelled or handed back, the id is another service's, or a periodic timer's run is in progress or waits for a worker. (So may the look of a timer for a time of
    /// day at the wall clock, once a minute: such a call changes nothing.)
    ///
    /// Lock-free, from any thread. A later deadline costs no message: one compare-and-swap, and the shard finds out when the old one comes. An earlier
    /// one, or one that is more than 65,535 ticks after the one at which the timer is filed, costs two messages. Of two calls at the same time one takes effect after the other.
    /// A periodic timer is moved with all its later runs.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let idle = service.schedule(Duration::from_secs(60), || println!("the connection is idle"))?;
    /// // Something came in:
    /// assert!(service.reschedule(idle, Duration::from_secs(60)));
    /// service.cancel(idle);
    /// assert!(!service.reschedule(idle, Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn reschedule(&self, id: TimerId, delay: Duration) -> bool {
        let delay_ns = time::nanos(delay).max(1);
        self.inner.rearm(id, |now_ns| now_ns + delay_ns)
    }

    /// Moves a timer's deadline to a point in time; one that has passed fires at the next tick. Otherwise like [`reschedule`](Self::reschedule).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(60), || println!("now"))?;
    /// assert!(service.reschedule_at(id, Instant::now()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reschedule_at(&self, id: TimerId, deadline: Instant) -> bool {
        let at_ns = self.inner.clock.instant_ns(deadline);
        self.inner.rearm(id, |now_ns| at_ns.max(now_ns + 1))
    }

    /// The number of shards.
    ///
    /// # Example
    /// ```
    /// # let service = wheelwork::TimerService::builder().shards(3).start()?;
    /// assert_eq!(service.shards(), 3);
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn shards(&self) -> usize {
        self.inner.cells.core.shards()
    }

    /// How many timers wait: armed, and neither fired, nor cancelled, nor handed back.
    ///
    /// A snapshot, summed over the counters of all threads: exact if no call and no fire is in progress, otherwise off by what is. Timers that a worker
    /// has claimed count as fired, though their tasks may run a little later. Cost: as [`stats`](Self::stats).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// assert_eq!(service.len(), 1);
    /// service.cancel(id);
    /// assert!(service.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stats().sum(|shard| shard.pending)
    }

    /// Whether no timer waits: [`len`](Self::len) is zero.
    ///
    /// # Example
    /// See [`len`](Self::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the service has done so far, and what it has to do. Takes a lock that threads take at their first call, and reads the counters of each shard, and
    /// of each thread: some microseconds for a handful of either.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(5), || ())?;
    /// service.cancel(id);
    /// let stats = service.stats();
    /// assert_eq!(stats.sum(|shard| shard.armed), 1);
    /// assert_eq!(stats.sum(|shard| shard.cancelled), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

/// The shards of a service on a manual clock, which takes their turns.
pub(crate) struct ManualShards<T> {
    inner: Arc<Inner<T>>,
    pub(crate) shards: Mutex<Vec<Shard>>,
}

impl<T: Send + 'static> Driven for ManualShards<T> {
    fn turn(&self) -> bool {
        let take_turns = || {
            let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock: see X3 in `stop.rs`.
            if self.inner.cells.core.is_stopped() {
                return false;
            }
            shards.iter_mut().fold(false, |busy, shard| {
                let turn = shard.turn(|| self.inner.clock.now_ns());
                busy || turn.drained > 0 || turn.dispatched > 0 || (turn.more && !turn.held)
            })
        };
        inside(take_turns)
    }

    fn next_event_ns(&self) -> Result<Option<u64>, Busy> {
        if self.inner.cells.core.is_stopped() {
            return Ok(None);
        }
        let mut shards = match self.shards.try_lock() {
            Ok(shards) => shards,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Busy),
        };
        let events = shards.iter_mut().filter_map(|shard| {
            while shard.settle() {}
            shard.next_event()
        });
        // What is held does not hold up the time.
        let now_ns = self.inner.clock.now_ns();
        Ok(events.map(|tick| self.inner.tick.start(tick)).filter(|&start_ns| start_ns > now_ns).min())
    }

    fn dispatched(&self) -> u64 {
        self.inner.counters.iter().map(|counters| counters.get(Count::Dispatched)).sum()
    }
}
