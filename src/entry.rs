//! Entry: the 16 bytes that name an armed timer on its way through lanes, wheel and dispatch.
//!
//! Plain data, copied freely. An entry is only a claim to look: whether its timer is still alive is decided by one
//! compare-and-swap on the cell that it names.

/// Bits of a deadline: 2^52 ticks are 142,000 years of milliseconds, 142 years of microseconds.
pub(crate) const DEADLINE_BITS: u32 = 52;

/// The last tick there is. Later deadlines are held at it.
pub(crate) const DEADLINE_MAX: u64 = (1 << DEADLINE_BITS) - 1;

/// Bits of a tag: all of the cell's count, so that no two filings of a cell have the same one.
const TAG_BITS: u32 = 40;

/// The kind bit: set in a tombstone.
const TOMBSTONE: u64 = 1 << DEADLINE_BITS;

/// Where the bits of the tag are that `key` has no room for: above all else.
const TAG_HIGH_SHIFT: u32 = 64 - (TAG_BITS - 32);

const _: () = assert!(TAG_HIGH_SHIFT > DEADLINE_BITS);

/// Bits of a deadline that a narrow entry has.
pub(crate) const NARROW_BITS: u32 = 24;

const NARROW_MAX: u64 = (1 << NARROW_BITS) - 1;

/// `{deadline | kind, cell, tag}`: an insert, or the tombstone of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Entry {
    /// `highest 8 bits of the tag << 56 | kind << 52 | deadline`.
    word: u64,
    /// `lowest 32 bits of the tag << 32 | cell`. Two words, not three fields: the compiler then keeps an entry in two registers.
    key: u64,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    /// A value that no entry has, and no tombstone: for tables of entries.
    pub(crate) const NONE: Self = Self { word: u64::MAX, key: 0 };

    #[inline]
    pub(crate) fn new(deadline: u64, cell: u32, tag: u64) -> Self {
        debug_assert!(deadline <= DEADLINE_MAX && tag >> TAG_BITS == 0);
        Self { word: deadline | tag >> 32 << TAG_HIGH_SHIFT, key: tag << 32 | u64::from(cell) }
    }

    /// The tombstone of this entry.
    #[inline]
    pub(crate) fn tombstone(self) -> Self {
        Self { word: self.word | TOMBSTONE, ..self }
    }

    /// Whether this is the entry that the tombstone kills, though its deadline be another one.
    #[inline]
    pub(crate) fn is_buried_by(self, tombstone: Self) -> bool {
        self.key == tombstone.key && (self.word ^ tombstone.word) >> TAG_HIGH_SHIFT == 0
    }

    #[inline]
    pub(crate) fn is_tombstone(self) -> bool {
        self.word & TOMBSTONE != 0
    }

    /// The insert, due so many ticks later; a tombstone as it is.
    #[inline]
    pub(crate) fn delayed(self, ticks: u64) -> Self {
        if self.is_tombstone() {
            return self;
        }
        let deadline = self.deadline().saturating_add(ticks).min(DEADLINE_MAX);
        Self { word: self.word & !DEADLINE_MAX | deadline, ..self }
    }

    /// Index of the timer's cell in the arena.
    #[inline]
    pub(crate) fn cell(self) -> u32 {
        self.key as u32
    }

    /// The cell's count when the timer was filed.
    #[inline]
    pub(crate) fn tag(self) -> u64 {
        self.key >> 32 | self.word >> TAG_HIGH_SHIFT << 32
    }

    /// Whether this filing of a cell comes before the one that `tag` names. Counts that go round are told apart as long as they are no more than half a round apart.
    #[inline]
    pub(crate) fn is_before(self, tag: u64) -> bool {
        Self::distance(self.tag(), tag) > 0
    }

    /// How many filings of a cell one comes after another.
    #[inline]
    pub(crate) fn distance(tag: u64, other: u64) -> i64 {
        const SHIFT: u32 = u64::BITS - TAG_BITS;
        (other.wrapping_sub(tag) << SHIFT) as i64 >> SHIFT
    }

    /// Absolute, in ticks.
    #[inline]
    pub(crate) fn deadline(self) -> u64 {
        self.word & DEADLINE_MAX
    }

    /// The bits of the deadline that are not in `narrow`.
    #[inline]
    pub(crate) fn high(self) -> u64 {
        self.deadline() & !NARROW_MAX
    }

    /// An insert in 12 bytes: without the higher bits of its deadline.
    #[inline]
    pub(crate) fn narrow(self) -> [u32; 3] {
        debug_assert!(!self.is_tombstone());
        const { assert!(NARROW_BITS + TAG_BITS - 32 == 32) };
        let tag_high = (self.word >> TAG_HIGH_SHIFT << NARROW_BITS) as u32;
        [self.key as u32, (self.key >> 32) as u32, tag_high | (self.word & NARROW_MAX) as u32]
    }

    /// The insert of these, with the higher bits of its deadline.
    #[inline]
    pub(crate) fn widened([cell, tag, last]: [u32; 3], high: u64) -> Self {
        let last = u64::from(last);
        Self { word: last >> NARROW_BITS << TAG_HIGH_SHIFT | high | last & NARROW_MAX, key: u64::from(tag) << 32 | u64::from(cell) }
    }

    /// All 16 bytes.
    #[inline]
    pub(crate) fn words(self) -> [u32; 4] {
        [self.key as u32, (self.key >> 32) as u32, self.word as u32, (self.word >> 32) as u32]
    }

    /// The entry of these.
    #[inline]
    pub(crate) fn from_words(words: [u32; 4]) -> Self {
        let [cell, tag, low, high] = words.map(u64::from);
        Self { word: high << 32 | low, key: tag << 32 | cell }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let tags = [0, 1, u64::from(u32::MAX), 1 << 32, (1 << TAG_BITS) - 1];
        for (deadline, cell, tag) in [0, 1, DEADLINE_MAX].into_iter().flat_map(|deadline| tags.map(|tag| (deadline, tag as u32, tag))) {
            let entry = Entry::new(deadline, cell, tag);
            for (entry, is_tombstone) in [(entry, false), (entry.tombstone(), true)] {
                assert_eq!((entry.deadline(), entry.cell(), entry.tag(), entry.is_tombstone()), (deadline, cell, tag, is_tombstone));
                assert_ne!(entry, Entry::NONE);
                assert_eq!(Entry::from_words(entry.words()), entry);
            }
            assert_eq!(entry.tombstone().delayed(7), entry.tombstone());
            assert!(entry.is_buried_by(entry.tombstone()) && entry.delayed(7).is_buried_by(entry.tombstone()));
            for (other_cell, other_tag) in [(cell ^ 1, tag), (cell, tag ^ 1), (cell, tag ^ 1 << 32)] {
                assert!(!Entry::new(deadline, other_cell, other_tag).is_buried_by(entry.tombstone()));
            }
            assert!(!Entry::NONE.is_buried_by(entry.tombstone()) || tag >> 32 == 255);
            assert_eq!(entry.delayed(7), Entry::new((deadline + 7).min(DEADLINE_MAX), cell, tag));
            assert_eq!(entry.delayed(u64::MAX).deadline(), DEADLINE_MAX);
            assert_eq!(Entry::widened(entry.narrow(), entry.high()), entry);
            assert_eq!(entry.high(), deadline >> NARROW_BITS << NARROW_BITS);
        }
    }

    #[test]
    fn tags_are_in_order_though_counts_go_round() {
        let round = 1 << TAG_BITS;
        for (tag, other, distance) in
            [(5, 5, 0), (5, 6, 1), (6, 5, -1), (round - 1, 0, 1), (0, round - 1, -1), (3, round / 2 + 2, round as i64 / 2 - 1)]
        {
            assert_eq!(Entry::distance(tag, other), distance);
            assert_eq!(Entry::new(0, 0, tag).is_before(other), distance > 0);
        }
    }
}
