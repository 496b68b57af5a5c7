//! Calendars: timers for times of day, in a time zone, as cron patterns say or in plain calls.
//!
//! A [`Calendar`] tells at which points in time its runs are; [`TimerHandle::on_calendar`](crate::TimerHandle::on_calendar) arms a timer that follows it. The patterns are read by
//! [croner](https://docs.rs/croner), the time zones by [jiff](https://docs.rs/jiff), which takes the system's database of them (or its own, with its feature `tzdb-bundle-always`).
//! Twice a year the clock on the wall leaves an hour out, or shows it twice: [`Gap`] and [`Overlap`] say what that means.
//!
//! The timer looks at the system's clock at least once a minute, so it notices within that time when it is set, or when the machine was asleep; [`Misfire`] says what is done about
//! runs whose time has passed meanwhile.
//!
//! If the clock is set back by no more than three hours then no run comes a second time. If it is set
//! back further, the calendar begins anew, from what the clock shows then. Each look at the clock
//! tells how far it was set back since the look before.
//!
//! # Example
//! ```
//! use wheelwork::TimerService;
//! use wheelwork::calendar::{Calendar, Weekday};
//!
//! let service = TimerService::builder().start()?;
//! let berlin = |calendar: Calendar| calendar.zone("Europe/Berlin");
//! service.on_calendar(berlin(Calendar::weekly(Weekday::Tuesday, 9, 0)?)?, || println!("every Tuesday at nine"))?;
//! service.on_calendar(berlin(Calendar::monthly(12, 9, 0)?)?, || println!("on the 12th at nine"))?;
//! let every_quarter = service.on_calendar(Calendar::cron("*/15 8-18 * * MON-FRI")?, || println!("office hours"))?;
//! service.cancel(every_quarter);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agenda;
mod occurrences;

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// When something runs: points in time that a pattern and a time zone give.
///
/// # Example
/// ```
/// use std::time::{Duration, SystemTime};
/// use wheelwork::calendar::Calendar;
///
/// let calendar = Calendar::cron("0 12 * * *")?.zone("UTC")?;
/// let runs: Vec<_> = calendar.after(SystemTime::UNIX_EPOCH).take(2).collect();
/// assert_eq!(runs, [12, 36].map(|hours| SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3_600)));
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Calendar {
    cron: Cron,
    zone: TimeZone,
    gap: Gap,
    overlap: Overlap,
    misfire: Misfire,
}

/// What becomes of a run at a time that the clock on the wall leaves out, as it is set forward for summer.
///
/// # Example
/// ```
/// use wheelwork::calendar::{Calendar, Gap};
///
/// // In Berlin there is no 02:30 on the last Sunday of March: it runs at 03:00 then.
/// let nightly = Calendar::daily(2, 30)?.zone("Europe/Berlin")?.gap(Gap::End);
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// It comes when the gap ends; several make one. What a pattern with given hours does unless told otherwise.
    End,
    /// It is left out. What a pattern does unless told otherwise whose hours are `*`, or every so many: it counts real time.
    Skip,
}

/// What becomes of a run at a time that the clock on the wall shows twice, as it is set back for winter.
///
/// # Example
/// ```
/// use wheelwork::calendar::{Calendar, Overlap};
///
/// // In Berlin there are two of 02:30 on the last Sunday of October.
/// let nightly = Calendar::daily(2, 30)?.zone("Europe/Berlin")?.overlap(Overlap::Second);
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// It comes the first time. What a pattern with given hours does unless told otherwise.
    First,
    /// It comes the second time.
    Second,
    /// It comes both times. What a pattern does unless told otherwise whose hours are `*`, or every so many: it counts real time.
    Both,
}

/// What becomes of runs whose time has passed before the timer could see to them: the clock was set forward, the machine was asleep, or the run before took too long.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::calendar::{Calendar, Misfire};
///
/// // A report that nobody reads in the afternoon.
/// let report = Calendar::daily(9, 0)?.misfire(Misfire::Skip(Duration::from_secs(3 * 3_600)));
/// # Ok::<(), wheelwork::calendar::CalendarError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Misfire {
    /// All of them make one run, at once. The default.
    #[default]
    Once,
    /// Each is made up for, one a tick, but so many at the most; what goes beyond is left out.
    Each(u32),
    /// Those that are later than this are left out; what is not so late makes one run.
    Skip(Duration),
}

/// A day of the week.
///
/// # Example
/// See the [module](self)'s.
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

/// Why there is no such calendar.
///
/// # Example
/// ```
/// use wheelwork::calendar::Calendar;
///
/// let error = Calendar::cron("0 0 30 2 *").unwrap_err();
/// assert_eq!(error.to_string(), "cron pattern \"0 0 30 2 *\": no such day ever comes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CalendarError {
    /// The pattern is not one, or has no run in all of time.
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// The database has no such time zone, or there is no database.
    Zone {
        /// The name that was asked for.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { pattern, why } => write!(f, "cron pattern {pattern:?}: {why}"),
            Self::Zone { name, why } => write!(f, "time zone {name:?}: {why}"),
        }
    }
}

impl std::error::Error for CalendarError {}

impl Calendar {
    /// A calendar by a cron pattern, in the system's time zone (UTC, if that can't be told).
    ///
    /// The fields are minute, hour, day of the month, month and day of the week; seconds may stand before them, and years after those. `*`, lists, ranges, steps, names (`TUE`, `JAN`),
    /// `L` for the last day and `TUE#2` for the second Tuesday are understood, and `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. A day counts if it is in either field of days,
    /// should both be given.
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
        let error = |why: String| CalendarError::Pattern { pattern: pattern.to_string(), why };
        let cron = Cron::from_str(pattern).map_err(|why| error(why.to_string().trim_end_matches('.').to_string()))?;
        let counts_real_time = cron.pattern.hours.from_wildcard;
        let (gap, overlap) = if counts_real_time { (Gap::Skip, Overlap::Both) } else { (Gap::End, Overlap::First) };
        let calendar = Self { cron, zone: TimeZone::system(), gap, overlap, misfire: Misfire::default() };
        if occurrences::is_empty(&calendar.cron) {
            return Err(error("no such day ever comes".to_string()));
        }
        Ok(calendar)
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
    /// See the [module](self)'s.
    pub fn weekly(day: Weekday, hour: u8, minute: u8) -> Result<Self, CalendarError> {
        Self::cron(&format!("{minute} {hour} * * {}", day as u8))
    }

    /// Every month, on this day at this time; months that are too short have none.
    ///
    /// # Errors
    /// As [`daily`](Self::daily), or if there is no such day (1 to 31).
    ///
    /// # Example
    /// See the [module](self)'s.
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
    /// # use wheelwork::calendar::Calendar;
    /// let closing = Calendar::last_of_month(18, 0)?;
    /// # Ok::<(), wheelwork::calendar::CalendarError>(())
    /// ```
    pub fn last_of_month(hour: u8, minute: u8) -> Result<Self, CalendarError> {
        Self::cron(&format!("{minute} {hour} L * *"))
    }

    /// The same in another time zone, by its name in the IANA database.
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
        self.zone = TimeZone::get(name).map_err(|why| CalendarError::Zone { name: name.to_string(), why: why.to_string() })?;
        Ok(self)
    }

    /// The same with another policy for times that the clock on the wall leaves out.
    ///
    /// # Example
    /// See [`Gap`].
    #[must_use]
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = gap;
        self
    }

    /// The same with another policy for times that the clock on the wall shows twice.
    ///
    /// # Example
    /// See [`Overlap`].
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// The same with another policy for runs that are late.
    ///
    /// # Example
    /// See [`Misfire`].
    #[must_use]
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// Its runs after a point in time, one after the other. Ends in the year 5000, or earlier if the pattern says so. (A timer that has once seen
    /// a wall clock beyond that has ended.) Costs some microseconds for each.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn after(&self, time: SystemTime) -> impl Iterator<Item = SystemTime> + '_ {
        std::iter::successors(self.next(time), |&last| self.next(last))
    }

    /// The first run after a point in time.
    fn next(&self, time: SystemTime) -> Option<SystemTime> {
        let next = occurrences::next(self, Timestamp::try_from(time).ok()?)?;
        Some(next.into())
    }
}
