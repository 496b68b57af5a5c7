//! Search: the civil times that the fields of a pattern mean, from one to the next.
//!
//! A pattern's hours, minutes and seconds are three sets. Which days of a month count depends on
//! two things alone: how many days the month has, and on which day of the week it begins. There are
//! 28 such [kinds](Month) of months, so a pattern's days are 28 sets, made when it is read.
//!
//! A search takes the largest unit first: the year, the month and the day from the one where it
//! begins, then the time of day. If no time is left on that day, it takes the first time of the
//! next day that counts.
//!
//! Every search has a bound. A pattern without years has a day in 40 years at most: a 29th of
//! February on a given day of the week can take that long, around a year such as 2100. If the
//! pattern names years, those without a day are left out when it is read, so every year that is
//! searched has one. A pattern that never has a time is found out when it is read, so no search is
//! made for it. Most searches look at one month or two.

use super::day::Month;
use super::dialect::Fields;
use super::field::YEAR;
use jiff::civil::{Date, DateTime, Time};
use std::collections::BTreeSet;

/// Without years in the pattern, this is the last one.
const LAST_YEAR: i16 = YEAR.last as i16;

/// A pattern without years has a day in this many years.
const YEARS_MAX: i16 = 40;

/// The months of each length, from 28 days to 31.
const MONTHS_BY_LENGTH: [Numbers; 4] = [
    Numbers(1 << 2),
    Numbers(1 << 2),
    Numbers((1 << 4) | (1 << 6) | (1 << 9) | (1 << 11)),
    Numbers((1 << 1) | (1 << 3) | (1 << 5) | (1 << 7) | (1 << 8) | (1 << 10) | (1 << 12)),
];

/// The civil times of a pattern.
///
/// Two are equal if they have the same times, however their patterns are written. Only patterns
/// that name years may have the same times and differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Search {
    seconds: Numbers,
    minutes: Numbers,
    hours: Numbers,
    /// By the month's length, from 28 on, and by the day of the week of its first, from Sunday on.
    days: [[Numbers; 7]; 4],
    /// Those that have a day in some year.
    months: Numbers,
    /// Those that have a day. `None`: all until the [last](LAST_YEAR).
    years: Option<BTreeSet<i16>>,
}

impl Search {
    /// A search for the times that these fields mean. `None`: no such time ever comes.
    ///
    /// Costs some microseconds. If the pattern names years, it looks for a day in each of them.
    pub(super) fn new(fields: &Fields) -> Option<Self> {
        let mut search = Self {
            seconds: Numbers::of(fields.seconds.iter().copied()),
            minutes: Numbers::of(fields.minutes.iter().copied()),
            hours: Numbers::of(fields.hours.iter().copied()),
            days: days(fields),
            months: Numbers(0),
            years: None,
        };
        let asked = Numbers::of(fields.months.iter().copied());
        for (kinds, of_length) in search.days.iter_mut().zip(MONTHS_BY_LENGTH) {
            let of_length = asked.and(of_length);
            if of_length.is_empty() {
                *kinds = Default::default();
            } else if kinds.iter().any(|days| !days.is_empty()) {
                search.months = search.months.or(of_length);
            }
        }
        if let Some(years) = &fields.years {
            let years = years.iter().map(|&year| year as i16);
            let has_day = |year: &i16| search.day_of_year(Date::constant(*year, 1, 1)).is_some();
            search.years = Some(years.filter(has_day).collect());
        }
        let has_year = search.years.as_ref().is_none_or(|years| !years.is_empty());
        (has_year && !search.months.is_empty()).then_some(search)
    }

    /// The first time after this one.
    pub(super) fn after(&self, time: DateTime) -> Option<DateTime> {
        self.find(time, time.second() + 1)
    }

    /// The first time at this one or after it. It has no fraction of a second.
    pub(super) fn at_or_after(&self, time: DateTime) -> Option<DateTime> {
        debug_assert_eq!(time.subsec_nanosecond(), 0, "{time}");
        self.find(time, time.second())
    }

    /// The first time from a second of this minute on. (Second 60 is in no minute, so the search
    /// goes on to the next one.)
    fn find(&self, from: DateTime, second: i8) -> Option<DateTime> {
        let mut day = self.day(from.date())?;
        if day == from.date() {
            if let Some(time) = self.time(from.hour(), from.minute(), second) {
                return Some(day.to_datetime(time));
            }
            day = self.day(day.tomorrow().ok()?)?;
        }
        Some(day.to_datetime(self.time(0, 0, 0)?))
    }

    /// The first day from this one on.
    fn day(&self, from: Date) -> Option<Date> {
        let (mut from, begin) = (from, from.year());
        loop {
            let year = match &self.years {
                Some(years) => *years.range(from.year()..).next()?,
                None => from.year(),
            };
            if year > LAST_YEAR {
                return None;
            }
            if year > from.year() {
                from = Date::new(year, 1, 1).ok()?;
            }
            if let Some(day) = self.day_of_year(from) {
                return Some(day);
            }
            // A year that the pattern names has a day, but the search may begin after it.
            let years_max = if self.years.is_some() { 1 } else { YEARS_MAX };
            debug_assert!(year - begin < years_max, "{self:?} from {begin}");
            from = Date::new(year + 1, 1, 1).ok()?;
        }
    }

    /// The first day from this one on that is in the same year.
    fn day_of_year(&self, from: Date) -> Option<Date> {
        let mut earliest = from.day();
        let mut month = self.months.first_from(from.month())?;
        if month > from.month() {
            earliest = 1;
        }
        loop {
            let first = Date::new(from.year(), month, 1).ok()?;
            if let Some(day) = self.days_of_month(first).first_from(earliest) {
                return Date::new(from.year(), month, day).ok();
            }
            month = self.months.first_from(month + 1)?;
            earliest = 1;
        }
    }

    /// The days of the month that begins with this one.
    fn days_of_month(&self, first: Date) -> Numbers {
        let length = first.days_in_month() as usize;
        let day_of_week = first.weekday().to_sunday_zero_offset() as usize;
        self.days[length - Month::SHORTEST as usize][day_of_week]
    }

    /// The first time of a day from this one on. The minute and the second may be one too many.
    fn time(&self, hour: i8, minute: i8, second: i8) -> Option<Time> {
        let (first_minute, first_second) =
            (self.minutes.first_from(0)?, self.seconds.first_from(0)?);
        let is_hour = self.hours.has(hour);
        let (hour, minute, second) = if is_hour
            && self.minutes.has(minute)
            && let Some(second) = self.seconds.first_from(second)
        {
            (hour, minute, second)
        } else if is_hour && let Some(minute) = self.minutes.first_from(minute + 1) {
            (hour, minute, first_second)
        } else {
            (self.hours.first_from(hour + 1)?, first_minute, first_second)
        };
        Time::new(hour, minute, second, 0).ok()
    }
}

/// The days that count, for each kind of months.
fn days(fields: &Fields) -> [[Numbers; 7]; 4] {
    let mut days = <[[Numbers; 7]; 4]>::default();
    for (length, of_length) in (Month::SHORTEST..).zip(&mut days) {
        for (first, of_kind) in (0..).zip(of_length) {
            *of_kind = days_of_kind(fields, Month { length, first });
        }
    }
    days
}

fn days_of_kind(fields: &Fields, month: Month) -> Numbers {
    let by_date = fields
        .days_of_month
        .as_ref()
        .map(|days| Numbers::of(days.iter().filter_map(|day| day.of(month))));
    let by_week = fields
        .days_of_week
        .as_ref()
        .map(|days| Numbers::of(days.iter().flat_map(|day| day.of(month))));
    match (by_date, by_week) {
        (None, None) => Numbers::of(1..=month.length),
        (Some(days), None) | (None, Some(days)) => days,
        (Some(by_date), Some(by_week)) if fields.needs_both_days => by_date.and(by_week),
        (Some(by_date), Some(by_week)) => by_date.or(by_week),
    }
}

/// A set of numbers below 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Numbers(u64);

impl Numbers {
    fn of(values: impl IntoIterator<Item = u16>) -> Self {
        let add = |bits, value| bits | (1_u64 << value);
        Self(values.into_iter().fold(0, add))
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, value: i8) -> bool {
        self.0 & (1_u64 << value) != 0
    }

    /// The first one from this value on.
    fn first_from(self, value: i8) -> Option<i8> {
        let rest = self.0 & (u64::MAX << value);
        (rest != 0).then(|| rest.trailing_zeros() as i8)
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::day::DayOfMonth;
    use super::super::dialect::Dialect::{self, Cron, Quartz, Vixie};
    use super::*;

    fn search(dialect: Dialect, pattern: &str) -> Option<Search> {
        Search::new(&dialect.read(pattern).unwrap())
    }

    /// The first times after one.
    fn times(dialect: Dialect, pattern: &str, after: &str, count: usize) -> Vec<String> {
        let search = search(dialect, pattern).unwrap();
        let next = |time: &DateTime| search.after(*time);
        let times = std::iter::successors(next(&after.parse().unwrap()), next);
        times.take(count).map(|time| time.to_string()).collect()
    }

    /// The first days after one, of a pattern of cron whose runs are at noon.
    fn days(pattern: &str, after: &str, count: usize) -> Vec<String> {
        let times = times(Cron, &format!("0 12 {pattern}"), after, count);
        let day = |time: &String| time.strip_suffix("T12:00:00").unwrap().to_string();
        times.iter().map(day).collect()
    }

    #[test]
    fn each_unit_is_carried_into_the_next_larger_one() {
        let next = |pattern, after| times(Cron, pattern, after, 1).concat();
        for (pattern, after, expected) in [
            ("* * * * * *", "2026-12-31T23:59:58", "2026-12-31T23:59:59"),
            ("* * * * * *", "2026-12-31T23:59:59", "2027-01-01T00:00:00"),
            ("10 * * * * *", "2026-03-01T09:30:09", "2026-03-01T09:30:10"),
            ("10 * * * * *", "2026-03-01T09:30:10", "2026-03-01T09:31:10"),
            (
                "10 20 * * * *",
                "2026-03-01T09:20:10",
                "2026-03-01T10:20:10",
            ),
            (
                "10 20 9 * * *",
                "2026-02-28T09:20:10",
                "2026-03-01T09:20:10",
            ),
            (
                "10 20 9 5 * *",
                "2026-02-05T09:20:09",
                "2026-02-05T09:20:10",
            ),
            (
                "10 20 9 5 * *",
                "2026-02-05T09:20:10",
                "2026-03-05T09:20:10",
            ),
            (
                "10 20 9 5 3 *",
                "2026-03-05T09:20:10",
                "2027-03-05T09:20:10",
            ),
            // What is left of a smaller unit does not count in a later larger one.
            (
                "5,50 5,50 5,20 * * *",
                "2026-03-01T05:50:50",
                "2026-03-01T20:05:05",
            ),
            (
                "5,50 5,50 5,20 * * *",
                "2026-03-01T05:05:50",
                "2026-03-01T05:50:05",
            ),
            (
                "5,50 5,50 5,20 * * *",
                "2026-03-01T06:55:55",
                "2026-03-01T20:05:05",
            ),
            (
                "5,50 5,50 5,20 * * *",
                "2026-03-01T20:50:50",
                "2026-03-02T05:05:05",
            ),
        ] {
            assert_eq!(next(pattern, after), expected, "{pattern} after {after}");
        }
    }

    #[test]
    fn a_fraction_of_a_second_is_before_the_next_second() {
        let seconds = search(Cron, "* * * * * *").unwrap();
        let time = |text: &str| text.parse::<DateTime>().unwrap();
        assert_eq!(
            seconds.after(time("2026-03-01T23:59:59.000000001")),
            Some(time("2026-03-02T00:00:00"))
        );
        assert_eq!(
            seconds.at_or_after(time("2026-03-01T23:59:59")),
            Some(time("2026-03-01T23:59:59"))
        );
    }

    /// February 2026 begins and ends a week; March 2026 begins on a Sunday; August 2026 begins on a
    /// Saturday; May 2026 ends on a Sunday.
    #[test]
    fn days_are_counted_within_their_month() {
        for (pattern, after, expected) in [
            (
                "L * *",
                "2026-01-31",
                ["2026-01-31", "2026-02-28", "2026-03-31"],
            ),
            (
                "L-3 * *",
                "2026-01-28",
                ["2026-01-28", "2026-02-25", "2026-03-28"],
            ),
            (
                "L-30 * *",
                "2026-01-02",
                ["2026-03-01", "2026-05-01", "2026-07-01"],
            ),
            (
                "L-29 * *",
                "2026-01-03",
                ["2026-03-02", "2026-04-01", "2026-05-02"],
            ),
            (
                "LW * *",
                "2026-01-31",
                ["2026-02-27", "2026-03-31", "2026-04-30"],
            ),
            (
                "LW * *",
                "2026-05-01",
                ["2026-05-29", "2026-06-30", "2026-07-31"],
            ),
            (
                "L-1W * *",
                "2026-05-01",
                ["2026-05-29", "2026-06-29", "2026-07-30"],
            ),
            (
                "L-29W * *",
                "2026-02-01",
                ["2026-03-02", "2026-04-01", "2026-05-01"],
            ),
            // The nearest to the 1st, a Saturday or a Sunday, is not in the month before.
            (
                "1W * *",
                "2026-02-01",
                ["2026-02-02", "2026-03-02", "2026-04-01"],
            ),
            (
                "1W * *",
                "2026-07-02",
                ["2026-08-03", "2026-09-01", "2026-10-01"],
            ),
            (
                "15W * *",
                "2026-02-01",
                ["2026-02-16", "2026-03-16", "2026-04-15"],
            ),
            (
                "31W * *",
                "2026-04-01",
                ["2026-05-29", "2026-07-31", "2026-08-31"],
            ),
            (
                "* * FRI#2",
                "2026-01-10",
                ["2026-02-13", "2026-03-13", "2026-04-10"],
            ),
            (
                "* * FRI#5",
                "2026-01-01",
                ["2026-01-30", "2026-05-29", "2026-07-31"],
            ),
            (
                "* * FRIL",
                "2026-01-01",
                ["2026-01-30", "2026-02-27", "2026-03-27"],
            ),
            (
                "* * SUN#1",
                "2026-01-30",
                ["2026-02-01", "2026-03-01", "2026-04-05"],
            ),
            (
                "* * SAT#L",
                "2026-01-30",
                ["2026-01-31", "2026-02-28", "2026-03-28"],
            ),
            (
                "L,LW * *",
                "2026-01-31",
                ["2026-01-31", "2026-02-27", "2026-02-28"],
            ),
        ] {
            assert_eq!(days(pattern, after, 3), expected, "{pattern} after {after}");
        }
    }

    /// Each kind of months against a look at each of its days.
    #[test]
    fn the_nearest_weekday_is_that_of_a_look_at_each_day() {
        for length in 28..=31 {
            for first in 0..7 {
                let month = Month { length, first };
                let is_weekday = |day: &u16| (1..=5).contains(&((first + day - 1) % 7));
                for day in 1..=31 {
                    let nearest = (1..=length)
                        .filter(is_weekday)
                        .min_by_key(|other| other.abs_diff(day))
                        .filter(|_| day <= length);
                    assert_eq!(
                        DayOfMonth::Nearest(day).of(month),
                        nearest,
                        "{month:?} {day}"
                    );
                    let before = length.checked_sub(day);
                    let from_last =
                        before.and_then(|before| DayOfMonth::NearestLast(before).of(month));
                    assert_eq!(from_last, nearest, "{month:?} {day}");
                }
            }
        }
    }

    #[test]
    fn both_fields_of_days_go_together_as_the_dialect_says() {
        for (dialect, pattern, expected) in [
            // Either fits. (The 13th of February and of March are Fridays.)
            (Cron, "0 12 13 * FRI", ["02-06", "02-13", "02-20"]),
            (Vixie, "0 12 13 * FRI", ["02-06", "02-13", "02-20"]),
            (Cron, "0 12 L-3 * SUN#1", ["02-25", "03-01", "03-28"]),
            (Cron, "0 12 L-30 2,3 FRI#1", ["02-06", "03-01", "03-06"]),
            // Both fit.
            (Cron, "0 12 13 * +FRI", ["02-13", "03-13", "11-13"]),
            (Cron, "0 12 L * +SAT,TUE", ["02-28", "03-31", "06-30"]),
            (Vixie, "0 12 */2 * MON", ["02-09", "02-23", "03-09"]),
            (Vixie, "0 12 13 * */5", ["02-13", "03-13", "09-13"]),
            // One decides.
            (Cron, "0 12 * * FRI", ["02-06", "02-13", "02-20"]),
            (Cron, "0 12 ? * FRI", ["02-06", "02-13", "02-20"]),
            (Vixie, "0 12 * * FRI", ["02-06", "02-13", "02-20"]),
            (Quartz, "0 0 12 ? * 6", ["02-06", "02-13", "02-20"]),
            (Quartz, "0 0 12 13 * ?", ["02-13", "03-13", "04-13"]),
            (Quartz, "0 0 12 ? * 6#2", ["02-13", "03-13", "04-10"]),
            (Quartz, "0 0 12 ? * L", ["02-07", "02-14", "02-21"]),
            (Quartz, "0 0 12 L-3 * ?", ["02-25", "03-28", "04-27"]),
        ] {
            let times = times(dialect, pattern, "2026-02-03", 3);
            let expected = expected.map(|day| format!("2026-{day}T12:00:00"));
            assert_eq!(times, expected, "{dialect:?} {pattern}");
        }
    }

    #[test]
    fn leap_days_come_in_leap_years() {
        let next = |pattern, after| days(pattern, after, 2);
        assert_eq!(next("29 2 *", "2096-01-01"), ["2096-02-29", "2104-02-29"]);
        assert_eq!(next("29 2 *", "2396-03-01"), ["2400-02-29", "2404-02-29"]);
        assert_eq!(next("L 2 *", "2099-01-01"), ["2099-02-28", "2100-02-28"]);
        assert_eq!(next("L-28 2 *", "2024-02-02"), ["2028-02-01", "2032-02-01"]);
        assert_eq!(
            next("* 2 THU#5", "2024-01-01"),
            ["2024-02-29", "2052-02-29"]
        );
        // The longest wait of all.
        assert_eq!(
            next("29 2 +MON", "2044-03-01"),
            ["2072-02-29", "2112-02-29"]
        );
    }

    #[test]
    fn years_begin_and_end_a_pattern() {
        let years = |pattern| times(Cron, pattern, "1969-06-01", 9).len();
        assert_eq!(years("0 0 0 1 1 * 2026"), 1);
        assert_eq!(years("0 0 0 1 1 * 1970,4999"), 2);
        assert_eq!(years("0 0 0 29 2 * 2025-2036"), 3);
        assert_eq!(
            times(Cron, "0 0 0 29 2 * 2025-2036/3", "1969-06-01", 9),
            ["2028-02-29T00:00:00"]
        );
        assert_eq!(
            times(
                Quartz,
                "59 59 23 31 12 ? 2026,2099",
                "2026-12-31T23:59:58",
                9
            ),
            ["2026-12-31T23:59:59", "2099-12-31T23:59:59"]
        );
        // Without years they end with the last one, and there are some before 1970.
        for pattern in ["* * * * * *", "*/59 * * * * *"] {
            assert_eq!(
                times(Cron, pattern, "4999-12-31T23:59:58", 9),
                ["4999-12-31T23:59:59"]
            );
        }
        for far in ["5000-01-01", "9999-12-31T23:59:59"] {
            assert!(times(Cron, "* * * * *", far, 9).is_empty(), "{far}");
        }
        assert_eq!(
            times(Vixie, "0 0 1 1 *", "-009999-01-01", 1),
            ["-009998-01-01T00:00:00"]
        );
    }

    #[test]
    fn what_never_comes_is_found_out() {
        for (dialect, pattern) in [
            (Cron, "0 0 30 2 *"),
            (Cron, "0 0 31 4,6,9,11 *"),
            (Cron, "0 0 30W,31W 2 *"),
            (Cron, "0 0 L-29 2 *"),
            (Cron, "0 0 L-30W 4 *"),
            (Cron, "0 0 29 2 +MON#4"),
            (Cron, "0 0 15 * +FRI#1"),
            (Cron, "0 0 LW * +SAT"),
            (Cron, "0 0 0 29 2 * 2025-2027"),
            (Cron, "0 0 0 29 2 * 2100,2200,2300"),
            (Cron, "0 0 0 29 2 +MON 2073-2111"),
            (Cron, "0 0 0 * 2 MON#5 2025-2043"),
            (Quartz, "0 0 0 31 4 ?"),
            (Quartz, "0 0 0 ? 2 2#5 2025-2043"),
            (Vixie, "0 0 31 2 *"),
        ] {
            assert!(search(dialect, pattern).is_none(), "{dialect:?} {pattern}");
        }
    }

    #[test]
    fn the_same_times_make_an_equal_search() {
        let is_equal = |one: (Dialect, &str), other: (Dialect, &str)| {
            search(one.0, one.1).unwrap() == search(other.0, other.1).unwrap()
        };
        let plain = (Cron, "0 9 * * MON");
        assert!(is_equal(plain, (Vixie, "0 9 * * 1")));
        assert!(is_equal(plain, (Quartz, "0 0 9 ? * 2")));
        assert!(is_equal(plain, (Cron, "0 9 1-31 * +MON")));
        assert!(is_equal((Cron, "0 9 31 4,5 *"), (Cron, "0 9 L 5 *")));
        assert!(is_equal((Cron, "0 9 L-3 4 *"), (Cron, "0 9 27 4 *")));
        assert!(is_equal((Cron, "0 9 * * *"), (Cron, "0 9 13 * *,FRI")));
        assert!(!is_equal(plain, (Cron, "0 9 * * TUE")));
        assert!(!is_equal(plain, (Cron, "0 0 9 * * MON 2026")));
        assert!(!is_equal((Cron, "0 9 29 2 *"), (Cron, "0 9 L 2 *")));
        assert!(!is_equal((Cron, "0 9 13 * FRI"), (Cron, "0 9 13 * +FRI")));
    }
}
