//! Rows: the slots of all levels around one point in time, and which of them are occupied.

use super::chunk::Form;
use super::slot::{LARGE_SLOT, Slot};
use super::stock::Stock;
use crate::entry::{DEADLINE_BITS, Entry};

const DIGIT_BITS: u32 = 8;
const SLOTS: usize = 1 << DIGIT_BITS;
pub(crate) const LEVELS: usize = DEADLINE_BITS.div_ceil(DIGIT_BITS) as usize;

/// A bit for each slot of a level.
#[derive(Clone, Copy, Default)]
struct Bits([u64; SLOTS / 64]);

impl Bits {
    #[inline]
    fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn clear(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    /// Those that are set.
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let is_set = |index: &usize| self.0[index / 64] >> (index % 64) & 1 != 0;
        (0..SLOTS).filter(is_set)
    }

    fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }
}

/// Where a slot is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) level: usize,
    pub(super) index: usize,
}

pub(super) struct Rows {
    pub(super) now: u64,
    slots: Box<[[Slot; SLOTS]; LEVELS]>,
    occupied: [Bits; LEVELS],
    /// The large ones.
    large: [Bits; LEVELS],
    /// Those that are to be compacted.
    to_be_compacted: [Bits; LEVELS],
}

impl Rows {
    /// Empty rows around the tick `now`.
    pub(super) fn new(now: u64) -> Self {
        let slots: Box<[_]> = (0..LEVELS).map(|_| [Slot::EMPTY; SLOTS]).collect();
        Self {
            now,
            slots: slots.try_into().unwrap_or_else(|_| unreachable!("LEVELS of them")),
            occupied: [Bits::default(); LEVELS],
            large: [Bits::default(); LEVELS],
            to_be_compacted: [Bits::default(); LEVELS],
        }
    }

    /// The place of a deadline at or after `now`.
    #[inline]
    fn place(&self, deadline: u64) -> Place {
        // The highest digit in which they differ; level 0 if they are equal.
        let highest_bit = 63 - ((deadline ^ self.now) | 1).leading_zeros();
        let level = (highest_bit / DIGIT_BITS) as usize;
        Place { level, index: (deadline >> (DIGIT_BITS * level as u32)) as usize % SLOTS }
    }

    /// Files an entry whose deadline is not before `now`.
    #[inline]
    pub(super) fn file(&mut self, entry: Entry, stock: &mut Stock) {
        let Place { level, index } = self.place(entry.deadline());
        stock.levels[level] += 1;
        self.occupied[level].set(index);
        let slot = &mut self.slots[level][index];
        slot.file(entry, Form::of_span(DIGIT_BITS * level as u32), &mut stock.pool);
        if slot.len() == LARGE_SLOT + 1 {
            self.large[level].set(index);
        }
    }

    /// Counts a tombstone where its entry lies, or will lie. If that is mostly dead then it is compacted, or marked for it.
    #[inline]
    pub(super) fn bury(&mut self, deadline: u64, stock: &mut Stock) {
        let place = self.place(deadline);
        let slot = &mut self.slots[place.level][place.index];
        if let Some(ahead) = &mut slot.ahead {
            // What has not been cascaded yet is looked at when it is.
            ahead.bury(deadline, stock);
        } else if !slot.is_empty() {
            slot.holes += 1;
            stock.holes += 1;
            if slot.is_to_be_compacted() {
                self.compact_soon(place, stock);
            }
        }
    }

    pub(super) fn slot(&self, place: Place) -> &Slot {
        &self.slots[place.level][place.index]
    }

    /// Compacts a slot that is mostly dead, now if that is a small thing, else later.
    #[cold]
    fn compact_soon(&mut self, place: Place, stock: &mut Stock) {
        if stock.compacts_at_once(self.slot(place).is_compacted_at_once()) {
            self.compact(place, u64::MAX, stock);
        } else {
            self.to_be_compacted[place.level].set(place.index);
        }
    }

    /// Compacts a slot, if it is large until `budget_end` entries have been moved.
    pub(super) fn compact(&mut self, place: Place, budget_end: u64, stock: &mut Stock) {
        self.work_on(place, stock, |slot, _, stock| slot.compact(budget_end, stock));
        if !self.slot(place).is_to_be_compacted() {
            self.to_be_compacted[place.level].clear(place.index);
        }
    }

    /// Has all slots compacted of which more than an eighth is dead. Looks at every slot that is not empty.
    pub(super) fn mark_partly_dead(&mut self) {
        for (level, slots) in self.slots.iter().enumerate() {
            for index in self.occupied[level].iter().filter(|&index| slots[index].is_partly_dead()) {
                self.to_be_compacted[level].set(index);
            }
        }
    }

    /// Cascades a slot ahead of its start, until no more than `rest` entries are left, or `budget_end` entries have been moved.
    pub(super) fn cascade(&mut self, place: Place, rest: u32, budget_end: u64, stock: &mut Stock) {
        self.work_on(place, stock, |slot, start, stock| slot.cascade(start, rest, budget_end, stock));
    }

    /// Drops the entries that `keeps` says no to.
    pub(super) fn retain(&mut self, keeps: &mut impl FnMut(Entry) -> bool, stock: &mut Stock) {
        for level in 0..LEVELS {
            let occupied = self.occupied[level];
            for index in occupied.iter() {
                self.work_on(Place { level, index }, stock, |slot, _, stock| slot.retain(keeps, stock));
            }
        }
    }

    fn work_on(&mut self, place @ Place { level, index }: Place, stock: &mut Stock, work: impl FnOnce(&mut Slot, u64, &mut Stock)) {
        let start = self.start(place);
        let slot = &mut self.slots[level][index];
        let before = slot.len();
        work(slot, start, stock);
        stock.levels[level] -= u64::from(before - slot.len());
        if slot.is_empty() {
            slot.forget_holes(stock);
            self.occupied[level].clear(index);
        }
        if !slot.is_large() {
            self.large[level].clear(index);
        }
    }

    /// The first occupied slot: lower levels come first, they hold the near future.
    pub(super) fn first(&self) -> Option<(Place, &Slot)> {
        let (level, index) = self.occupied.iter().enumerate().find_map(|(level, bits)| Some((level, bits.first()?)))?;
        Some((Place { level, index }, &self.slots[level][index]))
    }

    /// The first large slot that has to be cascaded.
    pub(super) fn first_large(&self) -> Option<Place> {
        (1..LEVELS).find_map(|level| Some(Place { level, index: self.large[level].first()? }))
    }

    /// The first slot that is to be compacted.
    pub(super) fn first_to_be_compacted(&self) -> Option<Place> {
        self.to_be_compacted.iter().enumerate().find_map(|(level, bits)| Some(Place { level, index: bits.first()? }))
    }

    /// The first tick of a slot in the future.
    pub(super) fn start(&self, place: Place) -> u64 {
        let shift = DIGIT_BITS * place.level as u32;
        let above = self.now >> shift >> DIGIT_BITS << DIGIT_BITS;
        (above | place.index as u64) << shift
    }

    /// Moves time to the start of a slot and takes it out. And whether some of its entries may be known to be dead.
    pub(super) fn enter(&mut self, place @ Place { level, index }: Place, stock: &mut Stock) -> (Slot, bool) {
        self.now = self.start(place);
        self.occupied[level].clear(index);
        self.large[level].clear(index);
        self.to_be_compacted[level].clear(index);
        let mut slot = std::mem::replace(&mut self.slots[level][index], Slot::EMPTY);
        let has_dead = slot.holes > 0 || slot.is_in_compaction();
        slot.forget_holes(stock);
        stock.levels[level] -= u64::from(slot.len());
        (slot, has_dead)
    }

    /// Takes over the levels below `level`, which are empty here.
    pub(super) fn adopt(&mut self, mut rows: Self, level: usize) {
        self.slots[..level].swap_with_slice(&mut rows.slots[..level]);
        self.occupied[..level].copy_from_slice(&rows.occupied[..level]);
        self.large[..level].copy_from_slice(&rows.large[..level]);
        self.to_be_compacted[..level].copy_from_slice(&rows.to_be_compacted[..level]);
    }

    /// Entries in all slots, those that were cascaded ahead of time too.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        self.slots.iter().flatten().map(|slot| slot.len() as usize + slot.ahead.as_ref().map_or(0, |ahead| ahead.len())).sum()
    }

    /// Checks that counts and bits tell what is in the slots. Returns how many tombstones they count, and adds the entries of each level.
    #[cfg(all(test, not(loom)))]
    pub(super) fn check(&self, pool: &super::chunk::Pool, levels: &mut [u64; LEVELS]) -> u64 {
        let mut holes = 0;
        for (level, slots) in self.slots.iter().enumerate() {
            for (index, slot) in slots.iter().enumerate() {
                let is_in = |bits: &[Bits; LEVELS]| bits[level].0[index / 64] >> (index % 64) & 1 != 0;
                let (mut entries, mut earliest) = (0, u64::MAX);
                pool.for_each(slot.entries, |entry| {
                    entries += 1;
                    earliest = earliest.min(entry.deadline());
                });
                assert_eq!(entries, slot.len());
                levels[level] += u64::from(entries);
                assert!(slot.is_large() || slot.earliest <= earliest);
                assert_eq!(is_in(&self.occupied), !slot.is_empty());
                assert_eq!(is_in(&self.large), slot.is_large());
                // Entries may come to one that is not worth it yet, until it is worth it: then the next tombstone finds that.
                assert!(is_in(&self.to_be_compacted) || !slot.is_in_compaction() && !slot.has_holes(2));
                assert!(slot.holes == 0 || !slot.is_empty());
                holes += u64::from(slot.holes) + slot.ahead.as_ref().map_or(0, |ahead| ahead.check(pool, levels));
            }
        }
        holes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_and_cleared_one_by_one() {
        let mut bits = Bits::default();
        assert_eq!(bits.first(), None);
        let set = [0, 1, 5, 63, 64, 65, 127, 128, 200, 255];
        set.iter().rev().for_each(|&index| bits.set(index));
        for cleared in 0..set.len() {
            assert!(bits.iter().eq(set[cleared..].iter().copied()));
            assert_eq!(bits.first(), Some(set[cleared]));
            bits.clear(set[cleared]);
            bits.clear(set[cleared]);
        }
        assert_eq!((bits.first(), bits.iter().count()), (None, 0));
    }

    #[test]
    fn a_place_is_the_highest_digit_that_differs() {
        let now = 0x0a_0b0c_0d0e;
        for (deadline, level, index, start) in [
            (now, 0, 0x0e, now),
            (now + 1, 0, 0x0f, now + 1),
            (0x0a_0b0c_0dff, 0, 0xff, 0x0a_0b0c_0dff),
            (0x0a_0b0c_0e00, 1, 0x0e, 0x0a_0b0c_0e00),
            (0x0a_0b0c_ffff, 1, 0xff, 0x0a_0b0c_ff00),
            (0x0a_0b0d_0d0e, 2, 0x0d, 0x0a_0b0d_0000),
            (0x0b_0b0c_0d0e, 4, 0x0b, 0x0b_0000_0000),
            (0xff0b_0b0c_0d0e, 5, 0xff, 0xff00_0000_0000),
        ] {
            let rows = Rows::new(now);
            let place = rows.place(deadline);
            assert_eq!((place.level, place.index, rows.start(place)), (level, index, start), "{deadline:x}");
        }
    }
}
