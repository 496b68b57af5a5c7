//! Agenda: where a timer is in its calendar.

use super::pattern::Calendar;
use crate::engine::id::TimerId;
use crate::error::ScheduleError;
use crate::service::ServiceHandle;
use std::time::{Duration, SystemTime};

/// If the wall clock is set back by more than this, the calendar takes it that the clock was wrong
/// before. Then runs that were made come again.
const CORRECTION: Duration = Duration::from_secs(3 * 3_600);

/// Where in its calendar a timer, or a stream, is.
pub(crate) struct Agenda {
    calendar: Calendar,
    /// What the wall clock showed at the last look, and what the service's clock did. The service's
    /// clock is never set.
    seen: (SystemTime, u64),
    next: Option<SystemTime>,
    /// The time for which the last run was meant.
    #[cfg(feature = "async")]
    made: Option<SystemTime>,
    /// Missed runs in a row that were made up for.
    made_up: u32,
}

impl Agenda {
    pub(crate) fn new(calendar: Calendar, now: SystemTime, now_ns: u64) -> Self {
        let next = calendar.next(now);
        Self {
            calendar,
            seen: (now, now_ns),
            next,
            #[cfg(feature = "async")]
            made: None,
            made_up: 0,
        }
    }

    /// How far the wall clock was set back since the last look.
    fn set_back(&mut self, now: SystemTime, now_ns: u64) -> Duration {
        let (seen, seen_ns) = std::mem::replace(&mut self.seen, (now, now_ns));
        // The time that the wall clock would show if it had not been set.
        let passed = Duration::from_nanos(now_ns.saturating_sub(seen_ns));
        seen.checked_add(passed)
            .unwrap_or(seen)
            .duration_since(now)
            .unwrap_or_default()
    }

    /// Returns the time until the next run. If the run is due, returns zero, and counts the run as
    /// made. Returns `None` if there are no more runs.
    pub(crate) fn look(&mut self, now: SystemTime, now_ns: u64) -> Option<Duration> {
        if self.set_back(now, now_ns) > CORRECTION {
            (self.next, self.made_up) = (self.calendar.next(now), 0);
        }
        let next = self.calendar.in_time(self.next?, now);
        self.next = next;
        let next = next?;
        if next > now {
            return next.duration_since(now).ok();
        }
        #[cfg(feature = "async")]
        {
            self.made = Some(next);
        }
        self.next = self.calendar.following(next, now, &mut self.made_up);
        Some(Duration::ZERO)
    }

    /// The time for which the last run was meant that a look has counted as made.
    #[cfg(feature = "async")]
    pub(crate) fn made(&self) -> Option<SystemTime> {
        self.made
    }
}

impl<T: Send + 'static> ServiceHandle<T> {
    /// Arms a timer that runs a closure at the times of a [`Calendar`], by the system's clock, each
    /// rounded up to a tick. Two runs are never in progress at once. After the calendar's last run,
    /// if it has one, the timer ends.
    ///
    /// The timer reads the system's clock at least once a minute, rounded up to a tick, and wakes
    /// its shard for that. (A [`ManualClock`](crate::ManualClock) tells the timer when it is set.)
    ///
    /// Like a periodic timer, it takes a closure whatever the service's payload is. It can be
    /// cancelled but not taken, and `stop` does not hand it back. If
    /// [`reschedule`](ServiceHandle::reschedule) moves it to another tick, it runs at that tick
    /// too, and goes on with its calendar.
    ///
    /// Cost: three allocations, and some microseconds for each run.
    ///
    /// # Errors
    /// As [`schedule`](ServiceHandle::schedule). The closure is dropped. If the service is stopped
    /// at this very moment, it may have run, though the call returns `Stopped`.
    ///
    /// # Example
    /// See the [module](super)'s.
    pub fn schedule_calendar(
        &self,
        calendar: Calendar,
        run: impl FnMut() + Send + 'static,
    ) -> Result<TimerId, ScheduleError<()>> {
        let wall = self.wall_clock();
        let mut agenda = Agenda::new(calendar, wall.time, wall.now_ns);
        let first = agenda
            .next
            .and_then(|next| next.duration_since(wall.time).ok())
            .unwrap_or_default();
        self.by_wall_clock(
            wall,
            first,
            Box::new(move |now, now_ns| agenda.look(now, now_ns)),
            u64::MAX,
            run,
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::policy::Missed;
    use super::*;
    use std::time::UNIX_EPOCH;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);

    fn at(day: u32, hour: u32) -> SystemTime {
        UNIX_EPOCH + DAY * day + HOUR * hour
    }

    /// Runs at nine each day. It is eight o'clock on day 100.
    fn agenda(policy: Missed) -> Agenda {
        Agenda::new(
            Calendar::daily(9, 0)
                .unwrap()
                .zone("UTC")
                .unwrap()
                .missed(policy),
            at(100, 8),
            0,
        )
    }

    /// How many runs are made now, and when the next one is. Only the wall clock moves.
    fn runs(agenda: &mut Agenda, now: SystemTime) -> (u32, Option<SystemTime>) {
        let mut runs = 0;
        while agenda.look(now, 0) == Some(Duration::ZERO) {
            runs += 1;
        }
        (runs, agenda.next)
    }

    #[test]
    fn one_run_a_day_however_often_one_looks() {
        let mut agenda = agenda(Missed::Once);
        assert_eq!(agenda.look(at(100, 8), 0), Some(HOUR));
        assert_eq!(runs(&mut agenda, at(100, 9)), (1, Some(at(101, 9))));
        assert_eq!(agenda.look(at(100, 10), 0), Some(HOUR * 23));
        assert_eq!(
            runs(&mut agenda, at(101, 9) + Duration::from_millis(3)),
            (1, Some(at(102, 9)))
        );
    }

    #[test]
    fn what_was_missed_is_made_up_for_once_or_each_or_left_out() {
        let missed = |policy, now| runs(&mut agenda(policy), now);
        // Days 100 to 104: five runs, the last of them an hour ago.
        let (now, next) = (at(104, 10), Some(at(105, 9)));
        assert_eq!(missed(Missed::Once, now), (1, next));
        assert_eq!(missed(Missed::Burst(0), now), (1, next));
        assert_eq!(missed(Missed::Burst(1), now), (1, next));
        assert_eq!(missed(Missed::Burst(3), now), (3, next));
        assert_eq!(missed(Missed::Burst(5), now), (5, next));
        assert_eq!(missed(Missed::Burst(u32::MAX), now), (5, next));
        assert_eq!(missed(Missed::SkipAfter(HOUR / 2), now), (0, next));
        assert_eq!(
            missed(Missed::SkipAfter(HOUR), now),
            (1, next),
            "as late as is allowed"
        );
        assert_eq!(
            missed(Missed::SkipAfter(DAY * 2), now),
            (1, next),
            "two are not too late: one run"
        );
        assert_eq!(
            missed(Missed::SkipAfter(Duration::ZERO), at(100, 9)),
            (1, Some(at(101, 9))),
            "in time"
        );
        // The next time that it falls behind, the limit counts anew.
        let mut twice = agenda(Missed::Burst(3));
        assert_eq!(
            [now, now + DAY, now + DAY * 9].map(|now| runs(&mut twice, now).0),
            [3, 1, 3]
        );
    }

    #[test]
    fn a_clock_that_is_set_back_a_little_repeats_nothing() {
        let mut agenda = agenda(Missed::Once);
        assert_eq!(runs(&mut agenda, at(100, 9)).0, 1);
        assert_eq!(
            runs(&mut agenda, at(100, 9) - CORRECTION),
            (0, Some(at(101, 9)))
        );
        assert_eq!(runs(&mut agenda, at(100, 9)).0, 0);
    }

    #[test]
    fn a_clock_that_was_wrong_begins_anew() {
        let mut agenda = agenda(Missed::Once);
        // A year ahead by mistake, where it ran once; then set right.
        assert_eq!(runs(&mut agenda, at(465, 9)).0, 1);
        assert_eq!(runs(&mut agenda, at(100, 8)), (0, Some(at(100, 9))));
        assert_eq!(runs(&mut agenda, at(100, 9)).0, 1);
    }

    #[test]
    fn time_that_passes_between_two_looks_counts() {
        // Set back by three hours, half a minute after the last look: it shows half a minute more.
        for (back, next) in [
            (CORRECTION, at(101, 9)),
            (CORRECTION + Duration::from_nanos(1), at(100, 9)),
        ] {
            let mut agenda = agenda(Missed::Once);
            assert_eq!(runs(&mut agenda, at(100, 9)).0, 1);
            let half = Duration::from_secs(30);
            assert!(
                agenda
                    .look(at(100, 9) + half - back, half.as_nanos() as u64)
                    .is_some()
            );
            assert_eq!(agenda.next, Some(next));
        }
    }

    #[test]
    fn a_calendar_that_is_over_ends() {
        let calendar = Calendar::cron("0 0 9 1 1 * 1971")
            .unwrap()
            .zone("UTC")
            .unwrap();
        let mut agenda = Agenda::new(calendar, at(100, 8), 0);
        assert_eq!(agenda.look(at(365, 9), 0), Some(Duration::ZERO));
        assert_eq!(agenda.look(at(365, 9), 0), None);
    }
}
