//! Error: why a calendar cannot be made.

use std::fmt;

/// Why a calendar cannot be made.
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
    /// The pattern cannot be read, or has no run in all of time.
    Pattern {
        /// The pattern.
        pattern: String,
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

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { pattern, why } => write!(f, "cron pattern {pattern:?}: {why}"),
            Self::Zone { name, why } => write!(f, "time zone {name:?}: {why}"),
        }
    }
}

impl std::error::Error for CalendarError {}
