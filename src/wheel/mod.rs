#![doc = include_str!("README.md")]

mod chunk;
mod compaction;
mod graves;
mod keyed;
mod rows;
mod slot;
mod stock;

use crate::entry::Entry;
use rows::{Place, Rows};
use slot::{LARGE_SLOT, Pile, Work};
use stock::Stock;

pub use keyed::{Handle, Wheel};

/// Records that one call of `advance` or `settle` moves before it says that there is more: as many as the pace, between these. A call may go over it
/// by a small slot, or a part of a large one.
const BUDGET: std::ops::RangeInclusive<u64> = 1024..=16_384;

/// A cascade begins as much earlier as it takes to move so many records more: the shard's thread may be late.
const SLACK: u64 = 32_768;

/// A hierarchical timing wheel of entries.
pub(crate) struct EntryWheel {
    rows: Rows,
    /// Entries at or before now, oldest first, and tombstones that do not matter any more.
    due: Pile,
    stock: Stock,
    pace: u64,
    budget: u64,
    /// No tombstone has come since `tidy` looked at the slots.
    is_tidy: bool,
}

impl EntryWheel {
    /// An empty wheel at tick `now`. Large slots are cascaded ahead of time at a pace of so many records a tick, at least 1; at `u64::MAX`
    /// in one go.
    pub(crate) fn new(now: u64, pace: u64) -> Self {
        let budget = if pace == u64::MAX { pace } else { pace.clamp(*BUDGET.start(), *BUDGET.end()) };
        Self { rows: Rows::new(now), due: Pile::EMPTY, stock: Stock::new(pace == u64::MAX), pace, budget, is_tidy: true }
    }

    /// Files an entry or a tombstone. O(1): one append. A tombstone that makes a small slot mostly dead compacts it too.
    pub(crate) fn file(&mut self, record: Entry) {
        if record.is_tombstone() {
            if record.deadline() <= self.rows.now {
                // Too late, and not needed: the claim finds the timer dead.
                return;
            }
            self.stock.holes += 1;
            self.is_tidy = false;
        }
        self.refile(record);
    }

    /// Files a record that is in the wheel already.
    #[inline]
    fn refile(&mut self, record: Entry) {
        if record.deadline() > self.rows.now {
            self.rows.file(record, &mut self.stock);
        } else if record.is_tombstone() {
            self.stock.holes -= 1;
        } else {
            self.due.push(record, &mut self.stock.pool);
        }
    }

    /// Moves time to `now` and gives `f` what is due, in slices, until about `limit` entries have been given, or the budget of records
    /// has been moved.
    ///
    /// Returns whether there is more to do at `now`: then time may not have reached it yet, and a further call goes on. Ticks come in order.
    /// Entries of one tick come in the order in which they were filed at that level, unless a large slot was compacted.
    pub(crate) fn advance(&mut self, now: u64, limit: usize, mut f: impl FnMut(&[Entry])) -> bool {
        let budget_end = self.stock.budget_end(self.budget);
        self.stock.renew_at_once();
        let mut given = 0;
        loop {
            while !self.due.records.is_empty() {
                if given >= limit {
                    return true;
                }
                given += self.give_block(&mut f);
            }
            let Some((place, slot)) = self.rows.first() else { break };
            if self.rows.start(place) > now {
                break;
            }
            if self.stock.moved >= budget_end {
                return true;
            }
            if place.level > 0 && slot.has_steps_left() {
                self.rows.cascade(place, 0, budget_end, &mut self.stock);
            } else {
                self.enter(place);
            }
        }
        self.rows.now = self.rows.now.max(now);
        while let Some(place) = self.rows.first_large().filter(|&place| self.cascade_begin(place) <= now) {
            if self.stock.moved >= budget_end {
                return true;
            }
            self.rows.cascade(place, LARGE_SLOT, budget_end, &mut self.stock);
        }
        self.compact(budget_end)
    }

    /// Compacts the slots that wait for it, until the budget of records has been moved: then it returns that there is more to do.
    fn compact(&mut self, budget_end: u64) -> bool {
        while let Some(place) = self.rows.first_to_be_compacted() {
            if self.stock.moved >= budget_end {
                return true;
            }
            self.rows.compact(place, budget_end, &mut self.stock);
        }
        false
    }

    /// Gives `f` one block of what is due. Returns how many records that took.
    fn give_block(&mut self, f: &mut impl FnMut(&[Entry])) -> usize {
        let block = self.stock.pool.first(&self.due.records);
        let records = block.len();
        // Without the tombstones.
        let mut holes = 0;
        for entries in block.split(|record| self.due.holes > 0 && record.is_tombstone()) {
            holes += 1;
            if !entries.is_empty() {
                f(entries);
            }
        }
        holes -= 1;
        self.due.holes -= holes;
        self.stock.holes -= u64::from(holes);
        self.stock.pool.drop_first(&mut self.due.records);
        if self.due.records.is_empty() {
            self.due = Pile::EMPTY;
        }
        records
    }

    /// Moves time to the start of a slot and empties it: to the due list, or to lower levels.
    fn enter(&mut self, place: Place) {
        let mut slot = self.rows.enter(place);
        slot.end_compaction(&mut self.stock);
        match slot.work.take() {
            Some(Work::Cascade(ahead)) => self.rows.adopt(*ahead, place.level),
            _ if slot.pile.holes > 0 && !slot.is_large() => slot.compact(u64::MAX, &mut self.stock),
            _ => {}
        }
        let mut pile = slot.pile;
        if place.level == 0 {
            self.due.append(pile, &mut self.stock.pool);
            return;
        }
        while let Some(block) = self.stock.pool.pop(&mut pile.records) {
            self.stock.count_cascaded(&block);
            block.iter().for_each(|&record| self.refile(record));
        }
    }

    /// When to begin, or to go on with, the cascade of a large slot.
    fn cascade_begin(&self, place: Place) -> u64 {
        let records = u64::from(self.rows.slot(place).len()) + SLACK;
        self.rows.start(place).saturating_sub(records.div_ceil(self.pace)).max(self.rows.now)
    }

    /// The next tick at which `advance` has something to do. Not after the earliest deadline; `None` if the wheel is empty.
    pub(crate) fn next_event(&self) -> Option<u64> {
        if !self.due.records.is_empty() {
            return Some(self.rows.now);
        }
        let (place, slot) = self.rows.first()?;
        // A slot with nothing but tombstones that came before their entries has no earliest deadline.
        let start_first = slot.is_large() || slot.pile.earliest == u64::MAX;
        let event = if start_first { self.rows.start(place) } else { slot.pile.earliest };
        let cascade = self.rows.first_large().map(|place| self.cascade_begin(place));
        Some(cascade.map_or(event, |begin| begin.min(event)))
    }

    /// Compacts the slots that come first, until the first one has none but live entries, or the budget of records has been moved: then it returns
    /// that there is more to do. To be called before a long sleep, which dead entries shall not end. A large slot is left alone: it has live
    /// entries (`file` sees to that).
    pub(crate) fn settle(&mut self) -> bool {
        let budget_end = self.stock.budget_end(self.budget);
        while let Some((place, slot)) = self.rows.first() {
            if slot.is_large() || slot.work.is_some() || slot.pile.holes == slot.pile.unmatched {
                return false;
            }
            if self.stock.moved >= budget_end {
                return true;
            }
            self.rows.compact(place, budget_end, &mut self.stock);
        }
        false
    }

    /// Compacts every slot in which more than an eighth of the records belong to the dead, until the budget of records has been moved: then it returns that there is
    /// more to do. To be called in a long quiet, which nothing shall lie through that nobody needs. Looks at the slots only if a tombstone has come since it last did.
    pub(crate) fn tidy(&mut self) -> bool {
        if !std::mem::replace(&mut self.is_tidy, true) {
            self.rows.mark_partly_dead();
        }
        self.compact(self.stock.budget_end(self.budget))
    }

    /// Records in the wheel: entries and tombstones.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn records(&self) -> usize {
        self.due.len() as usize + self.rows.records()
    }

    /// Tombstones in the wheel.
    pub(crate) fn holes(&self) -> u64 {
        self.stock.holes
    }

    pub(crate) fn compactions(&self) -> u64 {
        self.stock.compactions
    }

    pub(crate) fn cascaded(&self) -> u64 {
        self.stock.cascaded
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
