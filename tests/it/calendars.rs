//! What the tests of calendar patterns share.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use wheelwork::calendar::{Calendar, CalendarError};

/// How a dialect reads a pattern.
pub type Read = fn(&str) -> Result<Calendar, CalendarError>;

/// The first runs after a civil time, all in UTC.
pub fn runs(calendar: Calendar, after: DateTime, count: usize) -> Vec<DateTime> {
    let calendar = calendar.zone("UTC").unwrap();
    let after = TimeZone::UTC.to_timestamp(after).unwrap();
    let civil = |run| TimeZone::UTC.to_datetime(Timestamp::try_from(run).unwrap());
    calendar
        .after(after.try_into().unwrap())
        .take(count)
        .map(civil)
        .collect()
}
