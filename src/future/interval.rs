//! Interval: a stream of ticks at a fixed rate.

use super::Sleep;
use super::timers::Home;
use crate::time::{Missed, later};
use futures_core::Stream;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Ticks at a fixed rate, the first time at the first poll; [`interval`](super::interval()) makes one. A stream, too, that does not end.
///
/// A tick gives the time at which it was meant to be: nothing drifts, however late it is taken. What happens to ticks that nobody took in time is up to [`missed`](Self::missed):
/// unless set, they are skipped.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::Missed;
/// use wheelwork::future::interval;
///
/// # futures_lite::future::block_on(async {
/// let mut interval = interval(Duration::from_millis(2)).missed(Missed::Delay);
/// let first = interval.tick().await;
/// assert!(interval.tick().await >= first + Duration::from_millis(2));
/// # });
/// ```
#[derive(Debug)]
#[must_use = "an interval does nothing until it is polled"]
pub struct Interval {
    /// Until the next tick.
    sleep: Sleep,
    home: Home,
    period: Duration,
    missed: Missed,
}

impl Interval {
    pub(super) fn new(home: Home, period: Duration) -> Self {
        // Not by the cheaper reading, which may be up to 1 us ahead: so the first tick comes at once.
        let sleep = home.clone().sleep_until(home.handle().now());
        Self { sleep, home, period: period.max(Duration::from_nanos(1)), missed: Missed::Skip }
    }

    /// The same, with the first tick so much later.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// # futures_lite::future::block_on(async {
    /// let start = Instant::now();
    /// wheelwork::future::interval(Duration::from_secs(1)).first(Duration::from_millis(2)).tick().await;
    /// assert!(start.elapsed() >= Duration::from_millis(2));
    /// # });
    /// ```
    pub fn first(mut self, delay: Duration) -> Self {
        // As in `new`.
        self.sleep.reset_at(later(self.home.handle().now(), delay));
        self
    }

    /// The same, with another way with ticks that were not taken in time.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// The time from one tick to the next.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// assert_eq!(wheelwork::future::interval(Duration::from_secs(1)).period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The next tick is a period from now.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut interval = wheelwork::future::interval(Duration::from_millis(2));
    /// let start = Instant::now();
    /// interval.reset();
    /// assert!(interval.tick().await >= start + Duration::from_millis(2));
    /// # });
    /// ```
    pub fn reset(&mut self) {
        self.sleep.reset(self.period);
    }

    /// The next tick: when it was meant to be. Nothing is lost if this is dropped before it is ready.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Whether it is time for the next tick, and when that was meant to be.
    ///
    /// # Example
    /// ```
    /// use std::task::{Context, Poll, Waker};
    /// use std::time::Duration;
    ///
    /// let mut interval = wheelwork::future::interval(Duration::from_secs(60));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(interval.poll_tick(&mut context).is_ready());
    /// assert_eq!(interval.poll_tick(&mut context), Poll::Pending);
    /// ```
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(context));
        let (at, now) = (self.sleep.deadline(), self.home.handle().now());
        self.sleep.reset_at(next(at, now, self.period, self.missed));
        Poll::Ready(at)
    }
}

/// The tick after the one that was meant to be at `at` and was taken at `now`.
fn next(at: Instant, now: Instant, period: Duration, missed: Missed) -> Instant {
    // Ticks that have passed since: those that would be late.
    let late = now.saturating_duration_since(at).as_nanos() / period.as_nanos();
    let after = |from: Instant, periods: u128| {
        let nanos = u64::try_from(period.as_nanos().saturating_mul(periods)).unwrap_or(u64::MAX);
        later(from, Duration::from_nanos(nanos))
    };
    match missed {
        _ if late == 0 => after(at, 1),
        Missed::Skip => after(at, late + 1),
        Missed::Delay => after(now, 1),
        Missed::Burst(most) => after(at, 1 + late.saturating_sub(most.into())),
    }
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().poll_tick(context).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks_go_by_the_policy() {
        let (at, period) = (Instant::now(), Duration::from_millis(10));
        let ms = Duration::from_millis;
        for (late, missed, expected) in [
            (0, Missed::Skip, 10),
            (9, Missed::Delay, 10),
            (10, Missed::Skip, 20),
            (35, Missed::Skip, 40),
            (35, Missed::Delay, 45),
            (35, Missed::Burst(5), 10),
            (35, Missed::Burst(3), 10),
            (35, Missed::Burst(2), 20),
            (35, Missed::Burst(0), 40),
        ] {
            assert_eq!(next(at, at + ms(late), period, missed), at + ms(expected), "{late} ms late, {missed:?}");
        }
        assert!(next(at, at, Duration::MAX, Missed::Skip) > at + ms(1 << 40));
    }
}
