//! Search: the civil times that the fields of a pattern mean, found by croner.
//!
//! croner is given lists of plain values, so it decides nothing about how a dialect is written. It
//! knows all kinds of days but one: days before the last one of a month (`L-3`). In months of one
//! length such a day has one date, so it makes one croner pattern for each length.

use super::day::{DayOfMonth, DayOfWeek, Which};
use super::dialect::Fields;
use super::field::YEAR;
use croner::Cron;
use jiff::civil::DateTime;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

/// The civil times of a pattern.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// What its fields mean, however they are written.
    pub(super) text: Box<str>,
    /// A time counts that one of them gives.
    crons: Vec<Cron>,
}

/// The lengths of months, and the months that have them. February has two.
const LENGTHS: [(u16, &[u16]); 4] = [
    (31, &[1, 3, 5, 7, 8, 10, 12]),
    (30, &[4, 6, 9, 11]),
    (29, &FEBRUARY),
    (28, &FEBRUARY),
];
const FEBRUARY: [u16; 1] = [2];

impl Search {
    /// A search for the times that these fields mean. `None`: no such time ever comes.
    pub(super) fn new(fields: &Fields) -> Option<Self> {
        // Dates and days of the week repeat after 400 years: their last 400 tell whether a time
        // ever comes, unless the pattern names years.
        let from = if fields.years.is_some() {
            1900
        } else {
            YEAR.last - 400
        };
        let from = DateTime::constant(from as i16, 1, 1, 0, 0, 0, 0);
        let patterns = patterns(fields);
        let text: String = patterns
            .iter()
            .flat_map(|one| [one.as_str(), ";"])
            .collect();
        let crons = patterns.into_iter().filter_map(|pattern| {
            let cron = Cron::from_str(&pattern);
            debug_assert!(cron.is_ok(), "{pattern}: {cron:?}");
            let comes = |cron: &Cron| cron.find_next_occurrence(&from, true).is_ok();
            cron.ok().filter(comes)
        });
        let crons: Vec<_> = crons.collect();
        (!crons.is_empty()).then(|| Self {
            text: text.into(),
            crons,
        })
    }

    /// The first time after this one, or at it.
    pub(super) fn find(&self, from: DateTime, inclusive: bool) -> Option<DateTime> {
        let find = |cron: &Cron| cron.find_next_occurrence(&from, inclusive).ok();
        self.crons.iter().filter_map(find).min()
    }
}

/// Patterns for croner: seconds first, years last.
fn patterns(fields: &Fields) -> Vec<String> {
    let of_all_months = |days: &str| pattern(fields, days, &fields.months, fields.years.as_ref());
    let Some(days) = &fields.days_of_month else {
        return vec![of_all_months("*")];
    };
    // croner forgets `L` in a list with `LW`, which gets a pattern of its own.
    let (last, nearest_last) = (DayOfMonth::Last(0), DayOfMonth::NearestLast(0));
    let parts_them = days.contains(&last) && days.contains(&nearest_last);
    let known = days
        .iter()
        .filter(|day| !parts_them || **day != nearest_last);
    let known = list(known.filter_map(day_of_month));
    let is_either = fields.days_of_week.is_some() && !fields.needs_both_days;
    let mut patterns = Vec::new();
    if !known.is_empty() {
        patterns.push(of_all_months(&known));
    } else if is_either {
        // The days of the week by themselves: what follows may leave out a month.
        patterns.push(of_all_months("*"));
    }
    if parts_them {
        patterns.push(of_all_months("LW"));
    }
    for day in days {
        match *day {
            DayOfMonth::Last(before @ 1..) => patterns.extend(by_length(fields, before, "")),
            DayOfMonth::NearestLast(before @ 1..) => {
                patterns.extend(by_length(fields, before, "W"));
            }
            _ => {}
        }
    }
    patterns
}

/// The patterns for a day before the last one, or for the weekday that is nearest to it: one for
/// each length of a month.
fn by_length(fields: &Fields, before: u16, nearest: &str) -> Vec<String> {
    let mut patterns = Vec::new();
    for (length, of_length) in LENGTHS.iter().filter(|(length, _)| *length > before) {
        let months = of_length
            .iter()
            .copied()
            .filter(|month| fields.months.contains(month));
        let months: BTreeSet<_> = months.collect();
        let years = match *of_length == FEBRUARY {
            true => Some(years_with_february_of(*length, fields.years.as_ref())),
            false => fields.years.clone(),
        };
        let has_year = years.as_ref().is_none_or(|years| !years.is_empty());
        if !months.is_empty() && has_year {
            let day = format!("{}{nearest}", length - before);
            patterns.push(pattern(fields, &day, &months, years.as_ref()));
        }
    }
    patterns
}

/// The years whose February has this length.
fn years_with_february_of(length: u16, years: Option<&BTreeSet<u16>>) -> BTreeSet<u16> {
    let has_length = |year: &u16| {
        let is_in_four = year.is_multiple_of(4) && !year.is_multiple_of(100);
        let is_leap = is_in_four || year.is_multiple_of(400);
        is_leap == (length == 29)
    };
    match years {
        Some(years) => years.iter().copied().filter(has_length).collect(),
        None => (YEAR.first..=YEAR.last).filter(has_length).collect(),
    }
}

fn pattern(
    fields: &Fields,
    days: &str,
    months: &BTreeSet<u16>,
    years: Option<&BTreeSet<u16>>,
) -> String {
    let both = if fields.needs_both_days { "+" } else { "" };
    let weekdays = fields.days_of_week.as_ref();
    let weekdays = weekdays.map(|days| format!("{both}{}", list(days.iter().map(day_of_week))));
    format!(
        "{} {} {} {days} {} {} {}",
        list(&fields.seconds),
        list(&fields.minutes),
        list(&fields.hours),
        list(months),
        weekdays.as_deref().unwrap_or("*"),
        years.map(list).as_deref().unwrap_or("*"),
    )
}

/// A day as croner writes it. `None`: it knows no such day.
fn day_of_month(day: &DayOfMonth) -> Option<String> {
    match day {
        DayOfMonth::Day(day) => Some(day.to_string()),
        DayOfMonth::Nearest(day) => Some(format!("{day}W")),
        DayOfMonth::Last(0) => Some("L".to_string()),
        DayOfMonth::NearestLast(0) => Some("LW".to_string()),
        DayOfMonth::Last(_) | DayOfMonth::NearestLast(_) => None,
    }
}

/// A day as croner writes it.
fn day_of_week(DayOfWeek { day, which }: &DayOfWeek) -> String {
    match which {
        Which::Each => day.to_string(),
        Which::Nth(nth) => format!("{day}#{nth}"),
        Which::Last => format!("{day}#L"),
    }
}

/// A list for croner.
fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for item in items {
        let comma = if text.is_empty() { "" } else { "," };
        text += &format!("{comma}{item}");
    }
    text
}
