//! Timers as futures, under any runtime: [`sleep()`], [`timeout()`], [`interval()`], [`DelayQueue`].
//!
//! A [`Sleep`] allocates nothing and is registered nowhere. Its first poll arms a timer whose payload is the task's waker, its drop cancels it: so a timeout that is not needed costs what
//! [`schedule`](crate::TimerHandle::schedule) and [`cancel`](crate::TimerHandle::cancel) cost, on any thread, and one around a future that is ready costs nothing. When it is due the
//! task is woken by the timer's shard; which runtime the task belongs to does not matter, since a waker is all that is needed.
//!
//! The functions of this module use a service that all of a program share, which starts at the first call and never ends. [`Timers`] is a service of your own, with its
//! own tick, shards and clock.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use wheelwork::future::{sleep, timeout};
//!
//! # futures_lite::future::block_on(async {
//! sleep(Duration::from_millis(5)).await;
//! let answer = timeout(Duration::from_secs(30), async { "the answer" }).await;
//! assert_eq!(answer, Ok("the answer"));
//! assert!(timeout(Duration::from_millis(5), std::future::pending::<()>()).await.is_err());
//! # });
//! ```

mod interval;
mod queue;
mod sleep;
mod timeout;
mod timers;
pub(crate) mod wait;
mod waiting;

pub use interval::Interval;
pub use queue::{DelayQueue, Key};
pub use sleep::Sleep;
pub use timeout::{Elapsed, Timeout};
pub use timers::Timers;

use std::future::IntoFuture;
use std::time::{Duration, Instant};

/// Waits for a time, with the service that all share: see [`Sleep`].
///
/// # Panics
/// If that service can't be started, as the system has no threads for it: [`Timers::global`] tells why.
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

/// Waits until a point in time, with the service that all share.
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

/// Gives a future so much time, with the service that all share: see [`Timeout`].
///
/// # Panics
/// As [`sleep()`].
///
/// # Example
/// See the [module](self)'s.
pub fn timeout<F: IntoFuture>(delay: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timers::shared().timeout(delay, future)
}

/// Gives a future time until a point in time, with the service that all share.
///
/// # Panics
/// As [`sleep()`].
///
/// # Example
/// ```
/// use std::time::Instant;
///
/// # futures_lite::future::block_on(async {
/// let outcome = wheelwork::future::timeout_at(Instant::now(), std::future::pending::<()>()).await;
/// assert!(outcome.is_err());
/// # });
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timers::shared().timeout_at(deadline, future)
}

/// Ticks at a fixed rate, the first time at once, with the service that all share: see [`Interval`].
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
