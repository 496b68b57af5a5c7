//! Day: what the two fields of days may have, beside plain values.

use super::error::CalendarError;
use super::field::{DAY_OF_MONTH, Field, Syntax, number};
use std::collections::BTreeSet;

/// Days of a month, by their date. A weekday is one from Monday to Friday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DayOfMonth {
    /// `15`.
    Day(u16),
    /// `15W`: the weekday of the month that is nearest to the day. None if there is no such day.
    Nearest(u16),
    /// `L`, `L-3`: this number of days before the month's last one.
    Last(u16),
    /// `LW`, `L-3W`: the weekday of the month that is nearest to such a day.
    NearestLast(u16),
}

/// Days of a month, by their day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DayOfWeek {
    /// 0 is Sunday, 6 is Saturday.
    pub(super) day: u16,
    pub(super) which: Which,
}

/// Which of the Fridays of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    /// `FRI`: each.
    Each,
    /// `FRI#2`: the second one.
    Nth(u16),
    /// `FRIL`, `FRI#L`: the last one.
    Last,
}

/// A kind of months, by what decides which days of a month count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Month {
    /// How many days it has.
    pub(super) length: u16,
    /// The day of the week of its first one, of which 0 is Sunday.
    pub(super) first: u16,
}

/// Days of the week.
const SUNDAY: u16 = 0;
const SATURDAY: u16 = 6;

impl Month {
    /// The fewest days that a month has.
    pub(super) const SHORTEST: u16 = 28;

    /// Its weekday that is nearest to one of its days.
    fn nearest(self, day: u16) -> Option<u16> {
        if !(1..=self.length).contains(&day) {
            return None;
        }
        Some(match (self.first + day - 1) % 7 {
            SATURDAY if day == 1 => 3,
            SATURDAY => day - 1,
            SUNDAY if day == self.length => day - 2,
            SUNDAY => day + 1,
            _ => day,
        })
    }
}

impl DayOfMonth {
    /// Which day of a month it is.
    pub(super) fn of(self, month: Month) -> Option<u16> {
        match self {
            Self::Day(day) => Some(day).filter(|day| *day <= month.length),
            Self::Nearest(day) => month.nearest(day),
            Self::Last(before) => month.length.checked_sub(before).filter(|day| *day > 0),
            Self::NearestLast(before) => month.nearest(month.length.checked_sub(before)?),
        }
    }
}

impl DayOfWeek {
    /// Which days of a month it is.
    pub(super) fn of(self, month: Month) -> impl Iterator<Item = u16> {
        let first = (self.day + 7 - month.first) % 7 + 1;
        let days = (first..=month.length).step_by(7);
        let (skipped, count) = match self.which {
            Which::Each => (0, days.len()),
            Which::Nth(nth) => (usize::from(nth) - 1, 1),
            Which::Last => (days.len() - 1, 1),
        };
        days.skip(skipped).take(count)
    }
}

/// The most days that a day can be before the last one of its month.
const BEFORE_MAX: u16 = 30;

/// Reads a list of days of a month.
pub(super) fn days_of_month(
    text: &str,
    syntax: Syntax,
) -> Result<BTreeSet<DayOfMonth>, CalendarError> {
    let mut days = BTreeSet::new();
    for item in text.split(',') {
        let is_counted = item.starts_with('L') || item.ends_with('W');
        if is_counted && syntax.counted_days {
            days.insert(counted_day_of_month(item).ok_or_else(|| {
                let allowed = format!("of the form L, L-1 to L-{BEFORE_MAX}, LW, L-3W, 15W");
                DAY_OF_MONTH.wrong(item, allowed)
            })?);
        } else {
            let plain = DAY_OF_MONTH.item(item, syntax)?;
            days.extend(plain.into_iter().map(DayOfMonth::Day));
        }
    }
    Ok(days)
}

/// Reads `L`, `L-3`, `LW`, `L-3W` or `15W`.
fn counted_day_of_month(item: &str) -> Option<DayOfMonth> {
    let (day, is_nearest) = match item.strip_suffix('W') {
        Some(day) => (day, true),
        None => (item, false),
    };
    if is_nearest && let Ok(day) = DAY_OF_MONTH.value(day) {
        return Some(DayOfMonth::Nearest(day));
    }
    let before = match day.strip_prefix('L')? {
        "" => 0,
        rest => {
            number(rest.strip_prefix('-')?).filter(|before| (1..=BEFORE_MAX).contains(before))?
        }
    };
    Some(match is_nearest {
        true => DayOfMonth::NearestLast(before),
        false => DayOfMonth::Last(before),
    })
}

/// Reads a list of days of the week.
pub(super) fn days_of_week(
    field: &Field,
    text: &str,
    syntax: Syntax,
) -> Result<BTreeSet<DayOfWeek>, CalendarError> {
    // What Sunday is in this field.
    let sunday = u16::from(field.first > 0);
    let mut days = BTreeSet::new();
    for item in text.split(',') {
        let (item, which) = match syntax.counted_days {
            true => counted_day_of_week(field, item, syntax)?,
            false => (item, Which::Each),
        };
        let days_of_item = field.item(item, syntax)?.into_iter();
        days.extend(days_of_item.map(|day| DayOfWeek {
            day: (day - sunday) % 7,
            which,
        }));
    }
    Ok(days)
}

/// The days of an item, and which of them it means.
fn counted_day_of_week<'a>(
    field: &Field,
    item: &'a str,
    syntax: Syntax,
) -> Result<(&'a str, Which), CalendarError> {
    if item == "L" && syntax.bare_last {
        return Ok(("SAT", Which::Each));
    }
    let (days, which) = match (item.split_once('#'), item.strip_suffix('L')) {
        (Some((days, "L")), _) => (days, Which::Last),
        (Some((days, nth)), _) => {
            let number = number(nth).filter(|nth| (1..=5).contains(nth));
            let wrong = || field.wrong(&format!("#{nth}"), "in #1-#5 or #L");
            (days, Which::Nth(number.ok_or_else(wrong)?))
        }
        (None, Some(days)) => (days, Which::Last),
        (None, None) => return Ok((item, Which::Each)),
    };
    if days.is_empty() || days.contains(['*', '/']) {
        return Err(field.wrong(
            item,
            "a day with its place in the month, as FRI#2 and FRIL are",
        ));
    }
    Ok((days, which))
}
