//! Periodic: timers that run a closure again and again, as a caller describes them.
//! `engine/life/periodic_run.rs` runs them.

use super::handle::ServiceHandle;
use crate::engine::id::TimerId;
use crate::error::ScheduleError;
use crate::repeat::{Missed, Repeat, RunClosure, Running};
use crate::time::{self, Clock};
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// What decides when a periodic timer runs.
enum PeriodicKind {
    Rate(u64, Missed),
    Delay(u64),
    By(Box<dyn FnMut(Instant) -> Option<Instant> + Send>),
}

/// A periodic timer that is not started yet. [`ServiceHandle::every`],
/// [`ServiceHandle::every_after`] and [`ServiceHandle::every_by`] make one; [`start`](Self::start)
/// starts it.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let id = service
///     .every(Duration::from_secs(1))
///     .first(Duration::from_millis(100))
///     .times(60)
///     .start(|| println!("for a minute"))?;
/// service.cancel(id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it does nothing until it is started"]
pub struct Periodic<'a, T: Send + 'static> {
    handle: &'a ServiceHandle<T>,
    rhythm: PeriodicKind,
    first: Duration,
    times: u64,
}

impl<T: Send + 'static> fmt::Debug for Periodic<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic")
            .field("first", &self.first)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> ServiceHandle<T> {
    /// A timer that runs a closure at a fixed rate: first after one period, then after each further
    /// period. It does not drift: run `n` is due `n` periods after the start, to the nanosecond,
    /// rounded up to a tick.
    ///
    /// Runs that are missed are skipped, unless [`missed`](Periodic::missed) says otherwise. Two
    /// runs are never in progress at once. A period shorter than a tick, or zero, acts as one tick.
    /// With the default settings one below a millisecond is beyond the budget of wake-ups
    /// ([`max_wakeups_per_s`](crate::Builder::max_wakeups_per_s)), and runs come once a
    /// millisecond.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.every(Duration::from_secs(10)).start(|| println!("still here"))?;
    /// assert!(service.cancel(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn every(&self, period: Duration) -> Periodic<'_, T> {
        self.periodic(
            PeriodicKind::Rate(time::nanos(period), Missed::default()),
            period,
        )
    }

    /// A timer that runs a closure after `delay`, and then again `delay` after the end of each run.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let clean_up = service.every_after(Duration::from_secs(10)).first(Duration::ZERO);
    /// clean_up.start(|| println!("clean up"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn every_after(&self, delay: Duration) -> Periodic<'_, T> {
        self.periodic(PeriodicKind::Delay(time::nanos(delay)), delay)
    }

    /// A timer that runs a closure at times that a function gives. The function gets the time for
    /// which the last run was meant, and returns the time of the next run.
    ///
    /// If the function returns `None` or panics, the timer ends. A time that has passed means the
    /// next tick. The first run is at the next tick, unless [`first`](Periodic::first) says
    /// otherwise.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// // Back off: after 1 s, 2 s, 4 s, ... up to a minute.
    /// let mut delay = Duration::from_millis(500);
    /// let back_off = service.every_by(move |last| {
    ///     delay = (2 * delay).min(Duration::from_secs(60));
    ///     Some(last + delay)
    /// });
    /// back_off.start(|| println!("try again"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn every_by(
        &self,
        next: impl FnMut(Instant) -> Option<Instant> + Send + 'static,
    ) -> Periodic<'_, T> {
        self.periodic(PeriodicKind::By(Box::new(next)), Duration::ZERO)
    }

    fn periodic(&self, rhythm: PeriodicKind, first: Duration) -> Periodic<'_, T> {
        Periodic {
            handle: self,
            rhythm,
            first,
            times: u64::MAX,
        }
    }
}

impl<T: Send + 'static> Periodic<'_, T> {
    /// The service.
    #[cfg(feature = "async")]
    pub(crate) fn handle(&self) -> &ServiceHandle<T> {
        self.handle
    }

    /// The delay of the first run. [`spread`](crate::spread()) gives one that depends on a key, so
    /// that timers which start together do not run together.
    pub fn first(mut self, delay: Duration) -> Self {
        self.first = delay;
        self
    }

    /// The number of runs. Default: without end. [`start`](Self::start) rejects 0.
    pub fn times(mut self, runs: u64) -> Self {
        self.times = runs;
        self
    }

    /// What happens to missed runs of a fixed rate. Default: [`Missed::Skip`]. No effect on
    /// [`every_after`](ServiceHandle::every_after) and [`every_by`](ServiceHandle::every_by).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::Missed;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// // A meter that counts every second. It makes up for at most ten seconds in a row.
    /// let meter = service.every(Duration::from_secs(1)).missed(Missed::Burst(10));
    /// meter.start(|| println!("one more second"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn missed(mut self, policy: Missed) -> Self {
        if let PeriodicKind::Rate(_, missed) = &mut self.rhythm {
            *missed = policy;
        }
        self
    }

    /// Starts the timer. The closure runs where handlers run. However long it takes, on a pool of
    /// ours it delays other timers by at most 2 ms while a worker is idle. Inline, and in a service
    /// with a channel, it holds up its shard.
    ///
    /// A run that panics is counted, and the next run comes nevertheless. When the service stops,
    /// the timer ends; `stop` does not hand it back.
    ///
    /// Cost: two allocations, and four of a timer of `every_by`. A run costs some 400 instructions
    /// more than a timer that is armed, filed and fired once. Inline it allocates nothing. On a
    /// pool or an executor each batch of up to 1,024 due timers costs two or three allocations, and
    /// one or two for each 64 of them that idle workers may help with.
    ///
    /// # Errors
    /// [`Stopped`](ScheduleError::Stopped) and [`Full`](ScheduleError::Full), as for
    /// [`schedule`](ServiceHandle::schedule); [`NoRuns`](ScheduleError::NoRuns) after `times(0)`.
    /// The closure is dropped. If the service is stopped at this very moment, the closure may have
    /// run, once or more, though the call returns `Stopped`.
    pub fn start(self, run: impl FnMut() + Send + 'static) -> Result<TimerId, ScheduleError<()>> {
        self.start_closure(RunClosure::Plain(Box::new(run)))
    }

    /// Starts the timer with a closure that sees its run, and may end its timer: with
    /// `ControlFlow::Break(())` as its result there is no further run. Otherwise like
    /// [`start`](Self::start).
    ///
    /// The [`PeriodicRun`] knows the timer's id and how late the run is, and can give the timer a
    /// new period.
    ///
    /// A timer that its closure ends has ended as after its last run of [`times`](Self::times): it
    /// is no longer pending, and what the closure captured is dropped on the thread of the run.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Example
    /// ```
    /// use std::ops::ControlFlow::{Break, Continue};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let (send, tries) = mpsc::channel();
    /// // Ask until there is an answer.
    /// service.every(Duration::from_millis(2)).start_while(move |_| {
    ///     let is_sent = send.send("is it ready?").is_ok();
    ///     if is_sent { Continue(()) } else { Break(()) }
    /// })?;
    /// assert_eq!(tries.recv()?, "is it ready?");
    /// drop(tries); // The next run ends the timer.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_while(
        self,
        mut run: impl FnMut(&mut PeriodicRun<'_>) -> ControlFlow<()> + Send + 'static,
    ) -> Result<TimerId, ScheduleError<()>> {
        let engine = &self.handle.engine;
        let (tag, clock) = (engine.cells.shared.tag(), engine.clock.clone());
        let run = move |running: Running<'_>| {
            run(&mut PeriodicRun {
                id: TimerId::new(running.birth, running.cell, tag, 0),
                clock: &clock,
                running,
            })
        };
        self.start_closure(RunClosure::Seeing(Box::new(run)))
    }

    fn start_closure(self, run: RunClosure) -> Result<TimerId, ScheduleError<()>> {
        let Self {
            handle,
            rhythm,
            first,
            times,
        } = self;
        if times == 0 {
            return Err(ScheduleError::NoRuns(()));
        }
        let engine = &handle.engine;
        let first_ns = time::nanos(first).max(1);
        let clock = engine.clock.clone();
        let repeat = |at_ns| match rhythm {
            PeriodicKind::Rate(period_ns, missed) => {
                Repeat::every(period_ns, missed, at_ns, times, run)
            }
            PeriodicKind::Delay(delay_ns) => Repeat::every_after(delay_ns, at_ns, times, run),
            PeriodicKind::By(mut next) => {
                let next = move |last_ns| {
                    next(clock.instant(last_ns)).map(|instant| clock.instant_ns(instant))
                };
                Repeat::by(Box::new(next), at_ns, times, run)
            }
        };
        engine
            .arm_repeat(first_ns, repeat)
            .map_err(|error| error.map(drop))
    }
}

/// A run of a periodic timer, as the closure of [`start_while`](Periodic::start_while) sees it.
///
/// # Example
/// ```
/// use std::ops::ControlFlow::Continue;
/// use std::time::Duration;
/// use wheelwork::PeriodicRun;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let mut pause = Duration::from_secs(1);
/// service.every(pause).start_while(move |run: &mut PeriodicRun<'_>| {
///     println!("{:?} runs, {:?} late", run.id(), run.lateness());
///     // Less and less often, down to once a minute.
///     pause = (2 * pause).min(Duration::from_secs(60));
///     run.set_period(pause);
///     Continue(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PeriodicRun<'a> {
    id: TimerId,
    clock: &'a Clock,
    running: Running<'a>,
}

impl PeriodicRun<'_> {
    /// The id of the run's timer: what [`start_while`](Periodic::start_while) returns. The timer is
    /// pending during its runs, so the id can be cancelled.
    #[must_use]
    pub fn id(&self) -> TimerId {
        self.id
    }

    /// The time for which the run is meant, not rounded to a tick unless the timer was moved.
    ///
    /// # Example
    /// ```
    /// use std::ops::ControlFlow::Break;
    /// use std::sync::mpsc;
    /// use std::time::{Duration, Instant};
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let (send, times) = mpsc::channel();
    /// let began = Instant::now();
    /// service.every(Duration::from_millis(3)).start_while(move |run| {
    ///     send.send(run.scheduled()).unwrap();
    ///     Break(())
    /// })?;
    /// assert!(times.recv()? >= began + Duration::from_millis(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn scheduled(&self) -> Instant {
        self.clock.instant(self.running.at_ns)
    }

    /// How long after its deadline, which is a whole tick, the run has begun. Zero if it came at
    /// once, and at most 2 us more than the truth.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        Duration::from_nanos(self.running.late_ns)
    }

    /// Gives the timer another period, from this run on. The next run comes one new period after
    /// [`scheduled`](Self::scheduled). Of a timer of [`every_after`](ServiceHandle::every_after) it
    /// comes one new period after the end of this run. A period shorter than a tick, or zero, acts
    /// as one tick.
    ///
    /// It has no effect on a timer of [`every_by`](ServiceHandle::every_by), whose function says
    /// when the next run comes. It stays if the run panics after it.
    pub fn set_period(&mut self, period: Duration) {
        self.running.set_period(time::nanos(period));
    }
}

impl fmt::Debug for PeriodicRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicRun")
            .field("id", &self.id)
            .field("lateness", &self.lateness())
            .finish_non_exhaustive()
    }
}
