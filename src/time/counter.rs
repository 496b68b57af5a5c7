//! Counter: the processor's counter of cycles, for the time between two readings of `Instant`.
//!
//! For Linux, where it was compared with `Instant`. Elsewhere (`no_counter.rs`) the two may differ
//! by more than the bias makes up for: `quanta` takes the period of the counter of Windows for a
//! whole number of nanoseconds, for example.

use super::nanos::nanos;
use super::rate::{Pair, Rate};
use std::sync::OnceLock;
use std::time::Instant;

/// The counter of a clock.
#[derive(Clone, Debug)]
pub(crate) struct CycleCounter {
    clock: quanta::Clock,
    /// `None` if it is not known: each reading of the time is one of `Instant` then.
    rate: Option<Rate>,
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
        let rate = Rate::of_2_40_counts(clock.delta_as_nanos(0, 1 << 40));
        let base = closest(&clock, start);
        let is_right = (1..=TRIES).any(|tries| {
            let pair = loop {
                let pair = closest(&clock, start);
                if pair.before_ns >= base.after_ns + tries * 1_000_000 {
                    break pair;
                }
            };
            rate.is_right(base, pair)
        });
        Self {
            clock,
            rate: is_right.then_some(rate),
        }
    }

    /// The counter's rate when the process measured it. `None` if it is not known: each reading of
    /// the time is one of `Instant` then.
    pub(super) const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// A counter whose rate is not known.
    #[cfg(all(test, not(loom)))]
    pub(super) fn doubted() -> Self {
        Self {
            rate: None,
            ..Self::new()
        }
    }

    /// The counter now.
    #[inline]
    pub(super) fn reading(&self) -> u64 {
        self.clock.raw()
    }
}

/// Of some pairs, the one whose readings of `Instant` are closest: nothing came between.
fn closest(clock: &quanta::Clock, start: Instant) -> Pair {
    let pairs = std::iter::repeat_with(|| Pair::read(|| nanos(start.elapsed()), || clock.raw()));
    let closest = pairs.take(5).min_by_key(|pair| pair.width_ns());
    closest.expect("there are five")
}
