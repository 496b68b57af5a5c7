//! Occupied: which lists have timers, and which slot with timers comes first.

use super::link::FIRST_CELL;
use super::slot::{ALL, FURTHER, SLOTS, SPLIT, SlotNumber};
use core::iter;
use core::ops::Range;

/// A bit for each level, the lowest one first. Only those of levels 1 and 2 are ever set.
pub(super) type LevelBits = u32;

/// Words of bits, of slots.
const WORDS: usize = ALL / 64;

/// Words of the slots of a level.
const LEVEL_WORDS: usize = SLOTS / 64;

/// Those of slots that have further lists.
const SPLIT_WORDS: Range<usize> = SPLIT.start / 64..SPLIT.end / 64;

/// Which lists have timers.
#[derive(Clone, Copy)]
pub(super) struct Occupied {
    /// A bit for each list, by the number of its link.
    words: [u64; FIRST_CELL as usize / 64],
    /// The levels whose further lists may have timers.
    pub(super) further: LevelBits,
    /// A bit for each word of slots with timers, and for some others: `settle` clears those that
    /// come first.
    nonzero: u32,
}

const _: () = assert!(WORDS == 32, "a bit for each word of slots");

impl Occupied {
    pub(super) const fn new() -> Self {
        Self {
            words: [0; FIRST_CELL as usize / 64],
            further: 0,
            nonzero: 0,
        }
    }

    /// A list of a slot has timers.
    #[inline]
    pub(super) fn set(&mut self, slot: SlotNumber, list: u32) {
        self.words[Self::word_of(list)] |= 1 << (list % 64);
        self.nonzero |= 1 << (slot.index() / 64);
    }

    /// Clears a list if it is empty. If it is not, it may be any link: nothing is done. (Without a
    /// branch, which would be hard to predict.)
    #[inline]
    pub(super) fn clear_if(&mut self, list: u32, is_empty: bool) {
        self.words[Self::word_of(list)] &= !(u64::from(is_empty) << (list % 64));
    }

    #[inline]
    pub(super) fn has(&self, list: u32) -> bool {
        self.words[Self::word_of(list)] >> (list % 64) & 1 != 0
    }

    #[inline]
    const fn word_of(list: u32) -> usize {
        (list % FIRST_CELL / 64) as usize
    }

    /// Which of 64 slots have timers, in any of their lists.
    #[inline]
    fn slots(&self, nth: usize) -> u64 {
        let own = self.words[nth % WORDS];
        if self.further >> (nth / LEVEL_WORDS) & 1 == 0 {
            return own;
        }
        own | self.further_slots(nth)
    }

    /// Which of 64 slots that have further lists have timers in these.
    // (No loop: optimized for size, it would stay one, and take registers from the callers.)
    #[inline]
    fn further_slots(&self, nth: usize) -> u64 {
        const { assert!(FURTHER == 4) };
        let of = |list| self.words[WORDS + nth - SPLIT_WORDS.start + list * SPLIT_WORDS.len()];
        of(0) | of(1) | of(2) | of(3)
    }

    /// Further lists of these levels may have timers; those of others have if they do.
    #[inline]
    pub(super) fn set_further(&mut self, levels: LevelBits) {
        let mut left = self.further & !levels;
        self.further = levels;
        while left != 0 {
            let level = left.trailing_zeros();
            let first = level as usize * LEVEL_WORDS;
            if (first..first + LEVEL_WORDS).any(|nth| self.further_slots(nth) != 0) {
                self.further |= 1 << level;
            }
            left &= left - 1;
        }
    }

    #[inline]
    pub(super) fn contains(&self, slot: SlotNumber) -> bool {
        self.slots(slot.index() / 64) >> (slot.index() % 64) & 1 != 0
    }

    /// The first slot of level 0 after one of them.
    #[inline]
    pub(super) fn next_tick(&self, after: usize) -> Option<usize> {
        let from = after + 1;
        let words = self.words[..SLOTS / 64].iter().enumerate().skip(from / 64);
        let masks = iter::once(u64::MAX << (from % 64)).chain(iter::repeat(u64::MAX));
        let mut words = words
            .zip(masks)
            .map(|((nth, word), mask)| (nth, word & mask));
        let (nth, word) = words.find(|&(_, word)| word != 0)?;
        Some(nth * 64 + word.trailing_zeros() as usize)
    }

    #[inline]
    pub(super) fn first(&self) -> Option<SlotNumber> {
        self.first_of(self.nonzero)
    }

    /// The first slot of these words.
    #[inline]
    fn first_of(&self, mut words: u32) -> Option<SlotNumber> {
        while words != 0 {
            let nth = words.trailing_zeros();
            match self.slots(nth as usize) {
                0 => words &= words - 1,
                slots => return Some(SlotNumber::in_word(nth, slots)),
            }
        }
        None
    }

    /// The first slot after one of them.
    #[inline]
    pub(super) fn next(&self, after: SlotNumber) -> Option<SlotNumber> {
        let from = after.index() + 1;
        let nth = (from / 64) as u32;
        let slots = self.slots(from / 64) & u64::MAX << (from % 64);
        if slots != 0 {
            return Some(SlotNumber::in_word(nth, slots));
        }
        self.first_of(self.nonzero & !1 << nth)
    }

    /// `first`, after which no word before that one is looked at again.
    // (`always`: else the rest of the crate decides whether an `enter` calls it.)
    #[inline(always)]
    pub(super) fn settle(&mut self) -> Option<SlotNumber> {
        let first = self.first();
        self.nonzero &= first.map_or(0, |first| u32::MAX << (first.index() / 64));
        first
    }

    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = SlotNumber> {
        iter::successors(self.first(), |&slot| self.next(slot))
    }
}
