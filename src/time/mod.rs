//! Time: ticks, the clock that the service runs on, and the manual clock for tests.
//!
//! All times inside the service are nanoseconds since the clock's origin (`u64`, 292 years of them are used) or ticks.

mod boot;
mod clock;
mod manual;
mod repeat;
mod tick;

pub(crate) use clock::{Anchor, Clock};
pub use manual::ManualClock;
pub(crate) use manual::{Busy, Driven};
pub use repeat::Missed;
pub(crate) use repeat::{Due, Look, Repeat};
pub(crate) use tick::TickLength;

use std::time::Duration;
#[cfg(feature = "async")]
use std::time::Instant;

/// Nanoseconds in a duration, held at the last nanosecond that the service counts (292 years).
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos())).min(tick::NANOS_MAX)
}

/// So long after a point in time; as long as the service counts, or as the system does, should it be longer.
#[cfg(feature = "async")]
pub(crate) fn later(from: Instant, delay: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_nanos(tick::NANOS_MAX);
    const YEARS_30: Duration = Duration::from_secs(30 * 365 * 86_400);
    [delay, LONGEST, YEARS_30].into_iter().find_map(|delay| from.checked_add(delay)).unwrap_or(from)
}
