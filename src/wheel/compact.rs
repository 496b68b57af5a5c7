//! Graves: the tombstones of one slot, as a multiset of the entries they kill.
//!
//! Open addressing with linear probing in a table that is kept between compactions and at most half full.

use crate::entry::Entry;

/// A place of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grave {
    Never,
    Open(Entry),
    /// The entry has been found. Not `Never`: others may lie behind.
    Filled,
}

#[derive(Default)]
pub(super) struct Graves {
    table: Vec<Grave>,
    mask: usize,
}

/// A table larger than this is not kept.
const KEPT_MAX: usize = 1 << 12;

impl Graves {
    /// Empties the table and makes room for so many tombstones.
    pub(super) fn open(&mut self, tombstones: u32) {
        let size = (2 * tombstones as usize).next_power_of_two().max(64);
        if self.table.len() > KEPT_MAX && size <= KEPT_MAX {
            self.table = Vec::new();
        }
        self.table.clear();
        self.table.resize(size, Grave::Never);
        self.mask = size - 1;
    }

    fn probe(&self, entry: Entry) -> impl Iterator<Item = usize> + use<> {
        // Fibonacci hashing of what differs between the entries of a slot.
        let key = u64::from(entry.cell) << 32 | u64::from(entry.tag);
        let hash = (key ^ entry.deadline().rotate_left(20)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mask = self.mask;
        let first = (hash >> 32) as usize;
        (0..=mask).map(move |step| (first + step) & mask)
    }

    /// Adds one tombstone.
    pub(super) fn dig(&mut self, entry: Entry) {
        let free = self.probe(entry).find(|&place| self.table[place] == Grave::Never);
        self.table[free.expect("at most half full")] = Grave::Open(entry);
    }

    /// Removes one tombstone of this entry. Whether there was one.
    pub(super) fn fill(&mut self, entry: Entry) -> bool {
        for place in self.probe(entry) {
            match self.table[place] {
                Grave::Never => return false,
                Grave::Open(dead) if dead == entry => {
                    self.table[place] = Grave::Filled;
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// The tombstones whose entries were not there.
    pub(super) fn for_each_open(&self, mut f: impl FnMut(Entry)) {
        for &grave in &self.table {
            if let Grave::Open(entry) = grave {
                f(entry);
            }
        }
    }
}
