//! Calendars: timers for times of day in a time zone, by cron patterns or by plain calls.
//!
//! A [`Calendar`] gives points in time.
//! [`ServiceHandle::schedule_calendar`](crate::ServiceHandle::schedule_calendar) arms a timer that
//! follows it. The crate croner reads the patterns. The crate jiff has the time zones: from the
//! system's database, or from its own, with its feature `tzdb-bundle-always`.
//!
//! Three things happen to a clock on the wall:
//!
//!  - Twice a year it leaves an hour out, or shows an hour twice. [`Gap`] and [`Overlap`] decide
//!    what that means for a run.
//!  - It is set forward, or the machine is suspended. The timer looks at the system's clock at
//!    least once a minute, so it notices within a minute. [`MissedRuns`] decides what becomes of
//!    runs whose time has passed.
//!  - It is set back. By up to three hours between two looks, no run comes a second time. By more,
//!    the calendar begins anew from what the clock shows then.
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
mod error;
mod occurrences;
mod pattern;
mod policy;

pub use error::CalendarError;
pub use pattern::{Calendar, Weekday};
pub use policy::{Gap, MissedRuns, Overlap};
