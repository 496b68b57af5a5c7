//! Field: the values of one field of a pattern, and how a list of them is read.

use super::error::CalendarError;
use std::collections::BTreeSet;

/// A field of a pattern.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) first: u16,
    pub(super) last: u16,
    step_max: u16,
    /// The names of the first values, in order.
    names: &'static [&'static str],
}

/// What is read in some dialects only.
#[derive(Clone, Copy)]
pub(super) struct Syntax {
    /// A range from a higher value to a lower one goes round: `22-2`, `NOV-FEB`. Not of years.
    pub(super) round: bool,
    /// A step may have no range: `5/20` goes on to the field's last value, `/20` is `*/20`.
    pub(super) open_steps: bool,
    /// Days that are counted within their month: `L`, `15W`, `FRI#2`, `FRIL`.
    pub(super) counted_days: bool,
    /// `L` by itself is Saturday in the field of weekdays.
    pub(super) bare_last: bool,
}

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) const SECOND: Field = Field::new("second", 0, 59);
pub(super) const MINUTE: Field = Field::new("minute", 0, 59);
pub(super) const HOUR: Field = Field::new("hour", 0, 23);
pub(super) const DAY_OF_MONTH: Field = Field::new("day of month", 1, 31);
pub(super) const MONTH: Field = Field::new("month", 1, 12).named(&MONTHS);
/// 0 is Sunday, and so is 7.
pub(super) const DAY_OF_WEEK: Field = Field::new("day of week", 0, 7).named(&WEEKDAYS);
/// 1 is Sunday.
pub(super) const DAY_OF_WEEK_QUARTZ: Field = Field::new("day of week", 1, 7).named(&WEEKDAYS);
pub(super) const YEAR: Field = Field::new("year", 1970, 4999).stepping(3029);
pub(super) const YEAR_QUARTZ: Field = Field::new("year", 1970, 2099).stepping(129);

impl Field {
    const fn new(name: &'static str, first: u16, last: u16) -> Self {
        Self {
            name,
            first,
            last,
            step_max: last,
            names: &[],
        }
    }

    const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    const fn stepping(self, step_max: u16) -> Self {
        Self { step_max, ..self }
    }

    /// The error of a value that is not of the kind that is allowed.
    pub(super) fn wrong(&self, value: &str, allowed: impl Into<String>) -> CalendarError {
        CalendarError::field(self.name, value, allowed.into())
    }

    /// Which values there are: `in 0-59`.
    pub(super) fn allowed(&self) -> String {
        let (first, last) = (self.first, self.last);
        match self.names {
            [first_name, .., last_name] => format!("in {first}-{last} or {first_name}-{last_name}"),
            _ => format!("in {first}-{last}"),
        }
    }

    /// A single value, by its number or name.
    pub(super) fn value(&self, text: &str) -> Result<u16, CalendarError> {
        let named = self.names.iter().position(|name| *name == text);
        let named = named.map(|at| self.first + at as u16);
        named
            .or_else(|| number(text))
            .filter(|value| (self.first..=self.last).contains(value))
            .ok_or_else(|| match text {
                "" => self.wrong("an empty value", self.allowed()),
                _ => self.wrong(text, self.allowed()),
            })
    }

    /// Checks a number that was not read from a text.
    pub(super) fn check(&self, value: impl Into<u16>) -> Result<(), CalendarError> {
        self.value(&value.into().to_string()).map(|_| ())
    }

    /// All values of a list.
    pub(super) fn list(&self, text: &str, syntax: Syntax) -> Result<BTreeSet<u16>, CalendarError> {
        let mut values = BTreeSet::new();
        for item in text.split(',') {
            values.extend(self.item(item, syntax)?);
        }
        Ok(values)
    }

    /// The values of an item of a list: of `*`, a value or a range, by steps or not.
    pub(super) fn item(&self, text: &str, syntax: Syntax) -> Result<Vec<u16>, CalendarError> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (text, None),
        };
        let (from, to) = if range == "*" || range.is_empty() && step.is_some() && syntax.open_steps
        {
            (self.first, self.last)
        } else if let Some((from, to)) = range.split_once('-') {
            self.range(from, to, syntax)?
        } else {
            let from = self.value(range)?;
            match step {
                None => (from, from),
                Some(_) if syntax.open_steps => (from, self.last),
                Some(step) => {
                    let last = self.last;
                    let allowed = format!("a step over * or a range, as {from}-{last}/{step} is");
                    return Err(self.wrong(text, allowed));
                }
            }
        };
        let values = self.last - self.first + 1;
        let to = if from > to { to + values } else { to };
        let round = |value| {
            if value > self.last {
                value - values
            } else {
                value
            }
        };
        let steps = (from..=to).step_by(usize::from(step.unwrap_or(1)));
        Ok(steps.map(round).collect())
    }

    fn step(&self, text: &str) -> Result<u16, CalendarError> {
        let step = number(text).filter(|step| (1..=self.step_max).contains(step));
        step.ok_or_else(|| {
            let value = match text {
                "" => "an empty step".to_string(),
                _ => format!("step {text}"),
            };
            self.wrong(&value, format!("in 1-{}", self.step_max))
        })
    }

    fn range(&self, from: &str, to: &str, syntax: Syntax) -> Result<(u16, u16), CalendarError> {
        let (first, mut last) = (self.value(from)?, self.value(to)?);
        // Where Sunday is 0 and 7, its name is 7 at the end of a range.
        if self.first == 0 && to == "SUN" && first > 0 {
            last = self.last;
        }
        let is_round = syntax.round && self.name != YEAR.name;
        if first > last && !is_round {
            let range = format!("{from}-{to}");
            return Err(self.wrong(&range, "a range from a lower value to a higher one"));
        }
        Ok((first, last))
    }
}

/// A number in plain digits.
pub(super) fn number(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|letter| letter.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}
