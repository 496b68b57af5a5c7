//! Origin: the instant from which a clock counts.
//!
//! `Instant` has no numbers to look at. The standard library subtracts two of them in 5.5 ns, by a
//! call. But an `Instant` can be hashed: it gives its seconds and nanoseconds to a hasher, which is
//! inlined, so that a difference takes 2 ns. Nobody promises what a hasher gets. So each origin
//! first tries it with instants whose distances are known. If one is wrong, the standard library
//! subtracts.

use super::nanos::nanos;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

/// From this number of seconds on the standard library subtracts: 272 years, less than `NANOS_MAX`.
const SECONDS_MAX: u64 = 1 << 33;

/// The distances that are tried, in nanoseconds: around the ends of a second, hours, 30 years.
const TRIED_NS: [u64; 8] = [
    0,
    1,
    999_999_998,
    999_999_999,
    1_000_000_000,
    1_000_000_001,
    12_345_678_900_000,
    30 * 365 * 86_400 * 1_000_000_000 + 1,
];

/// What a hasher gets of an `Instant`.
#[derive(Clone, Copy, Debug)]
struct Parts {
    seconds: u64,
    nanos: u32,
}

impl Parts {
    #[inline]
    fn of(instant: Instant) -> Option<Self> {
        let mut heard = Heard::default();
        instant.hash(&mut heard);
        match heard {
            Heard::Both(parts) => Some(parts),
            _ => None,
        }
    }

    /// Nanoseconds from an earlier instant to this one; 0 if it is later, but not by a second.
    #[inline]
    fn nanos_since(self, earlier: Self) -> Option<u64> {
        // As signed numbers, too.
        let seconds = self.seconds.wrapping_sub(earlier.seconds);
        (seconds < SECONDS_MAX).then(|| {
            (seconds * 1_000_000_000 + u64::from(self.nanos))
                .saturating_sub(u64::from(earlier.nanos))
        })
    }
}

/// A hasher that keeps what it gets: seconds, then nanoseconds, and nothing else.
#[derive(Default)]
enum Heard {
    #[default]
    Nothing,
    Seconds(u64),
    Both(Parts),
    Other,
}

impl Hasher for Heard {
    #[inline]
    fn write_u64(&mut self, seconds: u64) {
        *self = match self {
            Self::Nothing => Self::Seconds(seconds),
            _ => Self::Other,
        };
    }

    #[inline]
    fn write_i64(&mut self, seconds: i64) {
        self.write_u64(seconds.cast_unsigned());
    }

    #[inline]
    fn write_u32(&mut self, nanos: u32) {
        *self = match *self {
            Self::Seconds(seconds) => Self::Both(Parts { seconds, nanos }),
            _ => Self::Other,
        };
    }

    #[inline]
    fn write(&mut self, _: &[u8]) {
        *self = Self::Other;
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// The instant from which a clock counts.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    instant: Instant,
    /// `None`: the standard library subtracts.
    parts: Option<Parts>,
}

impl Origin {
    pub(super) fn now() -> Self {
        Self::at(Instant::now())
    }

    fn at(instant: Instant) -> Self {
        Self::with(instant, Parts::of(instant))
    }

    fn with(instant: Instant, parts: Option<Parts>) -> Self {
        let tried = Self { instant, parts };
        let is_right = |ns| {
            let at = instant.checked_add(Duration::from_nanos(ns));
            at.is_none_or(|at| tried.by_parts(at) == Some(tried.by_library(at)))
        };
        let parts = parts.filter(|_| TRIED_NS.into_iter().all(is_right));
        Self { instant, parts }
    }

    pub(super) const fn instant(&self) -> Instant {
        self.instant
    }

    /// Nanoseconds from the origin to an instant, at most `NANOS_MAX`; 0 if that is earlier.
    #[inline]
    pub(super) fn nanos_until(&self, instant: Instant) -> u64 {
        let nanos = self.by_parts(instant);
        debug_assert!(nanos.is_none_or(|nanos| nanos == self.by_library(instant)));
        nanos.unwrap_or_else(|| self.by_library(instant))
    }

    #[inline]
    fn by_parts(&self, instant: Instant) -> Option<u64> {
        Parts::of(instant)?.nanos_since(self.parts?)
    }

    #[cold]
    fn by_library(&self, instant: Instant) -> u64 {
        nanos(instant.saturating_duration_since(self.instant))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Else the way by parts is not tested here.
    #[test]
    #[cfg(target_os = "linux")]
    fn an_instant_shows_its_parts_here() {
        assert!(Origin::now().parts.is_some());
    }

    #[test]
    fn strange_parts_are_not_used() {
        let instant = Instant::now();
        let [mut early, mut late] = [Heard::default(), Heard::default()];
        1_u32.hash(&mut early);
        (1_u64, 2_u32, 3_u32).hash(&mut late);
        assert!(matches!((early, late), (Heard::Other, Heard::Other)));
        let mut bytes = Heard::default();
        [1_u8; 12].hash(&mut bytes);
        assert!(matches!(bytes, Heard::Other));
        // Of another instant.
        let other = Parts::of(instant + Duration::from_nanos(1));
        let origin = Origin::with(instant, other);
        assert!(origin.parts.is_none());
        let later = instant + Duration::from_secs(1);
        assert_eq!(origin.nanos_until(later), 1_000_000_000);
    }

    /// 2^64 ns, and a little more or less.
    #[test]
    fn more_nanoseconds_than_there_are() {
        let origin = Origin::now();
        for nanos in [0, 1, 709_551_615, 709_551_616, 999_999_999] {
            for seconds in [SECONDS_MAX, 18_446_744_072, 18_446_744_073, 18_446_744_074] {
                let at = origin.instant.checked_add(Duration::new(seconds, nanos));
                assert!(at.is_none_or(|at| origin.nanos_until(at) == origin.by_library(at)));
            }
        }
    }

    proptest! {
        #[test]
        fn both_ways_agree(
            from_ns in 0u64..1 << 62,
            bits in 0u32..63,
            seconds in any::<u64>(),
            nanos in 0u32..1_000_000_000,
        ) {
            let distance = Duration::new(seconds & ((1 << bits) - 1), nanos);
            let start = Instant::now();
            let times = start
                .checked_add(Duration::from_nanos(from_ns))
                .and_then(|from| Some((from, from.checked_add(distance)?)));
            let Some((from, to)) = times else { return Ok(()) };
            for (from, to) in [(from, to), (to, from)] {
                let origin = Origin::at(from);
                prop_assert_eq!(origin.nanos_until(to), origin.by_library(to));
            }
        }
    }
}
