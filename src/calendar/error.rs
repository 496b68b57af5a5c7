//! Error: why there is no such calendar.

use std::fmt;

/// Why there is no such calendar. Its text is one line.
///
/// # Example
/// ```
/// use wheelwork::calendar::{Calendar, CalendarError};
///
/// let error = Calendar::daily(24, 0).unwrap_err();
/// assert_eq!(error.to_string(), "hour: 24 is not in 0-23");
///
/// let error = Calendar::cron("0 24 * * *").unwrap_err();
/// assert_eq!(error.to_string(), "cron pattern \"0 24 * * *\": hour: 24 is not in 0-23");
/// let CalendarError::Field { field, value, allowed, .. } = error else { panic!("{error}") };
/// assert_eq!((field, &*value, &*allowed), ("hour", "24", "in 0-23"));
///
/// let error = Calendar::cron("0 0 30 2 *").unwrap_err();
/// assert_eq!(error.to_string(), "cron pattern \"0 0 30 2 *\": no such day ever comes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CalendarError {
    /// A field has a value that it cannot have.
    #[non_exhaustive]
    Field {
        /// The pattern that the field is of; `None` for plain calls such as
        /// [`daily`](super::Calendar::daily).
        pattern: Option<String>,
        /// The field: `second`, `minute`, `hour`, `day of month`, `month`, `day of week` or `year`.
        field: &'static str,
        /// The value, as it stands in the pattern, in capital letters.
        value: String,
        /// What is allowed in place of the value. It continues "is not": `in 0-23`.
        allowed: String,
    },
    /// It is no cron pattern as a whole: too few fields or too many, a name (`@name`) that is none,
    /// both days given where the dialect wants one, or days that never come.
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// It is not the text of a calendar: it has no dialect, or a setting that there is not.
    Text {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The database has no such time zone, or there is no database.
    Zone {
        /// The name of the zone.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

impl CalendarError {
    /// A field has a value that it cannot have.
    pub(super) fn field(field: &'static str, value: &str, allowed: String) -> Self {
        Self::Field {
            pattern: None,
            field,
            value: value.to_string(),
            allowed,
        }
    }

    /// The pattern is none as a whole.
    pub(super) fn pattern(why: impl Into<String>) -> Self {
        Self::Pattern {
            pattern: String::new(),
            why: why.into(),
        }
    }

    /// The text is none of a calendar.
    pub(super) fn text(why: impl Into<String>) -> Self {
        Self::Text {
            text: String::new(),
            why: why.into(),
        }
    }

    /// Says which pattern or text it is about.
    pub(super) fn of(mut self, text: &str) -> Self {
        match &mut self {
            Self::Field { pattern, .. } => *pattern = Some(text.to_string()),
            Self::Pattern { pattern, .. } => *pattern = text.to_string(),
            Self::Text { text: of, .. } => *of = text.to_string(),
            Self::Zone { .. } => {}
        }
        self
    }
}

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field {
                pattern,
                field,
                value,
                allowed,
            } => {
                if let Some(pattern) = pattern {
                    write!(f, "cron pattern {pattern:?}: ")?;
                }
                write!(f, "{field}: {value} is not {allowed}")
            }
            Self::Pattern { pattern, why } => write!(f, "cron pattern {pattern:?}: {why}"),
            Self::Text { text, why } => write!(f, "calendar {text:?}: {why}"),
            Self::Zone { name, why } => write!(f, "time zone {name:?}: {why}"),
        }
    }
}

impl std::error::Error for CalendarError {}
