//! Place: the level and the index of the slot in which a deadline lies.
//!
//! A deadline and the wheel's time are read as numbers in base 256. The level is the highest digit
//! in which they differ. The index is the deadline's digit there.

use crate::entry::DEADLINE_BITS;

const DIGIT_BITS: u32 = 8;

/// Slots of a level.
pub(super) const SLOTS: usize = 1 << DIGIT_BITS;

/// Levels of a wheel: one for each digit of a deadline.
pub(crate) const LEVELS: usize = DEADLINE_BITS.div_ceil(DIGIT_BITS) as usize;

/// Where a slot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) level: usize,
    pub(super) index: usize,
}

impl Place {
    /// The place of a deadline at or after `now`.
    #[inline]
    pub(super) fn of(deadline: u64, now: u64) -> Self {
        // The highest digit in which they differ; level 0 if they are equal.
        let highest_bit = 63 - ((deadline ^ now) | 1).leading_zeros();
        let level = (highest_bit / DIGIT_BITS) as usize;
        Self {
            level,
            index: (deadline >> (DIGIT_BITS * level as u32)) as usize % SLOTS,
        }
    }

    /// The first tick of this slot, which lies in the future of `now`.
    #[inline]
    pub(super) fn start(self, now: u64) -> u64 {
        let shift = DIGIT_BITS * self.level as u32;
        let above = now >> shift >> DIGIT_BITS << DIGIT_BITS;
        (above | self.index as u64) << shift
    }

    /// Each slot of this level spans two to the power of this many ticks.
    #[inline]
    pub(super) const fn span_bits(level: usize) -> u32 {
        DIGIT_BITS * level as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
            let place = Place::of(deadline, now);
            assert_eq!(
                (place.level, place.index, place.start(now)),
                (level, index, start),
                "{deadline:x}"
            );
        }
    }
}
