//! Counter: the processor's counter of cycles, for the time between two readings of `Instant`.
//!
//! For Linux, where it was compared with `Instant`. Elsewhere (`no_counter.rs`) the two may differ
//! by more than the bias makes up for: `quanta` takes the period of the counter of Windows for a
//! whole number of nanoseconds, for example.

use super::nanos::nanos;
use std::sync::OnceLock;
use std::time::Instant;

/// The bias: the time since an anchor counts for 1/1024 more. Half of that is for the counter's
/// rate (`is_right`), half for the slew of `Instant`.
const BIAS_SHIFT: u32 = 10;

/// The greatest age of an anchor. The bias is 1/1024 of that: below 1 us.
const ANCHOR_AGE_MAX_NS: u32 = 1_000_000;

/// The counter of a clock.
#[derive(Clone, Debug)]
pub(crate) struct CycleCounter {
    clock: quanta::Clock,
    /// With the bias: what deadlines are computed by.
    biased: Rate,
    /// An anchor is valid for fewer counts than this: for none if the counter's rate is not known.
    valid_counts: u64,
}

/// Nanoseconds a count, times 2^32. Times the counts of a millisecond, an anchor's life, it is
/// below 2^53.
#[derive(Clone, Copy, Debug)]
struct Rate(u64);

impl Rate {
    /// As `quanta` knows it, rounded up. Of 2^40 counts, so that it is exact to 1 in 10^9.
    fn of(clock: &quanta::Clock) -> Self {
        Self((clock.delta_as_nanos(0, 1 << 40) >> 8) + 1)
    }

    const fn with_bias(self) -> Self {
        Self(self.0 + (self.0 >> BIAS_SHIFT) + 1)
    }

    /// The nanoseconds of any number of counts.
    fn nanos(self, counts: u64) -> u64 {
        let nanos = (u128::from(counts) * u128::from(self.0)) >> 32;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// The counts in some nanoseconds, rounded down.
    const fn counts(self, nanos: u32) -> u64 {
        ((nanos as u64) << 32) / self.0
    }
}

impl CycleCounter {
    /// The first one of the process takes some milliseconds.
    pub(super) fn new() -> Self {
        static OF_THE_PROCESS: OnceLock<CycleCounter> = OnceLock::new();
        OF_THE_PROCESS.get_or_init(Self::calibrated).clone()
    }

    /// `quanta` measures the counter's rate, for at most 200 ms. If the process is stopped
    /// meanwhile, the rate may be anything. So it is compared with `Instant` before it is used: for
    /// a millisecond, and for longer if that is too short to tell.
    fn calibrated() -> Self {
        const TRIES: u64 = 20;
        let (clock, start) = (quanta::Clock::new(), Instant::now());
        let rate = Rate::of(&clock);
        let base = Pair::closest(&clock, start);
        let is_right = (1..=TRIES).any(|tries| {
            let pair = loop {
                let pair = Pair::closest(&clock, start);
                if pair.before_ns >= base.after_ns + tries * 1_000_000 {
                    break pair;
                }
            };
            let counts = pair.counter.saturating_sub(base.counter);
            is_right(rate.nanos(counts), base, pair)
        });
        Self {
            clock,
            biased: rate.with_bias(),
            valid_counts: if is_right {
                rate.counts(ANCHOR_AGE_MAX_NS)
            } else {
                0
            },
        }
    }

    /// An anchor is valid for fewer counts than this. 0 if the counter's rate is not known: each
    /// reading of the time is one of `Instant` then.
    pub(super) const fn valid_counts(&self) -> u64 {
        self.valid_counts
    }

    /// A counter whose rate is not known.
    #[cfg(all(test, not(loom)))]
    pub(super) fn doubted() -> Self {
        Self {
            valid_counts: 0,
            ..Self::new()
        }
    }

    /// The counter now.
    #[inline]
    pub(super) fn reading(&self) -> u64 {
        self.clock.raw()
    }

    /// The nanoseconds of some counts, fewer than `valid_counts`: with the bias, and at least 1.
    #[inline]
    pub(super) const fn biased_ns(&self, counts: u64) -> u64 {
        ((counts * self.biased.0) >> 32) + 1
    }
}

/// A reading of the counter between two of `Instant`, in nanoseconds since some start.
#[derive(Clone, Copy, Debug)]
struct Pair {
    before_ns: u64,
    counter: u64,
    after_ns: u64,
}

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
fn is_right(counted_ns: u64, base: Pair, pair: Pair) -> bool {
    let at_most = |ns: u64| ns.saturating_add(ns >> (BIAS_SHIFT + 1));
    let longest_ns = pair.after_ns - base.before_ns;
    let shortest_ns = pair.before_ns - base.after_ns;
    longest_ns <= at_most(counted_ns) && counted_ns <= at_most(shortest_ns)
}

#[cfg(all(test, not(loom)))]
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
    fn a_rate_gives_the_nanoseconds_of_its_counts() {
        // 4 GHz, 1 GHz, 24 MHz: nanoseconds of 2^40 counts.
        for (ns, counts) in [
            (1 << 38, 4_000_000),
            (1 << 40, 1_000_000),
            (45_812_984_491_000, 24_000),
        ] {
            let rate = Rate((ns >> 8) + 1);
            assert!((999_999..=1_000_001).contains(&rate.nanos(counts)), "{ns}");
            assert!(
                (counts - 1..=counts).contains(&rate.counts(1_000_000)),
                "{ns}"
            );
            let counter = CycleCounter {
                biased: rate.with_bias(),
                ..CycleCounter::doubted()
            };
            let biased_ns = counter.biased_ns(counts);
            assert!((1_000_977..=1_000_979).contains(&biased_ns), "{biased_ns}");
            assert_eq!(counter.biased_ns(0), 1, "not before, though rounded down");
        }
        assert_eq!(
            Rate(u64::MAX >> 8).counts(1_000_000),
            0,
            "of no use, and no anchor"
        );
        assert_eq!(Rate(u64::MAX >> 8).nanos(u64::MAX), u64::MAX);
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
