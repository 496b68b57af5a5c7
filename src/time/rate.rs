//! Rate: how long a count of the processor's counter lasts, and whether that is right.
//!
//! A [`Pair`] is a reading of the counter between two of `Instant`. Two pairs tell how many counts
//! have passed, and how much time at least and at most. All of it is arithmetic: no clock is read
//! here but those that the caller gives.

/// The bias: the time since an anchor counts for 1/1024 more. Half of that is for the counter's
/// rate ([`Rate::is_right`]), half for the slew of `Instant`.
const BIAS_SHIFT: u32 = 10;

/// Nanoseconds a count, times 2^32. Times the counts of a millisecond, an anchor's life, it is
/// below 2^53.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate(u64);

impl Rate {
    /// By the nanoseconds of 2^32 counts.
    #[cfg(all(test, not(loom)))]
    pub(super) const fn of_2_32_counts(nanos: u64) -> Self {
        Self(nanos)
    }

    /// As the counter counts for two milliseconds, by pairs that `read` makes. `None` if the
    /// counter has not counted evenly, or if twenty milliseconds are too short to tell.
    ///
    /// It does not matter where the thread is interrupted, or its process stopped: of a few pairs
    /// the closest one counts, and one that is too wide is no proof.
    #[cfg_attr(
        not(all(target_os = "linux", not(wheelwork_no_linux))),
        allow(dead_code, reason = "no other system has a counter; the tests use it")
    )]
    pub(super) fn calibrated(read: impl Fn() -> Pair) -> Option<Self> {
        const TRIES: u64 = 10;
        const MILLISECOND_NS: u64 = 1_000_000;
        let base = closest(&read);
        let after = |ns| loop {
            let pair = closest(&read);
            if pair.before_ns >= base.after_ns.saturating_add(ns) {
                return pair;
            }
        };
        for tries in 1..=TRIES {
            let middle = after(tries * MILLISECOND_NS);
            let end = after(2 * tries * MILLISECOND_NS);
            let rate = Self::measured(base, end)?;
            if rate.is_wrong(base, middle) {
                return None;
            }
            if rate.is_right(base, middle) && rate.is_right(base, end) {
                return Some(rate);
            }
        }
        None
    }

    /// As two pairs measure it, rounded up: so that no time is taken for shorter than it is. `None`
    /// if the counter has not counted on.
    pub(super) fn measured(base: Pair, pair: Pair) -> Option<Self> {
        let counts = pair.counts_since(base)?;
        let rate = (u128::from(pair.longest_ns_since(base)) << 32).checked_div(counts.into())?;
        u64::try_from(rate + 1).ok().map(Self)
    }

    pub(super) const fn with_bias(self) -> Self {
        Self(self.0.saturating_add((self.0 >> BIAS_SHIFT) + 1))
    }

    /// The nanoseconds of any number of counts.
    fn nanos(self, counts: u64) -> u64 {
        let nanos = (u128::from(counts) * u128::from(self.0)) >> 32;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// The nanoseconds of counts that make a millisecond at most, rounded up.
    #[inline]
    pub(super) const fn few_nanos(self, counts: u64) -> u64 {
        ((counts * self.0) >> 32) + 1
    }

    /// The counts in some nanoseconds, rounded down.
    pub(super) const fn counts(self, nanos: u32) -> u64 {
        ((nanos as u64) << 32) / self.0
    }

    /// Whether the counter has counted, between two pairs, as much as has passed, but for half of
    /// the bias. `false` too if the pairs are too close to each other to tell.
    #[cfg_attr(
        not(all(target_os = "linux", not(wheelwork_no_linux))),
        allow(dead_code, reason = "no other system has a counter; the tests use it")
    )]
    pub(super) fn is_right(self, base: Pair, pair: Pair) -> bool {
        let counted_ns = self.nanos(pair.counter.saturating_sub(base.counter));
        pair.longest_ns_since(base) <= and_part(counted_ns, BIAS_SHIFT + 1)
            && counted_ns <= and_part(pair.shortest_ns_since(base), BIAS_SHIFT + 1)
    }

    /// Whether the counter has certainly counted, between two pairs, for less or for more time than
    /// has passed, by more than the bias.
    pub(super) fn is_wrong(self, base: Pair, pair: Pair) -> bool {
        pair.counts_since(base).is_none_or(|counts| {
            // A coarse counter may have shown a count less, or more, than has passed.
            let most_ns = self.nanos(counts.saturating_add(1));
            let least_ns = self.nanos(counts.saturating_sub(1));
            pair.shortest_ns_since(base) > and_part(most_ns, BIAS_SHIFT)
                || least_ns > and_part(pair.longest_ns_since(base), BIAS_SHIFT)
        })
    }
}

/// A time and a part of it: 1 of `2^shift`.
const fn and_part(nanos: u64, shift: u32) -> u64 {
    nanos.saturating_add(nanos >> shift)
}

/// A reading of the counter between two of `Instant`, in nanoseconds since some start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) before_ns: u64,
    pub(super) counter: u64,
    pub(super) after_ns: u64,
}

/// Of some pairs, the one whose readings of `Instant` are closest: nothing came between.
fn closest(read: impl Fn() -> Pair) -> Pair {
    let pairs = std::iter::repeat_with(read).take(5);
    let closest = pairs.min_by_key(|pair| pair.width_ns());
    closest.expect("there are five")
}

impl Pair {
    pub(super) fn read(now_ns: impl Fn() -> u64, counter: impl Fn() -> u64) -> Self {
        let before_ns = now_ns();
        let counter = counter();
        let after_ns = now_ns();
        Self {
            before_ns,
            counter,
            after_ns,
        }
    }

    /// How far its readings of `Instant` are apart. Much if the thread was interrupted in between.
    pub(super) const fn width_ns(self) -> u64 {
        // If `Instant` has stepped back, as much as can be.
        self.after_ns.wrapping_sub(self.before_ns)
    }

    /// `None` if the counter went back.
    fn counts_since(self, base: Self) -> Option<u64> {
        self.counter.checked_sub(base.counter)
    }

    /// The time between the two readings of the counter is this at least.
    const fn shortest_ns_since(self, base: Self) -> u64 {
        self.before_ns.saturating_sub(base.after_ns)
    }

    /// And this at most.
    const fn longest_ns_since(self, base: Self) -> u64 {
        self.after_ns.saturating_sub(base.before_ns)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn pair(before_ns: u64, counter: u64, after_ns: u64) -> Pair {
        Pair {
            before_ns,
            counter,
            after_ns,
        }
    }

    /// A count is a nanosecond.
    const GHZ: Rate = Rate::of_2_32_counts(1 << 32);

    /// A machine whose each reading takes 20 ns, with a counter of 2.4 GHz that is changed by
    /// `counter`, and the number of its readings. Its process is stopped for 260 ms at one of them.
    fn calibrated(counter: impl Fn(u64) -> u64, stopped_at: u64) -> (Option<Rate>, u64) {
        let (now_ns, readings) = (Cell::new(0), Cell::new(0));
        let read_ns = || {
            readings.set(readings.get() + 1);
            let stopped_ns = if readings.get() == stopped_at {
                260_000_000
            } else {
                0
            };
            now_ns.set(now_ns.get() + 20 + stopped_ns);
            now_ns.get()
        };
        let rate = Rate::calibrated(|| Pair::read(read_ns, || counter(read_ns()) * 12 / 5));
        (rate, readings.get())
    }

    /// Of a millisecond of 2.4 GHz.
    fn is_millisecond(rate: Rate) -> bool {
        (1_000_000..=1_000_488).contains(&rate.nanos(2_400_000))
    }

    #[test]
    fn a_rate_gives_the_nanoseconds_of_its_counts() {
        // 4 GHz, 1 GHz, 24 MHz: nanoseconds of 2^40 counts.
        for (ns, counts) in [
            (1 << 38, 4_000_000),
            (1 << 40, 1_000_000),
            (45_812_984_491_000, 24_000),
        ] {
            let rate = Rate::of_2_32_counts((ns >> 8) + 1);
            assert!((999_999..=1_000_001).contains(&rate.nanos(counts)), "{ns}");
            assert!(
                (counts - 1..=counts).contains(&rate.counts(1_000_000)),
                "{ns}"
            );
            let biased_ns = rate.with_bias().few_nanos(counts);
            assert!((1_000_977..=1_000_979).contains(&biased_ns), "{biased_ns}");
            assert_eq!(rate.few_nanos(0), 1, "not before, though rounded down");
        }
        let slowest = Rate(u64::MAX >> 8);
        assert_eq!(slowest.counts(1_000_000), 0, "of no use, and no anchor");
        assert_eq!(slowest.nanos(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_rate_is_right_if_half_of_the_bias_makes_up_for_it() {
        let base = pair(1_000, 0, 1_100);
        let right =
            |counted, before_ns, after_ns| GHZ.is_right(base, pair(before_ns, counted, after_ns));
        for counted in [999_900, 1_000_000, 1_000_100] {
            assert!(right(counted, 1_001_050, 1_001_150), "{counted}");
        }
        // Too slow, too fast; as in a process that was stopped while the rate was measured.
        for counted in [999_600, 1_000_500, 4_000, 250_000_000, 0, u64::MAX] {
            assert!(!right(counted, 1_001_050, 1_001_150), "{counted}");
        }
        // The process was stopped between two readings of one pair: nobody can tell.
        assert!(!right(1_000_000, 1_001_050, 9_001_150));
        assert!(!right(9_000_000, 1_001_050, 9_001_150));
    }

    #[test]
    fn a_rate_is_wrong_if_no_reading_in_the_pairs_explains_it() {
        let base = pair(1_000, 5_000, 1_100);
        let wrong = |counted: u64, before_ns, after_ns| {
            GHZ.is_wrong(base, pair(before_ns, 5_000 + counted, after_ns))
        };
        for counted in [999_000, 1_000_000, 1_001_000] {
            assert!(!wrong(counted, 1_001_050, 1_001_150), "{counted}");
        }
        for counted in [998_900, 1_001_300, 920_000, 1_080_000, 0] {
            assert!(wrong(counted, 1_001_050, 1_001_150), "{counted}");
        }
        // A wide pair, or one that comes too soon, shows nothing.
        assert!(!wrong(9_000_000, 1_001_050, 9_001_150));
        assert!(!wrong(0, 1_101, 1_200));
        // The counter went back; `Instant` did.
        assert!(GHZ.is_wrong(base, pair(1_001_050, 4_999, 1_001_150)));
        assert!(wrong(1_000_000, 500, 600));
    }

    #[test]
    fn an_even_counter_is_calibrated_wherever_the_process_is_stopped() {
        let (rate, readings) = calibrated(|ns| ns, 0);
        assert!(is_millisecond(rate.unwrap()));
        for stopped_at in (1..40)
            .chain(readings / 2 - 40..readings / 2 + 40)
            .chain(readings - 40..=readings)
        {
            let (rate, _) = calibrated(|ns| ns, stopped_at);
            assert!(is_millisecond(rate.unwrap()), "stopped at {stopped_at}");
        }
    }

    #[test]
    fn an_uneven_counter_is_not_calibrated() {
        let stands_still = |_| 7;
        let slows_down = |ns: u64| ns.min(1_500_000) + ns.saturating_sub(1_500_000) / 2;
        let goes_back = |ns: u64| 1_000_000_000 - ns;
        let jumps = |ns: u64| ns + ns / 1_500_000 * 100_000;
        for counter in [stands_still, slows_down, goes_back, jumps] {
            assert!(calibrated(counter, 0).0.is_none());
        }
    }

    #[test]
    fn a_measured_rate_is_never_too_short() {
        let (base, later) = (pair(0, 100, 100), pair(16_000_000, 40_000_100, 16_000_100));
        let rate = Rate::measured(base, later).unwrap();
        let nanos = rate.nanos(40_000_000);
        assert!((16_000_100..=16_000_110).contains(&nanos), "{nanos}");
        assert!(!rate.is_wrong(base, later));
        for counter in [0, 99, 100] {
            assert!(Rate::measured(base, pair(16_000_000, counter, 16_000_100)).is_none());
        }
    }
}
