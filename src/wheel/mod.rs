#![doc = include_str!("README.md")]

mod chunk;
mod graves;
mod keyed;
mod rows;
mod slot;
mod stock;

use crate::entry::Entry;
use chunk::{Chain, Form};
use rows::{Place, Rows};
use slot::LARGE_SLOT;
use stock::Stock;

pub use keyed::{Handle, Wheel};
pub(crate) use rows::LEVELS;

/// Entries that one call of `advance` or `settle` moves before it says that there is more: as many as the pace, between these. A call may go over it
/// by a small slot.
const BUDGET: std::ops::RangeInclusive<u64> = 1024..=16_384;

/// A cascade begins as much earlier as it takes to move so many entries more: the shard's thread may be late.
const SLACK: u64 = 32_768;

/// A hierarchical timing wheel of entries.
pub(crate) struct EntryWheel {
    rows: Rows,
    /// Entries at or before now, oldest first.
    due: Chain,
    /// Whether some of them may be known to be dead.
    due_has_dead: bool,
    stock: Stock,
    pace: u64,
    budget: u64,
    /// No tombstone has come since `tidy` looked at the slots.
    is_tidy: bool,
}

impl EntryWheel {
    /// An empty wheel at tick `now`. Large slots are cascaded ahead of time at a pace of so many entries a tick, at least 1; at `u64::MAX`
    /// in one go.
    pub(crate) fn new(now: u64, pace: u64) -> Self {
        let budget = if pace == u64::MAX { pace } else { pace.clamp(*BUDGET.start(), *BUDGET.end()) };
        Self { rows: Rows::new(now), due: Chain::EMPTY, due_has_dead: false, stock: Stock::new(), pace, budget, is_tidy: true }
    }

    /// Files an entry, or takes in a tombstone. O(1): one append, or one store. A tombstone that makes a small slot mostly dead compacts it too.
    pub(crate) fn file(&mut self, message: Entry) {
        if message.is_tombstone() {
            self.bury(message);
        } else if !self.stock.graves.takes_new(message) {
            self.refile(message);
        }
    }

    /// Whether `file` may have to wait for memory, which `prefetch` can ask for in time.
    pub(crate) fn prefetches(&self) -> bool {
        self.stock.graves.is_large()
    }

    /// Asks for what `file` needs for a message.
    #[inline]
    pub(crate) fn prefetch(&self, message: Entry) {
        self.stock.graves.prefetch(message);
    }

    fn bury(&mut self, tombstone: Entry) {
        // Too late, and not needed: the claim finds the timer dead.
        if tombstone.deadline() > self.rows.now {
            self.stock.graves.dig(tombstone);
            self.rows.bury(tombstone.deadline(), &mut self.stock);
            self.is_tidy = false;
        }
    }

    /// Files an entry that is in the wheel already.
    #[inline]
    fn refile(&mut self, entry: Entry) {
        if entry.deadline() > self.rows.now {
            self.rows.file(entry, &mut self.stock);
        } else {
            self.stock.pool.push(&mut self.due, entry, Form::Wide);
        }
    }

    /// Moves time to `now` and gives `f` what is due, in slices, until about `limit` entries have been given, or the budget of entries
    /// has been moved.
    ///
    /// Returns whether there is more to do at `now`: then time may not have reached it yet, and a further call goes on. Ticks come in order.
    /// Entries of one tick come in the order in which they were filed at that level, unless a large slot was compacted.
    pub(crate) fn advance(&mut self, now: u64, limit: usize, mut f: impl FnMut(&[Entry])) -> bool {
        let budget_end = self.stock.budget_end(self.budget);
        self.stock.renew_at_once();
        let mut given = 0;
        loop {
            while !self.due.is_empty() {
                if given >= limit {
                    if given == 0 {
                        // What waits for workers does not hold up the dead.
                        self.compact(budget_end);
                    }
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

    /// Compacts the slots that wait for it, until the budget of entries has been moved: then it returns that there is more to do.
    fn compact(&mut self, budget_end: u64) -> bool {
        while let Some(place) = self.rows.first_to_be_compacted() {
            if self.stock.moved >= budget_end {
                return true;
            }
            self.rows.compact(place, budget_end, &mut self.stock);
        }
        false
    }

    /// Gives `f` one block of what is due, without the dead. Returns how many entries that took.
    fn give_block(&mut self, f: &mut impl FnMut(&[Entry])) -> usize {
        let Some(mut block) = self.stock.pool.pop(&mut self.due) else { return 0 };
        let taken = block.len();
        if self.due_has_dead {
            self.stock.drop_dead(&mut block);
        }
        if !block.is_empty() {
            f(&block);
        }
        self.stock.pool.done(block);
        self.due_has_dead &= !self.due.is_empty();
        taken
    }

    /// Moves time to the start of a slot and empties it: to the due list, or to lower levels.
    fn enter(&mut self, place: Place) {
        let (mut slot, has_dead) = self.rows.enter(place, &mut self.stock);
        if let Some(ahead) = slot.ahead.take() {
            self.rows.adopt(*ahead, place.level);
        }
        if place.level == 0 {
            self.due_has_dead |= has_dead;
            self.stock.pool.append(&mut self.due, slot.entries);
            return;
        }
        while let Some(block) = self.stock.pop_cascaded(&mut slot.entries) {
            block.iter().for_each(|&entry| self.refile(entry));
            self.stock.pool.done(block);
        }
    }

    /// When to begin, or to go on with, the cascade of a large slot.
    fn cascade_begin(&self, place: Place) -> u64 {
        let entries = u64::from(self.rows.slot(place).len()) + SLACK;
        self.rows.start(place).saturating_sub(entries.div_ceil(self.pace)).max(self.rows.now)
    }

    /// The next tick at which `advance` has something to do. Not after the earliest deadline; `None` if the wheel is empty.
    pub(crate) fn next_event(&self) -> Option<u64> {
        if !self.due.is_empty() {
            return Some(self.rows.now);
        }
        let (place, slot) = self.rows.first()?;
        let event = if slot.is_large() { self.rows.start(place) } else { slot.earliest };
        let cascade = self.rows.first_large().map(|place| self.cascade_begin(place));
        Some(cascade.map_or(event, |begin| begin.min(event)))
    }

    /// Compacts the slots that come first, until the first one has none but live entries, or the budget of entries has been moved: then it returns
    /// that there is more to do. To be called before a long sleep, which dead entries shall not end. A large slot is left alone: it has live
    /// entries (`file` sees to that).
    pub(crate) fn settle(&mut self) -> bool {
        let budget_end = self.stock.budget_end(self.budget);
        while let Some((place, slot)) = self.rows.first() {
            if slot.is_large() || slot.ahead.is_some() || slot.holes == 0 {
                return false;
            }
            if self.stock.moved >= budget_end {
                return true;
            }
            self.rows.compact(place, budget_end, &mut self.stock);
        }
        false
    }

    /// Compacts every slot in which more than an eighth of the entries are dead, until the budget of entries has been moved: then it returns that there is
    /// more to do. To be called in a long quiet, which nothing shall lie through that nobody needs. Looks at the slots only if a tombstone has come since it last did.
    pub(crate) fn tidy(&mut self) -> bool {
        if !std::mem::replace(&mut self.is_tidy, true) {
            self.rows.mark_partly_dead();
        }
        let is_more = self.compact(self.stock.budget_end(self.budget));
        if self.stock.holes == 0 {
            // Should a tombstone have named a wrong deadline, its entry would be awaited for ever.
            self.stock.graves.clear();
        }
        is_more
    }

    /// Gives memory back that is not needed now, a system call's worth: 256 KiB. Returns whether there is more. In a burst it would hold other threads up.
    pub(crate) fn trim(&mut self) -> bool {
        self.stock.pool.trim()
    }

    /// Drops the entries that `keeps` says no to: for a wheel whose owner knows which are dead, and files no tombstones. As much work as there are entries.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(Entry) -> bool) {
        self.rows.retain(&mut keeps, &mut self.stock);
        let mut due = std::mem::replace(&mut self.due, Chain::EMPTY);
        while let Some(mut block) = self.stock.pool.pop(&mut due) {
            block.retain(&mut keeps);
            self.stock.pool.extend(&mut self.due, &block, Form::Wide);
            self.stock.pool.done(block);
        }
    }

    /// Slabs of chunks, 256 KiB each.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn slabs(&self) -> usize {
        self.stock.pool.slabs()
    }

    /// Entries in the wheel, living and dead.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn len(&self) -> usize {
        self.due.len() as usize + self.rows.len()
    }

    /// Entries in each level, living and dead. Those of a large slot that were cascaded ahead of time are at the levels where they will be found.
    pub(crate) fn levels(&self) -> [u64; LEVELS] {
        self.stock.levels
    }

    /// Entries at or before now that `advance` has not given out.
    pub(crate) fn due(&self) -> u64 {
        self.due.len() as u64
    }

    /// Tombstones that its slots count: of those dead entries that lie in it, and have been cancelled since their slots were last compacted.
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
