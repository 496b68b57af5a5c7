//! Calls: what makes sleeps, timeouts, intervals and queues. Each call is there twice: as a
//! function, for the shared service, and as a method of [`Timers`], for a service of your own.

use super::interval::Interval;
use super::queue::DelayQueue;
use super::sleep::Sleep;
use super::timeout::Timeout;
use super::timers::{Home, Timers};
use std::future::IntoFuture;
use std::time::{Duration, Instant};

/// Waits for `delay`, with the shared service: see [`Sleep`].
///
/// # Panics
/// If the shared service cannot be started, because the system has no threads for it.
/// [`Timers::global`] returns the reason.
///
/// # Example
/// ```
/// use std::time::{Duration, Instant};
///
/// # futures_lite::future::block_on(async {
/// let start = Instant::now();
/// wheelwork::future::sleep(Duration::from_millis(5)).await;
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// # });
/// ```
pub fn sleep(delay: Duration) -> Sleep {
    Timers::shared().sleep(delay)
}

/// Waits until a point in time, with the shared service: see [`Sleep`].
///
/// # Panics
/// As [`sleep()`].
///
/// # Example
/// ```
/// use std::time::{Duration, Instant};
///
/// # futures_lite::future::block_on(async {
/// let at = Instant::now() + Duration::from_millis(5);
/// wheelwork::future::sleep_until(at).await;
/// assert!(Instant::now() >= at);
/// # });
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    Timers::shared().sleep_until(deadline)
}

/// Runs a future for at most `delay`, with the shared service: see [`Timeout`].
///
/// # Panics
/// As [`sleep()`].
///
/// # Example
/// See the [module](super)'s.
pub fn timeout<F: IntoFuture>(delay: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timers::shared().timeout(delay, future)
}

/// Runs a future until a point in time at most, with the shared service: see [`Timeout`].
///
/// # Panics
/// As [`sleep()`].
///
/// # Example
/// ```
/// use std::future::pending;
/// use std::time::Instant;
/// use wheelwork::future::timeout_at;
///
/// # futures_lite::future::block_on(async {
/// assert!(timeout_at(Instant::now(), pending::<()>()).await.is_err());
/// # });
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timers::shared().timeout_at(deadline, future)
}

/// Ticks at a fixed rate, for the first time at once, with the shared service: see [`Interval`].
///
/// # Panics
/// As [`sleep()`].
///
/// # Example
/// ```
/// use std::time::{Duration, Instant};
///
/// # futures_lite::future::block_on(async {
/// let start = Instant::now();
/// let mut interval = wheelwork::future::interval(Duration::from_millis(2));
/// for _ in 0..4 {
///     interval.tick().await;
/// }
/// assert!(start.elapsed() >= Duration::from_millis(6));
/// # });
/// ```
pub fn interval(period: Duration) -> Interval {
    Timers::shared().interval(period)
}

/// Ticks at a fixed rate, for the first time at a point in time, with the shared service: see
/// [`Interval`].
///
/// If that time has passed, the first tick comes at once, and returns that time: see
/// [`Interval::reset_at`].
///
/// # Panics
/// As [`sleep()`].
///
/// # Example
/// ```
/// use std::time::{Duration, Instant};
/// use wheelwork::future::interval_at;
///
/// # futures_lite::future::block_on(async {
/// let start = Instant::now() + Duration::from_millis(3);
/// let mut interval = interval_at(start, Duration::from_millis(2));
/// assert_eq!(interval.tick().await, start);
/// assert!(Instant::now() >= start);
/// # });
/// ```
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Timers::shared().interval_at(start, period)
}

impl Timers {
    /// Waits for `delay`: see [`Sleep`].
    pub fn sleep(&self, delay: Duration) -> Sleep {
        self.home().sleep(delay)
    }

    /// Waits until a point in time: see [`Sleep`].
    ///
    /// # Example
    /// See [`sleep_until`].
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        self.home().sleep_until(deadline)
    }

    /// Runs a future for at most `delay`: see [`Timeout`].
    ///
    /// # Example
    /// See [`timeout`](timeout()).
    pub fn timeout<F: IntoFuture>(&self, delay: Duration, future: F) -> Timeout<F::IntoFuture> {
        self.home().timeout(delay, future)
    }

    /// Runs a future until a point in time at most: see [`Timeout`].
    ///
    /// # Example
    /// See [`timeout_at`].
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        self.home().timeout_at(deadline, future)
    }

    /// Ticks at a fixed rate, for the first time at once: see [`Interval`].
    ///
    /// # Example
    /// See [`interval`](interval()).
    pub fn interval(&self, period: Duration) -> Interval {
        self.home().interval(period)
    }

    /// Ticks at a fixed rate, for the first time at a point in time: see [`Interval`].
    ///
    /// # Example
    /// See [`interval_at`].
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        self.home().interval_at(start, period)
    }

    /// A queue whose values come when their time has come: see [`DelayQueue`].
    ///
    /// # Example
    /// See [`DelayQueue`].
    pub fn delay_queue<T>(&self) -> DelayQueue<T> {
        DelayQueue::at(self.home(), 0)
    }
}

impl Home {
    pub(super) fn sleep(self, delay: Duration) -> Sleep {
        let (deadline, at_ns) = self.after(delay);
        Sleep::new(self, deadline, at_ns)
    }

    pub(super) fn sleep_until(self, deadline: Instant) -> Sleep {
        let at_ns = self.handle().instant_ns(deadline);
        Sleep::new(self, deadline, at_ns)
    }

    fn timeout<F: IntoFuture>(self, delay: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep(delay))
    }

    fn timeout_at<F: IntoFuture>(self, deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }

    fn interval(self, period: Duration) -> Interval {
        Interval::new(self, period)
    }

    fn interval_at(self, start: Instant, period: Duration) -> Interval {
        let mut interval = self.interval(period);
        interval.reset_at(start);
        interval
    }
}
