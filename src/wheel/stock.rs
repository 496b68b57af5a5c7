//! Stock: what all slots of a wheel share: the pool of chunks, the graves, and the counts of work done.

use super::chunk::Pool;
use super::compaction::Compaction;
use super::graves::Graves;
use super::slot::Pile;
use crate::entry::Entry;

/// Records that are moved by compactions of small slots between two calls of `advance`: at once, while they are in the processor's caches. What is more
/// than that waits for `advance`.
const AT_ONCE: u64 = 65_536;

pub(super) struct Stock {
    pub(super) pool: Pool,
    graves: Graves,
    /// The last compaction of a large slot: the next one uses its memory.
    spare: Option<Box<Compaction>>,
    /// Tombstones in the wheel.
    pub(super) holes: u64,
    /// Times that a slot was compacted.
    pub(super) compactions: u64,
    /// Records that were filed again at a lower level.
    pub(super) cascaded: u64,
    /// Records that were moved in all, by cascades and compactions.
    pub(super) moved: u64,
    /// When so many have been moved, no slot is compacted while a record is filed.
    pub(super) at_once_end: u64,
    /// Whether all work is done in one go.
    in_one_go: bool,
}

impl Stock {
    pub(super) fn new(in_one_go: bool) -> Self {
        Self {
            pool: Pool::new(),
            graves: Graves::default(),
            spare: None,
            holes: 0,
            compactions: 0,
            cascaded: 0,
            moved: 0,
            at_once_end: AT_ONCE,
            in_one_go,
        }
    }

    /// Where a budget of records to move ends that begins now.
    pub(super) fn budget_end(&self, budget: u64) -> u64 {
        self.moved.saturating_add(budget)
    }

    /// Lets small slots be compacted at once again.
    pub(super) fn renew_at_once(&mut self) {
        self.at_once_end = self.budget_end(AT_ONCE);
    }

    /// Lets nothing be compacted at once. Returns what `at_once_end` is to be set to afterwards.
    pub(super) fn never_at_once(&mut self) -> u64 {
        std::mem::replace(&mut self.at_once_end, 0)
    }

    /// Whether a slot is to be compacted while a record is filed in it, or later.
    pub(super) fn compacts_at_once(&self, small: bool) -> bool {
        self.in_one_go || small && self.moved < self.at_once_end
    }

    pub(super) fn count_cascaded(&mut self, records: &[Entry]) {
        self.cascaded += records.len() as u64;
        self.moved += records.len() as u64;
    }

    /// Appends to `kept` what is left of a pile without its pairs of an entry and its tombstone.
    pub(super) fn compact(&mut self, mut pile: Pile, kept: &mut Pile) {
        self.moved += u64::from(pile.len());
        self.holes -= u64::from(pile.holes);
        self.graves.clear(pile.holes);
        self.pool.for_each(pile.records, |record| {
            if record.is_tombstone() {
                self.graves.dig(record.buried());
            }
        });
        while let Some(block) = self.pool.pop(&mut pile.records) {
            for &record in block.iter() {
                if !record.is_tombstone() && !self.graves.fill(record) {
                    kept.push(record, &mut self.pool);
                }
            }
        }
        self.graves.for_each_open(|entry| {
            kept.push(entry.tombstone(), &mut self.pool);
            // They are not counted again when the next compaction is considered.
            kept.unmatched += 1;
            self.holes += 1;
        });
    }

    /// The compaction of a large slot's pile, with nothing done yet.
    pub(super) fn begin_compaction(&mut self, pile: Pile) -> Box<Compaction> {
        let mut compaction = self.spare.take().unwrap_or_default();
        compaction.begin(pile);
        compaction
    }

    /// All records that a compaction holds, wherever it stands.
    pub(super) fn end_compaction(&mut self, mut compaction: Box<Compaction>) -> Pile {
        let pile = compaction.end(&mut self.pool);
        self.spare = Some(compaction);
        pile
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_so_much_is_compacted_at_once() {
        let mut stock = Stock::new(false);
        stock.moved = AT_ONCE - 1;
        assert!(stock.compacts_at_once(true) && !stock.compacts_at_once(false));
        stock.moved = AT_ONCE;
        assert!(!stock.compacts_at_once(true));
        stock.renew_at_once();
        assert!(stock.compacts_at_once(true));
        assert_eq!((stock.never_at_once(), stock.compacts_at_once(true)), (2 * AT_ONCE, false));
        let mut stock = Stock::new(true);
        stock.moved = AT_ONCE;
        assert!(stock.compacts_at_once(true) && stock.compacts_at_once(false), "all in one go");
    }
}
