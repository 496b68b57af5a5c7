//! Entry: the 16 bytes that name an armed timer on its way through lanes, wheel and dispatch.
//!
//! Plain data, copied freely. An entry does not own its timer. It names the timer's cell, and one
//! compare-and-swap on that cell decides whether the timer is still alive.

/// Bits of a deadline: 2^52 ticks are 142,000 years of milliseconds, 142 years of microseconds.
pub(crate) const DEADLINE_BITS: u32 = 52;

/// The last tick. Later deadlines are held at it.
pub(crate) const DEADLINE_MAX: u64 = (1 << DEADLINE_BITS) - 1;

/// Bits of a generation. After the last one they go round. It is the whole generation of the cell,
/// so no two entries of a cell have the same one. (The cell's word has it in its highest bits, as
/// an entry has the highest ones: so the one is made of the other by few instructions.)
pub(crate) const GENERATION_BITS: u32 = 38;

/// The kind bit: set in a tombstone.
const TOMBSTONE: u64 = 1 << DEADLINE_BITS;

/// The position in `word` of the generation's bits for which `key` has no room: above all others.
const GENERATION_HIGH_SHIFT: u32 = 64 - (GENERATION_BITS - 32);

const _: () = assert!(GENERATION_HIGH_SHIFT > DEADLINE_BITS);

/// Bits of the deadline that a narrow entry holds.
pub(crate) const NARROW_BITS: u32 = 26;

const NARROW_MAX: u64 = (1 << NARROW_BITS) - 1;

/// `{deadline | kind, cell, generation}`: an insert, or the tombstone of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Entry {
    /// `highest 6 bits of the generation << 58 | kind << 52 | deadline`.
    word: u64,
    /// `lowest 32 bits of the generation << 32 | cell`. Two words, not three fields: so the
    /// compiler keeps an entry in two registers.
    key: u64,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    /// A value that no entry and no tombstone has: a free place in a table of entries.
    pub(crate) const NONE: Self = Self {
        word: u64::MAX,
        key: 0,
    };

    #[inline]
    pub(crate) fn new(deadline: u64, cell: u32, generation: u64) -> Self {
        debug_assert!(deadline <= DEADLINE_MAX && generation >> GENERATION_BITS == 0);
        Self {
            word: deadline | generation >> 32 << GENERATION_HIGH_SHIFT,
            key: generation << 32 | u64::from(cell),
        }
    }

    /// The tombstone of this entry.
    #[inline]
    pub(crate) fn tombstone(self) -> Self {
        Self {
            word: self.word | TOMBSTONE,
            ..self
        }
    }

    /// Whether the tombstone names this entry: same cell, same generation. Their deadlines may
    /// differ.
    #[inline]
    pub(crate) fn is_cancelled_by(self, tombstone: Self) -> bool {
        self.key == tombstone.key && (self.word ^ tombstone.word) >> GENERATION_HIGH_SHIFT == 0
    }

    #[inline]
    pub(crate) fn is_tombstone(self) -> bool {
        self.word & TOMBSTONE != 0
    }

    /// This entry with a deadline `ticks` later. A tombstone stays as it is.
    #[inline]
    pub(crate) fn delayed(self, ticks: u64) -> Self {
        if self.is_tombstone() {
            return self;
        }
        let deadline = self.deadline().saturating_add(ticks).min(DEADLINE_MAX);
        Self {
            word: self.word & !DEADLINE_MAX | deadline,
            ..self
        }
    }

    /// Index of the timer's cell in the arena.
    #[inline]
    pub(crate) fn cell(self) -> u32 {
        self.key as u32
    }

    /// The cell's generation when the timer was armed.
    #[inline]
    pub(crate) fn generation(self) -> u64 {
        self.key >> 32 | self.word >> GENERATION_HIGH_SHIFT << 32
    }

    /// Whether this entry's generation comes before `generation`, of the same cell. Generations go
    /// round: the answer is right if they are at most half a round apart.
    #[inline]
    pub(crate) fn is_before(self, generation: u64) -> bool {
        Self::distance(self.generation(), generation) > 0
    }

    /// How many generations `other` comes after `generation`. Negative if it comes before.
    #[inline]
    pub(crate) fn distance(generation: u64, other: u64) -> i64 {
        const SHIFT: u32 = u64::BITS - GENERATION_BITS;
        (other.wrapping_sub(generation) << SHIFT) as i64 >> SHIFT
    }

    /// The deadline: absolute, in ticks.
    #[inline]
    pub(crate) fn deadline(self) -> u64 {
        self.word & DEADLINE_MAX
    }

    /// The bits of the deadline that `narrow` does not hold.
    #[inline]
    pub(crate) fn high(self) -> u64 {
        self.deadline() & !NARROW_MAX
    }

    /// The entry in 12 bytes, without the higher bits of its deadline. Not for tombstones.
    #[inline]
    pub(crate) fn narrow(self) -> [u32; 3] {
        debug_assert!(!self.is_tombstone());
        const { assert!(NARROW_BITS + GENERATION_BITS - 32 == 32) };
        let generation_high = (self.word >> GENERATION_HIGH_SHIFT << NARROW_BITS) as u32;
        [
            self.key as u32,
            (self.key >> 32) as u32,
            generation_high | (self.word & NARROW_MAX) as u32,
        ]
    }

    /// The entry of these 12 bytes and the higher bits of its deadline.
    #[inline]
    pub(crate) fn widened([cell, generation, last]: [u32; 3], high: u64) -> Self {
        let last = u64::from(last);
        Self {
            word: last >> NARROW_BITS << GENERATION_HIGH_SHIFT | high | last & NARROW_MAX,
            key: u64::from(generation) << 32 | u64::from(cell),
        }
    }

    /// The entry in 16 bytes.
    #[inline]
    pub(crate) fn words(self) -> [u32; 4] {
        [
            self.key as u32,
            (self.key >> 32) as u32,
            self.word as u32,
            (self.word >> 32) as u32,
        ]
    }

    /// The entry of these 16 bytes.
    #[inline]
    pub(crate) fn from_words(words: [u32; 4]) -> Self {
        let [cell, generation, low, high] = words.map(u64::from);
        Self {
            word: high << 32 | low,
            key: generation << 32 | cell,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let generations = [
            0,
            1,
            u64::from(u32::MAX),
            1 << 32,
            (1 << GENERATION_BITS) - 1,
        ];
        for (deadline, cell, generation) in [0, 1, DEADLINE_MAX].into_iter().flat_map(|deadline| {
            generations.map(|generation| (deadline, generation as u32, generation))
        }) {
            let entry = Entry::new(deadline, cell, generation);
            for (entry, is_tombstone) in [(entry, false), (entry.tombstone(), true)] {
                assert_eq!(
                    (
                        entry.deadline(),
                        entry.cell(),
                        entry.generation(),
                        entry.is_tombstone()
                    ),
                    (deadline, cell, generation, is_tombstone)
                );
                assert_ne!(entry, Entry::NONE);
                assert_eq!(Entry::from_words(entry.words()), entry);
            }
            assert_eq!(entry.tombstone().delayed(7), entry.tombstone());
            assert!(
                entry.is_cancelled_by(entry.tombstone())
                    && entry.delayed(7).is_cancelled_by(entry.tombstone())
            );
            for (other_cell, other_generation) in [
                (cell ^ 1, generation),
                (cell, generation ^ 1),
                (cell, generation ^ 1 << 32),
            ] {
                assert!(
                    !Entry::new(deadline, other_cell, other_generation)
                        .is_cancelled_by(entry.tombstone())
                );
            }
            assert!(!Entry::NONE.is_cancelled_by(entry.tombstone()) || generation >> 32 == 63);
            assert_eq!(
                entry.delayed(7),
                Entry::new((deadline + 7).min(DEADLINE_MAX), cell, generation)
            );
            assert_eq!(entry.delayed(u64::MAX).deadline(), DEADLINE_MAX);
            assert_eq!(Entry::widened(entry.narrow(), entry.high()), entry);
            assert_eq!(entry.high(), deadline >> NARROW_BITS << NARROW_BITS);
        }
    }

    #[test]
    fn generations_are_in_order_though_they_go_round() {
        let round = 1 << GENERATION_BITS;
        for (generation, other, distance) in [
            (5, 5, 0),
            (5, 6, 1),
            (6, 5, -1),
            (round - 1, 0, 1),
            (0, round - 1, -1),
            (3, round / 2 + 2, round as i64 / 2 - 1),
        ] {
            assert_eq!(Entry::distance(generation, other), distance);
            assert_eq!(Entry::new(0, 0, generation).is_before(other), distance > 0);
        }
    }
}
