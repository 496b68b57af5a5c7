//! Interval: a stream of ticks at a fixed rate.

use super::timers::Home;
use super::waiting::Waiting;
use crate::repeat::Missed;
use crate::service::ServiceHandle;
use crate::time::{NANOS_MAX, Nanos, later, nanos};
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Ticks at a fixed rate, for the first time at once: the first tick is meant for the time at which
/// the interval was made. [`interval`](super::interval()) makes one. It is also a stream, without
/// an end.
///
/// A tick returns the time for which it was meant. So nothing drifts, however late a tick is taken.
/// [`missed`](Self::missed) decides what happens to ticks that nobody took in time; by default they
/// are skipped. A tick that is late by less than a tick of the service was not missed.
///
/// A period is at least a tick of the service; a shorter one, or zero, acts as one tick. With the
/// default settings one below a millisecond is beyond the budget of wake-ups
/// ([`max_wakeups_per_s`](crate::Builder::max_wakeups_per_s)), and ticks come once a millisecond. A
/// loop over [`tick`](Self::tick) waits each time, with two exceptions: missed ticks that it makes
/// up for, and ticks whose time passed while the loop did something else. It gets at most four of
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
    /// This time by the service's clock, which decides. Negative before the clock's origin.
    at_ns: i64,
    /// Until the next tick may be given.
    waiting: Waiting,
    period: Duration,
    missed: Missed,
    /// When it was paused, or was moved while it was.
    paused_ns: Option<u64>,
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
        let now_ns = home.handle().now_ns();
        Self {
            at: home.handle().instant(now_ns),
            at_ns: signed(now_ns),
            period: at_least_a_tick(period, &home),
            waiting: Waiting::new(home, now_ns),
            missed: Missed::Skip,
            paused_ns: None,
            in_a_row: 0,
        }
    }

    /// Lets the first tick come after `delay`: [`reset_after`](Self::reset_after), by value.
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
        self.reset_after(delay);
        self
    }

    /// What happens to ticks whose time passed before the tick ahead of them was taken. (A tick
    /// that is taken late, but before the next one's time, moves nothing.) Default:
    /// [`Missed::Skip`].
    pub fn missed(mut self, missed: Missed) -> Self {
        self.set_missed(missed);
        self
    }

    /// As [`missed`](Self::missed), for an interval that is in use, or a part of a struct.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::Missed;
    /// use wheelwork::future::{Interval, interval};
    ///
    /// struct Heart {
    ///     beats: Interval,
    /// }
    /// let mut heart = Heart { beats: interval(Duration::from_secs(1)) };
    /// heart.beats.set_missed(Missed::Burst(3));
    /// ```
    pub fn set_missed(&mut self, missed: Missed) {
        self.missed = missed;
    }

    /// Changes the time from one tick to the next. A period below a tick of the service acts as one
    /// tick.
    ///
    /// The next tick comes when it would have come; the period counts from there on. To let the
    /// next tick come by the new period too, call [`reset`](Self::reset) after it.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut interval = wheelwork::future::interval(Duration::from_secs(60));
    /// let first = interval.tick().await;
    /// interval.set_period(Duration::from_millis(2));
    /// interval.reset();
    /// assert!(interval.tick().await >= first + Duration::from_millis(2));
    /// # });
    /// ```
    pub fn set_period(&mut self, period: Duration) {
        self.period = at_least_a_tick(period, self.waiting.home());
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

    /// Lets the next tick come a period from now. Ticks that were missed until now do not come.
    ///
    /// A task that waits for the tick is woken at the new time, for this call and those below. If
    /// that time has come, it is woken at once. Each costs at most a
    /// [`reschedule`](crate::ServiceHandle::reschedule).
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
        self.reset_after(self.period);
    }

    /// Lets the next tick come at once, and later ones a period apart from now on.
    ///
    /// # Example
    /// ```
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    ///
    /// let mut interval = wheelwork::future::interval(Duration::from_secs(60));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(interval.poll_tick(&mut context).is_ready());
    /// assert!(interval.poll_tick(&mut context).is_pending());
    /// interval.reset_immediately();
    /// assert!(interval.poll_tick(&mut context).is_ready());
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Lets the next tick come after `delay`, and later ones a period apart from there on.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut interval = wheelwork::future::interval(Duration::from_secs(60));
    /// let start = Instant::now();
    /// interval.reset_after(Duration::from_millis(2));
    /// assert!(interval.tick().await >= start + Duration::from_millis(2));
    /// # });
    /// ```
    pub fn reset_after(&mut self, delay: Duration) {
        // Not `soon_ns`, which may be up to 2 us ahead: a tick without a delay is ready at the
        // first poll.
        let now_ns = self.handle().now_ns();
        let at_ns = now_ns.saturating_add(nanos(delay));
        self.at = self.handle().instant(at_ns);
        self.at_ns = signed(at_ns);
        self.waiting.move_to(at_ns);
        self.pause_anew(now_ns);
    }

    /// Lets the next tick come at a point in time, and later ones a period apart from there on.
    ///
    /// If that time has passed, the next tick comes at once, and returns that time. The ticks since
    /// then were missed: [`missed`](Self::missed) decides what happens to them.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut interval = wheelwork::future::interval(Duration::from_secs(60));
    /// let at = Instant::now() + Duration::from_millis(2);
    /// interval.reset_at(at);
    /// assert_eq!(interval.tick().await, at);
    /// # });
    /// ```
    pub fn reset_at(&mut self, at: Instant) {
        let at_ns = self.handle().instant_ns(at);
        // Before the clock's origin, too, the phase of the later ticks counts from this time.
        let before = self.handle().instant(0).saturating_duration_since(at);
        self.at = at;
        self.at_ns = signed(at_ns) - signed(nanos(before));
        self.waiting.move_to(at_ns);
        self.pause_anew(self.handle().now_ns());
    }

    /// Pauses it: no tick comes until [`resume`](Self::resume). All ticks are later then by the
    /// time of the pause, so none is missed in the pause. Returns `false` if it is paused already.
    ///
    /// A tick that was due and not taken comes after the pause, too. The calls that reset a paused
    /// interval set what is left until the next tick, and it stays paused.
    ///
    /// # Example
    /// ```
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    /// use wheelwork::future::Timers;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Timers::start(TimerService::builder().clock(clock.clone()))?;
    /// let mut frames = timers.interval(Duration::from_secs(10)).first(Duration::from_secs(10));
    /// let mut context = Context::from_waker(Waker::noop());
    /// clock.advance(Duration::from_secs(4));
    /// assert!(frames.pause());
    /// clock.advance(Duration::from_secs(3_600));
    /// assert!(frames.poll_tick(&mut context).is_pending());
    /// assert!(frames.resume());
    /// clock.advance(Duration::from_secs(6));
    /// assert!(frames.poll_tick(&mut context).is_ready());
    /// assert!(frames.poll_tick(&mut context).is_pending(), "none was missed");
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn pause(&mut self) -> bool {
        let now_ns = self.handle().now_ns();
        let is_paused = self.waiting.pause(now_ns);
        if is_paused {
            self.paused_ns = Some(now_ns);
        }
        is_paused
    }

    /// Goes on after a [`pause`](Self::pause). A task that waits is woken when what was left has
    /// passed. Returns `false` if it is not paused.
    ///
    /// # Example
    /// See [`pause`](Self::pause).
    pub fn resume(&mut self) -> bool {
        // Of both the same readings: else a tick might come before the time for which it is meant.
        let (Some(paused_ns), Some(now_ns)) = (self.paused_ns.take(), self.waiting.resume()) else {
            return false;
        };
        let moved_ns = now_ns.saturating_sub(paused_ns);
        self.at = later(self.at, Duration::from_nanos(moved_ns));
        self.at_ns = self.at_ns.saturating_add(signed(moved_ns));
        true
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.waiting.is_paused()
    }

    /// If it is paused, the pause counts from now on: the next tick was set by the present time.
    fn pause_anew(&mut self, now_ns: u64) {
        if self.paused_ns.is_some() {
            self.waiting.leave_from(now_ns);
            self.paused_ns = Some(now_ns);
        }
    }

    fn handle(&self) -> &ServiceHandle<Waker> {
        self.waiting.home().handle()
    }

    /// Waits for the next tick, and returns the time for which it was meant. If this future is
    /// dropped before it is ready, no tick is lost.
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
        let begun_ns = ticks.start(ticks.whole(Nanos(now_ns))).0;
        let period_ns = signed(nanos(self.period));
        let next_ns = next(
            at_ns,
            signed(begun_ns),
            signed(now_ns),
            period_ns,
            self.missed,
        );
        let since_origin_ns = u64::try_from(next_ns).unwrap_or(0);
        // A tick that was due when the service's present tick began is given at once. All others
        // come as timers do.
        let until_ns = if since_origin_ns <= begun_ns {
            since_origin_ns
        } else {
            ticks
                .start(ticks.deadline(Nanos(since_origin_ns.max(now_ns + 1))))
                .0
        };
        // The instant is counted on from the last one, so that ticks keep their distance: a clock
        // that runs on while the machine is suspended knows an instant only roughly. After a
        // suspension it is read anew.
        let step_ns = u64::try_from(next_ns.saturating_sub(at_ns)).unwrap_or(0);
        let counted = later(at, Duration::from_nanos(step_ns));
        let read = u64::try_from(next_ns).map_or(counted, |next_ns| handle.instant(next_ns));
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

/// A period that the service can keep.
fn at_least_a_tick(period: Duration, home: &Home) -> Duration {
    period.max(Duration::from_nanos(home.handle().ticks().nanos()))
}

/// A time by the service's clock, to count with times before its origin.
fn signed(time_ns: u64) -> i64 {
    time_ns.min(NANOS_MAX) as i64
}

/// The tick after the one that was meant for `at_ns` and was given at `now_ns`, in a tick of the
/// service that began at `begun_ns`.
fn next(at_ns: i64, begun_ns: i64, now_ns: i64, period_ns: i64, missed: Missed) -> i64 {
    // Ticks that were missed since. A tick whose time came after `begun_ns` is due at the service's
    // next tick, so it is not late.
    let late = begun_ns.saturating_sub(at_ns).max(0) / period_ns;
    let after = |periods: i64| at_ns.saturating_add(period_ns.saturating_mul(periods));
    match missed {
        _ if late == 0 => after(1),
        Missed::Skip => after(late + 1),
        Missed::Delay => now_ns.saturating_add(period_ns),
        Missed::Burst(most) => after(1 + (late - i64::from(most)).max(0)),
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
        let longest = signed(nanos(Duration::MAX));
        assert_eq!(next(0, 0, 0, longest, Missed::Skip), longest);
        assert_eq!(
            next(at, at, at, longest, Missed::Skip),
            i64::MAX,
            "no later"
        );
        // From before the clock's origin.
        for (missed, expected) in [
            (Missed::Skip, 5),
            (Missed::Delay, 12),
            (Missed::Burst(1), -5),
        ] {
            assert_eq!(next(-25, 2, 2, period, missed), expected, "{missed:?}");
        }
        assert_eq!(next(i64::MIN, 2, 2, 1, Missed::Delay), 3);
        assert_eq!(
            next(at, at - 3, at, period, Missed::Delay),
            at + period,
            "it came at once"
        );
    }
}
