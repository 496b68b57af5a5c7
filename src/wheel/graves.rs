//! Graves: the tombstones of one slot, as a multiset of the entries they kill.
//!
//! Open addressing with linear probing in a table that is kept between compactions and at most half full.

use crate::entry::Entry;

#[derive(Default)]
pub(super) struct Graves {
    /// Entries to kill, or one of the two markers, which are no tombstone's entry.
    table: Vec<Entry>,
    mask: usize,
    /// Tombstones whose entries have not been found.
    open: usize,
}

/// A place that was never used: the end of a probe.
const NEVER: Entry = Entry::MARKERS[0];

/// A place whose entry has been found. Not `NEVER`: others may lie behind.
const FILLED: Entry = Entry::MARKERS[1];

/// A table larger than this is not kept.
const KEPT_MAX: usize = 1 << 15;

impl Graves {
    /// Empties the table and makes room for so many tombstones.
    pub(super) fn clear(&mut self, tombstones: u32) {
        let size = (2 * tombstones as usize).next_power_of_two().max(64);
        // The kept size at once, so that it never grows step by step.
        if self.table.capacity() == 0 || self.table.len() > KEPT_MAX && size <= KEPT_MAX {
            self.table = Vec::with_capacity(KEPT_MAX.max(size));
        }
        self.table.clear();
        self.table.resize(size, NEVER);
        self.mask = size - 1;
        self.open = 0;
    }

    fn probe(&self, entry: Entry) -> impl Iterator<Item = usize> + use<> {
        let mask = self.mask;
        let first = (entry.hash() >> 32) as usize;
        (0..=mask).map(move |step| (first + step) & mask)
    }

    /// Adds one tombstone, as the entry it kills.
    pub(super) fn dig(&mut self, entry: Entry) {
        let free = self.probe(entry).find(|&place| self.table[place] == NEVER);
        self.table[free.expect("at most half full")] = entry;
        self.open += 1;
    }

    /// Removes one tombstone of this entry. Whether there was one.
    #[inline]
    pub(super) fn fill(&mut self, entry: Entry) -> bool {
        for place in self.probe(entry) {
            let grave = self.table[place];
            if grave == entry {
                self.table[place] = FILLED;
                self.open -= 1;
                return true;
            }
            if grave == NEVER {
                return false;
            }
        }
        false
    }

    /// The entries that did not come.
    pub(super) fn for_each_open(&self, f: impl FnMut(Entry)) {
        if self.open > 0 {
            self.table.iter().copied().filter(|grave| !Entry::MARKERS.contains(grave)).for_each(f);
        }
    }
}
