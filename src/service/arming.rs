//! Arming: the ways to arm a timer other than for a delay or an `Instant`.

use super::TimerHandle;
use super::id::TimerId;
use super::task::IntoPayload;
use crate::error::ScheduleError;
use crate::time::{self, Look, Repeat, TickLength};
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

impl<T: Send + 'static> TimerHandle<T> {
    /// Arms a timer in a shard of the caller's choice, modulo the number of shards. Otherwise like [`schedule`](Self::schedule), which takes the thread's own: so
    /// the timers of one thread can be spread over shards, or those that belong together be kept in one.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().shards(2).start()?;
    /// let connection = 4711;
    /// let id = service.schedule_on(connection, Duration::from_secs(5), || println!("idle"))?;
    /// assert!(service.pending(1).any(|(pending, _)| pending == id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_on(&self, shard: usize, delay: Duration, payload: impl IntoPayload<T>) -> Result<TimerId, ScheduleError<T>> {
        let (payload, delay_ns) = (payload.into_payload(), time::nanos(delay).max(1));
        self.inner.arm(payload, Some(shard % self.shards()), |now_ns| now_ns + delay_ns)
    }

    /// Arms a timer with slack: it fires between the two delays, not before the first, and as soon after the second at most as any timer. The shard chooses
    /// the coarsest tick between them. So timers with slack meet at few ticks, for which the shard wakes up once: 20,000 timers over 30 s, with a slack
    /// of 3 s, at 44 ticks. Where there is no whole tick between them, or the first is the longer, the first decides.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// // Some time after a minute: whenever it suits.
    /// service.schedule_within(Duration::from_secs(60)..=Duration::from_secs(70), || println!("clean up"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_within(&self, delays: RangeInclusive<Duration>, payload: impl IntoPayload<T>) -> Result<TimerId, ScheduleError<T>> {
        let (payload, inner) = (payload.into_payload(), &*self.inner);
        let [first_ns, last_ns] = [delays.start(), delays.end()].map(|&delay| time::nanos(delay).max(1));
        inner.arm(payload, None, |now_ns| {
            let (first, last) = (inner.tick.deadline(now_ns + first_ns), inner.tick.whole(now_ns + last_ns));
            inner.tick.start(TickLength::coarsest(first, last))
        })
    }

    /// Runs a closure at a time of day: when the system's clock shows it. If that is set meanwhile, forward or back, the timer follows; it notices within a
    /// minute, and wakes its shard once a minute for that. A time that has passed is the next tick.
    ///
    /// Like a periodic timer it takes a closure, whatever the service's payload is, can be cancelled but not taken, and is not handed back by `stop`.
    ///
    /// What [`remaining`](Self::remaining), [`deadline`](Self::deadline) and [`pending`](Self::pending) say of it is the next look at the system's clock. If it is moved
    /// ([`reschedule`](Self::reschedule)) to another tick than that one's, it fires there, whatever the system's clock shows.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule); the closure is dropped.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let at = SystemTime::now() + Duration::from_secs(3_600);
    /// let id = service.schedule_at_time(at, || println!("an hour later, by the clock on the wall"))?;
    /// service.cancel(id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_at_time(&self, at: SystemTime, task: impl FnOnce() + Send + 'static) -> Result<TimerId, ScheduleError<()>> {
        let mut task = Some(task);
        let run = move || {
            if let Some(task) = task.take() {
                task();
            }
        };
        let until = move |now| at.duration_since(now).unwrap_or_default();
        self.by_wall_clock(until(self.wall_clock().0), Box::new(move |now, _| Some(until(now))), 1, run)
    }

    /// What the wall clock shows (a manual clock's, if the service has one), and the time since the
    /// clock's origin, in nanoseconds.
    pub(crate) fn wall_clock(&self) -> (SystemTime, u64) {
        (self.inner.clock.system_time(), self.inner.clock.now_ns())
    }

    /// Arms a timer that runs a closure so many times when a look at the wall clock says so, for the first time after this delay.
    pub(crate) fn by_wall_clock(
        &self,
        first: Duration,
        look: Look,
        runs: u64,
        run: impl FnMut() + Send + 'static,
    ) -> Result<TimerId, ScheduleError<()>> {
        let first_ns = time::nanos(Repeat::wall_delay(first)).max(1);
        self.inner.arm_repeat(first_ns, |at_ns| Repeat::by_wall(look, at_ns, runs, Box::new(run))).map_err(|error| error.map(drop))
    }
}
