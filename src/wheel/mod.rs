#![doc = include_str!("README.md")]

mod chunk;
mod compact;
mod keyed;

use crate::entry::{DEADLINE_BITS, Entry};
use chunk::{Chain, Pool};
use compact::Graves;

pub use keyed::{Handle, Wheel};

const DIGIT_BITS: u32 = 8;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = DEADLINE_BITS.div_ceil(DIGIT_BITS) as usize;
const WORDS: usize = SLOTS / 64;

/// Tombstones that are not worth a compaction.
const HOLES_MIN: u32 = 32;

/// A slot with more records than this is cascaded at its start, not at its earliest deadline. 4,096 take some 20 us.
const LARGE_SLOT: u32 = 4096;

#[derive(Clone, Copy)]
struct Slot {
    records: Chain,
    /// Tombstones among the records.
    holes: u32,
    /// Tombstones that found no entry at the last compaction.
    unmatched: u32,
    /// Not after the earliest deadline in the slot.
    earliest: u64,
}

const EMPTY: Slot = Slot { records: Chain::EMPTY, holes: 0, unmatched: 0, earliest: u64::MAX };

/// A hierarchical timing wheel of entries.
pub(crate) struct EntryWheel {
    now: u64,
    slots: Box<[[Slot; SLOTS]; LEVELS]>,
    occupied: [[u64; WORDS]; LEVELS],
    /// Entries at or before `now`, oldest first.
    due: Chain,
    pool: Pool,
    graves: Graves,
    /// Tombstones in all slots.
    holes: u64,
    /// Times a slot was compacted.
    compactions: u64,
    /// Records that were filed again at a lower level.
    cascaded: u64,
}

impl EntryWheel {
    /// An empty wheel at tick `now`.
    pub(crate) fn new(now: u64) -> Self {
        Self {
            now,
            slots: vec![[EMPTY; SLOTS]; LEVELS].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("LEVELS of them")),
            occupied: [[0; WORDS]; LEVELS],
            due: Chain::EMPTY,
            pool: Pool::new(),
            graves: Graves::default(),
            holes: 0,
            compactions: 0,
            cascaded: 0,
        }
    }

    /// Files an entry or a tombstone. O(1): one append.
    #[inline]
    pub(crate) fn file(&mut self, record: Entry) {
        let deadline = record.deadline();
        if deadline <= self.now {
            // A tombstone is too late here, and not needed: the claim finds the timer dead.
            if !record.is_tombstone() {
                self.pool.push(&mut self.due, record);
            }
            return;
        }
        let (level, index) = self.place(deadline);
        self.occupied[level][index / 64] |= 1 << (index % 64);
        let slot = &mut self.slots[level][index];
        self.pool.push(&mut slot.records, record);
        if record.is_tombstone() {
            slot.holes += 1;
            self.holes += 1;
            let fresh = slot.holes - slot.unmatched;
            // More dead than alive; and those that wait for their entries do not make us look again and again.
            if fresh > HOLES_MIN && 3 * u64::from(fresh) > u64::from(slot.records.len()) {
                self.compact(level, index);
            }
        } else {
            slot.earliest = slot.earliest.min(deadline);
        }
    }

    /// Level and slot of a deadline after `now`.
    #[inline]
    fn place(&self, deadline: u64) -> (usize, usize) {
        let highest_bit = 63 - (deadline ^ self.now).leading_zeros();
        let level = (highest_bit / DIGIT_BITS) as usize;
        (level, digit(deadline, level))
    }

    /// Moves time to `now` and gives `f` what is due, in slices, until about `limit` entries have been given.
    ///
    /// Returns whether there is more: then time has not reached `now` yet, and a further call goes on. Entries of one tick come
    /// in the order in which they were filed at that level; ticks come in order.
    pub(crate) fn advance(&mut self, now: u64, limit: usize, mut f: impl FnMut(&[Entry])) -> bool {
        let mut given = 0;
        loop {
            while !self.due.is_empty() {
                if given >= limit {
                    return true;
                }
                if let Some(block) = self.pool.pop(&mut self.due) {
                    given += block.len();
                    f(&block);
                }
            }
            match self.first_slot() {
                Some((level, index)) if self.start(level, index) <= now => self.enter(level, index),
                _ => {
                    self.now = self.now.max(now);
                    return false;
                }
            }
        }
    }

    /// Moves time to the start of a slot and empties it: to the due list, or to lower levels.
    fn enter(&mut self, level: usize, index: usize) {
        self.now = self.start(level, index);
        if self.slots[level][index].holes > 0 {
            self.compact(level, index);
        }
        let slot = std::mem::replace(&mut self.slots[level][index], EMPTY);
        self.occupied[level][index / 64] &= !(1 << (index % 64));
        self.holes -= u64::from(slot.holes);
        let mut records = slot.records;
        if level == 0 && slot.holes == 0 {
            self.pool.append(&mut self.due, records);
            return;
        }
        while let Some(block) = self.pool.pop(&mut records) {
            self.cascaded += block.len() as u64;
            block.iter().for_each(|&record| self.file(record));
        }
    }

    /// The first occupied slot: lower levels come first, they hold the near future.
    fn first_slot(&self) -> Option<(usize, usize)> {
        let of_level = |words: &[u64; WORDS]| {
            let word = words.iter().position(|&word| word != 0)?;
            Some(word * 64 + words[word].trailing_zeros() as usize)
        };
        self.occupied.iter().enumerate().find_map(|(level, words)| Some((level, of_level(words)?)))
    }

    /// The first tick of a slot in the future.
    fn start(&self, level: usize, index: usize) -> u64 {
        let shift = DIGIT_BITS * level as u32;
        let above = self.now >> shift >> DIGIT_BITS << DIGIT_BITS;
        (above | index as u64) << shift
    }

    /// The next tick at which `advance` has something to do. Not after the earliest deadline; `None` if the wheel is empty.
    pub(crate) fn next_event(&self) -> Option<u64> {
        if !self.due.is_empty() {
            return Some(self.now);
        }
        let (level, index) = self.first_slot()?;
        let slot = &self.slots[level][index];
        // A slot with nothing but tombstones that came before their entries has no earliest deadline.
        let start_first = slot.records.len() > LARGE_SLOT || slot.earliest == u64::MAX;
        Some(if start_first { self.start(level, index) } else { slot.earliest })
    }

    /// Compacts the slots that come first, until the first one has none but live entries. To be called before a long sleep, which
    /// dead entries shall not end. A large slot is left alone: it would take long, and has live entries (`file` sees to that).
    pub(crate) fn settle(&mut self) {
        while let Some((level, index)) = self.first_slot() {
            let slot = &self.slots[level][index];
            if slot.holes == slot.unmatched || slot.records.len() > LARGE_SLOT {
                return;
            }
            self.compact(level, index);
        }
    }

    /// Removes each pair of an entry and its tombstone from a slot.
    fn compact(&mut self, level: usize, index: usize) {
        self.compactions += 1;
        let slot = std::mem::replace(&mut self.slots[level][index], EMPTY);
        self.graves.clear(slot.holes);
        self.pool.for_each(slot.records, |record| {
            if record.is_tombstone() {
                self.graves.dig(record.buried());
            }
        });
        let mut kept = EMPTY;
        let mut records = slot.records;
        while let Some(block) = self.pool.pop(&mut records) {
            for &record in block.iter() {
                if !record.is_tombstone() && !self.graves.fill(record) {
                    kept.earliest = kept.earliest.min(record.deadline());
                    self.pool.push(&mut kept.records, record);
                }
            }
        }
        self.graves.for_each_open(|entry| {
            kept.holes += 1;
            self.pool.push(&mut kept.records, entry.tombstone());
        });
        // On the way to the due list a tombstone is of no use any more: see `file`.
        kept.unmatched = kept.holes;
        self.holes = self.holes + u64::from(kept.holes) - u64::from(slot.holes);
        if kept.records.is_empty() {
            self.occupied[level][index / 64] &= !(1 << (index % 64));
        }
        self.slots[level][index] = kept;
    }

    /// Records in the wheel: entries and tombstones.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn records(&self) -> usize {
        let slots = self.slots.iter().flatten().map(|slot| slot.records.len() as usize);
        self.due.len() as usize + slots.sum::<usize>()
    }

    /// Tombstones in the wheel.
    pub(crate) fn holes(&self) -> u64 {
        self.holes
    }

    pub(crate) fn compactions(&self) -> u64 {
        self.compactions
    }

    pub(crate) fn cascaded(&self) -> u64 {
        self.cascaded
    }
}

#[inline]
fn digit(tick: u64, level: usize) -> usize {
    (tick >> (DIGIT_BITS * level as u32)) as usize % SLOTS
}

#[cfg(all(test, not(loom)))]
mod tests;
