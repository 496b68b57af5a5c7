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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_tombstone_is_found_once() {
        let mut graves = Graves::default();
        for tombstones in [1, 32, 33, 5_000] {
            graves.clear(tombstones);
            let entry = |cell: u32| Entry::new(30_000, cell / 2, 1);
            (0..tombstones).for_each(|cell| graves.dig(entry(cell)));
            let filled: Vec<u32> = (0..2 * tombstones).filter(|&cell| cell % 3 == 0 && graves.fill(entry(cell))).collect();
            let mut open = Vec::new();
            graves.for_each_open(|entry| open.push(entry));
            assert!(filled.iter().all(|&cell| cell < tombstones + 1));
            assert_eq!(filled.len() + open.len(), tombstones as usize);
            assert!(open.iter().all(|&entry| graves.fill(entry)) && !graves.fill(entry(0)));
            graves.for_each_open(|entry| panic!("{entry:?} is filled"));
        }
    }

    #[test]
    fn a_table_is_at_most_half_full_and_not_kept_when_it_is_large() {
        let mut graves = Graves::default();
        for (tombstones, size, kept) in [
            (0, 64, KEPT_MAX),
            (32, 64, KEPT_MAX),
            (33, 128, KEPT_MAX),
            (KEPT_MAX as u32 / 2, KEPT_MAX, KEPT_MAX),
            (KEPT_MAX as u32 / 2 + 1, 2 * KEPT_MAX, 2 * KEPT_MAX),
            (KEPT_MAX as u32 + 1, 4 * KEPT_MAX, 4 * KEPT_MAX),
            (KEPT_MAX as u32, 2 * KEPT_MAX, 4 * KEPT_MAX),
            (33, 128, KEPT_MAX),
            (KEPT_MAX as u32, 2 * KEPT_MAX, 2 * KEPT_MAX),
            (KEPT_MAX as u32 / 2, KEPT_MAX, KEPT_MAX),
        ] {
            graves.clear(tombstones);
            assert_eq!((graves.table.len(), graves.mask), (size, size - 1), "for {tombstones}");
            assert!((kept..2 * kept).contains(&graves.table.capacity()), "{} kept for {tombstones}", graves.table.capacity());
        }
    }

    /// Linear probing is short as long as the table is half full: on average less than two places, whatever the entries have in common.
    #[test]
    fn probes_are_short() {
        let mut graves = Graves::default();
        let entries: [fn(u32) -> Entry; 3] = [
            |number| Entry::new(30_000, number, 1),
            |number| Entry::new(30_000, 7, number),
            |number| Entry::new(u64::from(number) << 8, number % 4, 1),
        ];
        for entry in entries {
            let tombstones = KEPT_MAX as u32 / 2;
            graves.clear(tombstones);
            (0..tombstones).for_each(|number| graves.dig(entry(number)));
            let places =
                |number| graves.probe(entry(number)).position(|place| graves.table[place] == entry(number)).expect("it is there") + 1;
            let sum: usize = (0..tombstones).map(places).sum();
            assert!(sum < 2 * tombstones as usize, "{sum} places for {tombstones}");
        }
    }
}
