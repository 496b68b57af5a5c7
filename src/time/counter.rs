//! Counter: the processor's counter of cycles, for the time between two readings of `Instant`.
//!
//! It is used on Linux, where it was held against `Instant`. Elsewhere the two may differ by more
//! than the bias makes up for: `quanta` takes the period of the counter of Windows for a whole
//! number of nanoseconds, for example. There each reading of the time is one of `Instant`.

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
use super::nanos::nanos;
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
use std::sync::OnceLock;
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
use std::time::Instant;

/// The bias: the time since an anchor counts for 1/1024 more. Half of that is for the counter's
/// rate (`is_right`), half for the slew of `Instant`.
pub(super) const BIAS_SHIFT: u32 = 10;

/// The counter of a clock.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
#[derive(Clone, Debug)]
pub(crate) struct CycleCounter {
    clock: quanta::Clock,
    is_right: bool,
}

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
impl CycleCounter {
    /// The first one of the process takes some milliseconds.
    pub(super) fn new() -> Self {
        static OF_THE_PROCESS: OnceLock<CycleCounter> = OnceLock::new();
        OF_THE_PROCESS.get_or_init(Self::calibrated).clone()
    }

    /// `quanta` measures the counter's rate, for at most 200 ms. If the process is stopped
    /// meanwhile, the rate may be anything. So it is held against `Instant` before it is used: for
    /// a millisecond, and for longer if that is too short to tell.
    fn calibrated() -> Self {
        const TRIES: u64 = 20;
        let (clock, start) = (quanta::Clock::new(), Instant::now());
        let base = Pair::closest(&clock, start);
        let is_right = (1..=TRIES).any(|tries| {
            let pair = loop {
                let pair = Pair::closest(&clock, start);
                if pair.before_ns >= base.after_ns + tries * 1_000_000 {
                    break pair;
                }
            };
            let counted_ns = clock.delta_as_nanos(base.counter, pair.counter);
            is_right(counted_ns, base, pair)
        });
        Self { clock, is_right }
    }

    /// Whether the counter's rate is known. If not, each reading of the time is one of `Instant`.
    pub(super) const fn is_right(&self) -> bool {
        self.is_right
    }

    /// A counter whose rate is not known.
    #[cfg(all(test, not(loom)))]
    pub(super) fn doubted() -> Self {
        Self {
            is_right: false,
            ..Self::new()
        }
    }

    /// The counter now.
    #[inline]
    pub(super) fn reading(&self) -> u64 {
        self.clock.raw()
    }

    /// Nanoseconds between two readings.
    #[inline]
    pub(super) fn nanos_between(&self, earlier: u64, later: u64) -> u64 {
        self.clock.delta_as_nanos(earlier, later)
    }
}

/// A reading of the counter between two of `Instant`, in nanoseconds since some start.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
#[derive(Clone, Copy, Debug)]
struct Pair {
    before_ns: u64,
    counter: u64,
    after_ns: u64,
}

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
impl Pair {
    /// Of some, the one whose readings of `Instant` are closest: nothing came between.
    fn closest(clock: &quanta::Clock, start: Instant) -> Self {
        let pairs = std::iter::repeat_with(|| {
            let before_ns = nanos(start.elapsed());
            let counter = clock.raw();
            let after_ns = nanos(start.elapsed());
            Self {
                before_ns,
                counter,
                after_ns,
            }
        });
        let closest = pairs
            .take(5)
            .min_by_key(|pair| pair.after_ns - pair.before_ns);
        closest.expect("there are five")
    }
}

/// Whether the counter has counted, between two pairs, as much as has passed, but for half of the
/// bias.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
fn is_right(counted_ns: u64, base: Pair, pair: Pair) -> bool {
    let at_most = |ns: u64| ns.saturating_add(ns >> (BIAS_SHIFT + 1));
    let longest_ns = pair.after_ns - base.before_ns;
    let shortest_ns = pair.before_ns - base.after_ns;
    longest_ns <= at_most(counted_ns) && counted_ns <= at_most(shortest_ns)
}

/// No counter.
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
#[derive(Clone, Debug)]
pub(crate) struct CycleCounter;

#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
impl CycleCounter {
    pub(super) fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "as the other one")]
    pub(super) const fn is_right(&self) -> bool {
        false
    }

    pub(super) fn reading(&self) -> u64 {
        0
    }

    pub(super) fn nanos_between(&self, _: u64, _: u64) -> u64 {
        u64::MAX
    }
}

#[cfg(all(test, not(loom), target_os = "linux", not(wheelwork_no_linux)))]
mod tests {
    use super::*;

    fn pair(before_ns: u64, after_ns: u64) -> Pair {
        Pair {
            before_ns,
            counter: 0,
            after_ns,
        }
    }

    #[test]
    fn a_rate_is_right_if_half_of_the_bias_makes_up_for_it() {
        let base = pair(1_000, 1_100);
        let right = |counted, pair| is_right(counted, base, pair);
        let later = pair(1_001_050, 1_001_150);
        for counted in [999_900, 1_000_000, 1_000_100] {
            assert!(right(counted, later), "{counted}");
        }
        // Too slow, too fast; as in a process that was stopped while the rate was measured.
        for counted in [999_600, 1_000_500, 4_000, 250_000_000, 0, u64::MAX] {
            assert!(!right(counted, later), "{counted}");
        }
        // The process was stopped between two readings of one pair: nobody can tell.
        assert!(!right(1_000_000, pair(1_001_050, 9_001_150)));
        assert!(!right(9_000_000, pair(1_001_050, 9_001_150)));
    }
}
