//! Missed: which run comes next, for those that were made too late.
//!
//! A timer of a calendar is at the time of one run. When it is due it asks
//! [`in_time`](Calendar::in_time) which run to make, and [`following`](Calendar::following) for the
//! one after it.

use super::pattern::Calendar;
use super::policy::Missed;
use std::time::{Duration, SystemTime};

impl Calendar {
    /// The run to make, or to wait for, in place of the one that was meant for `due`: that one
    /// itself, unless it is too late for it. `None` if there are no more runs.
    ///
    /// The timers of [`schedule_calendar`](crate::ServiceHandle::schedule_calendar) ask here. What
    /// keeps runs elsewhere, in a store say, asks when a run is due: is it still to be made? Only
    /// [`Missed::SkipAfter`] leaves runs out. Costs some microseconds, if it does.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use wheelwork::calendar::{Calendar, Missed};
    ///
    /// let hourly = Calendar::cron("0 * * * *")?
    ///     .zone("UTC")?
    ///     .missed(Missed::SkipAfter(Duration::from_secs(60)));
    /// let due = SystemTime::UNIX_EPOCH;
    /// assert_eq!(hourly.in_time(due, due + Duration::from_secs(60)), Some(due));
    /// let next = due + Duration::from_secs(3_600);
    /// assert_eq!(hourly.in_time(due, due + Duration::from_secs(61)), Some(next));
    /// # Ok::<(), wheelwork::calendar::CalendarError>(())
    /// ```
    #[must_use]
    pub fn in_time(&self, due: SystemTime, now: SystemTime) -> Option<SystemTime> {
        let Missed::SkipAfter(grace) = self.missed else {
            return Some(due);
        };
        match now.duration_since(due) {
            Ok(late) if late > grace => self.next(now - grace - Duration::from_nanos(1)),
            _ => Some(due),
        }
    }

    /// The run after the one that was meant for `due` and is made at `now`. It may be in the past:
    /// then it is to be made at once. `None` if there are no more runs.
    ///
    /// `made_up` counts the runs in a row that were made up for: 0 at first, and handed in again
    /// with the next run. The policy for [missed runs](Missed) decides. Costs some
    /// microseconds.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use wheelwork::calendar::{Calendar, Missed};
    ///
    /// const HOUR: Duration = Duration::from_secs(3_600);
    /// let hourly = Calendar::cron("0 * * * *")?.zone("UTC")?.missed(Missed::Burst(2));
    /// let due = SystemTime::UNIX_EPOCH;
    /// // It is made in time; then 4.5 hours late, and made up for.
    /// let mut made_up = 0;
    /// assert_eq!(hourly.following(due, due, &mut made_up), Some(due + HOUR));
    /// let now = due + HOUR * 9 / 2;
    /// assert_eq!(hourly.following(due, now, &mut made_up), Some(due + HOUR));
    /// assert_eq!(hourly.following(due + HOUR, now, &mut made_up), Some(due + 5 * HOUR));
    /// # Ok::<(), wheelwork::calendar::CalendarError>(())
    /// ```
    #[must_use]
    pub fn following(
        &self,
        due: SystemTime,
        now: SystemTime,
        made_up: &mut u32,
    ) -> Option<SystemTime> {
        let after = self.next(due);
        if after.is_none_or(|after| after > now) {
            *made_up = 0;
            return after;
        }
        *made_up = made_up.saturating_add(1);
        match self.missed {
            Missed::Burst(limit) if *made_up < limit => after,
            _ => self.next(now),
        }
    }
}
