//! Slot number: the level and the digit of a deadline at a time, in one number.

use core::ops::Range;

/// Bits of a digit.
const BITS: u32 = 8;

/// Slots of a level.
pub(super) const SLOTS: usize = 1 << BITS;

/// Levels: 7 x 8 bits have all of the 52 bits of a deadline.
const LEVELS: usize = 7;

/// All slots, and some that are never used: so that no index is too large.
pub(super) const ALL: usize = (LEVELS * SLOTS).next_power_of_two();

/// Further lists of a slot that has some.
pub(super) const FURTHER: usize = 4;

/// Slots that have some: those of levels 1 and 2.
pub(super) const SPLIT: Range<usize> = SLOTS..3 * SLOTS;

/// The number of a slot: its level and its digit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotNumber(u16);

impl SlotNumber {
    /// 256 times the level, and the digit.
    #[inline]
    pub(super) const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The first of 64 slots that have a bit here, those of the `nth` word.
    #[inline]
    pub(super) const fn in_word(nth: u32, slots: u64) -> Self {
        Self((nth * 64 + slots.trailing_zeros()) as u16)
    }

    /// Where a deadline belongs, and the tick at which that slot begins.
    #[inline]
    pub(super) fn of(deadline: u64, time: u64) -> (Self, u64) {
        let shift = ((deadline ^ time) | 1).ilog2() / BITS * BITS;
        let digit = (deadline >> shift) as u16 % SLOTS as u16;
        // (The level is at most 6.)
        let number = (shift * (SLOTS as u32 / BITS)) as u16 | digit;
        (Self(number), deadline >> shift << shift)
    }

    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0 as usize % ALL
    }

    #[inline]
    pub(super) const fn link(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(super) const fn level(self) -> usize {
        self.index() / SLOTS
    }

    /// Whether it is of one tick.
    #[inline]
    pub(super) const fn is_tick(self) -> bool {
        (self.0 as usize) < SLOTS
    }

    /// The tick at which it begins.
    #[inline]
    pub(super) const fn begin(self, time: u64) -> u64 {
        let shift = (self.index() / SLOTS) as u32 * BITS;
        let above = time >> shift >> BITS << BITS;
        (above | (self.index() % SLOTS) as u64) << shift
    }
}
