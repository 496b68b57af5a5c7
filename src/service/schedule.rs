//! Schedule: the calls that arm a timer. `engine/life/arm.rs` has the steps.

use super::handle::ServiceHandle;
use super::inspect::WallReading;
use crate::engine::id::TimerId;
use crate::engine::life::arm::HOME;
use crate::engine::task::IntoPayload;
use crate::error::ScheduleError;
use crate::repeat::{Repeat, RunClosure, WallLook};
use crate::time::{self, Nanos, TickLength};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant, SystemTime};

impl<T: Send + 'static> ServiceHandle<T> {
    /// Arms a timer: after `delay` the payload goes to the handler, or the closure is run.
    ///
    /// It fires at the first tick at or after now + `delay`, and not before: `docs/limits.md` has
    /// the exceptions. (Beyond the budget of wake-ups it fires at the next full millisecond, see
    /// [`max_wakeups_per_s`](crate::Builder::max_wakeups_per_s).) A delay of zero fires at the next
    /// tick. Deadlines reach 292 years from the service's start (142 years at a tick of 1 us); a
    /// longer delay, such as [`Duration::MAX`], acts as the longest one.
    ///
    /// A thread that arms some million timers a second reads the clock once for a few of them.
    /// These are late by up to 7.8 us at the default tick. If the thread is interrupted between two
    /// of them, or arms no more, they may be later by a tick and the time until the shard takes
    /// them in, up to a millisecond. If the shard or the thread is held up just then, they are
    /// later by that time.
    ///
    /// Lock-free, from any thread, with the exceptions that [`cancel`](Self::cancel) names. Cost:
    /// some 30 ns, for a clock reading (which timers may share), a free cell and a message. A
    /// closure of more than three words is boxed. If the shard sleeps past the deadline it is
    /// woken, at the cost of a system call.
    ///
    /// # Errors
    /// [`Stopped`](ScheduleError::Stopped) after the service has stopped, and in a process that was
    /// forked off from the service's; [`Full`](ScheduleError::Full) if no more timers may be
    /// pending. The error has the payload. (In a forked process this holds on Linux; elsewhere a
    /// timer may be accepted there, and never fires. A service on a manual clock refuses nothing
    /// there.)
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(30), || println!("no answer in 30 s"))?;
    /// // The answer came.
    /// service.cancel(id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn schedule(
        &self,
        delay: Duration,
        payload: impl IntoPayload<T>,
    ) -> Result<TimerId, ScheduleError<T>> {
        let payload = payload.into_payload();
        // At least 1 ns, so never the present tick: a task that arms itself with a delay of zero
        // runs once a tick.
        let delay_ns = time::nanos(delay).max(1);
        self.engine.arm(payload, HOME, move |now| now + delay_ns)
    }

    /// Arms a timer for a point in time. If that has passed, the timer fires at the next tick.
    /// Otherwise like [`schedule`](Self::schedule).
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let in_a_minute = Instant::now() + Duration::from_secs(60);
    /// service.schedule_at(in_a_minute, || println!("a minute has passed"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_at(
        &self,
        deadline: Instant,
        payload: impl IntoPayload<T>,
    ) -> Result<TimerId, ScheduleError<T>> {
        let payload = payload.into_payload();
        let at = Nanos(self.engine.clock.instant_ns(deadline));
        self.engine.arm(payload, HOME, move |now| at.max(now + 1))
    }

    /// Arms a timer with slack: it fires between the two delays. It never fires before the first
    /// delay, and it is due by the second.
    ///
    /// The shard chooses the coarsest tick between them. So timers with slack meet at few ticks,
    /// and the shard wakes up once for each of these ticks. Example: 20,000 timers of 30 to 60 s,
    /// armed in the course of a minute with a slack of 3 s, meet at 55 ticks. If there is no whole
    /// tick between the delays, or if the first is longer than the second, the first decides.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// // Between 60 and 70 seconds from now, when it costs least.
    /// let delays = Duration::from_secs(60)..=Duration::from_secs(70);
    /// service.schedule_within(delays, || println!("clean up"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_within(
        &self,
        delays: RangeInclusive<Duration>,
        payload: impl IntoPayload<T>,
    ) -> Result<TimerId, ScheduleError<T>> {
        let (payload, engine) = (payload.into_payload(), &*self.engine);
        let [first_ns, last_ns] =
            [delays.start(), delays.end()].map(|&delay| time::nanos(delay).max(1));
        engine.arm(payload, HOME, move |now| {
            let (first, last) = (
                engine.tick.deadline(now + first_ns),
                engine.tick.whole(now + last_ns),
            );
            engine.tick.start(TickLength::coarsest(first, last))
        })
    }

    /// Arms a timer in the shard with this number, modulo the number of shards. Otherwise like
    /// [`schedule`](Self::schedule), which takes the calling thread's shard.
    ///
    /// Use it to spread the timers of one thread over shards, or to keep related timers in one
    /// shard.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().shards(2).start()?;
    /// let connection = 4711;
    /// let id = service.schedule_on(connection, Duration::from_secs(5), || println!("idle"))?;
    /// assert!(service.pending(1).any(|(pending, _)| pending == id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_on(
        &self,
        shard: usize,
        delay: Duration,
        payload: impl IntoPayload<T>,
    ) -> Result<TimerId, ScheduleError<T>> {
        let (payload, delay_ns) = (payload.into_payload(), time::nanos(delay).max(1));
        self.engine
            .arm(payload, shard % self.shards(), move |now| now + delay_ns)
    }

    /// Runs a closure at a time of day: when the system's clock shows it. If that has passed, it
    /// runs at the next tick.
    ///
    /// If the system's clock is set, forward or back, the timer follows within a minute, rounded up
    /// to a tick. For that it wakes its shard that often.
    ///
    /// Like a periodic timer, it takes a closure whatever the service's payload is. It can be
    /// cancelled but not taken, and `stop` does not hand it back.
    ///
    /// [`remaining`](Self::remaining), [`deadline`](Self::deadline) and [`pending`](Self::pending)
    /// give the time of its next look at the system's clock. If [`reschedule`](Self::reschedule)
    /// moves it to another tick, it fires at that tick, whatever the system's clock shows. (On a
    /// manual clock such a move may be lost, if the time of day is set just then.)
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule). The closure is dropped.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let at = SystemTime::now() + Duration::from_secs(3_600);
    /// let id = service.schedule_at_system_time(at, || println!("an hour later by the clock"))?;
    /// service.cancel(id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_at_system_time(
        &self,
        at: SystemTime,
        task: impl FnOnce() + Send + 'static,
    ) -> Result<TimerId, ScheduleError<()>> {
        let mut task = Some(task);
        let run = move || {
            if let Some(task) = task.take() {
                task();
            }
        };
        let until = move |now| at.duration_since(now).unwrap_or_default();
        let wall = self.wall_clock();
        self.by_wall_clock(
            wall,
            until(wall.time),
            Box::new(move |now, _| Some(until(now))),
            1,
            run,
        )
    }

    /// [`schedule_at`](Self::schedule_at) for a time in nanoseconds since the clock's origin.
    pub(crate) fn schedule_at_ns(
        &self,
        at_ns: u64,
        payload: impl IntoPayload<T>,
    ) -> Result<TimerId, ScheduleError<T>> {
        self.engine.arm(payload.into_payload(), HOME, move |now| {
            Nanos(at_ns).max(now + 1)
        })
    }

    /// Arms a timer that runs a closure whenever `look` says that it is time by the wall clock, and
    /// `runs` times in all. The first look comes after `first`, which was found by this reading.
    pub(crate) fn by_wall_clock(
        &self,
        wall: WallReading,
        first: Duration,
        look: WallLook,
        runs: u64,
        run: impl FnMut() + Send + 'static,
    ) -> Result<TimerId, ScheduleError<()>> {
        let next_look = self.engine.next_look();
        let first_ns = time::nanos(Repeat::wall_delay(first, next_look.is_some())).max(1);
        let armed = self.engine.arm_repeat(first_ns, |at_ns| {
            let run = RunClosure::Plain(Box::new(run));
            Repeat::by_wall(look, next_look.clone(), at_ns, runs, run)
        });
        let id = armed.map_err(|error| error.map(drop))?;
        if let Some(next_look) = next_look {
            self.engine.follow_wall(id, next_look, wall.sets);
        }
        Ok(id)
    }
}
