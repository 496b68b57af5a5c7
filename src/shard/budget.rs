//! Budget: how often a shard may wake up at single ticks. Beyond the budget, wake-ups are put
//! together.
//!
//! A token bucket. A shard saves the wake-ups that it does not use, for a burst.

use crate::time::TickLength;

/// Over budget, a shard wakes up at multiples of this time.
const COARSE_NS: u64 = 1_000_000;

/// At most this number of wake-ups is saved.
const SAVED_MAX: i64 = 64;

/// The ticks at which a shard may wake up: the multiples of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid(u64);

impl Grid {
    /// The tick at which a shard wakes up for entries that are due at `tick`.
    pub(super) fn wake_at(self, tick: u64) -> u64 {
        tick.checked_next_multiple_of(self.0).unwrap_or(tick)
    }

    /// Whether it leaves some ticks out.
    pub(super) fn is_coarse(self) -> bool {
        self.0 > 1
    }
}

/// A token bucket. Its tokens are nanoseconds.
pub(super) struct Budget {
    /// The cost of a wake-up. 0: no limit.
    cost_ns: i64,
    /// Time that was saved. Below zero: a debt.
    saved_ns: i64,
    /// When the last wake-up was counted.
    last_ns: u64,
    /// The grid for wake-ups over budget.
    coarse: Grid,
}

impl Budget {
    /// A budget of one wake-up in `cost_ns`, on average. 0: no limit.
    pub(super) fn new(cost_ns: u64, tick: TickLength, now_ns: u64) -> Self {
        let coarse = Grid((COARSE_NS / tick.nanos()).max(1));
        // `cost_ns` is at most a second.
        let cost_ns = if coarse.0 > 1 { cost_ns as i64 } else { 0 };
        Self {
            cost_ns,
            saved_ns: cost_ns,
            last_ns: now_ns,
            coarse,
        }
    }

    /// Counts a wake-up. Only a nap that has come to its end, with nothing due, is not to be
    /// charged: naps last a millisecond at least. Returns the grid for the next wake-up. A busy
    /// shard is over budget: each of its wake-ups takes in many messages.
    pub(super) fn spend(&mut self, now_ns: u64, is_charged: bool, is_busy: bool) -> Grid {
        if self.cost_ns == 0 {
            return Grid(1);
        }
        let earned_ns = i64::try_from(now_ns.saturating_sub(self.last_ns)).unwrap_or(i64::MAX);
        self.last_ns = now_ns;
        self.saved_ns = self
            .saved_ns
            .saturating_add(earned_ns)
            .min(self.cost_ns * SAVED_MAX);
        let is_over = self.saved_ns < self.cost_ns;
        // The debt is at most one wake-up. With a greater debt a shard would be coarse for long
        // after it was busy.
        if is_charged {
            self.saved_ns = (self.saved_ns - self.cost_ns).max(-self.cost_ns);
        }
        if is_over || is_busy {
            self.coarse
        } else {
            Grid(1)
        }
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
    fn within_the_budget_each_tick_is_allowed() {
        let mut budget = budget();
        assert!((1..10_000).all(|ms| budget.spend(ms * MS, true, false) == Grid(1)));
    }

    #[test]
    fn savings_are_for_a_burst() {
        let mut budget = budget();
        budget.spend(3_600_000 * MS, true, false);
        let allowed = (0..1_000)
            .take_while(|_| budget.spend(3_600_000 * MS, true, false) == Grid(1))
            .count();
        assert_eq!(allowed as i64, SAVED_MAX - 1);
        assert_eq!(budget.spend(3_600_000 * MS, true, false), Grid(10));
    }

    #[test]
    fn a_wakeup_each_millisecond_stays_over_budget() {
        let mut budget = budget();
        // At twice the rate, until the savings are used up.
        let mut now_ns = 0;
        while budget.spend(now_ns, true, false) == Grid(1) {
            now_ns += MS / 2;
        }
        assert!((1..1_000).all(|ms| budget.spend(now_ns + ms * MS, true, false) == Grid(10)));
        // Soon after, each tick is allowed again.
        assert_eq!(budget.spend(now_ns + 1_002 * MS, true, false), Grid(1));
    }

    /// Its wake-ups are counted all the same.
    #[test]
    fn a_busy_shard_is_over_budget() {
        let mut budget = budget();
        assert!((1..10).all(|ms| budget.spend(ms * MS, true, true) == Grid(10)));
        assert_eq!(budget.spend(10 * MS, true, false), Grid(1));
        // Twice as often as its budget allows, until the savings are used up.
        (20..300).for_each(|half| _ = budget.spend(half * MS / 2, true, true));
        assert_eq!(budget.spend(150 * MS, true, false), Grid(10));
        let mut no_budget = Budget::new(0, TickLength::new(MS / 10), 0);
        assert_eq!(no_budget.spend(MS, true, true), Grid(1));
    }

    #[test]
    fn naps_cost_nothing() {
        let mut budget = budget();
        assert!((1..10_000).all(|ms| budget.spend(ms * MS / 10, false, false) == Grid(1)));
        let fired = (0..100).take_while(|_| budget.spend(1_000 * MS, true, false) == Grid(1));
        assert_eq!(fired.count() as i64, SAVED_MAX);
    }

    #[test]
    fn a_coarse_tick_or_no_budget_has_no_limit() {
        for (cost_ns, tick_ns) in [(0, MS / 10), (MS, MS), (MS, 7 * MS)] {
            let mut budget = Budget::new(cost_ns, TickLength::new(tick_ns), 0);
            assert!((0..1_000).all(|_| budget.spend(0, true, false) == Grid(1)));
        }
    }

    #[test]
    fn a_grid_rounds_up() {
        let ticks = [0, 1, 9, 10, 11];
        assert_eq!(
            ticks.map(|tick| Grid(10).wake_at(tick)),
            [0, 10, 10, 10, 20]
        );
        assert_eq!(
            (Grid(1).wake_at(7), Grid(10).wake_at(u64::MAX)),
            (7, u64::MAX)
        );
    }
}
