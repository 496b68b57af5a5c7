//! Pattern: when something runs.

use super::dialect::Dialect;
use super::error::CalendarError;
use super::field::{DAY_OF_MONTH, HOUR, MINUTE};
use super::occurrences::Occurrences;
use super::policy::{Gap, Missed, Overlap};
use super::search::Search;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::time::{Duration, SystemTime};

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
    pub(super) dialect: Dialect,
    /// As it was written, with a single space between fields.
    pub(super) pattern: Box<str>,
    pub(super) counts_real_time: bool,
    /// The name of the zone that was set. `None`: the system's.
    pub(super) zone_name: Option<Box<str>>,
    pub(super) occurrences: Occurrences,
    pub(super) missed: Missed,
    /// By how much each run is later than the pattern's time, in milliseconds.
    pub(super) offset_ms: u64,
}

/// An offset has at most this many milliseconds, which are 366 days.
const OFFSET_MS_MAX: u64 = 366 * 86_400_000;

impl Calendar {
    /// A calendar by a cron pattern, in the system's time zone; in UTC, if the system has none.
    /// Other dialects: [`quartz`](Self::quartz), [`vixie`](Self::vixie);
    /// [how they differ](super#dialects).
    ///
    /// `CRON_TZ=Europe/Berlin` or `TZ=Europe/Berlin` before the fields is a call of
    /// [`zone`](Self::zone), as some other crons have it.
    ///
    /// | field | values |
    /// |---|---|
    /// | second; may be left out, and is 0 then | 0-59 |
    /// | minute | 0-59 |
    /// | hour | 0-23 |
    /// | day of month | 1-31 |
    /// | month | 1-12 or JAN-DEC |
    /// | day of week | 0-7 or SUN-SAT; 0 and 7 are Sunday |
    /// | year; may be left out if there are seconds, and is any then | 1970-4999 |
    ///
    /// | in a field | means |
    /// |---|---|
    /// | `*` | all values |
    /// | `1,15` | a list: of values, and of whatever is below but `?` and `+` |
    /// | `8-18`, `MON-FRI`, `FRI-SUN` | a range, with both ends; `SUN` is 7 at the end of one that begins later than Sunday |
    /// | `*/15`, `8-18/2` | a step: the first value, and each 15th, each second after it |
    /// | `?`, in a field of days | as `*` |
    /// | `L`, `L-3`, as day of month | the last one; three days before it |
    /// | `15W`, as day of month | of the days from Monday to Friday of this month the nearest to the 15th; none if there is no such day |
    /// | `LW`, `L-3W`, as day of month | of the days from Monday to Friday the nearest to `L`, to `L-3`; so `LW` is the last of them |
    /// | `TUE#2`, `MON-FRI#1`, as day of week | the second Tuesday; the first of each of these days |
    /// | `FRIL` or `FRI#L`, as day of week | the last Friday |
    /// | `+FRI`, `+1-5`, as day of week | the day of month must fit, too |
    ///
    /// If both fields of days are given (something else than `*` or `?`), a day counts if it is in
    /// either of them: `0 0 13 * FRI` is each 13th and each Friday. With `+` it must be in both:
    /// `0 0 13 * +FRI` is Friday the 13th.
    ///
    /// In place of fields, the pattern may be one of these:
    ///
    /// | name | means |
    /// |---|---|
    /// | `@yearly`, `@annually` | `0 0 1 1 *` |
    /// | `@monthly` | `0 0 1 * *` |
    /// | `@weekly` | `0 0 * * SUN` |
    /// | `@daily`, `@midnight` | `0 0 * * *` |
    /// | `@hourly` | `0 * * * *` |
    ///
    /// # Errors
    /// [`Field`](CalendarError::Field), [`Pattern`](CalendarError::Pattern);
    /// [`Zone`](CalendarError::Zone), if the variable `TZ` of the environment names no time zone.
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::Calendar;
    ///
    /// assert!(Calendar::cron("30 6 * * MON-FRI").is_ok());
    /// assert!(Calendar::cron("*/10 * * * * *").is_ok()); // six fields: every ten seconds
    /// assert!(Calendar::cron("0 9 LW * *").is_ok()); // the last working day of each month
    ///
    /// let error = Calendar::cron("61 * * * *").unwrap_err();
    /// assert_eq!(error.to_string(), "cron pattern \"61 * * * *\": minute: 61 is not in 0-59");
    /// ```
    pub fn cron(pattern: &str) -> Result<Self, CalendarError> {
        Self::read(pattern, Dialect::Cron)
    }

    /// A calendar by a pattern of the Java scheduler Quartz, in the system's time zone; in UTC, if
    /// the system has none.
    ///
    /// | field | values |
    /// |---|---|
    /// | second | 0-59 |
    /// | minute | 0-59 |
    /// | hour | 0-23 |
    /// | day of month | 1-31 |
    /// | month | 1-12 or JAN-DEC |
    /// | day of week | 1-7 or SUN-SAT; 1 is Sunday |
    /// | year; may be left out, and is any then | 1970-2099 |
    ///
    /// In a field stands what [`cron`](Self::cron) has, but for `+`, and:
    ///
    /// | in a field | means |
    /// |---|---|
    /// | `5/20` | a step from 5 up to the field's last value |
    /// | `/20` | `*/20` |
    /// | `22-2`, `NOV-FEB`, `FRI-MON` | a range that goes round; not of years |
    /// | `?`, in a field of days | the other one decides |
    /// | `L`, as day of week | Saturday |
    /// | `6L`, `6#3`, as day of week | the last Friday; the third one |
    ///
    /// Exactly one field of days is `?`. There are no names such as `@daily`.
    ///
    /// # Errors
    /// As [`cron`](Self::cron).
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::Calendar;
    ///
    /// assert!(Calendar::quartz("0 15 10 ? * 6L 2026-2030").is_ok());
    /// assert!(Calendar::quartz("0 0/5 14,18 * * ?").is_ok());
    ///
    /// let error = Calendar::quartz("0 0 12 ? * 0").unwrap_err();
    /// let text = "cron pattern \"0 0 12 ? * 0\": day of week: 0 is not in 1-7 or SUN-SAT";
    /// assert_eq!(error.to_string(), text);
    /// ```
    pub fn quartz(pattern: &str) -> Result<Self, CalendarError> {
        Self::read(pattern, Dialect::Quartz)
    }

    /// A calendar by the time of a crontab's line, as the cron of Paul Vixie and its descendants
    /// read it, in the system's time zone; in UTC, if the system has none.
    ///
    /// The five fields and the names such as `@daily` are those of [`cron`](Self::cron). A field
    /// has lists, ranges and steps, but no days that are counted within their month (`L`, `W`,
    /// `#`), no `?` and no `+`. The difference is in the fields of days: one that begins with `*`,
    /// with a step or without, does not restrict by itself.
    ///
    ///  - If neither begins with `*`, a day counts if it is in either of them, as with `cron`:
    ///    `30 4 1,15 * 5` is the 1st, the 15th, and each Friday.
    ///  - If one does, a day must be in both: `0 0 */2 * MON` is each Monday with an odd date.
    ///
    /// `@reboot` is refused: it is no time.
    ///
    /// # Errors
    /// As [`cron`](Self::cron).
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::Calendar;
    ///
    /// assert!(Calendar::vixie("5 0 * * *").is_ok());
    /// assert!(Calendar::vixie("23 0-23/2 * * SUN").is_ok());
    ///
    /// let error = Calendar::vixie("0 0 L * *").unwrap_err();
    /// let text = "cron pattern \"0 0 L * *\": day of month: L is not in 1-31";
    /// assert_eq!(error.to_string(), text);
    /// ```
    pub fn vixie(pattern: &str) -> Result<Self, CalendarError> {
        Self::read(pattern, Dialect::Vixie)
    }

    fn read(text: &str, dialect: Dialect) -> Result<Self, CalendarError> {
        let (zone, pattern) = match dialect {
            Dialect::Quartz => (None, text),
            Dialect::Cron | Dialect::Vixie => split_zone(text),
        };
        Self::read_in(pattern, dialect, zone)
    }

    /// A calendar in this zone. `None`: in the system's.
    pub(super) fn read_in(
        pattern: &str,
        dialect: Dialect,
        zone_name: Option<&str>,
    ) -> Result<Self, CalendarError> {
        let fields = dialect.read(pattern).map_err(|error| error.of(pattern))?;
        let (gap, overlap) = unless_set(fields.counts_real_time);
        let search = Search::new(&fields)
            .ok_or_else(|| CalendarError::pattern("no such day ever comes").of(pattern))?;
        let zone = match zone_name {
            Some(name) => named_zone(name)?,
            None => system_zone()?,
        };
        let occurrences = Occurrences {
            search,
            zone,
            gap,
            overlap,
        };
        let words = pattern.split_ascii_whitespace();
        let spaced: String = words.flat_map(|field| [" ", field]).skip(1).collect();
        Ok(Self {
            dialect,
            pattern: spaced.into(),
            counts_real_time: fields.counts_real_time,
            zone_name: zone_name.map(Into::into),
            occurrences,
            missed: Missed::default(),
            offset_ms: 0,
        })
    }

    /// Every day at this time.
    ///
    /// # Errors
    /// [`Field`](CalendarError::Field), if there is no such hour (0 to 23) or minute (0 to 59).
    /// [`Zone`](CalendarError::Zone), if the variable `TZ` names no time zone.
    ///
    /// # Example
    /// See [`Gap`].
    pub fn daily(hour: u8, minute: u8) -> Result<Self, CalendarError> {
        check(hour, minute)?;
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
        check(hour, minute)?;
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
        check(hour, minute)?;
        DAY_OF_MONTH.check(day)?;
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
        check(hour, minute)?;
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
        self.occurrences.zone = named_zone(name)?;
        self.zone_name = Some(name.into());
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
    /// See [`Missed`].
    #[must_use]
    pub fn missed(mut self, policy: Missed) -> Self {
        self.missed = policy;
        self
    }

    /// Sets by how much each run is later than the pattern's time. So the calendars of many timers
    /// need not all run at one instant: give each of them a part of a window that follows from its
    /// name ([`spread`](crate::spread())).
    ///
    /// The offset is a time that passes, on any clock: a run that is meant for 2:30 and has an
    /// offset of an hour is made an hour after 2:30, also in a night in which the clock on the wall
    /// is set. It is part of the calendar's [text](#impl-Display-for-Calendar), so it stays with a
    /// calendar that a store keeps.
    ///
    /// It has whole milliseconds; what is beyond them is left out. More than 366 days count as 366.
    /// Zero, the default, is no offset.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use wheelwork::{calendar::Calendar, spread};
    ///
    /// let hour = Duration::from_secs(3_600);
    /// let nightly = Calendar::daily(2, 30)?.zone("UTC")?;
    /// // The time of each shop follows from its name, and is the same each night.
    /// let of = |shop: &str| nightly.clone().offset(spread(hour, shop));
    /// let first = |calendar: &Calendar| calendar.after(SystemTime::UNIX_EPOCH).next().unwrap();
    /// let [berlin, paris] = ["berlin", "paris"].map(|shop| first(&of(shop)));
    /// assert_ne!(berlin, paris);
    /// assert!((first(&nightly)..first(&nightly) + hour).contains(&berlin));
    /// # Ok::<(), wheelwork::calendar::CalendarError>(())
    /// ```
    #[must_use]
    pub fn offset(mut self, offset: Duration) -> Self {
        let millis = u64::try_from(offset.as_millis()).unwrap_or(u64::MAX);
        self.offset_ms = millis.min(OFFSET_MS_MAX);
        self
    }

    /// Its runs after a point in time, in order. They end with the year 4999, or earlier if the
    /// pattern says so. An offset comes on top. (So a timer that sees a wall clock beyond that year
    /// ends.) Cost: one or two microseconds for each run, and 0.2 to 0.3 microseconds for
    /// each year until the run.
    pub fn after(&self, time: SystemTime) -> impl Iterator<Item = SystemTime> + '_ {
        std::iter::successors(self.next(time), |&last| self.next(last))
    }

    /// Whether it is known to run at the same times as another one: at the same times of the same
    /// days, however they are written, in a zone of the same name, and with the same rules where
    /// its clock is set. What becomes of [missed runs](Missed) is not compared. Costs some
    /// nanoseconds.
    ///
    /// It may be `false` for calendars that agree, as in a zone with two names, or in one whose
    /// clock is never set.
    ///
    /// A calendar that names the system's zone is taken to differ from one that names no zone.
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::{Calendar, Missed};
    ///
    /// let by_name = Calendar::cron("0 9 * * MON")?;
    /// assert!(by_name.runs_as(&Calendar::cron("0 9 * * 1")?.missed(Missed::Once)));
    /// assert!(!by_name.runs_as(&Calendar::cron("0 9 * * 1")?.zone("Europe/Berlin")?));
    /// # Ok::<(), wheelwork::calendar::CalendarError>(())
    /// ```
    #[must_use]
    pub fn runs_as(&self, other: &Self) -> bool {
        let (own, others) = (&self.occurrences, &other.occurrences);
        own.search == others.search
            && self.zone_name == other.zone_name
            && (own.gap, own.overlap) == (others.gap, others.overlap)
            && self.offset_ms == other.offset_ms
    }

    /// Whether it names its time zone. One that does not goes by the system's, which may be another
    /// one in the next run of the program.
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::Calendar;
    ///
    /// let mornings = Calendar::daily(9, 0)?;
    /// assert!(!mornings.names_zone());
    /// assert!(mornings.zone("Europe/Berlin")?.names_zone());
    /// # Ok::<(), wheelwork::calendar::CalendarError>(())
    /// ```
    #[must_use]
    pub fn names_zone(&self) -> bool {
        self.zone_name.is_some()
    }

    /// The first run after a point in time.
    pub(super) fn next(&self, time: SystemTime) -> Option<SystemTime> {
        let offset = SignedDuration::from_millis(self.offset_ms.cast_signed());
        let time = Timestamp::try_from(time).ok()?;
        let meant = time.checked_sub(offset).unwrap_or(Timestamp::MIN);
        let next = self.occurrences.next(meant)?.checked_add(offset).ok()?;
        SystemTime::try_from(next).ok()
    }
}

/// What becomes of runs when the clock is set for summer or winter, unless the calendar says so.
pub(super) fn unless_set(counts_real_time: bool) -> (Gap, Overlap) {
    if counts_real_time {
        (Gap::Skip, Overlap::Both)
    } else {
        (Gap::End, Overlap::First)
    }
}

/// The zone that stands before the fields of a pattern, and the fields.
fn split_zone(text: &str) -> (Option<&str>, &str) {
    let trimmed = text.trim_start();
    let (word, fields) = trimmed
        .split_once(|letter: char| letter.is_ascii_whitespace())
        .unwrap_or((trimmed, ""));
    match word
        .strip_prefix("CRON_TZ=")
        .or_else(|| word.strip_prefix("TZ="))
    {
        Some(zone) => (Some(zone), fields.trim()),
        None => (None, text),
    }
}

fn named_zone(name: &str) -> Result<TimeZone, CalendarError> {
    TimeZone::get(name).map_err(|why| CalendarError::Zone {
        name: name.to_string(),
        why: why.to_string(),
    })
}

/// The system's time zone; UTC, if it has none. A variable `TZ` that names none is an error.
fn system_zone() -> Result<TimeZone, CalendarError> {
    let why = match TimeZone::try_system() {
        Ok(zone) => return Ok(zone),
        Err(why) => why,
    };
    let Some(name) = std::env::var_os("TZ").filter(|name| !name.is_empty()) else {
        return Ok(TimeZone::UTC);
    };
    Err(CalendarError::Zone {
        name: name.to_string_lossy().into_owned(),
        why: format!("the variable TZ of the environment has it: {why}"),
    })
}

/// Whether there is such a time of day.
fn check(hour: u8, minute: u8) -> Result<(), CalendarError> {
    HOUR.check(hour)?;
    MINUTE.check(minute)
}
