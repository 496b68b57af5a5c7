//! System time: sleeps and time limits that follow the system's clock.

use super::timeout::Timeout;
use super::timers::{Home, Timers};
use super::wall::{Look, WallWaiting};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

/// Waits until the system's clock shows a time. [`sleep_until_system_time`] makes one.
///
/// If the system's clock is set, forward or back, or if the machine was suspended, the sleep
/// follows within a minute, rounded up to a tick. For that it wakes its shard and its task that
/// often. It is never ready while the clock shows an earlier time. When it was ready once it stays
/// so, wherever the clock is set.
///
/// On a [`ManualClock`](crate::ManualClock) the time of day is that clock's, which begins at the
/// Unix epoch, and the sleep follows on the next tick when that is set. Code under test reads it by
/// [`system_time`](crate::ServiceHandle::system_time).
///
/// # Example
/// ```
/// use std::time::{Duration, SystemTime};
/// use wheelwork::future::sleep_until_system_time;
/// use wheelwork::testing;
///
/// testing::block_on(async {
///     let clock = testing::clock();
///     let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(12 * 3_600);
///     let sleep = testing::spawn(sleep_until_system_time(noon));
///     wheelwork::future::sleep(Duration::from_secs(60)).await;
///     // Somebody sets the clock.
///     clock.set_system_time(noon - Duration::from_secs(10));
///     sleep.await;
///     assert_eq!(clock.elapsed(), Duration::from_secs(70));
/// });
/// ```
#[must_use = "a future does nothing until it is polled"]
pub struct SystemTimeSleep {
    at: SystemTime,
    wall: WallWaiting,
    is_over: bool,
}

/// Waits until the system's clock shows a time, with the shared service: see [`SystemTimeSleep`].
/// If that time has passed, it is ready at once.
///
/// # Panics
/// As [`sleep`](super::sleep()).
///
/// # Example
/// ```
/// use std::time::{Duration, SystemTime};
/// use wheelwork::future::sleep_until_system_time;
///
/// # futures_lite::future::block_on(async {
/// let at = SystemTime::now() + Duration::from_millis(5);
/// sleep_until_system_time(at).await;
/// assert!(SystemTime::now() >= at);
/// # });
/// ```
pub fn sleep_until_system_time(at: SystemTime) -> SystemTimeSleep {
    SystemTimeSleep::new(Timers::shared(), at)
}

/// Runs a future until the system's clock shows a time, at most, with the shared service: see
/// [`Timeout`] and [`SystemTimeSleep`].
///
/// # Panics
/// As [`sleep`](super::sleep()).
///
/// # Example
/// ```
/// use std::future::pending;
/// use std::time::{Duration, SystemTime};
/// use wheelwork::future::timeout_at_system_time;
///
/// # futures_lite::future::block_on(async {
/// let expires = SystemTime::now() + Duration::from_millis(2);
/// assert!(timeout_at_system_time(expires, pending::<()>()).await.is_err());
/// # });
/// ```
pub fn timeout_at_system_time<F: IntoFuture>(
    at: SystemTime,
    future: F,
) -> Timeout<F::IntoFuture, SystemTimeSleep> {
    Timeout::new(future.into_future(), sleep_until_system_time(at))
}

impl Timers {
    /// Waits until the system's clock shows a time: see [`SystemTimeSleep`].
    ///
    /// # Example
    /// See [`sleep_until_system_time`].
    pub fn sleep_until_system_time(&self, at: SystemTime) -> SystemTimeSleep {
        SystemTimeSleep::new(self.home(), at)
    }

    /// Runs a future until the system's clock shows a time, at most: see [`Timeout`].
    ///
    /// # Example
    /// See [`timeout_at_system_time`].
    pub fn timeout_at_system_time<F: IntoFuture>(
        &self,
        at: SystemTime,
        future: F,
    ) -> Timeout<F::IntoFuture, SystemTimeSleep> {
        Timeout::new(future.into_future(), self.sleep_until_system_time(at))
    }
}

impl SystemTimeSleep {
    fn new(home: Home, at: SystemTime) -> Self {
        Self {
            at,
            wall: WallWaiting::new(home),
            is_over: false,
        }
    }

    /// The time until which it waits.
    ///
    /// # Example
    /// ```
    /// use std::time::SystemTime;
    ///
    /// let sleep = wheelwork::future::sleep_until_system_time(SystemTime::UNIX_EPOCH);
    /// assert_eq!(sleep.deadline(), SystemTime::UNIX_EPOCH);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> SystemTime {
        self.at
    }

    /// Whether it was ready, or the system's clock shows its time now.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.is_over || self.wall.home().handle().system_time() >= self.at
    }

    /// Waits until another time. A sleep that was ready waits again. A task that waits is woken at
    /// the new time, or at once if that has passed.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// # futures_lite::future::block_on(async {
    /// let far = SystemTime::now() + Duration::from_secs(3_600);
    /// let mut sleep = wheelwork::future::sleep_until_system_time(far);
    /// sleep.reset_at(SystemTime::now());
    /// sleep.await;
    /// # });
    /// ```
    pub fn reset_at(&mut self, at: SystemTime) {
        self.at = at;
        self.is_over = false;
        self.wall.look(|wall| look(at, wall.time));
    }
}

/// How long until the clock shows a time.
fn look(at: SystemTime, now: SystemTime) -> Look<()> {
    match at.duration_since(now) {
        Ok(left) if !left.is_zero() => Look::Lasts(left),
        _ => Look::Over(()),
    }
}

impl Future for SystemTimeSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !this.is_over {
            std::task::ready!(this.wall.poll(context, |wall| look(this.at, wall.time)));
            this.is_over = true;
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for SystemTimeSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemTimeSleep")
            .field("deadline", &self.at)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
