//! Interval: a stream of ticks at a fixed rate.

use super::timers::Home;
use super::waiting::Waiting;
use crate::service::TimerHandle;
use crate::time::{Missed, later, nanos};
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Ticks at a fixed rate, the first time at the first poll; [`interval`](super::interval()) makes
/// one. A stream, too, that does not end.
///
/// A tick gives the time at which it was meant to be: nothing drifts, however late it is taken. What happens to ticks that nobody took in time is up to [`missed`](Self::missed):
/// unless set, they are skipped. One that is late by less than a tick of the service was not
/// missed.
///
/// A period is at least a tick of the service: a shorter one, or zero, is as good as that. So a
/// loop over [`tick`](Self::tick) waits each time, but for ticks that it has missed and makes up
/// for, or whose time passed while it did something else. Of these it gets four at most, then other
/// tasks get their turn.
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
    /// When the next tick is meant to be.
    at: Instant,
    /// The same by the service's clock, which decides.
    at_ns: u64,
    /// Until it may be given.
    waiting: Waiting,
    period: Duration,
    missed: Missed,
    /// Ticks that were given since the task last yielded.
    in_a_row: u32,
}

/// So many ticks are given before the task yields, however many are late. It takes less time than
/// the shortest tick.
const IN_A_ROW_MAX: u32 = 4;

/// What counts as a suspension of the machine.
const SUSPENSION_MIN: Duration = Duration::from_secs(1);

impl Interval {
    pub(super) fn new(home: Home, period: Duration) -> Self {
        let (at_ns, tick_ns) = (home.handle().now_ns(), home.handle().ticks().nanos());
        let (at, period) = (home.handle().instant(at_ns), period.max(Duration::from_nanos(tick_ns)));
        Self { at, at_ns, waiting: Waiting::new(home, at_ns), period, missed: Missed::Skip, in_a_row: 0 }
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
        self.set_out(delay);
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
        self.set_out(self.period);
    }

    /// The next tick is so much later.
    fn set_out(&mut self, delay: Duration) {
        // Not by the cheaper reading, which may be up to 1 us ahead: what comes at once is ready at
        // the first poll.
        self.at_ns = self.handle().now_ns().saturating_add(nanos(delay));
        self.at = self.handle().instant(self.at_ns);
        self.waiting.move_to(self.at_ns);
    }

    fn handle(&self) -> &TimerHandle<Waker> {
        self.waiting.home().handle()
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
        let is_over = self.waiting.poll(context).is_ready();
        if is_over && self.in_a_row < IN_A_ROW_MAX {
            self.in_a_row += 1;
            return Poll::Ready(self.give());
        }
        if is_over {
            // Other tasks get their turn first.
            context.waker().wake_by_ref();
        }
        self.in_a_row = 0;
        Poll::Pending
    }

    /// The tick whose time has come. Waits for the next one from now on.
    fn give(&mut self) -> Instant {
        let (handle, at_ns, at) = (self.handle(), self.at_ns, self.at);
        let (now_ns, ticks) = (handle.now_ns(), handle.ticks());
        let begun_ns = ticks.start(ticks.whole(now_ns));
        let next_ns = next(at_ns, begun_ns, now_ns, nanos(self.period), self.missed);
        // A tick that was due when the service's present one began is given at once. All others
        // come as timers do.
        let until_ns = if next_ns <= begun_ns { next_ns } else { ticks.start(ticks.deadline(next_ns.max(now_ns + 1))) };
        // Counted, so that ticks keep their distance: a clock that runs on while the machine is
        // suspended knows an instant only roughly. Read anew if it was suspended.
        let (counted, read) = (later(at, Duration::from_nanos(next_ns.saturating_sub(at_ns))), handle.instant(next_ns));
        self.at = if counted.max(read) - counted.min(read) < SUSPENSION_MIN { counted } else { read };
        self.at_ns = next_ns;
        self.waiting.move_to(until_ns);
        at
    }
}

/// The tick after the one that was meant to be at `at_ns` and was given at `now_ns`, in a tick of
/// the service that began at `begun_ns`.
fn next(at_ns: u64, begun_ns: u64, now_ns: u64, period_ns: u64, missed: Missed) -> u64 {
    // Ticks that have passed since. One whose time came after `begun_ns` is due at the service's
    // next tick, so it is not late.
    let late = begun_ns.saturating_sub(at_ns) / period_ns;
    let after = |periods: u64| at_ns.saturating_add(period_ns.saturating_mul(periods));
    match missed {
        _ if late == 0 => after(1),
        Missed::Skip => after(late + 1),
        Missed::Delay => now_ns.saturating_add(period_ns),
        Missed::Burst(most) => after(1 + late.saturating_sub(most.into())),
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
        let (at, period) = (7, 10);
        for (late, missed, expected) in [
            (0, Missed::Skip, 10),
            (9, Missed::Delay, 10),
            (10, Missed::Skip, 20),
            (35, Missed::Skip, 40),
            (35, Missed::Delay, 46),
            (35, Missed::Burst(5), 10),
            (35, Missed::Burst(3), 10),
            (35, Missed::Burst(2), 20),
            (35, Missed::Burst(0), 40),
        ] {
            assert_eq!(next(at, at + late, at + late + 1, period, missed), at + expected, "{late} late, {missed:?}");
        }
        assert_eq!(next(at, at, at, nanos(Duration::MAX), Missed::Skip), at + nanos(Duration::MAX));
        assert_eq!(next(at, at - 3, at, period, Missed::Delay), at + period, "it came at once");
    }
}
