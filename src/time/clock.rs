//! Clock: the operating system's monotonic clock, its boot clock, or a manual one.
//!
//! Any thread may read it. On the monotonic clock there are two readings:
//!
//!  - *To fire*: `Instant` (`now_ns`).
//!  - *To arm*: on Linux the processor's counter (`counter.rs`) on top of an anchor
//!    (`anchor.rs`, `arming_now_ns`). An anchor is a pair of readings, counter and `Instant`, which
//!    a thread, or a delay queue, took at most a millisecond ago. Half the cost of an `Instant`,
//!    and no drift. Elsewhere an `Instant` too.
//!
//! Why an anchor: a counter that is calibrated once drifts away from `Instant`. It was 8 ppm on the
//! reference machine, a third of a millisecond in 41 s. By the counter alone, timers of hours would
//! fire early. With an anchor the error is at most the drift of a millisecond, and the bias makes
//! it an error to the late side only, up to 1/1024 of drift. Each anchor is held against the one
//! before it: a counter that has drifted further is not used until its rate was measured again.

use super::CycleCounter;
use super::anchor::Anchor;
use super::boot;
use super::manual::ManualClock;
use super::nanos::nanos;
use super::origin::Origin;
use std::time::{Duration, Instant, SystemTime};

/// The clock of a service.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    Monotonic {
        origin: Origin,
        counter: CycleCounter,
    },
    /// The system's clock that counts suspended time.
    Boot {
        origin: Duration,
    },
    Manual(ManualClock),
}

impl Clock {
    /// Whether the system has a monotonic clock. WebAssembly without a system has none (`Instant`
    /// panics), and no threads.
    pub(crate) const IS_THERE: bool = cfg!(not(all(target_family = "wasm", target_os = "unknown")));

    pub(crate) fn monotonic() -> Self {
        Self::Monotonic {
            origin: Origin::now(),
            counter: CycleCounter::new(),
        }
    }

    /// The clock that counts suspended time. `None` if the system has none.
    pub(crate) fn boot() -> Option<Self> {
        boot::now().map(|origin| Self::Boot { origin })
    }

    /// How long a thread may sleep at a time. On the boot clock it is limited: time that passes
    /// while the machine is suspended does not end a sleep.
    pub(crate) fn sleep_max(&self) -> Duration {
        match self {
            Self::Boot { .. } => Duration::from_secs(1),
            Self::Monotonic { .. } | Self::Manual(_) => Duration::MAX,
        }
    }

    /// Nanoseconds since the origin, to decide what is due. Rounds down.
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Self::Monotonic { origin, .. } => origin.nanos_until(Instant::now()),
            Self::Boot { origin } => nanos(boot::now().unwrap_or_default().saturating_sub(*origin)),
            Self::Manual(manual) => manual.now_ns(),
        }
    }

    /// Nanoseconds since the origin, to compute a deadline. At most 2 us after
    /// [`now_ns`](Self::now_ns), and never before it, while both clocks go as they did at the last
    /// anchor.
    #[inline]
    pub(crate) fn arming_now_ns(&self, anchor: &mut Anchor) -> u64 {
        match self {
            Self::Monotonic { counter, .. } => match anchor.time_ns(counter.reading()) {
                Some(time_ns) => time_ns,
                None => self.take_anchor(anchor),
            },
            // No anchor: the counter of a suspended machine may stand still.
            Self::Boot { .. } => self.now_ns() + 1,
            Self::Manual(manual) => manual.now_ns(),
        }
    }

    /// Reads the time, and takes an anchor if it can.
    #[cold]
    fn take_anchor(&self, anchor: &mut Anchor) -> u64 {
        if let Self::Monotonic { origin, counter } = self
            && let Some(rate) = counter.rate()
        {
            let now_ns = || origin.nanos_until(Instant::now());
            return anchor.renew(rate, now_ns, || counter.reading());
        }
        self.now_ns()
    }

    /// The origin as an `Instant`. The boot clock's origin changes with each suspend.
    fn origin(&self) -> Instant {
        match self {
            Self::Monotonic { origin, .. } => origin.instant(),
            Self::Boot { .. } => {
                // The `Instant` is read first: the time until the other reading makes the origin
                // earlier, and the times since the origin longer, not shorter.
                let now = Instant::now();
                now.checked_sub(Duration::from_nanos(self.now_ns()))
                    .unwrap_or(now)
            }
            Self::Manual(manual) => manual.origin().instant(),
        }
    }

    /// Whether a time has the same `Instant` whenever it is computed.
    #[cfg(feature = "async")]
    pub(crate) fn has_instants(&self) -> bool {
        !matches!(self, Self::Boot { .. })
    }

    /// The `Instant` of a reading that was just taken. Not before that, on the boot clock either.
    #[cfg(feature = "async")]
    #[inline]
    pub(crate) fn instant_of_now(&self, now_ns: u64) -> Instant {
        match self {
            Self::Boot { .. } => Instant::now(),
            Self::Monotonic { .. } | Self::Manual(_) => self.instant(now_ns),
        }
    }

    /// The time of day. Somebody may set it.
    pub(crate) fn system_time(&self) -> SystemTime {
        match self {
            Self::Monotonic { .. } | Self::Boot { .. } => SystemTime::now(),
            Self::Manual(manual) => manual.system_time(),
        }
    }

    /// How often the time of day of a manual clock was set. Of the system's clock nobody knows: 0.
    pub(crate) fn wall_sets(&self) -> u64 {
        match self {
            Self::Monotonic { .. } | Self::Boot { .. } => 0,
            Self::Manual(manual) => manual.wall_sets(),
        }
    }

    /// An `Instant` as nanoseconds since the origin; 0 if it is before the origin.
    #[inline]
    pub(crate) fn instant_ns(&self, instant: Instant) -> u64 {
        match self {
            Self::Monotonic { origin, .. } => origin.nanos_until(instant),
            Self::Boot { .. } => nanos(instant.saturating_duration_since(self.origin())),
            Self::Manual(manual) => manual.origin().nanos_until(instant),
        }
    }

    /// The `Instant` of a time since the origin. The origin itself if the system cannot count so
    /// far.
    #[inline]
    pub(crate) fn instant(&self, time_ns: u64) -> Instant {
        let origin = self.origin();
        origin
            .checked_add(Duration::from_nanos(time_ns))
            .unwrap_or(origin)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn arming_time_is_never_before_the_firing_clock() {
        for clock in [Some(Clock::monotonic()), Clock::boot()]
            .into_iter()
            .flatten()
        {
            let mut anchor = Anchor::default();
            for _ in 0..200_000 {
                let before = clock.now_ns();
                let arming = clock.arming_now_ns(&mut anchor);
                assert!(arming >= before, "{arming} < {before}");
            }
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
    fn a_counter_whose_rate_is_not_known_is_not_used() {
        let clock = Clock::Monotonic {
            origin: Origin::now(),
            counter: CycleCounter::doubted(),
        };
        let mut anchor = Anchor::default();
        for _ in 0..100 {
            let before = clock.now_ns();
            assert!(clock.arming_now_ns(&mut anchor) >= before);
            assert_eq!(anchor.time_ns(0), None, "no anchor");
        }
    }

    #[test]
    fn an_instant_keeps_its_place_on_every_clock() {
        for clock in [Some(Clock::monotonic()), Clock::boot()]
            .into_iter()
            .flatten()
        {
            let instant = Instant::now() + Duration::from_secs(5);
            let time_ns = clock.instant_ns(instant);
            let left_ns = time_ns - clock.now_ns();
            assert!(
                (4_000_000_000..=5_000_000_000).contains(&left_ns),
                "{left_ns}"
            );
            let back = clock.instant(time_ns);
            let off = back.max(instant) - back.min(instant);
            assert!(off < Duration::from_secs(1), "{off:?}");
        }
    }
}
