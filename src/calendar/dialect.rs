//! Dialect: which fields a pattern has, and how they go together.

use super::day::{DayOfMonth, DayOfWeek, days_of_month, days_of_week};
use super::error::CalendarError;
use super::field::{
    DAY_OF_WEEK, DAY_OF_WEEK_QUARTZ, HOUR, MINUTE, MONTH, SECOND, Syntax, YEAR, YEAR_QUARTZ,
};
use std::collections::BTreeSet;

/// What a pattern says, in any dialect.
pub(super) struct Fields {
    pub(super) seconds: BTreeSet<u16>,
    pub(super) minutes: BTreeSet<u16>,
    pub(super) hours: BTreeSet<u16>,
    pub(super) months: BTreeSet<u16>,
    /// `None`: all.
    pub(super) years: Option<BTreeSet<u16>>,
    /// `None`: all, and the other field of days decides.
    pub(super) days_of_month: Option<BTreeSet<DayOfMonth>>,
    /// `None`: all, and the other field of days decides.
    pub(super) days_of_week: Option<BTreeSet<DayOfWeek>>,
    /// If both fields of days decide: whether both must fit, or either.
    pub(super) needs_both_days: bool,
    /// An item of the hours is `*`, `*` by steps, or an open step: it counts real time, not that of
    /// a clock on the wall.
    pub(super) counts_real_time: bool,
}

/// A way to write patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Cron,
    Quartz,
    Vixie,
}

impl Dialect {
    /// All of them, with the names of their calls.
    pub(super) const NAMES: [(Self, &str); 3] = [
        (Self::Cron, "cron"),
        (Self::Quartz, "quartz"),
        (Self::Vixie, "vixie"),
    ];
}

/// What patterns of one word are short for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Dialect {
    /// Reads a pattern.
    pub(super) fn read(self, pattern: &str) -> Result<Fields, CalendarError> {
        let is_plain = |letter: &char| letter.is_ascii_graphic() || letter.is_ascii_whitespace();
        if let Some(letter) = pattern.chars().find(|letter| !is_plain(letter)) {
            let why = format!("{letter:?} is no printable ASCII character");
            return Err(CalendarError::pattern(why));
        }
        let pattern = self.long_form(pattern.trim())?.to_ascii_uppercase();
        let fields: Vec<_> = pattern.split_ascii_whitespace().collect();
        let (second, [minute, hour, day, month, weekday], year) = match (self, &fields[..]) {
            (Self::Cron | Self::Vixie, &[m, h, d, mo, w]) => ("0", [m, h, d, mo, w], "*"),
            (Self::Cron | Self::Quartz, &[s, m, h, d, mo, w]) => (s, [m, h, d, mo, w], "*"),
            (Self::Cron | Self::Quartz, &[s, m, h, d, mo, w, y]) => (s, [m, h, d, mo, w], y),
            _ => return Err(CalendarError::pattern(self.other_count(fields.len()))),
        };
        let syntax = self.syntax();
        let (week, years) = match self {
            Self::Quartz => (&DAY_OF_WEEK_QUARTZ, &YEAR_QUARTZ),
            Self::Cron | Self::Vixie => (&DAY_OF_WEEK, &YEAR),
        };
        let (weekday, has_plus) = match weekday.strip_prefix('+') {
            Some(weekday) if self == Self::Cron => (weekday, true),
            _ => (weekday, false),
        };
        let fields = Fields {
            seconds: SECOND.list(second, syntax)?,
            minutes: MINUTE.list(minute, syntax)?,
            hours: HOUR.list(hour, syntax)?,
            days_of_month: match self.is_any(day) {
                true => None,
                false => Some(days_of_month(day, syntax)?),
            },
            months: MONTH.list(month, syntax)?,
            days_of_week: match self.is_any(weekday) {
                true => None,
                false => Some(days_of_week(week, weekday, syntax)?),
            },
            years: match year {
                "*" => None,
                _ => Some(years.list(year, syntax)?),
            },
            needs_both_days: match self {
                Self::Cron => has_plus,
                Self::Vixie => day.starts_with('*') || weekday.starts_with('*'),
                Self::Quartz => true,
            },
            counts_real_time: is_by_steps(hour, syntax),
        };
        if self == Self::Quartz && (day == "?") == (weekday == "?") {
            let why = "one of day of month and day of week has to be ?, and the other one not";
            return Err(CalendarError::pattern(why));
        }
        Ok(fields)
    }

    /// What a pattern of one word is short for; any other pattern itself.
    fn long_form(self, pattern: &str) -> Result<&str, CalendarError> {
        if !pattern.starts_with('@') {
            return Ok(pattern);
        }
        let is_known = |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case(pattern);
        match NICKNAMES.iter().find(is_known) {
            _ if self == Self::Quartz => Err(CalendarError::pattern("Quartz has no @names")),
            Some((_, pattern)) => Ok(pattern),
            None if pattern.eq_ignore_ascii_case("@reboot") => Err(CalendarError::pattern(
                "@reboot is a start, and no time: run the task where the program starts",
            )),
            None => Err(CalendarError::pattern(
                "it is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly",
            )),
        }
    }

    fn syntax(self) -> Syntax {
        let is_quartz = self == Self::Quartz;
        Syntax {
            round: is_quartz,
            open_steps: is_quartz,
            counted_days: self != Self::Vixie,
            bare_last: is_quartz,
        }
    }

    /// Whether a field of days leaves it to the other one.
    fn is_any(self, days: &str) -> bool {
        days == "*" || days == "?" && self != Self::Vixie
    }

    /// Why this is not the number of fields.
    fn other_count(self, count: usize) -> String {
        let allowed = match self {
            Self::Cron => "5, 6 (seconds first) or 7 (years last)",
            Self::Quartz => "6 (seconds first) or 7 (years last)",
            Self::Vixie => "5",
        };
        let fields = if count == 1 { "field" } else { "fields" };
        format!("it has {count} {fields}, and may have {allowed}")
    }
}

/// Whether an item of the hours begins with `*`, or is an open step. (Steps in a range are given
/// hours.)
fn is_by_steps(hours: &str, syntax: Syntax) -> bool {
    let is_open = |item: &str| syntax.open_steps && item.contains('/') && !item.contains('-');
    hours
        .split(',')
        .any(|item| item.starts_with('*') || is_open(item))
}
