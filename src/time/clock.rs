//! Clock: the operating system's monotonic clock, read cheaply; or a manual one.
//!
//! Timers fire by `Instant`. They are armed by the processor's time-stamp counter (through `quanta`), laid on top of an
//! `Instant` reading that the arming thread took at most a millisecond ago: half the cost of a reading, and no drift. A counter
//! that is calibrated once runs away from `Instant` (8 ppm on the reference machine, a third of a millisecond in 41 s; time
//! servers may slew `Instant` by another 500 ppm), so a service that armed and fired by it alone would fire hours-long
//! timers early. Here the error is bounded by what a millisecond can drift, and always on the late side.

use super::ManualClock;
use std::time::{Duration, Instant, SystemTime};

/// How old an anchor may be. 1 ms at 1 in 1,024 keeps the late bias below 1 us.
const ANCHOR_AGE_MAX_NS: u64 = 1_000_000;

/// The bias: a counter reading counts for 1/1024 more than it says, more than calibration and slew can be wrong.
const BIAS_SHIFT: u32 = 10;

/// Where the service takes its time from.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    Monotonic {
        origin: Instant,
        counter: quanta::Clock,
    },
    /// The system's clock that runs on while the machine is suspended.
    Boot {
        origin: Duration,
    },
    Manual(ManualClock),
}

/// A thread's latest pair of readings of counter and `Instant`.
#[derive(Debug)]
pub(crate) struct Anchor {
    counter: u64,
    nanos: u64,
}

impl Default for Anchor {
    /// A pair that is yet to be taken: before every reading.
    fn default() -> Self {
        Self { counter: u64::MAX, nanos: 0 }
    }
}

impl Clock {
    pub(crate) fn monotonic() -> Self {
        Self::Monotonic { origin: Instant::now(), counter: quanta::Clock::new() }
    }

    /// The clock that counts the time for which the machine is suspended. `None` where the system has none.
    pub(crate) fn boot() -> Option<Self> {
        super::boot::now().map(|origin| Self::Boot { origin })
    }

    /// How long a thread may sleep at a time: a sleep is not ended by time that passes while the machine is suspended.
    pub(crate) fn sleep_max(&self) -> Duration {
        match self {
            Self::Boot { .. } => Duration::from_secs(1),
            Self::Monotonic { .. } | Self::Manual(_) => Duration::MAX,
        }
    }

    /// Nanoseconds since the origin, by the clock that decides what is due. Never late: rounds down.
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Self::Monotonic { origin, .. } => super::nanos(origin.elapsed()),
            Self::Boot { origin } => super::nanos(super::boot::now().unwrap_or_default().saturating_sub(*origin)),
            Self::Manual(manual) => manual.now_ns(),
        }
    }

    /// Nanoseconds since the origin, to compute a deadline from: at or up to 1 us after [`now_ns`](Self::now_ns).
    #[inline]
    pub(crate) fn arming_now_ns(&self, anchor: &mut Anchor) -> u64 {
        match self {
            Self::Monotonic { counter, .. } => {
                let reading = counter.raw();
                let since = counter.delta_as_nanos(anchor.counter, reading);
                if since > ANCHOR_AGE_MAX_NS || reading < anchor.counter {
                    return self.take_anchor(anchor);
                }
                anchor.nanos + since + (since >> BIAS_SHIFT) + 1
            }
            // No anchor: a suspended machine's counter may stand still.
            Self::Boot { .. } => self.now_ns() + 1,
            Self::Manual(manual) => manual.now_ns(),
        }
    }

    #[cold]
    fn take_anchor(&self, anchor: &mut Anchor) -> u64 {
        if let Self::Monotonic { counter, .. } = self {
            // The counter first: what passes until `now_ns` makes the sum later, never earlier.
            let reading = counter.raw();
            *anchor = Anchor { counter: reading, nanos: self.now_ns() };
        }
        anchor.nanos
    }

    /// The origin as an `Instant`. One that runs on while the machine is suspended has another one each time.
    fn origin(&self) -> Instant {
        match self {
            Self::Monotonic { origin, .. } => *origin,
            Self::Boot { .. } => {
                // The `Instant` first: what passes until the other reading makes it earlier, and times since then longer, never shorter.
                let now = Instant::now();
                now.checked_sub(Duration::from_nanos(self.now_ns())).unwrap_or(now)
            }
            Self::Manual(manual) => manual.origin(),
        }
    }

    /// The time of day, which may be set.
    pub(crate) fn system_time(&self) -> SystemTime {
        match self {
            Self::Monotonic { .. } | Self::Boot { .. } => SystemTime::now(),
            Self::Manual(manual) => manual.system_time(),
        }
    }

    /// An `Instant` as nanoseconds since the origin; one before the origin is the origin.
    pub(crate) fn instant_ns(&self, instant: Instant) -> u64 {
        super::nanos(instant.saturating_duration_since(self.origin()))
    }

    /// The `Instant` of a time since the origin; the origin, should the system's clock not count so far.
    pub(crate) fn instant(&self, nanos: u64) -> Instant {
        let origin = self.origin();
        origin.checked_add(Duration::from_nanos(nanos)).unwrap_or(origin)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn arming_time_is_never_before_the_firing_clock() {
        for clock in [Some(Clock::monotonic()), Clock::boot()].into_iter().flatten() {
            let mut anchor = Anchor::default();
            for _ in 0..200_000 {
                let before = clock.now_ns();
                let arming = clock.arming_now_ns(&mut anchor);
                assert!(arming >= before, "{arming} < {before}");
            }
        }
    }

    #[test]
    fn an_instant_keeps_its_place_on_every_clock() {
        for clock in [Some(Clock::monotonic()), Clock::boot()].into_iter().flatten() {
            let instant = Instant::now() + Duration::from_secs(5);
            let nanos = clock.instant_ns(instant);
            let left_ns = nanos - clock.now_ns();
            assert!((4_000_000_000..=5_000_000_000).contains(&left_ns), "{left_ns}");
            let back = clock.instant(nanos);
            let off = back.max(instant) - back.min(instant);
            assert!(off < Duration::from_secs(1), "{off:?}");
        }
    }
}
