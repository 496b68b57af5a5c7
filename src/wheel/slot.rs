//! Slot: the entries of one span of ticks, and the work in steps that a large one is in.

use super::chunk::{Block, Chain, Form, Pool};
use super::rows::Rows;
use super::stock::Stock;
use crate::entry::Entry;

/// A slot with more entries than this is large: it is cascaded in steps, ahead of time. 4,096 entries take some 40 us.
pub(super) const LARGE_SLOT: u32 = 4096;

/// A slot with more entries than this is compacted in steps. 16,384 entries take some 160 us.
pub(super) const COMPACTED_IN_STEPS: u32 = 16_384;

/// Dead entries that are not worth a compaction.
pub(super) const HOLES_MIN: u32 = 32;

pub(super) struct Slot {
    pub(super) entries: Chain,
    /// Tombstones that have come for it since its last compaction began. Each of its dead entries is one of them, or one that the compaction has still to come to.
    pub(super) holes: u32,
    /// Entries at the front that the compaction has still to come to; 0: it is in none.
    to_examine: u32,
    /// Not after the earliest deadline. Not known while it is compacted.
    pub(super) earliest: u64,
    /// The lower levels as they will be at the slot's start: what has been cascaded ahead of time.
    pub(super) ahead: Option<Box<Rows>>,
}

// There are 1,792 of them in a wheel.
const _: () = assert!(size_of::<Slot>() == 40);

impl Slot {
    pub(super) const EMPTY: Self = Self { entries: Chain::EMPTY, holes: 0, to_examine: 0, earliest: u64::MAX, ahead: None };

    #[inline]
    pub(super) fn file(&mut self, entry: Entry, form: Form, pool: &mut Pool) {
        match form {
            Form::Narrow => pool.push(&mut self.entries, entry, Form::Narrow),
            Form::Wide => pool.push(&mut self.entries, entry, Form::Wide),
        }
        self.earliest = self.earliest.min(entry.deadline());
    }

    /// Entries in it that have not been cascaded.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Whether nothing is left of it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.ahead.is_none()
    }

    /// Whether it is cascaded in steps.
    pub(super) fn is_large(&self) -> bool {
        self.len() > LARGE_SLOT || self.is_in_compaction()
    }

    /// Whether it is to be cascaded in a step before it is entered: if it is large, or was when its cascade began.
    pub(super) fn has_steps_left(&self) -> bool {
        self.is_large() || self.ahead.is_some() && !self.entries.is_empty()
    }

    pub(super) fn is_in_compaction(&self) -> bool {
        self.to_examine > 0
    }

    /// Whether a compaction of it is a small thing.
    pub(super) fn is_compacted_at_once(&self) -> bool {
        self.len() <= COMPACTED_IN_STEPS && !self.is_in_compaction()
    }

    /// Whether it is worth a call of `compact`: the dead outnumber the living. Where it is done in steps it begins earlier, at half as many.
    #[inline]
    pub(super) fn is_to_be_compacted(&self) -> bool {
        let share = if self.len() > COMPACTED_IN_STEPS { 3 } else { 2 };
        self.is_in_compaction() || self.has_holes(share)
    }

    /// Whether a compaction of it, though it may wait, is worth its while: an eighth of its entries would go.
    pub(super) fn is_partly_dead(&self) -> bool {
        self.has_holes(8)
    }

    /// Whether so many times the dead are more than all entries.
    #[inline]
    pub(super) fn has_holes(&self, times: u64) -> bool {
        self.holes > HOLES_MIN && times * u64::from(self.holes) > u64::from(self.len()) && self.ahead.is_none()
    }

    /// Drops the dead, in steps if it is large: until `budget_end` entries have been moved. Not while it is cascaded: its entries are about to come to smaller slots.
    pub(super) fn compact(&mut self, budget_end: u64, stock: &mut Stock) {
        if self.ahead.is_some() {
            return;
        }
        let (at_once, form) = (self.is_compacted_at_once(), self.entries.form());
        if !self.is_in_compaction() {
            stock.compactions += 1;
            self.forget_holes(stock);
            self.earliest = u64::MAX;
        }
        if at_once {
            let mut all = std::mem::replace(&mut self.entries, Chain::EMPTY);
            while let Some(block) = stock.pop_living(&mut all) {
                self.keep(block, form, &mut stock.pool);
            }
            return;
        }
        if !self.is_in_compaction() {
            self.to_examine = self.len();
        }
        // The living go behind the others: an entry of the last chunk may be looked at twice.
        while self.is_in_compaction() && stock.moved < budget_end {
            let before = self.len();
            let Some(block) = stock.pop_living(&mut self.entries) else { break };
            self.to_examine = self.to_examine.saturating_sub(before - self.len());
            self.keep(block, form, &mut stock.pool);
        }
    }

    fn keep(&mut self, living: Block, form: Form, pool: &mut Pool) {
        self.earliest = living.iter().fold(self.earliest, |earliest, entry| earliest.min(entry.deadline()));
        pool.extend(&mut self.entries, &living, form);
        pool.done(living);
    }

    pub(super) fn forget_holes(&mut self, stock: &mut Stock) {
        stock.holes -= u64::from(std::mem::take(&mut self.holes));
    }

    /// Cascades it to the rows around `start`, its first tick, until no more than `rest` entries are left, or `budget_end` entries have been moved.
    pub(super) fn cascade(&mut self, start: u64, rest: u32, budget_end: u64, stock: &mut Stock) {
        if self.ahead.is_none() {
            // All are looked at on their way.
            self.forget_holes(stock);
            if std::mem::take(&mut self.to_examine) > 0 {
                self.earliest = start;
            }
        }
        let ahead = self.ahead.get_or_insert_with(|| Box::new(Rows::new(start)));
        while self.entries.len() > rest && stock.moved < budget_end {
            let Some(block) = stock.pop_cascaded(&mut self.entries) else { break };
            block.iter().for_each(|&entry| ahead.file(entry, stock));
            stock.pool.done(block);
        }
    }

    /// Drops the entries that `keeps` says no to, those that were cascaded ahead of time too.
    pub(super) fn retain(&mut self, keeps: &mut impl FnMut(Entry) -> bool, stock: &mut Stock) {
        let form = self.entries.form();
        let mut all = std::mem::replace(&mut self.entries, Chain::EMPTY);
        match &mut self.ahead {
            Some(ahead) => ahead.retain(keeps, stock),
            None => self.earliest = u64::MAX,
        }
        while let Some(mut block) = stock.pool.pop(&mut all) {
            block.retain(&mut *keeps);
            self.keep(block, form, &mut stock.pool);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry(cell: u32) -> Entry {
        Entry::new(30_000 + u64::from(cell), cell, 1)
    }

    /// A slot with so many entries of which the first ones are dead.
    fn slot(entries: u32, dead: u32, stock: &mut Stock) -> Slot {
        let mut slot = Slot::EMPTY;
        (0..entries).for_each(|cell| slot.file(entry(cell), Form::Narrow, &mut stock.pool));
        (0..dead).for_each(|cell| stock.graves.dig(entry(cell).tombstone()));
        slot.holes = dead;
        stock.holes += u64::from(dead);
        slot
    }

    #[test]
    fn is_compacted_when_the_dead_outnumber_the_living() {
        for (entries, dead, compact) in [
            // As long as there are few it does not matter how many live.
            (32, 32, false),
            (33, 33, true),
            (200, 100, false),
            (200, 101, true),
            (COMPACTED_IN_STEPS, COMPACTED_IN_STEPS / 2, false),
            (COMPACTED_IN_STEPS, COMPACTED_IN_STEPS / 2 + 1, true),
            // A third, where it is done in steps.
            (COMPACTED_IN_STEPS + 2, COMPACTED_IN_STEPS / 3, false),
            (COMPACTED_IN_STEPS + 2, COMPACTED_IN_STEPS / 3 + 2, true),
        ] {
            let slot = slot(entries, dead, &mut Stock::new());
            assert_eq!(slot.is_to_be_compacted(), compact, "{dead} of {entries}");
            assert_eq!(slot.is_compacted_at_once(), entries <= COMPACTED_IN_STEPS);
        }
    }

    #[test]
    fn is_worth_a_compaction_in_a_quiet_from_an_eighth_on() {
        for (entries, dead, worth) in [(40, 32, false), (40, 33, true), (800, 100, false), (799, 100, true), (1_000, 300, true)] {
            assert_eq!(slot(entries, dead, &mut Stock::new()).is_partly_dead(), worth, "{dead} of {entries}");
        }
    }

    /// Those that `slot` holds, in order.
    fn cells(slot: &Slot, stock: &Stock) -> Vec<u32> {
        let mut cells = Vec::new();
        stock.pool.for_each(slot.entries, |entry| cells.push(entry.cell()));
        cells
    }

    #[test]
    fn a_compaction_keeps_the_living_in_order() {
        for (entries, dead) in [(100, 40), (63, 63), (64, 1), (5_000, 2_501), (5_000, 0), (0, 0)] {
            let stock = &mut Stock::new();
            let mut slot = slot(entries, dead, stock);
            // Neither an overestimate of the dead, nor the budget, matters.
            slot.holes += 7;
            stock.holes += 7;
            slot.compact(0, stock);
            assert!(cells(&slot, stock).into_iter().eq(dead..entries));
            assert_eq!((slot.len(), slot.holes, stock.holes, stock.compactions), (entries - dead, 0, 0, 1));
            assert_eq!((stock.moved, stock.cascaded), (u64::from(entries), 0));
            assert_eq!(slot.earliest, if dead < entries { entry(dead).deadline() } else { u64::MAX });
            assert_eq!((slot.is_empty(), slot.is_large()), (dead == entries, entries - dead > LARGE_SLOT));
        }
    }

    #[test]
    fn a_cascade_ends_with_its_budget_and_drops_the_dead() {
        let stock = &mut Stock::new();
        let mut slot = slot(1_000, 100, stock);
        // A chunk holds 84.
        for (budget_end, left) in [(1, 916), (84, 916), (85, 832)] {
            slot.cascade(29_952, 0, budget_end, stock);
            assert_eq!((stock.moved, stock.cascaded, slot.len()), (1_000 - left, 1_000 - left, left as u32));
        }
        assert_eq!((slot.holes, stock.holes), (0, 0));
        for (rest, left) in [(748, 748), (747, 664)] {
            slot.cascade(29_952, rest, u64::MAX, stock);
            assert_eq!(slot.len(), left);
        }
        assert!(slot.has_steps_left() && !slot.is_large() && !slot.is_empty());
        slot.compact(u64::MAX, stock);
        assert_eq!((slot.len(), stock.compactions), (664, 0), "not while it is cascaded");
        slot.cascade(29_952, 0, u64::MAX, stock);
        assert!(!slot.has_steps_left() && !slot.is_empty(), "what is cascaded ahead is in it");
        assert_eq!(slot.ahead.as_ref().map(|ahead| ahead.len()), Some(900));
        assert_eq!(slot.earliest, entry(0).deadline(), "as before: not after that of any");
    }

    #[test]
    fn a_compaction_in_steps_ends_with_its_budget() {
        let stock = &mut Stock::new();
        let (entries, dead) = (COMPACTED_IN_STEPS + 1, COMPACTED_IN_STEPS / 2);
        let mut slot = slot(entries, dead, stock);
        for budget_end in [84u64, 168, 1_000] {
            slot.compact(budget_end, stock);
            let seen = budget_end.next_multiple_of(84);
            assert_eq!((stock.moved, slot.len()), (seen, entries - seen as u32));
            assert!(slot.is_large() && slot.has_steps_left() && slot.is_to_be_compacted() && !slot.is_compacted_at_once());
        }
        // What comes meanwhile is not a part of it.
        slot.file(Entry::new(29_999, entries, 1), Form::Narrow, &mut stock.pool);
        slot.compact(u64::MAX, stock);
        assert_eq!((slot.len(), slot.holes, stock.holes, stock.compactions), (entries - dead + 1, 0, 0, 1));
        assert!(slot.is_large() && !slot.is_to_be_compacted());
        assert_eq!(slot.earliest, 29_999);
    }

    /// In the midst of a compaction it is cascaded: all are looked at then.
    #[test]
    fn a_cascade_takes_over_from_a_compaction() {
        let stock = &mut Stock::new();
        let (entries, dead) = (COMPACTED_IN_STEPS + 1, COMPACTED_IN_STEPS / 2);
        let mut slot = slot(entries, dead, stock);
        slot.compact(1_000, stock);
        slot.cascade(29_952, LARGE_SLOT, u64::MAX, stock);
        assert!(slot.earliest == 29_952 && !slot.is_large() && slot.has_steps_left());
        slot.cascade(29_952, 0, u64::MAX, stock);
        assert_eq!(slot.ahead.as_ref().map(|ahead| ahead.len()), Some((entries - dead) as usize));
    }
}
