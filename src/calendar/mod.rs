//! Calendars: timers for times of day in a time zone, by cron patterns or by plain calls.
//!
//! A [`Calendar`] gives points in time.
//! [`ServiceHandle::schedule_calendar`](crate::ServiceHandle::schedule_calendar) arms a timer that
//! follows it. This module parses patterns in three [dialects](#dialects) and finds the times that
//! they mean. The crate jiff has the time zones. It takes them from the system's database, or from
//! its own with its feature `tzdb-bundle-always`. To set that feature, depend on the version of
//! jiff that this crate uses: `cargo add jiff@1 --features tzdb-bundle-always`.
//!
//! Three things happen to a clock on the wall:
//!
//!  - In spring it leaves an hour out, in autumn it shows an hour twice. [`Gap`] and [`Overlap`]
//!    decide what that means for a run.
//!  - It is set forward, or the machine is suspended. The timer reads the system's clock at least
//!    once a minute, rounded up to a tick, so it notices within that time. [`Missed`] decides what
//!    happens to runs whose time has passed.
//!  - It is set back. If it is set back by at most three hours between two readings, no run comes a
//!    second time. Otherwise the calendar begins anew from the time that the clock then shows.
//!
//! # Dialects
//! A line means different things in a crontab, in Quartz and in Spring. Each dialect has its call:
//!
//! | | [`cron`](Calendar::cron) | [`quartz`](Calendar::quartz) | [`vixie`](Calendar::vixie) |
//! |---|---|---|---|
//! | fields | 5; 6, seconds first; 7, years last | 6, seconds first; 7, years last | 5 |
//! | days of the week | 0 or 7 is Sunday, 1 is Monday | 1 is Sunday, 7 is Saturday | as `cron` |
//! | both fields of days | either fits; both, with `+` | not both: one is `?` | either fits; both, if one begins with `*` |
//! | `L`, `W`, `LW`, `L-3`, `FRI#2` | yes | yes | no |
//! | `L` as day of the week | no | Saturday | no |
//! | `?` | as `*` | in one of the fields of days | no |
//! | `22-2`, `FRI-MON` | no | goes round | no |
//! | `5/20`, `/20` | no: `5-59/20`, `*/20` | from 5, from the first | no |
//! | `@daily` and its kin | yes | no | yes |
//!
//! For Spring's patterns use `cron` with a field for seconds. There are two differences:
//!
//!  - In Spring, if both fields of days are given, both must fit. Its `0 0 9 13 * FRI` is
//!    `0 0 9 13 * +FRI` here.
//!  - In Spring, steps need no range. Its `5/15` is `5-59/15` here.
//!
//! In all dialects letters are small or capital, and white space separates the fields. All dialects
//! refuse:
//!
//!  - empty values (`1,,2`),
//!  - steps of 0 or beyond the field's last value (`*/0`, `*/61`),
//!  - values and names that the field does not have,
//!  - text that is not ASCII,
//!  - patterns of days that never come (`0 0 30 2 *`).
//!
//! The [error](CalendarError) names the field, the value and the values that are allowed.
//!
//! # Text
//! A calendar is [text](Calendar#impl-Display-for-Calendar) too, for a file of settings or a store:
//! `cron 0 9 * * MON; zone=Europe/Berlin`. `parse` reads it.
//!
//! # Example
//! ```
//! use wheelwork::TimerService;
//! use wheelwork::calendar::{Calendar, Weekday};
//!
//! let service = TimerService::builder().start()?;
//! let tuesdays = Calendar::weekly(Weekday::Tuesday, 9, 0)?.zone("Europe/Berlin")?;
//! service.schedule_calendar(tuesdays, || println!("every Tuesday at nine"))?;
//! let monthly = Calendar::monthly(12, 9, 0)?.zone("Europe/Berlin")?;
//! service.schedule_calendar(monthly, || println!("on the 12th at nine"))?;
//! let quarters = Calendar::cron("*/15 8-18 * * MON-FRI")?;
//! let id = service.schedule_calendar(quarters, || println!("office hours"))?;
//! service.cancel(id);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agenda;
mod day;
mod dialect;
mod error;
mod field;
mod missed;
mod occurrences;
mod pattern;
mod policy;
mod search;
mod text;

#[cfg(feature = "async")]
pub(crate) use agenda::Agenda;
pub use error::CalendarError;
pub use pattern::{Calendar, Weekday};
pub use policy::{Gap, Missed, Overlap};
