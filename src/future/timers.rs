//! Timers: a service whose payloads are wakers.

use super::{DelayQueue, Interval, Sleep, Timeout};
use crate::dispatch::Dispatch;
use crate::error::StartError;
use crate::service::{Batch, Builder, TimerHandle, TimerService};
use crate::time::{later, nanos};
use std::future::IntoFuture;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

static GLOBAL: OnceLock<Result<Timers, StartError>> = OnceLock::new();

/// A service for futures. Cloning it costs a reference count; it ends when all clones, and all futures made from them, are gone.
///
/// Tasks are woken by the shard's own thread unless the builder's [`dispatch`](Builder::dispatch) was set: a waker puts its task into a queue, which takes less time
/// than to hand it to another thread.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::TimerService;
/// use wheelwork::future::Timers;
///
/// let timers = Timers::start(TimerService::builder().tick(Duration::from_micros(100)))?;
/// # futures_lite::future::block_on(async {
/// timers.sleep(Duration::from_micros(300)).await;
/// # });
/// assert!(timers.handle().is_empty());
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timers(Arc<TimerService<Waker>>);

impl Timers {
    /// Starts a service with these settings.
    ///
    /// # Errors
    /// As [`Builder::start`].
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn start(builder: Builder) -> Result<Self, StartError> {
        let wake = |wakers: &mut Batch<'_, Waker>| wakers.for_each(Waker::wake);
        let builder = builder.dispatch_unless_set(Dispatch::Inline).on_expire(wake).let_go(Waker::wake);
        Ok(Self(Arc::new(builder.start()?)))
    }

    /// The service that the functions of this module use; started if it was not. It never ends.
    ///
    /// # Errors
    /// The first one that its start had.
    ///
    /// # Example
    /// ```
    /// let timers = wheelwork::future::Timers::global().expect("there are threads");
    /// assert!(timers.handle().shards() > 0);
    /// ```
    pub fn global() -> Result<&'static Self, &'static StartError> {
        GLOBAL.get_or_init(|| Self::start(TimerService::builder().name("wheelwork-async"))).as_ref()
    }

    pub(super) fn shared() -> Home {
        match Self::global() {
            Ok(timers) => Home::Global(timers),
            Err(error) => panic!("wheelwork's service for futures could not be started: {error}"),
        }
    }

    fn home(&self) -> Home {
        Home::Own(self.clone())
    }

    /// The calls of the service: its time, its counters, and timers for wakers of your own.
    ///
    /// They see the timers of futures too. A future whose timer is cancelled here is not ready
    /// before its time: it arms a new one when it is polled again.
    /// [`cancel_all`](TimerHandle::cancel_all) wakes the tasks so that they do, and wakes your own
    /// wakers. Whoever cancels a future's timer by its id ([`pending`](TimerHandle::pending) tells
    /// it) drops its waker: a task that nothing else wakes then waits for ever. To
    /// [`take`](TimerHandle::take) it gives the waker. A future whose timer is moved to later by its
    /// id may wait that long.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn handle(&self) -> &TimerHandle<Waker> {
        &self.0
    }

    /// Waits for a time: see [`Sleep`].
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn sleep(&self, delay: Duration) -> Sleep {
        self.home().sleep(delay)
    }

    /// Waits until a point in time.
    ///
    /// # Example
    /// See [`sleep_until`](super::sleep_until).
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        self.home().sleep_until(deadline)
    }

    /// Gives a future so much time: see [`Timeout`].
    ///
    /// # Example
    /// See [`timeout`](super::timeout()).
    pub fn timeout<F: IntoFuture>(&self, delay: Duration, future: F) -> Timeout<F::IntoFuture> {
        self.home().timeout(delay, future)
    }

    /// Gives a future time until a point in time.
    ///
    /// # Example
    /// See [`timeout_at`](super::timeout_at).
    pub fn timeout_at<F: IntoFuture>(&self, deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        self.home().timeout_at(deadline, future)
    }

    /// Ticks at a fixed rate, the first time at once: see [`Interval`].
    ///
    /// # Example
    /// See [`interval`](super::interval()).
    pub fn interval(&self, period: Duration) -> Interval {
        self.home().interval(period)
    }

    /// A queue of values that come when their time has come: see [`DelayQueue`].
    ///
    /// # Example
    /// See [`DelayQueue`].
    pub fn delay_queue<T>(&self) -> DelayQueue<T> {
        DelayQueue::at(self.home())
    }
}

/// Where a future's timers are: the service that all share costs no reference count.
#[derive(Clone, Debug)]
pub(super) enum Home {
    Global(&'static Timers),
    Own(Timers),
}

impl Home {
    pub(super) fn handle(&self) -> &TimerHandle<Waker> {
        match self {
            Self::Global(timers) => timers.handle(),
            Self::Own(timers) => timers.handle(),
        }
    }

    /// So long from now: as an instant, and by the service's clock. The instant is not what the
    /// other is computed from: a clock that counts suspended time knows it only roughly.
    pub(super) fn after(&self, delay: Duration) -> (Instant, u64) {
        let now_ns = self.handle().soon_ns();
        (later(self.handle().instant(now_ns), delay), now_ns.saturating_add(nanos(delay)))
    }

    /// Whether it is this time or later.
    pub(super) fn is_over(&self, at_ns: u64) -> bool {
        // Most of the time the cheaper reading shows that it is not.
        self.handle().soon_ns() >= at_ns && self.handle().now_ns() >= at_ns
    }

    pub(super) fn sleep(self, delay: Duration) -> Sleep {
        let (deadline, at_ns) = self.after(delay);
        Sleep::new(self, deadline, at_ns)
    }

    pub(super) fn sleep_until(self, deadline: Instant) -> Sleep {
        let at_ns = self.handle().instant_ns(deadline);
        Sleep::new(self, deadline, at_ns)
    }

    pub(super) fn timeout<F: IntoFuture>(self, delay: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep(delay))
    }

    pub(super) fn timeout_at<F: IntoFuture>(self, deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }

    pub(super) fn interval(self, period: Duration) -> Interval {
        Interval::new(self, period)
    }
}
