//! Budget: how often a shard may wake up at a tick of its own, before wake-ups are put together.
//!
//! A token bucket. What a shard does not use it saves, for a burst.

use crate::time::TickLength;

/// Wake-ups are put together up to this.
const COARSE_NS: u64 = 1_000_000;

/// Wake-ups that may be saved.
const SAVED_MAX: i64 = 64;

/// Over budget a shard wakes up at every so many ticks only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid(u64);

impl Grid {
    /// The tick at which to wake up for what is due at this one.
    pub(super) fn wake_at(self, tick: u64) -> u64 {
        tick.checked_next_multiple_of(self.0).unwrap_or(tick)
    }
}

pub(super) struct Budget {
    /// What a wake-up costs, of the time that passes. Zero: nothing.
    cost_ns: i64,
    /// Below zero: what was spent beyond the budget.
    saved_ns: i64,
    last_ns: u64,
    coarse: Grid,
}

impl Budget {
    /// One wake-up in this time.
    pub(super) fn new(cost_ns: u64, tick: TickLength, now_ns: u64) -> Self {
        let coarse = Grid((COARSE_NS / tick.nanos()).max(1));
        // A second is the longest time.
        let cost_ns = if coarse.0 > 1 { cost_ns as i64 } else { 0 };
        Self { cost_ns, saved_ns: cost_ns, last_ns: now_ns, coarse }
    }

    /// Counts a wake-up. Returns where the next one may be.
    pub(super) fn spend(&mut self, now_ns: u64) -> Grid {
        if self.cost_ns == 0 {
            return Grid(1);
        }
        let earned_ns = i64::try_from(now_ns.saturating_sub(self.last_ns)).unwrap_or(i64::MAX);
        self.last_ns = now_ns;
        self.saved_ns = self.saved_ns.saturating_add(earned_ns).min(self.cost_ns * SAVED_MAX);
        let is_over = self.saved_ns < self.cost_ns;
        // A debt of one: with more a shard would be coarse long after it was busy.
        self.saved_ns = (self.saved_ns - self.cost_ns).max(-self.cost_ns);
        if is_over { self.coarse } else { Grid(1) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn budget() -> Budget {
        Budget::new(MS, TickLength::new(MS / 10), 0)
    }

    #[test]
    fn what_is_within_it_is_sharp() {
        let mut budget = budget();
        assert!((1..10_000).all(|ms| budget.spend(ms * MS) == Grid(1)));
    }

    #[test]
    fn what_is_saved_is_for_a_burst() {
        let mut budget = budget();
        budget.spend(3_600_000 * MS);
        let sharp = (0..1_000).take_while(|_| budget.spend(3_600_000 * MS) == Grid(1)).count();
        assert_eq!(sharp as i64, SAVED_MAX - 1);
        assert_eq!(budget.spend(3_600_000 * MS), Grid(10));
    }

    #[test]
    fn a_shard_that_wakes_up_each_millisecond_stays_over_it() {
        let mut budget = budget();
        // At twice the rate, until nothing is saved.
        let mut now_ns = 0;
        while budget.spend(now_ns) == Grid(1) {
            now_ns += MS / 2;
        }
        assert!((1..1_000).all(|ms| budget.spend(now_ns + ms * MS) == Grid(10)));
        // And is sharp again soon after.
        assert_eq!(budget.spend(now_ns + 1_002 * MS), Grid(1));
    }

    #[test]
    fn one_that_has_a_coarse_tick_or_no_budget_spends_nothing() {
        for (cost_ns, tick_ns) in [(0, MS / 10), (MS, MS), (MS, 7 * MS)] {
            let mut budget = Budget::new(cost_ns, TickLength::new(tick_ns), 0);
            assert!((0..1_000).all(|_| budget.spend(0) == Grid(1)));
        }
    }

    #[test]
    fn a_grid_rounds_up() {
        assert_eq!([0, 1, 9, 10, 11].map(|tick| Grid(10).wake_at(tick)), [0, 10, 10, 10, 20]);
        assert_eq!((Grid(1).wake_at(7), Grid(10).wake_at(u64::MAX)), (7, u64::MAX));
    }
}
