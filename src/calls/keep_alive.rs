//! Keep alive: a closure that runs when nothing has come for a while.

use crate::error::ScheduleError;
use crate::service::{ServiceHandle, TimerGuard};
use std::time::Duration;

/// Runs a closure whenever nothing has come for a while. [`ServiceHandle::keep_alive`] makes one.
/// Dropping it ends it, and drops the closure; a run that is in progress goes on, and drops the
/// closure at its end.
///
/// # Example
/// A connection that sends a ping after 30 s of silence, and every 30 s while the silence lasts:
/// ```
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
/// use std::time::Duration;
/// use wheelwork::{ManualClock, TimerService};
///
/// let clock = ManualClock::new();
/// let service = TimerService::builder().clock(clock.clone()).start()?;
/// let pings = Arc::new(AtomicU32::new(0));
/// let counter = pings.clone();
/// let keep_alive = service.keep_alive(Duration::from_secs(30), move || {
///     counter.fetch_add(1, Ordering::Relaxed);
/// })?;
/// for _ in 0..10 {
///     clock.advance(Duration::from_secs(29));
///     keep_alive.reset(); // Something was sent or has come.
/// }
/// assert_eq!(pings.load(Ordering::Relaxed), 0);
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(pings.load(Ordering::Relaxed), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it ends it"]
#[derive(Debug)]
pub struct KeepAlive<T: Send + 'static> {
    timer: TimerGuard<T>,
    delay: Duration,
}

impl<T: Send + 'static> ServiceHandle<T> {
    /// Runs a closure when `delay` has passed since the last [`reset`](KeepAlive::reset), or since
    /// this call if there was none; and again `delay` after the end of each run. For a closure that
    /// is to run only once, arm a timer with [`schedule`](Self::schedule), and move it with
    /// [`reschedule`](Self::reschedule).
    ///
    /// It is a periodic timer of [`every_after`](Self::every_after): it takes a closure whatever
    /// the service's payload is, two runs are never in progress at once, and after a run that
    /// panics the next one comes nevertheless. When the service stops, it ends.
    ///
    /// # Errors
    /// As [`Periodic::start`](crate::Periodic::start).
    ///
    /// # Example
    /// See [`KeepAlive`].
    pub fn keep_alive(
        &self,
        delay: Duration,
        run: impl FnMut() + Send + 'static,
    ) -> Result<KeepAlive<T>, ScheduleError<()>> {
        let timer = self.guard(self.every_after(delay).start(run)?);
        Ok(KeepAlive { timer, delay })
    }
}

impl<T: Send + 'static> KeepAlive<T> {
    /// Something has come: the next run comes when the delay has passed from now on. (A run that
    /// waits for a worker does not come then.) `false`: a run is in progress, and the next one
    /// comes the delay after its end; or the timer has ended: the service has been stopped,
    /// `cancel_all` has cancelled it, or an executor has dropped its run.
    ///
    /// If two threads call this at the same time, the call that takes effect last counts, from its
    /// own reading of the clock. If its thread was held up after that reading, the next run comes
    /// sooner than the other call has asked for, by that time.
    ///
    /// Any thread may call this. It takes no lock, with the exceptions that
    /// [`reschedule`](ServiceHandle::reschedule) names. Cost: a `reschedule` to a later time. It
    /// sends no message until the timer has been moved on by more than 262,143 ticks since it was
    /// filed.
    pub fn reset(&self) -> bool {
        self.timer.reschedule(self.delay)
    }
}
