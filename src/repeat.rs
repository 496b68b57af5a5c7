//! Repeat: a periodic timer's closure, and when it runs next.
//!
//! A `Repeat` lies in the timer's cell between two runs. During a run the thread that runs it owns
//! it. All times are nanoseconds since the clock's origin.

use crate::cold_drop::ColdDrop;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{NANOS_MAX, Nanos, TickLength, nanos};
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What a fixed-rate timer does about missed runs. Timers of a calendar have `calendar::Missed`.
///
/// A run is meant for the tick to which its time is rounded up. It is missed if that tick has come
/// when the run before it ends: an earlier run took too long, or the workers were busy.
///
/// A run that ends less than a period after its own time makes no run missed. With a period of one
/// tick, a run that ends before the next tick makes no run missed, wherever in a tick the timer was
/// started.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::Missed;
/// # let service = wheelwork::TimerService::builder().start()?;
/// service
///     .every(Duration::from_millis(100))
///     .missed(Missed::Burst(3))
///     .start(|| println!("ten times a second"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// Missed runs are left out. The next run is at the next multiple of the period that is still
    /// to come. The default.
    #[default]
    Skip,
    /// Missed runs are left out. The next run comes one period after the late run has ended, and
    /// all later runs move with it.
    Delay,
    /// Missed runs are made up for, one a tick (beyond the budget of wake-ups one a millisecond),
    /// up to this number. The others are left out.
    Burst(u32),
}

impl Missed {
    /// All missed runs are made up for, one a tick (beyond the budget of wake-ups one a
    /// millisecond).
    pub const BURST_ALL: Self = Self::Burst(u32::MAX);
}

/// A timer that goes by the system's clock looks at it this often. So it notices within this time
/// that somebody has set the clock.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Returns the time until the next run, given the wall clock's time and the service's time. Zero
/// means now: that run counts as made. `None`: there is no further run.
pub(crate) type WallLook = Box<dyn FnMut(SystemTime, u64) -> Option<Duration> + Send>;

/// The next look of a timer by the wall clock, for whoever sets that clock and brings the look
/// forward. Any thread may read it.
#[derive(Debug, Default)]
pub(crate) struct NextLook {
    /// The deadline at which the timer was filed for it.
    filed: AtomicU64,
    /// The deadline to which it was brought forward.
    brought: AtomicU64,
}

impl NextLook {
    pub(crate) fn file(&self, deadline: u64) {
        // Ordering: Relaxed. The exchange of the cell's word that follows publishes it.
        self.filed.store(deadline, Ordering::Relaxed);
    }

    /// The caller moves the timer to this deadline, for a look.
    pub(crate) fn bring_to(&self, deadline: u64) {
        // Ordering: Relaxed. As above.
        self.brought.store(deadline, Ordering::Relaxed);
    }

    /// Whether a timer that is due then comes for a look. Otherwise a user has moved it.
    pub(crate) fn is_at(&self, deadline: u64) -> bool {
        // Ordering: Relaxed. Read after the word of the cell, which publishes them.
        let (filed, brought) = (
            self.filed.load(Ordering::Relaxed),
            self.brought.load(Ordering::Relaxed),
        );
        [filed, brought].contains(&deadline)
    }
}

/// What a claimed periodic timer has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunStep {
    /// Run now.
    Run,
    /// Wait until `Repeat::at_ns`, without a run.
    Wait,
    /// End: there is no further run.
    End,
}

/// When the next run comes.
enum Rhythm {
    /// Fixed rate.
    Rate { period_ns: u64, missed: Missed },
    /// Fixed delay after the end of each run.
    Delay { period_ns: u64 },
    /// As a function says. It gets the time for which the last run was meant.
    By(Box<dyn FnMut(u64) -> Option<u64> + Send>),
    /// By the wall clock.
    Wall {
        look: WallLook,
        /// Somebody has moved the timer, and the next run comes without a look at the wall clock.
        is_moved: bool,
        /// Whoever sets the clock brings the next look forward. `None`: the timer looks by itself.
        next_look: Option<Arc<NextLook>>,
    },
}

/// What a run does.
pub(crate) enum RunClosure {
    /// The user's closure, which knows nothing of its timer.
    Plain(Box<dyn FnMut() + Send>),
    /// One that sees its run, and may end its timer.
    Seeing(Box<dyn FnMut(Running<'_>) -> ControlFlow<()> + Send>),
}

/// A run in progress, as its closure sees it.
pub(crate) struct Running<'a> {
    /// The cell of the timer, and its birth: they name it.
    pub(crate) cell: u32,
    pub(crate) birth: u64,
    /// The time for which the run is meant.
    pub(crate) at_ns: u64,
    /// How long after its deadline the run has begun.
    pub(crate) late_ns: u64,
    rhythm: &'a mut Rhythm,
}

impl Running<'_> {
    /// Gives the timer a new period, from this run on. A timer that runs when a function says, or
    /// by the wall clock, has none.
    pub(crate) fn set_period(&mut self, new_ns: u64) {
        match self.rhythm {
            Rhythm::Rate { period_ns, .. } | Rhythm::Delay { period_ns } => *period_ns = new_ns,
            Rhythm::By(_) | Rhythm::Wall { .. } => {}
        }
    }
}

/// A periodic timer's closure and rhythm.
pub(crate) struct Repeat {
    closures: ColdDrop<Closures>,
    /// The time for which the present or next run is meant. Not rounded to ticks, so that nothing
    /// drifts.
    at_ns: u64,
    /// The deadline at which the timer was armed: the tick of `at_ns`, or a later one if that had
    /// passed.
    deadline: u64,
    /// The generation of that filing. 0: it is the first one, whose generation is the timer's
    /// birth.
    generation: u64,
    /// The run has claimed another filing.
    is_refiled: bool,
    /// Runs that are left, with the present one.
    runs_left: u64,
    /// It was paused, and not moved since: the rounding of its deadlines is noted, so that further
    /// pauses do not add it up.
    was_paused: bool,
}

/// What is the user's of a periodic timer.
struct Closures {
    run: RunClosure,
    rhythm: Rhythm,
}

impl Drop for Closures {
    /// Drops both of the user's closures, each under its own guard. If two drops of one struct
    /// panic, the second panic aborts the process.
    fn drop(&mut self) {
        let rhythm = std::mem::replace(&mut self.rhythm, Rhythm::Delay { period_ns: 0 });
        let run = std::mem::replace(&mut self.run, RunClosure::Plain(Box::new(|| ())));
        let first = catch_unwind(AssertUnwindSafe(|| drop(rhythm)));
        let second = catch_unwind(AssertUnwindSafe(|| drop(run)));
        if let Err(panic) = first {
            // The drop of a panic's payload may panic too.
            std::mem::forget(second);
            resume_unwind(panic);
        }
        if let Err(panic) = second {
            resume_unwind(panic);
        }
    }
}

impl fmt::Debug for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeat")
            .field("at_ns", &self.at_ns)
            .field("runs_left", &self.runs_left)
            .finish_non_exhaustive()
    }
}

impl Repeat {
    fn new(run: RunClosure, rhythm: Rhythm, at_ns: u64, runs: u64) -> Self {
        Self {
            closures: ColdDrop::new(Closures { run, rhythm }),
            at_ns,
            deadline: 0,
            generation: 0,
            is_refiled: false,
            runs_left: runs,
            was_paused: false,
        }
    }

    /// A fixed rate: first at `at_ns`, then every `period_ns`, or every tick if that is longer.
    pub(crate) fn every(
        period_ns: u64,
        missed: Missed,
        at_ns: u64,
        runs: u64,
        run: RunClosure,
    ) -> Self {
        let rhythm = Rhythm::Rate { period_ns, missed };
        Self::new(run, rhythm, at_ns, runs)
    }

    /// A fixed delay: first at `at_ns`, then `period_ns` after the end of each run.
    pub(crate) fn every_after(period_ns: u64, at_ns: u64, runs: u64, run: RunClosure) -> Self {
        let rhythm = Rhythm::Delay { period_ns };
        Self::new(run, rhythm, at_ns, runs)
    }

    /// First at `at_ns`, then when `next` says. `next` gets the time for which the last run was
    /// meant.
    pub(crate) fn by(
        next: Box<dyn FnMut(u64) -> Option<u64> + Send>,
        at_ns: u64,
        runs: u64,
        run: RunClosure,
    ) -> Self {
        let rhythm = Rhythm::By(next);
        Self::new(run, rhythm, at_ns, runs)
    }

    /// By the wall clock, as `look` says. The first look is at `at_ns`.
    pub(crate) fn by_wall(
        look: WallLook,
        next_look: Option<Arc<NextLook>>,
        at_ns: u64,
        runs: u64,
        run: RunClosure,
    ) -> Self {
        let rhythm = Rhythm::Wall {
            look,
            is_moved: false,
            next_look,
        };
        Self::new(run, rhythm, at_ns, runs)
    }

    /// How long to wait before the next look at the wall clock, if the run is `delay` away by it.
    /// `is_told`: whoever sets the clock brings the look forward.
    pub(crate) fn wall_delay(delay: Duration, is_told: bool) -> Duration {
        if is_told {
            delay
        } else {
            delay.min(LOOK_EVERY)
        }
    }

    /// Whether it goes by the wall clock, and whoever sets that brings the next look forward.
    #[inline]
    pub(crate) fn is_told_of_sets(&self) -> bool {
        let Rhythm::Wall { next_look, .. } = &self.closures.rhythm else {
            return false;
        };
        next_look.is_some()
    }

    /// Whether it goes by the wall clock. If not, it is to run when it is due.
    #[inline]
    pub(crate) fn goes_by_wall(&self) -> bool {
        matches!(self.closures.rhythm, Rhythm::Wall { .. })
    }

    /// What to do now. A timer that goes by the wall clock may have to wait: then `at_ns` is its
    /// next look. `now` reads the service's clock, and then the wall clock. The user's look may
    /// panic.
    #[inline]
    pub(crate) fn due(&mut self, now: impl FnOnce() -> (u64, SystemTime)) -> RunStep {
        let Rhythm::Wall {
            look,
            is_moved,
            next_look,
        } = &mut self.closures.rhythm
        else {
            return RunStep::Run;
        };
        if std::mem::take(is_moved) {
            return RunStep::Run;
        }
        let (now_ns, wall) = now();
        let Some(delay) = look(wall, now_ns) else {
            return RunStep::End;
        };
        self.at_ns = now_ns
            .saturating_add(nanos(Self::wall_delay(delay, next_look.is_some())))
            .min(NANOS_MAX);
        if delay.is_zero() {
            RunStep::Run
        } else {
            RunStep::Wait
        }
    }

    /// The time for which the next run is meant.
    #[inline]
    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// Notes the deadline at which the timer is armed.
    #[inline]
    pub(crate) fn file(&mut self, deadline: u64) {
        self.deadline = deadline;
        if let Rhythm::Wall { next_look, .. } = &self.closures.rhythm {
            next_look.iter().for_each(|look| look.file(deadline));
        }
    }

    /// The timer is about to be filed after a run, as this generation.
    #[inline]
    pub(crate) fn file_as(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// A run has begun of the filing with this generation, of the timer of this birth.
    #[inline]
    pub(crate) fn begin_as(&mut self, generation: u64, birth: u64) {
        let filed = if self.generation == 0 {
            birth
        } else {
            self.generation
        };
        self.is_refiled = generation != filed;
    }

    /// Notes the deadline at which the timer was claimed. If it is not that of `file`, or the
    /// filing is another one, somebody has moved the timer, or it was paused: a fixed rate goes on
    /// from the new deadline, and a timer by the wall clock runs without a look, unless it was
    /// moved for a look. `at` gives the time of that deadline, and whether it was paused and not
    /// moved since.
    #[inline]
    pub(crate) fn claimed(&mut self, deadline: u64, at: impl FnOnce(u64) -> (u64, bool)) {
        // (A pause may be so short that the deadline is the same tick again.)
        if deadline != self.deadline || self.is_refiled {
            (self.at_ns, self.was_paused) = at(deadline);
            if let Rhythm::Wall {
                is_moved,
                next_look,
                ..
            } = &mut self.closures.rhythm
            {
                *is_moved = !next_look.as_ref().is_some_and(|look| look.is_at(deadline));
            }
        }
    }

    /// Whether it was paused, and not moved since.
    #[inline]
    pub(crate) fn was_paused(&self) -> bool {
        self.was_paused
    }

    /// Nobody has moved the timer, which was paused and goes on: if it goes by the wall clock, it
    /// looks at that.
    pub(crate) fn was_resumed(&mut self) {
        if let Rhythm::Wall { is_moved, .. } = &mut self.closures.rhythm {
            *is_moved = false;
        }
    }

    /// Whether the timer runs once, at a time of day.
    pub(crate) fn is_for_time_of_day(&self) -> bool {
        self.runs_left == 1 && matches!(self.closures.rhythm, Rhythm::Wall { .. })
    }

    /// Runs the user's closure once, for the timer of this birth in a cell. Returns whether the
    /// timer goes on. The closure may panic.
    pub(crate) fn run(&mut self, cell: u32, birth: u64, late_ns: u64) -> ControlFlow<()> {
        let closures = &mut *self.closures;
        match &mut closures.run {
            RunClosure::Plain(run) => run(),
            RunClosure::Seeing(run) => {
                return run(Running {
                    cell,
                    birth,
                    at_ns: self.at_ns,
                    late_ns,
                    rhythm: &mut closures.rhythm,
                });
            }
        }
        ControlFlow::Continue(())
    }

    /// Runs the closure of a timer for a time of day. It may panic.
    pub(crate) fn run_for_time_of_day(&mut self) {
        if let RunClosure::Plain(run) = &mut self.closures.run {
            run();
        }
    }

    /// Ends a run. Returns whether there is another run, which is at `at_ns` then. The user's
    /// rhythm may panic.
    pub(crate) fn advance(&mut self, now_ns: u64, tick: TickLength) -> bool {
        self.runs_left = self.runs_left.saturating_sub(1);
        if self.runs_left == 0 {
            return false;
        }
        self.at_ns = match &mut self.closures.rhythm {
            Rhythm::Rate { period_ns, missed } => {
                let tick_ns = tick.start(tick.whole(Nanos(now_ns))).0;
                // Each run has its own tick.
                next_at_rate(
                    self.at_ns,
                    (*period_ns).max(tick.nanos()),
                    *missed,
                    now_ns,
                    tick_ns,
                )
            }
            Rhythm::Delay { period_ns } => now_ns.saturating_add(*period_ns),
            Rhythm::By(next) => match next(self.at_ns) {
                Some(at_ns) => at_ns,
                None => return false,
            },
            // The next look is now.
            Rhythm::Wall { .. } => now_ns,
        }
        .min(NANOS_MAX);
        true
    }
}

/// The next run at a fixed rate. `tick_ns` is the start of the present tick. A run that is meant
/// for a later time is not missed: its tick is still to come.
fn next_at_rate(at_ns: u64, period_ns: u64, missed: Missed, now_ns: u64, tick_ns: u64) -> u64 {
    let next_ns = at_ns.saturating_add(period_ns);
    if next_ns > tick_ns {
        return next_ns;
    }
    // The number of missed runs. `next_ns` is the first of them.
    let passed = (tick_ns - next_ns) / period_ns + 1;
    match missed {
        Missed::Skip => next_ns.saturating_add(passed.saturating_mul(period_ns)),
        Missed::Delay => now_ns.saturating_add(period_ns),
        Missed::Burst(limit) => next_ns.saturating_add(
            passed
                .saturating_sub(u64::from(limit))
                .saturating_mul(period_ns),
        ),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn missed_runs_are_skipped_delayed_or_made_up_for() {
        let next = |missed, now_ns| next_at_rate(1_000, 100, missed, now_ns, now_ns);
        for missed in [Missed::Skip, Missed::Delay, Missed::Burst(2)] {
            assert_eq!(next(missed, 1_000), 1_100, "in time");
            assert_eq!(next(missed, 1_099), 1_100, "just in time");
        }
        assert_eq!(
            [
                next(Missed::Skip, 1_100),
                next(Missed::Skip, 1_199),
                next(Missed::Skip, 1_450)
            ],
            [1_200, 1_200, 1_500]
        );
        assert_eq!(
            [next(Missed::Delay, 1_100), next(Missed::Delay, 1_450)],
            [1_200, 1_550]
        );
        // The runs from 1,100 to 1,400 were missed. 1,300 and 1,400 are made up for.
        assert_eq!(next(Missed::Burst(2), 1_450), 1_300);
        assert_eq!(next(Missed::Burst(4), 1_450), 1_100);
        assert_eq!(next(Missed::Burst(9), 1_450), 1_100);
        assert_eq!(next(Missed::Burst(0), 1_450), next(Missed::Skip, 1_450));
        assert_eq!(
            next_at_rate(NANOS_MAX, u64::MAX, Missed::Skip, 0, 0),
            u64::MAX
        );
    }

    #[test]
    fn a_run_is_missed_if_its_tick_has_passed() {
        let next = |missed, now_ns| next_at_rate(1_030, 100, missed, now_ns, now_ns / 100 * 100);
        for missed in [Missed::Skip, Missed::Delay, Missed::Burst(2)] {
            // Meant for 1,130, at the tick of 1,200.
            assert_eq!(
                [
                    next(missed, 1_100),
                    next(missed, 1_130),
                    next(missed, 1_199)
                ],
                [1_130; 3],
                "{missed:?}"
            );
        }
        assert_eq!(
            [
                next(Missed::Skip, 1_200),
                next(Missed::Skip, 1_299),
                next(Missed::Skip, 1_300)
            ],
            [1_230, 1_230, 1_330]
        );
        assert_eq!(
            [next(Missed::Delay, 1_200), next(Missed::Delay, 1_299)],
            [1_300, 1_399]
        );
        assert_eq!(
            [next(Missed::Burst(1), 1_299), next(Missed::Burst(1), 1_399)],
            [1_130, 1_230]
        );
    }
}
