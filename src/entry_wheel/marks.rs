//! Marks: a set of slots of all levels that is nearly always empty.

use super::place::{LEVELS, Place};
use super::slot_set::SlotSet;

/// Marked slots. Each turn of a shard asks for the first one: one comparison if there is none.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks {
    sets: [SlotSet; LEVELS],
    /// A bit for each level that has a marked slot.
    levels: u8,
}

const _: () = assert!(LEVELS <= 8, "a bit for each level");

impl Marks {
    #[inline]
    pub(super) fn set(&mut self, Place { level, index }: Place) {
        self.sets[level].set(index);
        self.levels |= 1 << level;
    }

    #[inline]
    pub(super) fn clear(&mut self, place: Place) {
        if self.levels != 0 {
            self.clear_some(place);
        }
    }

    #[cold]
    fn clear_some(&mut self, Place { level, index }: Place) {
        self.sets[level].clear(index);
        self.note(level);
    }

    /// Notes whether a level has a marked slot.
    fn note(&mut self, level: usize) {
        let is_marked = self.sets[level].first().is_some();
        self.levels = self.levels & !(1 << level) | u8::from(is_marked) << level;
    }

    /// The first one in the levels from `least` on. Lower levels come first.
    #[inline]
    pub(super) fn first(&self, least: usize) -> Option<Place> {
        let level = (self.levels >> least << least).trailing_zeros() as usize;
        let index = self.sets.get(level)?.first()?;
        Some(Place { level, index })
    }

    /// Takes over the marks of the levels below `end`. There are none here.
    pub(super) fn adopt(&mut self, from: &Self, end: usize) {
        for level in 0..end {
            self.sets[level] = from.sets[level];
            self.note(level);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn contains(&self, Place { level, index }: Place) -> bool {
        self.sets[level].contains(index)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn marks_come_and_go_one_by_one() {
        let places = [(0, 3), (0, 255), (1, 0), (4, 64), (6, 1), (6, 200)];
        let places = places.map(|(level, index)| Place { level, index });
        let mut marks = Marks::default();
        let mut adopted = Marks::default();
        for _ in 0..2 {
            assert_eq!((marks.first(0), marks.levels), (None, 0));
            places.iter().rev().for_each(|&place| marks.set(place));
            adopted.adopt(&marks, 6);
            for (nth, &place) in places.iter().enumerate() {
                assert!(marks.contains(place));
                assert_eq!(marks.first(0), Some(place));
                assert!(marks.first(1).is_none_or(|place| place.level > 0));
                let is_low = place.level < 6;
                assert_eq!(adopted.first(0), Some(place).filter(|_| is_low));
                for marks in [&mut marks, &mut adopted] {
                    marks.clear(place);
                    marks.clear(place);
                }
                assert_eq!(marks.first(0), places.get(nth + 1).copied());
            }
        }
    }
}
