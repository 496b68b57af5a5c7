//! Pattern: when something runs.

use super::error::CalendarError;
use super::occurrences::{self, Occurrences};
use super::policy::{Gap, MissedRuns, Overlap};
use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::str::FromStr;
use std::time::SystemTime;

/// A day of the week.
///
/// # Example
/// See the [module](super)'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weekday {
    /// Monday.
    Monday = 1,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}

/// When something runs: points in time that a pattern and a time zone give.
///
/// # Example
/// ```
/// use std::time::{Duration, SystemTime};
/// use wheelwork::calendar::Calendar;
///
/// let calendar = Calendar::cron("0 12 * * *")?.zone("UTC")?;
/// let runs: Vec<_> = calendar.after(SystemTime::UNIX_EPOCH).take(2).collect();
/// let noons = [12, 36].map(|hours| SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3_600));
/// assert_eq!(runs, noons);
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Calendar {
    occurrences: Occurrences,
    pub(super) missed: MissedRuns,
}

impl Calendar {
    /// A calendar by a cron pattern, in the system's time zone; in UTC, if the system has none.
    ///
    /// The fields are minute, hour, day of the month, month and day of the week. A field for
    /// seconds may stand before them, and a field for years after them. A field may have:
    ///
    ///  - `*`, lists (`1,15`), ranges (`8-18`), steps (`*/15`);
    ///  - names: `TUE`, `JAN`;
    ///  - `L` for the last day, `TUE#2` for the second Tuesday.
    ///
    /// The whole pattern may be `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`. If both
    /// fields of days are given, a day counts if it is in either of them.
    ///
    /// # Errors
    /// [`Pattern`](CalendarError::Pattern).
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::Calendar;
    ///
    /// assert!(Calendar::cron("30 6 * * MON-FRI").is_ok());
    /// assert!(Calendar::cron("*/10 * * * * *").is_ok()); // six fields: every ten seconds
    /// assert!(Calendar::cron("61 * * * *").is_err());
    /// ```
    pub fn cron(pattern: &str) -> Result<Self, CalendarError> {
        let error = |why: String| CalendarError::Pattern {
            pattern: pattern.to_string(),
            why,
        };
        let cron = Cron::from_str(pattern)
            .map_err(|why| error(why.to_string().trim_end_matches('.').to_string()))?;
        let counts_real_time = cron.pattern.hours.from_wildcard;
        let (gap, overlap) = if counts_real_time {
            (Gap::Skip, Overlap::Both)
        } else {
            (Gap::End, Overlap::First)
        };
        if occurrences::is_empty(&cron) {
            return Err(error("no such day ever comes".to_string()));
        }
        let occurrences = Occurrences {
            cron,
            zone: TimeZone::system(),
            gap,
            overlap,
        };
        Ok(Self {
            occurrences,
            missed: MissedRuns::default(),
        })
    }

    /// Every day at this time.
    ///
    /// # Errors
    /// [`Pattern`](CalendarError::Pattern), if there is no such hour (0 to 23) or minute (0 to 59).
    ///
    /// # Example
    /// See [`Gap`].
    pub fn daily(hour: u8, minute: u8) -> Result<Self, CalendarError> {
        Self::cron(&format!("{minute} {hour} * * *"))
    }

    /// Every week, on this day at this time.
    ///
    /// # Errors
    /// As [`daily`](Self::daily).
    ///
    /// # Example
    /// See the [module](super)'s.
    pub fn weekly(day: Weekday, hour: u8, minute: u8) -> Result<Self, CalendarError> {
        Self::cron(&format!("{minute} {hour} * * {}", day as u8))
    }

    /// Every month, on this day at this time. A month without this day has no run.
    ///
    /// # Errors
    /// As [`daily`](Self::daily), or if there is no such day (1 to 31).
    ///
    /// # Example
    /// See the [module](super)'s.
    pub fn monthly(day: u8, hour: u8, minute: u8) -> Result<Self, CalendarError> {
        Self::cron(&format!("{minute} {hour} {day} * *"))
    }

    /// Every month, on its last day at this time.
    ///
    /// # Errors
    /// As [`daily`](Self::daily).
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::Calendar;
    ///
    /// let closing = Calendar::last_of_month(18, 0)?;
    /// # Ok::<(), wheelwork::calendar::CalendarError>(())
    /// ```
    pub fn last_of_month(hour: u8, minute: u8) -> Result<Self, CalendarError> {
        Self::cron(&format!("{minute} {hour} L * *"))
    }

    /// Sets the time zone, by its name in the IANA database.
    ///
    /// # Errors
    /// [`Zone`](CalendarError::Zone).
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::Calendar;
    ///
    /// let noon = Calendar::daily(12, 0)?;
    /// assert!(noon.clone().zone("America/New_York").is_ok());
    /// assert!(noon.zone("Middle/Earth").is_err());
    /// # Ok::<(), wheelwork::calendar::CalendarError>(())
    /// ```
    pub fn zone(mut self, name: &str) -> Result<Self, CalendarError> {
        self.occurrences.zone = TimeZone::get(name).map_err(|why| CalendarError::Zone {
            name: name.to_string(),
            why: why.to_string(),
        })?;
        Ok(self)
    }

    /// Sets what becomes of runs at times that the clock on the wall leaves out.
    ///
    /// # Example
    /// See [`Gap`].
    #[must_use]
    pub fn gap(mut self, gap: Gap) -> Self {
        self.occurrences.gap = gap;
        self
    }

    /// Sets what becomes of runs at times that the clock on the wall shows twice.
    ///
    /// # Example
    /// See [`Overlap`].
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.occurrences.overlap = overlap;
        self
    }

    /// Sets what becomes of runs that were missed.
    ///
    /// # Example
    /// See [`MissedRuns`].
    #[must_use]
    pub fn missed(mut self, policy: MissedRuns) -> Self {
        self.missed = policy;
        self
    }

    /// Its runs after a point in time, in order. They end in the year 5000, or earlier if the
    /// pattern says so. (So a timer that sees a wall clock beyond that year ends.) Cost: some
    /// microseconds for each run.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn after(&self, time: SystemTime) -> impl Iterator<Item = SystemTime> + '_ {
        std::iter::successors(self.next(time), |&last| self.next(last))
    }

    /// The first run after a point in time.
    pub(super) fn next(&self, time: SystemTime) -> Option<SystemTime> {
        let next = self.occurrences.next(Timestamp::try_from(time).ok()?)?;
        Some(next.into())
    }
}
