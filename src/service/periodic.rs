//! Periodic: timers that run a closure again and again. How they are described, and how they are run.
//!
//! The closure lies in the cell, boxed with its rhythm, and keeps the cell and the id for all its runs. A worker takes it out for a run (RUNNING), and puts
//! it back for the next one: so a run never overlaps itself, and `cancel` in between ends it.

use super::TimerHandle;
use super::cells::Date;
use super::cells::Run;
use super::id::TimerId;
use super::inner::Inner;
use crate::cell::{Content, Place};
use crate::error::ScheduleError;
use crate::time::{self, Due, Missed, Repeat};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// When a periodic timer runs.
enum Rhythm {
    Rate(u64, Missed),
    Delay(u64),
    By(Box<dyn FnMut(Instant) -> Option<Instant> + Send>),
}

/// A periodic timer to be: made by [`TimerHandle::every`], [`TimerHandle::with_delay`] or [`TimerHandle::every_by`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// # let service = wheelwork::TimerService::builder().start()?;
/// let id = service.every(Duration::from_secs(1)).first(Duration::from_millis(100)).times(60).start(|| println!("for a minute"))?;
/// service.cancel(id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it does nothing until it is started"]
pub struct Periodic<'a, T: Send + 'static> {
    handle: &'a TimerHandle<T>,
    rhythm: Rhythm,
    first: Duration,
    times: u64,
}

impl<T: Send + 'static> fmt::Debug for Periodic<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic").field("first", &self.first).field("times", &self.times).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> TimerHandle<T> {
    /// A timer that runs a closure at a fixed rate: first after a period, then every period after that, to the nanosecond and without drift, each rounded up
    /// to a tick. Runs that come too late are skipped, unless [`missed`](Periodic::missed) says otherwise. A run is never in progress twice.
    /// A period shorter than a tick, or zero, is as good as a tick.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.every(Duration::from_secs(10)).start(|| println!("still here"))?;
    /// assert!(service.cancel(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn every(&self, period: Duration) -> Periodic<'_, T> {
        self.periodic(Rhythm::Rate(time::nanos(period), Missed::default()), period)
    }

    /// A timer that runs a closure after `delay`, and then again `delay` after the end of each run.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// service.with_delay(Duration::from_secs(10)).first(Duration::ZERO).start(|| println!("clean up"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_delay(&self, delay: Duration) -> Periodic<'_, T> {
        self.periodic(Rhythm::Delay(time::nanos(delay)), delay)
    }

    /// A timer that runs a closure when a function says: it is given the time for which the last run was meant, and says when the next one comes; `None`
    /// ends the timer, and so does a panic of the function. First it runs at the next tick, unless [`first`](Periodic::first) says otherwise. A time that has passed is the next tick.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// // Back off: after 1 s, 2 s, 4 s, ... up to a minute.
    /// let mut delay = Duration::from_millis(500);
    /// service.every_by(move |last| {
    ///     delay = (2 * delay).min(Duration::from_secs(60));
    ///     Some(last + delay)
    /// }).start(|| println!("try again"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn every_by(&self, next: impl FnMut(Instant) -> Option<Instant> + Send + 'static) -> Periodic<'_, T> {
        self.periodic(Rhythm::By(Box::new(next)), Duration::ZERO)
    }

    fn periodic(&self, rhythm: Rhythm, first: Duration) -> Periodic<'_, T> {
        Periodic { handle: self, rhythm, first, times: u64::MAX }
    }
}

impl<T: Send + 'static> Periodic<'_, T> {
    /// The delay of the first run.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn first(mut self, delay: Duration) -> Self {
        self.first = delay;
        self
    }

    /// The number of runs; without end unless set. 0 is rejected by [`start`](Self::start).
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn times(mut self, runs: u64) -> Self {
        self.times = runs;
        self
    }

    /// What happens to runs of a fixed rate that were missed. Of no use to the other kinds.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::Missed;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// // A meter that has to count every second: at most ten are made up for at once.
    /// service.every(Duration::from_secs(1)).missed(Missed::Burst(10)).start(|| println!("one more second"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn missed(mut self, policy: Missed) -> Self {
        if let Rhythm::Rate(_, missed) = &mut self.rhythm {
            *missed = policy;
        }
        self
    }

    /// Starts it. The closure runs where handlers run, by itself: however long it takes, it delays no other timer while a worker is idle. (In a service that sends its payloads to a channel
    /// it runs on the shard's thread.) A run that panics is
    /// counted, and the next one comes all the same. A service that stops ends it; it is not handed back.
    ///
    /// Costs two allocations; each run costs some hundred nanoseconds more than that of a timer that runs once.
    ///
    /// # Errors
    /// [`Stopped`](ScheduleError::Stopped) and [`Full`](ScheduleError::Full), as for
    /// [`schedule`](TimerHandle::schedule); [`NoRuns`](ScheduleError::NoRuns) for a timer of no
    /// runs. The closure is dropped.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn start(self, run: impl FnMut() + Send + 'static) -> Result<TimerId, ScheduleError<()>> {
        let Self { handle, rhythm, first, times } = self;
        if times == 0 {
            return Err(ScheduleError::NoRuns(()));
        }
        let inner = &handle.inner;
        let (run, first_ns) = (Box::new(run), time::nanos(first).max(1));
        let clock = inner.clock.clone();
        let repeat = |at_ns| match rhythm {
            Rhythm::Rate(period_ns, missed) => Repeat::every(period_ns, missed, at_ns, times, run),
            Rhythm::Delay(delay_ns) => Repeat::with_delay(delay_ns, at_ns, times, run),
            Rhythm::By(mut next) => {
                let next = move |last_ns| next(clock.instant(last_ns)).map(|instant| clock.instant_ns(instant));
                Repeat::by(Box::new(next), at_ns, times, run)
            }
        };
        inner.arm_repeat(first_ns, repeat).map_err(|error| error.map(drop))
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Arms a timer that runs a closure.
    pub(super) fn arm_repeat(&self, first_ns: u64, repeat: impl FnOnce(u64) -> Repeat) -> Result<TimerId, ScheduleError<Box<Repeat>>> {
        self.cells.with_local(|local| {
            let at_ns = self.clock.arming_now_ns(&mut local.anchor) + first_ns;
            let deadline = self.tick.deadline(at_ns);
            let mut repeat = Box::new(repeat(at_ns));
            repeat.file(deadline);
            let place = Place::new(deadline, local.home());
            self.cells.schedule(local, place, repeat, Date::Read)
        })
    }

    /// Runs a periodic timer once, unless it was cancelled or it is not the time yet, and files it for its next run. The caller's thread has begun a job.
    pub(super) fn run_periodic(&self, run: Run) {
        let Some(mut repeat) = self.cells.with_local(|local| self.cells.begin_run(local, run)) else { return };
        repeat.claimed(run.place.deadline(), |deadline| self.tick.start(deadline));
        let due = self.or_panicked(Due::End, || repeat.due(self.clock.now_ns(), || self.clock.system_time()));
        if due == Due::Run {
            self.count_run(run.place);
            self.run_here(&mut repeat);
        }
        let now_ns = self.clock.now_ns();
        let again = match due {
            Due::Run => self.or_panicked(false, || repeat.advance(now_ns, self.tick)),
            Due::Wait => true,
            Due::End => false,
        };
        if !again || self.cells.core.is_closed() {
            self.cells.with_local(|local| self.cells.end_run(local, run));
            return if due == Due::Wait { self.end_repeat(repeat) } else { self.drop_repeat(Some(repeat)) };
        }
        let deadline = self.tick.deadline(repeat.at_ns().max(now_ns + 1));
        if deadline <= run.place.deadline() {
            // Time has ended: there is no later tick.
            return self.end_periodic(run, repeat);
        }
        repeat.file(deadline);
        let place = Place::new(deadline, run.place.shard());
        let ended = self.cells.with_local(|local| self.cells.file_again(local, Run { place, ..run }, repeat));
        self.drop_repeat(ended);
        // As S5: a stop that fires all has left it to us while it ran, or sees that it is armed.
        if self.cells.core.fires_all()
            && let Some(Some(Content::Repeat(repeat))) = self.cells.with_local(|local| self.cells.end_periodic_at(local, run.cell))
        {
            self.end_repeat(repeat);
        }
    }

    /// A periodic timer has ended, for the service is closed. One for a time of day that has not come is fired, if all are.
    fn end_repeat(&self, mut repeat: Box<Repeat>) {
        if repeat.is_for_time_of_day() && self.cells.core.fires_all() {
            self.run_here(&mut repeat);
        }
        self.drop_repeat(Some(repeat));
    }

    /// Ends a periodic timer whose run nobody will do. The caller's thread has begun a job.
    pub(super) fn give_up(&self, run: Run) {
        if let Some(repeat) = self.cells.with_local(|local| self.cells.begin_run(local, run)) {
            self.end_periodic(run, repeat);
        }
    }

    /// Ends a periodic timer whose run the caller has begun.
    fn end_periodic(&self, run: Run, repeat: Box<Repeat>) {
        self.cells.with_local(|local| self.cells.end_run(local, run));
        self.drop_repeat(Some(repeat));
    }

    /// Runs the closure, whatever panics.
    pub(super) fn run_here(&self, repeat: &mut Repeat) {
        self.or_panicked((), || repeat.run());
    }

    pub(super) fn drop_repeat(&self, repeat: Option<Box<Repeat>>) {
        self.or_panicked((), || drop(repeat));
    }

    /// What `f` returns; or else that, if it panics.
    fn or_panicked<R>(&self, or_else: R, f: impl FnOnce() -> R) -> R {
        catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
            self.panicked(panic);
            or_else
        })
    }
}
