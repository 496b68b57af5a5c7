//! Slot set: a bit for each slot of a level.

use super::place::SLOTS;

/// Slots of one level. The first one is found without a look at the slots.
#[derive(Clone, Copy, Default)]
pub(super) struct SlotSet([u64; SLOTS / 64]);

impl SlotSet {
    #[inline]
    pub(super) fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    #[inline]
    pub(super) fn clear(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    #[inline]
    pub(super) fn contains(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 != 0
    }

    /// The slots in the set, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..SLOTS).filter(|&index| self.contains(index))
    }

    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        // (No loop: optimized for size, it would stay one.)
        let (before, word) = match self.0 {
            [0, 0, 0, 0] => return None,
            [0, 0, 0, word] => (192, word),
            [0, 0, word, _] => (128, word),
            [0, word, _, _] => (64, word),
            [word, _, _, _] => (0, word),
        };
        Some(before + word.trailing_zeros() as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_and_cleared_one_by_one() {
        let mut slots = SlotSet::default();
        assert_eq!(slots.first(), None);
        let set = [0, 1, 5, 63, 64, 65, 127, 128, 200, 255];
        set.iter().rev().for_each(|&index| slots.set(index));
        for cleared in 0..set.len() {
            assert!(slots.iter().eq(set[cleared..].iter().copied()));
            assert_eq!(slots.first(), Some(set[cleared]));
            slots.clear(set[cleared]);
            slots.clear(set[cleared]);
        }
        assert_eq!((slots.first(), slots.iter().count()), (None, 0));
    }
}
