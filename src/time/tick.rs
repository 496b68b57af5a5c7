//! Tick length: nanoseconds to ticks without a division.

use super::nanos::{NANOS_MAX, Nanos};
use crate::entry::DEADLINE_MAX;

/// A point in time, in ticks since the clock's origin. [`TickLength`] is where ticks and
/// nanoseconds meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Tick(pub(crate) u64);

/// The length of a tick. A deadline rounds up to a tick, the clock rounds down. So no timer fires
/// early: but for deadlines in the last tick of the 292 years, which round down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickLength {
    nanos: u64,
    /// `floor(2^(63 + l) / nanos) + 1` with `l = ceil(log2(nanos))`. A multiplication by it and a
    /// shift are an exact division, for every dividend below 2^63 (Granlund and Montgomery 1994).
    /// They take 1 ns, a division 14 ns.
    magic: u64,
    /// `l`. The shift is by `63 + l` bits: the upper half of the product takes 64 of them, and the
    /// dividend is doubled to make up for one bit.
    log2: u32,
    /// Times up to this one round up to a tick that the service counts.
    counted_max_ns: u64,
}

impl TickLength {
    /// `nanos` is at least 1.
    pub(crate) fn new(nanos: u64) -> Self {
        assert!(
            (1..=NANOS_MAX).contains(&nanos),
            "the builder checks the tick"
        );
        let log2 = u64::BITS - (nanos - 1).leading_zeros();
        let magic = ((1u128 << (63 + log2)) / u128::from(nanos)) as u64 + 1;
        let end_ns = DEADLINE_MAX.saturating_mul(nanos);
        Self {
            nanos,
            magic,
            log2,
            counted_max_ns: end_ns.min(NANOS_MAX - (nanos - 1)),
        }
    }

    pub(crate) fn nanos(self) -> u64 {
        self.nanos
    }

    /// The tick that contains the time: rounds down.
    #[inline]
    pub(crate) fn floor(self, at: Nanos) -> Tick {
        debug_assert!(at.0 <= NANOS_MAX);
        Tick(Self::quotient(at.0, self.magic, self.log2))
    }

    #[inline]
    fn quotient(nanos: u64, magic: u64, log2: u32) -> u64 {
        ((u128::from(2 * nanos) * u128::from(magic)) >> 64) as u64 >> log2
    }

    /// `floor` for any time: a time that the service does not count is held at the last one.
    #[inline]
    pub(crate) fn whole(self, at: Nanos) -> Tick {
        self.floor(Nanos(at.0.min(NANOS_MAX)))
            .min(Tick(DEADLINE_MAX))
    }

    /// The first tick at or after the time, at most `DEADLINE_MAX`: rounds up.
    #[inline]
    pub(crate) fn deadline(self, at: Nanos) -> Tick {
        if at.0 <= self.counted_max_ns {
            self.floor(at + (self.nanos - 1))
        } else {
            Tick(Self::last(self.magic, self.log2))
        }
    }

    /// The last tick that the service counts. (Apart: a branch that is easy to predict costs an arm
    /// less than two comparisons for which it has to wait.)
    #[cold]
    fn last(magic: u64, log2: u32) -> u64 {
        Self::quotient(NANOS_MAX, magic, log2).min(DEADLINE_MAX)
    }

    /// The coarsest tick from `from` to `to`, both included: the tick with the most zero bits at
    /// its end. So timers with slack share few ticks, and lie in slots that begin when they are
    /// due. `from` if `to` is not after it.
    pub(crate) fn coarsest(Tick(from): Tick, Tick(to): Tick) -> Tick {
        if from == 0 || from >= to {
            return Tick(from);
        }
        // All ticks of the range agree in the bits above the highest bit in which `from - 1` and
        // `to` differ.
        let zeros = 63 - ((from - 1) ^ to).leading_zeros();
        Tick(to >> zeros << zeros)
    }

    /// The time at which the tick begins, at most `NANOS_MAX`.
    #[inline]
    pub(crate) fn start(self, tick: Tick) -> Nanos {
        Nanos(tick.0.saturating_mul(self.nanos).min(NANOS_MAX))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 20_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn floor_is_the_exact_quotient(
            bits in 0u32..42,
            low in any::<u64>(),
            time_bits in 0u32..63,
            time in any::<u64>(),
            off in 0u64..3,
        ) {
            let nanos = (1u64 << bits) | (low & ((1 << bits) - 1));
            let time = time & ((1 << time_bits) - 1);
            let tick = TickLength::new(nanos);
            prop_assert_eq!(tick.floor(Nanos(time)), Tick(time / nanos));
            // Near a multiple, where an inexact reciprocal is wrong.
            let near = (time / nanos * nanos + 1).saturating_sub(off);
            prop_assert_eq!(tick.floor(Nanos(near)), Tick(near / nanos));
            let deadline = Tick(near.div_ceil(nanos).min(DEADLINE_MAX));
            prop_assert_eq!(tick.deadline(Nanos(near)), deadline);
        }
    }

    #[test]
    fn the_coarsest_tick_between_two() {
        for from in 0..200u64 {
            for to in from..200 {
                let best = (from..=to)
                    .max_by_key(|tick| {
                        if *tick == 0 {
                            64
                        } else {
                            tick.trailing_zeros()
                        }
                    })
                    .unwrap();
                let Tick(chosen) = TickLength::coarsest(Tick(from), Tick(to));
                assert!((from..=to).contains(&chosen));
                assert!(
                    chosen == best
                        || chosen == 0
                        || chosen.trailing_zeros() == best.trailing_zeros(),
                    "{from} {to}: {chosen}"
                );
            }
        }
        assert_eq!(TickLength::coarsest(Tick(9), Tick(3)), Tick(9));
    }

    #[test]
    fn the_ends_of_time() {
        for nanos in [1, 2, 3, 1_000, 1_000_000, 3_600_000_000_000] {
            let tick = TickLength::new(nanos);
            assert_eq!(tick.floor(Nanos(NANOS_MAX)), Tick(NANOS_MAX / nanos));
            assert_eq!(tick.deadline(Nanos(0)), Tick(0));
            assert_eq!(tick.deadline(Nanos(1)), Tick(1));
            for ends in [
                0,
                NANOS_MAX,
                u64::MAX,
                tick.counted_max_ns,
                tick.start(Tick(DEADLINE_MAX)).0,
            ] {
                for time in [ends.saturating_sub(1), ends, ends.saturating_add(1)] {
                    let end = (u128::from(time) + u128::from(nanos) - 1).min(NANOS_MAX.into());
                    let held = (end as u64 / nanos).min(DEADLINE_MAX);
                    assert_eq!(tick.deadline(Nanos(time)), Tick(held), "{time} of {nanos}");
                }
            }
            assert!(tick.start(Tick(DEADLINE_MAX)) <= Nanos(NANOS_MAX));
        }
    }
}
