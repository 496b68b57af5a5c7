//! Pace: how much a turn does at once in a store that nodes share, so that no turn lasts long.
//!
//! A watermark is stored some time ahead of the deadlines. What a turn does meanwhile makes no
//! timer late if it takes no longer than that. How long a row takes depends on the database, its
//! disks, and what else it does. So the pace follows the time that the last slices have taken.
//!
//! A database may be so far away that even a few rows take longer. Then fewer rows help nobody, and
//! a slice may take twice as long as a few rows do.

use crate::store::fault::{DurableFault, is_broken};
use crate::store::write::SliceLimit;
use std::time::Duration;

/// The first slices: nobody knows yet how fast the database is.
const FIRST: SliceLimit = SliceLimit {
    rows: 256,
    bytes: 512 << 10,
};

/// The smallest slice, however slow the database is: each costs a turn.
const LEAST: SliceLimit = SliceLimit {
    rows: 32,
    bytes: 64 << 10,
};

/// How much may be done at once.
pub(super) struct Pace {
    /// At most this, however fast the store is.
    most: SliceLimit,
    limit: SliceLimit,
    /// How long it may take. `None`: the pace is `most`.
    goal: Option<Duration>,
    /// How long a few rows take, as the last ones have taken it.
    few: Option<Duration>,
}

impl Pace {
    pub(super) fn new(most: SliceLimit, goal: Option<Duration>) -> Self {
        let limit = match goal {
            Some(_) => lesser(FIRST, most),
            None => most,
        };
        Self {
            most,
            limit,
            goal,
            few: None,
        }
    }

    /// How much may be done next.
    pub(super) fn limit(&self) -> SliceLimit {
        if is_broken(DurableFault::PaceIgnored) {
            return self.most;
        }
        self.limit
    }

    /// These rows and bytes were stored, or read, in this time.
    pub(super) fn note(&mut self, rows: usize, bytes: usize, took: Duration) {
        let Some(goal) = self.goal else {
            return;
        };
        let mut few = self.few.unwrap_or(took);
        if rows <= LEAST.rows && bytes <= LEAST.bytes {
            few = (few * 3 + took) / 4;
        }
        // (Many rows take no less than a few.)
        self.few = Some(few.min(took));
        let goal = goal.max(few.min(took) * 2);
        let limit = self.limit;
        if took > goal {
            let share = goal.as_secs_f64() / took.as_secs_f64();
            let of = |done: usize, limit: usize| (done.min(limit) as f64 * share) as usize;
            self.limit = SliceLimit {
                rows: of(rows, limit.rows).max(LEAST.rows),
                bytes: of(bytes.max(LEAST.bytes), limit.bytes).max(LEAST.bytes),
            };
        } else if took < goal / 4 * 3 && limit.is_reached(rows * 2, bytes * 2) {
            self.limit = SliceLimit {
                rows: limit.rows.saturating_mul(2),
                bytes: limit.bytes.saturating_mul(2),
            };
        }
        self.limit = lesser(self.limit, self.most);
    }
}

fn lesser(one: SliceLimit, other: SliceLimit) -> SliceLimit {
    SliceLimit {
        rows: one.rows.min(other.rows),
        bytes: one.bytes.min(other.bytes),
    }
}
