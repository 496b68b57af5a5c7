//! Nanoseconds: how the service counts time, and where it stops counting.

use std::ops::Add;
use std::time::Duration;
#[cfg(feature = "async")]
use std::time::Instant;

/// A point in time, in nanoseconds since the clock's origin. Times and ticks are plain numbers
/// where there are only times, or only ticks; where they meet, they have types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Nanos(pub(crate) u64);

impl Add<u64> for Nanos {
    type Output = Self;

    /// The time `delay_ns` nanoseconds later.
    #[inline(always)]
    fn add(self, delay_ns: u64) -> Self {
        Self(self.0 + delay_ns)
    }
}

/// The last nanosecond since the clock's origin that the service counts: 292 years. All times are
/// below 2^63 ns.
pub(crate) const NANOS_MAX: u64 = i64::MAX as u64;

const SECOND: u64 = 1_000_000_000;

/// Nanoseconds in a duration, at most `NANOS_MAX`.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    let (seconds, nanos) = (duration.as_secs(), u64::from(duration.subsec_nanos()));
    if seconds < NANOS_MAX / SECOND {
        seconds * SECOND + nanos
    } else {
        last_nanos(seconds, nanos)
    }
}

/// As `nanos`, from the last second on that the service counts. (Apart: one branch in the usual
/// case, in place of three bounds.)
#[cold]
fn last_nanos(seconds: u64, nanos: u64) -> u64 {
    seconds
        .saturating_mul(SECOND)
        .saturating_add(nanos)
        .min(NANOS_MAX)
}

/// Delays that each system adds to an `Instant`.
pub(crate) const YEARS_30: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The `Instant` of a delay after `from`. A delay that the service or the system cannot count is
/// held at the longest one.
#[cfg(feature = "async")]
#[inline]
pub(crate) fn later(from: Instant, delay: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_nanos(NANOS_MAX);
    let longest = || {
        [LONGEST, YEARS_30]
            .into_iter()
            .find_map(|delay| from.checked_add(delay))
    };
    from.checked_add(delay).or_else(longest).unwrap_or(from)
}
