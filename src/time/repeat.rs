//! Repeat: what a periodic timer runs, and when it runs next.

use super::tick::{NANOS_MAX, TickLength};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, SystemTime};

/// What happens to the runs of a fixed-rate timer whose time passed while an earlier run took too long, or the workers were busy.
///
/// A run's time is the tick to which it is rounded up. It is missed if that tick has come when the
/// run before it ends. So a run that ends less than a period after it was meant to begin costs no
/// other one. With a period of a tick, nor does a run that ends before the next tick, wherever in a
/// tick the timer was started.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::Missed;
/// # let service = wheelwork::TimerService::builder().start()?;
/// service.every(Duration::from_millis(100)).missed(Missed::Burst(3)).start(|| println!("ten times a second"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// They are left out: the next run is at the next multiple of the period that is still to come. The default.
    #[default]
    Skip,
    /// They are left out, and later runs are as much later: the next one comes a period after the late one has ended.
    Delay,
    /// They are made up for, one a tick, but no more than so many; what goes beyond is left out.
    Burst(u32),
}

/// A timer that goes by the wall clock looks at it so often: when that is set, it notices within this time.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Says how long it is until the next run, now that the wall clock shows this, so many nanoseconds
/// after the clock's origin. Zero is now: that run is then as good as begun. After `None` there is none.
pub(crate) type Look = Box<dyn FnMut(SystemTime, u64) -> Option<Duration> + Send>;

/// What a timer that was claimed has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Run,
    Wait,
    End,
}

/// When the next run comes. Times are nanoseconds since the clock's origin.
enum Rhythm {
    /// Fixed rate.
    Rate { period_ns: u64, missed: Missed },
    /// Fixed delay after the end of each run.
    Delay { period_ns: u64 },
    /// As a function of the deadline says.
    By(Box<dyn FnMut(u64) -> Option<u64> + Send>),
    /// By the wall clock. If it was moved then the next run is when that comes.
    Wall { look: Look, is_moved: bool },
}

/// A periodic timer's closure and rhythm.
pub(crate) struct Repeat {
    run: Box<dyn FnMut() + Send>,
    rhythm: Rhythm,
    /// When the present or next run is meant to be. Not rounded to ticks: so nothing drifts.
    at_ns: u64,
    /// Where it is filed: the tick of `at_ns`, or of the present if that has passed.
    deadline: u64,
    /// Runs that are left, the present one included.
    runs_left: u64,
}

impl Drop for Repeat {
    /// Two closures of the user's: of two drops that panic, in one struct, the second would abort the process.
    fn drop(&mut self) {
        let rhythm = std::mem::replace(&mut self.rhythm, Rhythm::Delay { period_ns: 0 });
        let run = std::mem::replace(&mut self.run, Box::new(|| ()));
        let panics = [catch_unwind(AssertUnwindSafe(|| drop(rhythm))), catch_unwind(AssertUnwindSafe(|| drop(run)))];
        let mut panics = panics.into_iter().filter_map(Result::err);
        if let Some(first) = panics.next() {
            // What a panic was made with may panic too.
            panics.for_each(std::mem::forget);
            resume_unwind(first);
        }
    }
}

impl fmt::Debug for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeat").field("at_ns", &self.at_ns).field("runs_left", &self.runs_left).finish_non_exhaustive()
    }
}

impl Repeat {
    /// First at `at_ns`, then every `period_ns`; every tick, if that is longer.
    pub(crate) fn every(period_ns: u64, missed: Missed, at_ns: u64, runs: u64, run: Box<dyn FnMut() + Send>) -> Self {
        Self { run, rhythm: Rhythm::Rate { period_ns, missed }, at_ns, deadline: 0, runs_left: runs }
    }

    /// First at `at_ns`, then `period_ns` after the end of each run.
    pub(crate) fn with_delay(period_ns: u64, at_ns: u64, runs: u64, run: Box<dyn FnMut() + Send>) -> Self {
        Self { run, rhythm: Rhythm::Delay { period_ns }, at_ns, deadline: 0, runs_left: runs }
    }

    /// First at `at_ns`, then when `next` says: it is given when the last run was meant to be.
    pub(crate) fn by(next: Box<dyn FnMut(u64) -> Option<u64> + Send>, at_ns: u64, runs: u64, run: Box<dyn FnMut() + Send>) -> Self {
        Self { run, rhythm: Rhythm::By(next), at_ns, deadline: 0, runs_left: runs }
    }

    /// By the wall clock, as `look` says. It is to look first at `at_ns`.
    pub(crate) fn by_wall(look: Look, at_ns: u64, runs: u64, run: Box<dyn FnMut() + Send>) -> Self {
        Self { run, rhythm: Rhythm::Wall { look, is_moved: false }, at_ns, deadline: 0, runs_left: runs }
    }

    /// How long one can leave a timer alone whose run is so far away by the wall clock.
    pub(crate) fn wall_delay(delay: Duration) -> Duration {
        delay.min(LOOK_EVERY)
    }

    /// What is to be done now that it is `now_ns`. A timer that goes by the wall clock may have to wait on: then it is moved. The look at it may panic.
    pub(crate) fn due(&mut self, now_ns: u64, wall: impl FnOnce() -> SystemTime) -> Due {
        let Rhythm::Wall { look, is_moved } = &mut self.rhythm else { return Due::Run };
        if std::mem::take(is_moved) {
            return Due::Run;
        }
        let Some(delay) = look(wall(), now_ns) else { return Due::End };
        self.at_ns = now_ns.saturating_add(super::nanos(Self::wall_delay(delay))).min(NANOS_MAX);
        if delay.is_zero() { Due::Run } else { Due::Wait }
    }

    /// When the next run is meant to be.
    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// It is filed at a deadline.
    pub(crate) fn file(&mut self, deadline: u64) {
        self.deadline = deadline;
    }

    /// It was claimed at a deadline: another one than it was filed at, if somebody has moved it. A fixed rate goes on from there, and what goes by the wall
    /// clock runs without a look at it.
    pub(crate) fn claimed(&mut self, deadline: u64, start_ns: impl FnOnce(u64) -> u64) {
        if deadline != self.deadline {
            self.at_ns = start_ns(deadline);
            if let Rhythm::Wall { is_moved, .. } = &mut self.rhythm {
                *is_moved = true;
            }
        }
    }

    /// Whether it runs once, at a time of day.
    pub(crate) fn is_for_time_of_day(&self) -> bool {
        self.runs_left == 1 && matches!(self.rhythm, Rhythm::Wall { .. })
    }

    /// Runs it once. It is the user's code, and may panic.
    pub(crate) fn run(&mut self) {
        (self.run)();
    }

    /// After a run: whether there is another one, which is then at `at_ns`. A rhythm of the user's may panic.
    pub(crate) fn advance(&mut self, now_ns: u64, tick: TickLength) -> bool {
        self.runs_left = self.runs_left.saturating_sub(1);
        if self.runs_left == 0 {
            return false;
        }
        self.at_ns = match &mut self.rhythm {
            Rhythm::Rate { period_ns, missed } => {
                let tick_ns = tick.start(tick.whole(now_ns));
                // Each run has a tick of its own.
                next_at_rate(self.at_ns, (*period_ns).max(tick.nanos()), *missed, now_ns, tick_ns)
            }
            Rhythm::Delay { period_ns } => now_ns.saturating_add(*period_ns),
            Rhythm::By(next) => match next(self.at_ns) {
                Some(at_ns) => at_ns,
                None => return false,
            },
            // To look again.
            Rhythm::Wall { .. } => now_ns,
        }
        .min(NANOS_MAX);
        true
    }
}

/// `tick_ns` is when the present tick began. What is meant for later is rounded up to a tick that
/// is still to come: it is not missed.
fn next_at_rate(at_ns: u64, period_ns: u64, missed: Missed, now_ns: u64, tick_ns: u64) -> u64 {
    let next_ns = at_ns.saturating_add(period_ns);
    if next_ns > tick_ns {
        return next_ns;
    }
    // So many multiples have passed, `next_ns` the first of them.
    let passed = (tick_ns - next_ns) / period_ns + 1;
    match missed {
        Missed::Skip => next_ns.saturating_add(passed.saturating_mul(period_ns)),
        Missed::Delay => now_ns.saturating_add(period_ns),
        Missed::Burst(limit) => next_ns.saturating_add(passed.saturating_sub(u64::from(limit)).saturating_mul(period_ns)),
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
        assert_eq!([next(Missed::Skip, 1_100), next(Missed::Skip, 1_199), next(Missed::Skip, 1_450)], [1_200, 1_200, 1_500]);
        assert_eq!([next(Missed::Delay, 1_100), next(Missed::Delay, 1_450)], [1_200, 1_550]);
        // 1,100 to 1,400 were missed: two of them are made up for, 1,300 and 1,400.
        assert_eq!(next(Missed::Burst(2), 1_450), 1_300);
        assert_eq!(next(Missed::Burst(4), 1_450), 1_100);
        assert_eq!(next(Missed::Burst(9), 1_450), 1_100);
        assert_eq!(next(Missed::Burst(0), 1_450), next(Missed::Skip, 1_450));
        assert_eq!(next_at_rate(NANOS_MAX, u64::MAX, Missed::Skip, 0, 0), u64::MAX);
    }

    #[test]
    fn a_run_is_missed_if_its_tick_has_passed() {
        let next = |missed, now_ns| next_at_rate(1_030, 100, missed, now_ns, now_ns / 100 * 100);
        for missed in [Missed::Skip, Missed::Delay, Missed::Burst(2)] {
            // Meant for 1,130, at the tick of 1,200.
            assert_eq!([next(missed, 1_100), next(missed, 1_130), next(missed, 1_199)], [1_130; 3], "{missed:?}");
        }
        assert_eq!([next(Missed::Skip, 1_200), next(Missed::Skip, 1_299), next(Missed::Skip, 1_300)], [1_230, 1_230, 1_330]);
        assert_eq!([next(Missed::Delay, 1_200), next(Missed::Delay, 1_299)], [1_300, 1_399]);
        assert_eq!([next(Missed::Burst(1), 1_299), next(Missed::Burst(1), 1_399)], [1_130, 1_230]);
    }
}
