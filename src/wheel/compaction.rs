//! Compaction: a large slot is rid of its dead in steps.
//!
//! First its records are sorted into parts by a hash, so that an entry and its tombstone meet in one part; then each part is compacted as a small
//! slot is. New records of the slot are not part of it.

use super::chunk::Pool;
use super::slot::Pile;
use super::stock::Stock;
use crate::entry::Entry;

/// Records in a part at the most, on average; at least half of it. No step moves many more, and a partly filled chunk for each part is 1.6 % of them
/// at the most.
const PART_MAX: u32 = 8192;

/// With more parts than this its memory is not kept for the next one.
const PARTS_KEPT: usize = 256;

#[derive(Default)]
pub(super) struct Compaction {
    /// Not yet sorted.
    unsorted: Pile,
    parts: Vec<Pile>,
    /// What is left of the parts that are compacted.
    kept: Pile,
    len: u32,
}

impl Compaction {
    /// Begins with a pile.
    pub(super) fn begin(&mut self, pile: Pile) {
        let parts = pile.len().div_ceil(PART_MAX).next_power_of_two().max(2);
        self.parts.resize(parts as usize, Pile::EMPTY);
        self.len = pile.len();
        self.unsorted = Pile { unmatched: 0, ..pile };
    }

    /// Records in it.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Goes on until `budget_end` records have been moved. Whether all is done.
    pub(super) fn run(&mut self, budget_end: u64, stock: &mut Stock) -> bool {
        while stock.moved < budget_end {
            if let Some(block) = stock.pool.pop(&mut self.unsorted.records) {
                stock.moved += block.len() as u64;
                block.iter().for_each(|&record| self.sort(record, &mut stock.pool));
            } else if let Some(part) = self.parts.pop() {
                self.len -= part.len() + self.kept.len();
                stock.compact(part, &mut self.kept);
                self.len += self.kept.len();
            } else {
                return true;
            }
        }
        false
    }

    #[inline]
    fn sort(&mut self, record: Entry, pool: &mut Pool) {
        self.unsorted.holes -= u32::from(record.is_tombstone());
        // The highest bits of the hash; the graves use lower ones.
        let part = record.buried().hash() >> (u64::BITS - self.parts.len().trailing_zeros());
        self.parts[part as usize].push(record, pool);
    }

    /// Gives back all records that are left, sorted or not, compacted or not.
    pub(super) fn end(&mut self, pool: &mut Pool) -> Pile {
        let mut pile = std::mem::take(&mut self.kept);
        self.parts.drain(..).for_each(|part| pile.append(part, pool));
        pile.append(std::mem::take(&mut self.unsorted), pool);
        self.parts.shrink_to(PARTS_KEPT);
        pile
    }
}
