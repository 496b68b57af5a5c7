//! Promise: a pattern means what its dialect says, whatever it is made of.
//!
//! Random patterns of each dialect are held against a look at each day and second by itself, which
//! knows neither our parser nor our search. What the documents of the dialects say:
//! `calendar_dialects.rs`.

use crate::calendars::{Read, runs};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use std::collections::BTreeSet;
use wheelwork::calendar::Calendar;

/// A field of a random pattern, and which values it means.
#[derive(Clone, Debug)]
struct Part {
    text: String,
    values: BTreeSet<u32>,
}

/// A day's rule of a random pattern, and what it means.
#[derive(Clone, Debug)]
enum Rule {
    In(BTreeSet<u32>),
    /// This number of days before the last one.
    Last(u32),
    /// The weekday that is nearest to a day, or to one this number of days before the last.
    Nearest(u32),
    NearestLast(u32),
    /// By the day of the week, of which 0 is Sunday.
    Each(BTreeSet<u32>),
    Nth(u32, u32),
    LastOf(u32),
}

fn day_of_week(date: Date) -> u32 {
    date.weekday().to_sunday_zero_offset() as u32
}

/// Of the days from Monday to Friday of a month, the nearest to one of its days.
fn nearest(date: Date, day: i8) -> Option<Date> {
    let last = date.days_in_month();
    let weekdays = (1..=last).filter_map(|day| date.with().day(day).build().ok());
    let weekdays = weekdays.filter(|date| (1..=5).contains(&day_of_week(*date)));
    let nearest = weekdays.min_by_key(|date| (date.day() - day).abs());
    nearest.filter(|_| (1..=last).contains(&day))
}

impl Rule {
    fn fits(&self, date: Date) -> bool {
        let day = date.day() as u32;
        let to_last = (date.days_in_month() - date.day()) as u32;
        match self {
            Self::In(days) => days.contains(&day),
            Self::Last(before) => to_last == *before,
            Self::Nearest(day) => nearest(date, *day as i8) == Some(date),
            Self::NearestLast(before) => {
                nearest(date, date.days_in_month() - *before as i8) == Some(date)
            }
            Self::Each(days) => days.contains(&day_of_week(date)),
            Self::Nth(of, nth) => day_of_week(date) == *of && day.div_ceil(7) == *nth,
            Self::LastOf(of) => day_of_week(date) == *of && to_last < 7,
        }
    }
}

/// A field of days of a random pattern. No rules: it leaves the days to the other field.
#[derive(Clone, Debug)]
struct Days {
    text: String,
    rules: Vec<Rule>,
}

impl Days {
    fn fits(&self, date: Date) -> bool {
        self.rules.is_empty() || self.rules.iter().any(|rule| rule.fits(date))
    }
}

/// Which texts a random field may have.
#[derive(Clone, Copy, Debug)]
struct Kind {
    first: u32,
    last: u32,
    names: &'static [&'static str],
    /// Ranges go round, and steps need none.
    is_quartz: bool,
}

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Kind {
    const fn new(first: u32, last: u32, is_quartz: bool) -> Self {
        Self {
            first,
            last,
            names: &[],
            is_quartz,
        }
    }

    fn week(is_quartz: bool) -> Self {
        let first = u32::from(is_quartz);
        Self {
            first,
            last: 7,
            names: &WEEKDAYS,
            is_quartz,
        }
    }

    fn months(is_quartz: bool) -> Self {
        Self {
            first: 1,
            last: 12,
            names: &MONTHS,
            is_quartz,
        }
    }

    fn name(&self, value: u32, by_name: bool) -> String {
        let name = self
            .names
            .get((value - self.first) as usize)
            .filter(|_| by_name);
        name.map_or_else(|| value.to_string(), |name| name.to_string())
    }

    /// Each value in steps of `step` from one to another, round the end if it has to be.
    fn walk(&self, from: u32, to: u32, step: u32) -> BTreeSet<u32> {
        let (mut value, mut count, mut values) = (from, 0, BTreeSet::new());
        loop {
            if count % step == 0 {
                values.insert(value);
            }
            if value == to {
                return values;
            }
            value = if value == self.last {
                self.first
            } else {
                value + 1
            };
            count += 1;
        }
    }

    fn item(self) -> impl Strategy<Value = Part> {
        let values = self.first..=self.last;
        let any = (
            values.clone(),
            values,
            1..=self.last.min(60),
            0..7u8,
            any::<bool>(),
        );
        any.prop_map(move |(a, b, step, form, by_name)| {
            let (from, to) = if a > b && !self.is_quartz {
                (b, a)
            } else {
                (a, b)
            };
            let (text, values) = match form {
                0 | 1 => (self.name(a, by_name), self.walk(a, a, 1)),
                2 => {
                    let range = format!("{}-{}", self.name(from, by_name), self.name(to, false));
                    (range, self.walk(from, to, 1))
                }
                3 => {
                    let range = format!("{}-{}", self.name(from, false), self.name(to, by_name));
                    (format!("{range}/{step}"), self.walk(from, to, step))
                }
                4 if self.is_quartz => (
                    format!("{}/{step}", self.name(a, by_name)),
                    self.walk(a, self.last, step),
                ),
                5 if self.is_quartz => (format!("/{step}"), self.walk(self.first, self.last, step)),
                _ => (format!("*/{step}"), self.walk(self.first, self.last, step)),
            };
            Part { text, values }
        })
    }

    fn part(self) -> impl Strategy<Value = Part> {
        let all = Part {
            text: "*".into(),
            values: (self.first..=self.last).collect(),
        };
        let list = prop::collection::vec(self.item(), 1..4).prop_map(|items| Part {
            text: items
                .iter()
                .map(|item| &*item.text)
                .collect::<Vec<_>>()
                .join(","),
            values: items.into_iter().flat_map(|item| item.values).collect(),
        });
        prop_oneof![1 => Just(all), 3 => list]
    }
}

/// A list of rules, with its text.
fn rules(items: impl Strategy<Value = (String, Rule)>) -> impl Strategy<Value = Days> {
    prop::collection::vec(items, 1..4).prop_map(|items| {
        let (texts, rules): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        Days {
            text: texts.join(","),
            rules,
        }
    })
}

fn plain_days(is_quartz: bool) -> impl Strategy<Value = (String, Rule)> {
    let items = Kind::new(1, 31, is_quartz).item();
    items.prop_map(|item| (item.text, Rule::In(item.values)))
}

fn plain_weekdays(is_quartz: bool) -> impl Strategy<Value = (String, Rule)> {
    Kind::week(is_quartz).item().prop_map(move |item| {
        let sunday = u32::from(is_quartz);
        let days = item.values.into_iter().map(|day| (day - sunday) % 7);
        (item.text, Rule::Each(days.collect()))
    })
}

fn counted_days() -> impl Strategy<Value = (String, Rule)> {
    (0..5u8, 1..=31u32).prop_map(|(form, day)| match form {
        0 => (format!("{day}W"), Rule::Nearest(day)),
        1 => ("L".into(), Rule::Last(0)),
        2 => ("LW".into(), Rule::NearestLast(0)),
        3 => (format!("L-{}", day.min(30)), Rule::Last(day.min(30))),
        _ => (
            format!("L-{}W", day.min(30)),
            Rule::NearestLast(day.min(30)),
        ),
    })
}

fn counted_weekdays(is_quartz: bool) -> impl Strategy<Value = (String, Rule)> {
    (0..4u8, 0..7u32, 1..=5u32, any::<bool>()).prop_map(move |(form, day, nth, by_name)| {
        let number = day + u32::from(is_quartz);
        let name = Kind::week(is_quartz).name(number, by_name);
        match form {
            0 => (format!("{name}L"), Rule::LastOf(day)),
            1 => (format!("{name}#L"), Rule::LastOf(day)),
            _ => (format!("{name}#{nth}"), Rule::Nth(day, nth)),
        }
    })
}

/// A random pattern, and what it means.
#[derive(Clone, Debug)]
struct Sample {
    pattern: String,
    seconds: BTreeSet<u32>,
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    months: BTreeSet<u32>,
    years: Option<BTreeSet<u32>>,
    days: Days,
    weekdays: Days,
    is_both: bool,
}

impl Sample {
    fn has_day(&self, date: Date) -> bool {
        let (day, weekday) = (self.days.fits(date), self.weekdays.fits(date));
        let decide = [&self.days, &self.weekdays].map(|days| !days.rules.is_empty());
        let is_day = match self.is_both || decide != [true, true] {
            true => day && weekday,
            false => day || weekday,
        };
        let year = date.year() as u32;
        is_day
            && self.months.contains(&(date.month() as u32))
            && self
                .years
                .as_ref()
                .is_none_or(|years| years.contains(&year))
    }

    /// The first times after one, of those in some years: a look at each day and each second.
    fn times(&self, after: DateTime, count: usize, until: Date) -> Vec<DateTime> {
        let mut found = Vec::new();
        let mut date = after.date();
        while date < until && found.len() < count {
            if self.has_day(date) {
                for (hour, minute) in self
                    .hours
                    .iter()
                    .flat_map(|hour| self.minutes.iter().map(move |minute| (*hour, *minute)))
                {
                    let seconds = self.seconds.iter();
                    let time = |second| date.at(hour as i8, minute as i8, second as i8, 0);
                    let times = seconds.map(|second| time(*second));
                    found.extend(times.filter(|time| *time > after));
                    if found.len() >= count {
                        break;
                    }
                }
            }
            date += 1.day();
        }
        found.truncate(count);
        found
    }

    fn check(&self, read: Read, from: i64) -> Result<(), TestCaseError> {
        let after = TimeZone::UTC.to_datetime(Timestamp::from_second(from).unwrap());
        let until = after.date() + 3.years();
        let expected = self.times(after, 8, until);
        let found = match read(&self.pattern) {
            Ok(calendar) => runs(calendar, after, 8),
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.ends_with(": no such day ever comes"), "{}", text);
                Vec::new()
            }
        };
        let found: Vec<_> = found.into_iter().filter(|run| run.date() < until).collect();
        prop_assert_eq!(found, expected, "{}", &self.pattern);
        Ok(())
    }
}

fn years(is_quartz: bool) -> impl Strategy<Value = Part> {
    let last = if is_quartz { 2099 } else { 4999 };
    let kind = Kind::new(1970, last, is_quartz);
    (2022..2034u32, 0..6u32, 1..5u32, 0..4u8).prop_map(move |(from, more, step, form)| {
        let to = from + more;
        let (text, values) = match form {
            0 => (format!("{from},{to}"), BTreeSet::from([from, to])),
            1 => (format!("{from}-{to}"), kind.walk(from, to, 1)),
            2 => (format!("{from}-{to}/{step}"), kind.walk(from, to, step)),
            _ => (format!("*/{step}"), kind.walk(1970, last, step)),
        };
        Part { text, values }
    })
}

/// Seconds, minutes, hours, months and perhaps years.
fn times(is_quartz: bool) -> impl Strategy<Value = ([Part; 4], Option<Part>)> {
    let minutes = || Kind::new(0, 59, is_quartz).part();
    let hours = Kind::new(0, 23, is_quartz).part();
    let months = Kind::months(is_quartz).part();
    let years = prop::option::weighted(0.3, years(is_quartz));
    (minutes(), minutes(), hours, months, years)
        .prop_map(|(second, minute, hour, month, year)| ([second, minute, hour, month], year))
}

fn leave(text: &str) -> Days {
    Days {
        text: text.into(),
        rules: Vec::new(),
    }
}

fn sample(
    ([seconds, minutes, hours, months], years): ([Part; 4], Option<Part>),
    (days, weekdays, is_both): (Days, Days, bool),
    has_seconds: bool,
) -> Sample {
    let mut pattern = format!(
        "{} {} {} {} {}",
        minutes.text, hours.text, days.text, months.text, weekdays.text
    );
    let years = years.filter(|_| has_seconds);
    if has_seconds {
        pattern = format!("{} {pattern}", seconds.text);
    }
    if let Some(years) = &years {
        pattern = format!("{pattern} {}", years.text);
    }
    Sample {
        pattern,
        seconds: if has_seconds {
            seconds.values
        } else {
            [0].into()
        },
        minutes: minutes.values,
        hours: hours.values,
        months: months.values,
        years: years.map(|years| years.values),
        days,
        weekdays,
        is_both,
    }
}

fn of_cron() -> impl Strategy<Value = Sample> {
    let free = || prop_oneof![Just(leave("*")), Just(leave("?"))];
    let days = rules(prop_oneof![plain_days(false), counted_days()]);
    let weekdays = rules(prop_oneof![plain_weekdays(false), counted_weekdays(false)]);
    let days = prop_oneof![1 => free(), 2 => days];
    let weekdays = prop_oneof![1 => free(), 2 => weekdays];
    (times(false), days, weekdays, any::<bool>(), any::<bool>()).prop_map(
        |(times, days, mut weekdays, is_both, has_seconds)| {
            if is_both {
                weekdays.text.insert(0, '+');
            }
            sample(times, (days, weekdays, is_both), has_seconds)
        },
    )
}

fn of_quartz() -> impl Strategy<Value = Sample> {
    let days = rules(prop_oneof![plain_days(true), counted_days()]);
    let weekdays = rules(prop_oneof![
        plain_weekdays(true),
        counted_weekdays(true),
        Just(("L".to_string(), Rule::Each([6].into()))),
    ]);
    let days = prop_oneof![
        Just((leave("*"), leave("?"))),
        Just((leave("?"), leave("*"))),
        days.prop_map(|days| (days, leave("?"))),
        weekdays.prop_map(|weekdays| (leave("?"), weekdays)),
    ];
    (times(true), days)
        .prop_map(|(times, (days, weekdays))| sample(times, (days, weekdays, true), true))
}

fn of_vixie() -> impl Strategy<Value = Sample> {
    let days = prop_oneof![1 => Just(leave("*")), 2 => rules(plain_days(false))];
    let weekdays = prop_oneof![1 => Just(leave("*")), 2 => rules(plain_weekdays(false))];
    (times(false), days, weekdays).prop_map(|(times, days, weekdays)| {
        let is_both = days.text.starts_with('*') || weekdays.text.starts_with('*');
        sample(times, (days, weekdays, is_both), false)
    })
}

/// From 2024 to 2031.
const FROM: std::ops::Range<i64> = 1_704_067_200..1_924_992_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_patterns_of_cron_are_those_of_a_look_at_each_day(
        sample in of_cron(), from in FROM,
    ) {
        sample.check(Calendar::cron, from)?;
    }

    #[test]
    fn random_patterns_of_quartz_are_those_of_a_look_at_each_day(
        sample in of_quartz(), from in FROM,
    ) {
        sample.check(Calendar::quartz, from)?;
    }

    #[test]
    fn random_patterns_of_vixie_are_those_of_a_look_at_each_day(
        sample in of_vixie(), from in FROM,
    ) {
        sample.check(Calendar::vixie, from)?;
    }
}
