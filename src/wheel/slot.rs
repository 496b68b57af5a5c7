//! Slot: the records of one span of ticks, and the work in steps that a large slot is in.

use super::chunk::{Chain, Pool};
use super::compaction::Compaction;
use super::rows::Rows;
use super::stock::Stock;
use crate::entry::Entry;

/// A slot with more records than this is large: it is cascaded in steps, ahead of time. 4,096 records take some 40 us.
pub(super) const LARGE_SLOT: u32 = 4096;

/// A slot with more records than this is compacted in steps. 16,384 records take some 250 us.
pub(super) const COMPACTED_IN_STEPS: u32 = 16_384;

/// Tombstones that are not worth a compaction.
pub(super) const HOLES_MIN: u32 = 32;

/// Records, and what is known of them.
#[derive(Clone, Copy)]
pub(super) struct Pile {
    pub(super) records: Chain,
    /// Tombstones among the records.
    pub(super) holes: u32,
    /// Tombstones that found no entry at the last compaction, less the entries that have come since.
    pub(super) unmatched: u32,
    /// Not after the earliest deadline of the entries.
    pub(super) earliest: u64,
}

impl Default for Pile {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Pile {
    pub(super) const EMPTY: Self = Self { records: Chain::EMPTY, holes: 0, unmatched: 0, earliest: u64::MAX };

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.records.len()
    }

    #[inline]
    pub(super) fn push(&mut self, record: Entry, pool: &mut Pool) {
        pool.push(&mut self.records, record);
        if record.is_tombstone() {
            self.holes += 1;
        } else {
            self.earliest = self.earliest.min(record.deadline());
        }
    }

    /// Appends a pile.
    pub(super) fn append(&mut self, tail: Self, pool: &mut Pool) {
        pool.append(&mut self.records, tail.records);
        self.holes += tail.holes;
        self.unmatched += tail.unmatched;
        self.earliest = self.earliest.min(tail.earliest);
    }

    /// Whether the dead have become too many: tombstones since the last compaction outnumber the live entries. A pile that is compacted in steps
    /// begins earlier: at half as many.
    #[inline]
    fn is_mostly_dead(&self) -> bool {
        let fresh = self.holes - self.unmatched;
        let share = if self.len() > COMPACTED_IN_STEPS { 4 } else { 3 };
        fresh > HOLES_MIN && share * u64::from(fresh) > u64::from(self.len())
    }
}

pub(super) struct Slot {
    /// All records, or those that came since the work began.
    pub(super) pile: Pile,
    pub(super) work: Option<Work>,
}

// There are 1,792 of them in a wheel.
const _: () = assert!(size_of::<Slot>() <= 48);

/// What a large slot is in.
pub(super) enum Work {
    /// The records that it had when the compaction began.
    Compaction(Box<Compaction>),
    /// The lower levels as they will be at the slot's start: what has been cascaded ahead of time.
    Cascade(Box<Rows>),
}

impl Slot {
    pub(super) const EMPTY: Self = Self { pile: Pile::EMPTY, work: None };

    /// Files a record. Whether the slot is to be compacted.
    #[inline]
    pub(super) fn file(&mut self, record: Entry, pool: &mut Pool) -> bool {
        self.pile.push(record, pool);
        if !record.is_tombstone() {
            if self.pile.unmatched == 0 {
                return false;
            }
            // It may be the entry that one of them waits for: a compaction may find it now.
            self.pile.unmatched -= 1;
        }
        self.pile.is_mostly_dead()
    }

    /// Records in it that have not been cascaded.
    pub(super) fn len(&self) -> u32 {
        let compacted = match &self.work {
            Some(Work::Compaction(compaction)) => compaction.len(),
            _ => 0,
        };
        self.pile.len() + compacted
    }

    /// Whether a compaction of it is a small thing.
    pub(super) fn is_compacted_at_once(&self) -> bool {
        self.pile.len() <= COMPACTED_IN_STEPS && self.work.is_none()
    }

    /// Whether it is cascaded in steps.
    pub(super) fn is_large(&self) -> bool {
        self.pile.len() > LARGE_SLOT || self.is_in_compaction()
    }

    /// Whether it is to be cascaded in a step before it is entered: if it is large, or was when its cascade began.
    pub(super) fn has_steps_left(&self) -> bool {
        self.is_large() || self.work.is_some() && !self.pile.records.is_empty()
    }

    /// Whether nothing is left of it.
    pub(super) fn is_empty(&self) -> bool {
        self.pile.records.is_empty() && self.work.is_none()
    }

    /// Whether a compaction is not done.
    fn is_in_compaction(&self) -> bool {
        matches!(self.work, Some(Work::Compaction(_)))
    }

    /// Whether it is worth a call of `compact`.
    pub(super) fn is_to_be_compacted(&self) -> bool {
        self.is_in_compaction() || self.work.is_none() && self.pile.is_mostly_dead()
    }

    /// Whether a compaction of it, though it may wait, is worth its while: an eighth of its records would go.
    pub(super) fn is_partly_dead(&self) -> bool {
        let fresh = self.pile.holes - self.pile.unmatched;
        self.work.is_none() && fresh > HOLES_MIN && 16 * u64::from(fresh) > u64::from(self.pile.len())
    }

    /// Compacts it, if it is large until `budget_end` records have been moved. Not while it is cascaded: its records are about to come to smaller slots.
    pub(super) fn compact(&mut self, budget_end: u64, stock: &mut Stock) {
        if self.work.is_none() {
            let pile = std::mem::take(&mut self.pile);
            stock.compactions += 1;
            if pile.len() <= COMPACTED_IN_STEPS {
                stock.compact(pile, &mut self.pile);
                return;
            }
            self.work = Some(Work::Compaction(stock.begin_compaction(pile)));
        }
        if let Some(Work::Compaction(compaction)) = &mut self.work
            && compaction.run(budget_end, stock)
        {
            self.end_compaction(stock);
        }
    }

    /// Cascades it to the rows around `start`, its first tick, until no more than `rest` records are left, or `budget_end` records have been moved.
    pub(super) fn cascade(&mut self, start: u64, rest: u32, budget_end: u64, stock: &mut Stock) {
        self.end_compaction(stock);
        self.pile.unmatched = 0;
        let work = self.work.get_or_insert_with(|| Work::Cascade(Box::new(Rows::new(start))));
        let Work::Cascade(ahead) = work else { return };
        // The slots below wait with their compactions until they are taken over: a block of records could start dozens.
        let at_once = stock.never_at_once();
        while self.pile.len() > rest && stock.moved < budget_end {
            let Some(block) = stock.pool.pop(&mut self.pile.records) else { break };
            stock.count_cascaded(&block);
            for &record in block.iter() {
                self.pile.holes -= u32::from(record.is_tombstone());
                ahead.file(record, stock);
            }
        }
        stock.at_once_end = at_once;
    }

    /// Puts the records of a compaction, wherever it stands, before the others.
    pub(super) fn end_compaction(&mut self, stock: &mut Stock) {
        if let Some(Work::Compaction(compaction)) = self.work.take_if(|work| matches!(work, Work::Compaction(_))) {
            let mut pile = stock.end_compaction(compaction);
            pile.append(self.pile, &mut stock.pool);
            self.pile = pile;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry(cell: u32) -> Entry {
        Entry::new(30_000, cell, 1)
    }

    /// A slot with so many entries, and tombstones of the first ones; whether the last record was one too many.
    fn slot(entries: u32, tombstones: u32, stock: &mut Stock) -> (Slot, bool) {
        let mut slot = Slot::EMPTY;
        let records = (0..entries).map(entry).chain((0..tombstones).map(|cell| entry(cell).tombstone()));
        stock.holes += u64::from(tombstones);
        let is_to_be_compacted = records.fold(false, |_, record| slot.file(record, &mut stock.pool));
        (slot, is_to_be_compacted)
    }

    #[test]
    fn is_compacted_when_the_dead_outnumber_the_living() {
        for (entries, tombstones, compact) in [
            // As long as there are few it does not matter how many live.
            (20, 32, false),
            (20, 33, true),
            // A third of the records.
            (198, 99, false),
            (198, 100, true),
            // A quarter, where it is done in steps.
            (12_284, 4_100, false),
            (12_300, 4_084, false),
            (12_300, 4_100, false),
            (12_300, 4_101, true),
            (COMPACTED_IN_STEPS * 2 / 3, COMPACTED_IN_STEPS / 3, false),
            (COMPACTED_IN_STEPS * 2 / 3, COMPACTED_IN_STEPS / 3 + 1, true),
        ] {
            let (slot, is_to_be_compacted) = slot(entries, tombstones, &mut Stock::new(false));
            assert_eq!((is_to_be_compacted, slot.is_to_be_compacted()), (compact, compact), "{entries} and {tombstones}");
            assert_eq!(slot.is_compacted_at_once(), entries + tombstones <= COMPACTED_IN_STEPS);
        }
    }

    #[test]
    fn is_worth_a_compaction_in_a_quiet_from_an_eighth_on() {
        for (entries, tombstones, worth) in [(10, 32, false), (10, 33, true), (1_500, 100, false), (1_499, 100, true), (1_000, 300, true)] {
            let (slot, _) = slot(entries, tombstones, &mut Stock::new(false));
            assert_eq!(slot.is_partly_dead(), worth, "{entries} and {tombstones}");
        }
    }

    /// What found no entry is not counted again, until an entry comes that it may have waited for.
    #[test]
    fn tombstones_without_entries_do_not_count_twice() {
        let stock = &mut Stock::new(false);
        let (mut slot, _) = slot(0, 33, stock);
        slot.compact(u64::MAX, stock);
        assert_eq!((slot.pile.holes, slot.pile.unmatched, slot.is_to_be_compacted()), (33, 33, false));
        assert!(!slot.is_partly_dead(), "nor in a quiet");
        assert!(!slot.file(entry(0), &mut stock.pool));
        assert_eq!((slot.pile.holes, slot.pile.unmatched), (33, 32));
        let (other, compact) = self::slot(60, 0, stock);
        assert!(!compact && other.pile.unmatched == 0);
        slot.pile.append(other.pile, &mut stock.pool);
        assert_eq!((slot.len(), slot.pile.holes, slot.pile.unmatched), (94, 33, 32));
        let (other, _) = self::slot(0, 40, stock);
        let both = Pile { unmatched: 7, ..other.pile };
        slot.pile.append(both, &mut stock.pool);
        assert_eq!((slot.len(), slot.pile.holes, slot.pile.unmatched, slot.pile.earliest), (134, 73, 39, 30_000));
    }

    #[test]
    fn a_cascade_ends_with_its_budget() {
        let stock = &mut Stock::new(false);
        let (mut slot, _) = slot(1_000, 0, stock);
        // A chunk holds 63.
        for (budget_end, left) in [(1, 937), (63, 937), (64, 874)] {
            slot.cascade(29_952, 0, budget_end, stock);
            assert_eq!((stock.moved, stock.cascaded, slot.len()), (1_000 - left, 1_000 - left, left as u32));
        }
        for (rest, left) in [(811, 811), (810, 748)] {
            slot.cascade(29_952, rest, u64::MAX, stock);
            assert_eq!(slot.len(), left);
        }
        assert!(slot.has_steps_left() && !slot.is_large() && !slot.is_empty());
        slot.cascade(29_952, 0, u64::MAX, stock);
        assert!(!slot.has_steps_left() && !slot.is_empty(), "what is cascaded ahead is in it");

        let (mut slot, _) = self::slot(200, 50, stock);
        assert_eq!(slot.pile.holes, 50);
        for left in [61, 0] {
            slot.cascade(29_952, left, u64::MAX, stock);
            assert_eq!((slot.len(), slot.pile.holes), (left, left.min(50)));
        }
    }

    #[test]
    fn a_compaction_in_steps_ends_with_its_budget() {
        let stock = &mut Stock::new(false);
        let (mut slot, _) = slot(COMPACTED_IN_STEPS, COMPACTED_IN_STEPS / 2, stock);
        for budget_end in [63, 126, 1_000] {
            slot.compact(budget_end, stock);
            assert_eq!(stock.moved, budget_end.next_multiple_of(63));
            assert!(slot.is_large() && slot.has_steps_left() && slot.is_to_be_compacted());
            assert_eq!(slot.len(), COMPACTED_IN_STEPS * 3 / 2);
        }
        slot.compact(u64::MAX, stock);
        assert_eq!((slot.len(), slot.pile.holes, stock.holes, stock.compactions), (COMPACTED_IN_STEPS / 2, 0, 0, 1));
        assert!(slot.is_large() && !slot.is_to_be_compacted());
    }
}
