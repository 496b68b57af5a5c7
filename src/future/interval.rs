//! Interval: a stream of ticks at a fixed rate.

use super::timers::Home;
use super::waiting::Waiting;
use crate::repeat::Missed;
use crate::service::ServiceHandle;
use crate::time::{later, nanos};
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Ticks at a fixed rate, for the first time at the first poll. [`interval`](super::interval())
/// makes one. It is also a stream, without an end.
///
/// A tick returns the time for which it was meant. So nothing drifts, however late a tick is taken.
/// [`missed`](Self::missed) decides what happens to ticks that nobody took in time; by default they
/// are skipped. A tick that is late by less than a tick of the service was not missed.
///
/// A period is at least a tick of the service; a shorter one, or zero, acts as one tick. So a loop
/// over [`tick`](Self::tick) waits each time, with two exceptions: missed ticks that it makes up
/// for, and ticks whose time passed while the loop did something else. It gets at most four of
/// these in a row. Then it yields to other tasks.
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
    /// The time for which the next tick is meant.
    at: Instant,
    /// This time by the service's clock, which decides.
    at_ns: u64,
    /// Until the next tick may be given.
    waiting: Waiting,
    period: Duration,
    missed: Missed,
    /// Ticks that were given since the task last yielded.
    in_a_row: u32,
}

/// Ticks that are given before the task yields, however many are late. They take less time than the
/// shortest tick.
const IN_A_ROW_MAX: u32 = 4;

/// A difference between two clocks that counts as a suspension of the machine.
const SUSPENSION_MIN: Duration = Duration::from_secs(1);

impl Interval {
    pub(super) fn new(home: Home, period: Duration) -> Self {
        let (at_ns, tick_ns) = (home.handle().now_ns(), home.handle().ticks().nanos());
        let (at, period) = (
            home.handle().instant(at_ns),
            period.max(Duration::from_nanos(tick_ns)),
        );
        Self {
            at,
            at_ns,
            waiting: Waiting::new(home, at_ns),
            period,
            missed: Missed::Skip,
            in_a_row: 0,
        }
    }

    /// Lets the first tick come after `delay`.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    /// use wheelwork::future::interval;
    ///
    /// # futures_lite::future::block_on(async {
    /// let start = Instant::now();
    /// interval(Duration::from_secs(1)).first(Duration::from_millis(2)).tick().await;
    /// assert!(start.elapsed() >= Duration::from_millis(2));
    /// # });
    /// ```
    pub fn first(mut self, delay: Duration) -> Self {
        self.set_out(delay);
        self
    }

    /// What happens to ticks that were not taken in time. Default: [`Missed::Skip`].
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
    /// use wheelwork::future::interval;
    ///
    /// let period = Duration::from_secs(1);
    /// assert_eq!(interval(period).period(), period);
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Lets the next tick come a period from now.
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

    /// Lets the next tick come after `delay`.
    fn set_out(&mut self, delay: Duration) {
        // Not `soon_ns`, which may be up to 1 us ahead: a tick without a delay is ready at the
        // first poll.
        self.at_ns = self.handle().now_ns().saturating_add(nanos(delay));
        self.at = self.handle().instant(self.at_ns);
        self.waiting.move_to(self.at_ns);
    }

    fn handle(&self) -> &ServiceHandle<Waker> {
        self.waiting.home().handle()
    }

    /// Waits for the next tick, and returns the time for which it was meant. If this future is
    /// dropped before it is ready, no tick is lost.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Returns the next tick if its time has come: the time for which it was meant.
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
            // Yields: other tasks run first.
            context.waker().wake_by_ref();
        }
        self.in_a_row = 0;
        Poll::Pending
    }

    /// Gives the tick whose time has come. From now on the interval waits for the next one.
    fn give(&mut self) -> Instant {
        let (handle, at_ns, at) = (self.handle(), self.at_ns, self.at);
        let (now_ns, ticks) = (handle.now_ns(), handle.ticks());
        let begun_ns = ticks.start(ticks.whole(now_ns));
        let next_ns = next(at_ns, begun_ns, now_ns, nanos(self.period), self.missed);
        // A tick that was due when the service's present tick began is given at once. All others
        // come as timers do.
        let until_ns = if next_ns <= begun_ns {
            next_ns
        } else {
            ticks.start(ticks.deadline(next_ns.max(now_ns + 1)))
        };
        // The instant is counted on from the last one, so that ticks keep their distance: a clock
        // that runs on while the machine is suspended knows an instant only roughly. After a
        // suspension it is read anew.
        let (counted, read) = (
            later(at, Duration::from_nanos(next_ns.saturating_sub(at_ns))),
            handle.instant(next_ns),
        );
        self.at = if counted.max(read) - counted.min(read) < SUSPENSION_MIN {
            counted
        } else {
            read
        };
        self.at_ns = next_ns;
        self.waiting.move_to(until_ns);
        at
    }
}

/// The tick after the one that was meant for `at_ns` and was given at `now_ns`, in a tick of the
/// service that began at `begun_ns`.
fn next(at_ns: u64, begun_ns: u64, now_ns: u64, period_ns: u64, missed: Missed) -> u64 {
    // Ticks that were missed since. A tick whose time came after `begun_ns` is due at the service's
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
            assert_eq!(
                next(at, at + late, at + late + 1, period, missed),
                at + expected,
                "{late} late, {missed:?}"
            );
        }
        assert_eq!(
            next(at, at, at, nanos(Duration::MAX), Missed::Skip),
            at + nanos(Duration::MAX)
        );
        assert_eq!(
            next(at, at - 3, at, period, Missed::Delay),
            at + period,
            "it came at once"
        );
    }
}
