//! Entry: the 16 bytes that name an armed timer on its way through lanes, wheel and dispatch.
//!
//! Plain data, copied freely. An entry is only a claim to look: whether its timer is still alive is decided by one
//! compare-and-swap on the cell that it names.

/// Bits of a deadline: 2^52 ticks are 142,000 years of milliseconds, 142 years of microseconds.
pub(crate) const DEADLINE_BITS: u32 = 52;

/// The last tick there is. Later deadlines are held at it.
pub(crate) const DEADLINE_MAX: u64 = (1 << DEADLINE_BITS) - 1;

/// The kind bit: set in a tombstone.
const TOMBSTONE: u64 = 1 << 63;

/// `{deadline | kind, cell, tag}`: an insert, or the tombstone of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Entry {
    word: u64,
    /// `tag << 32 | cell`. Two words, not three fields: the compiler then keeps an entry in two registers.
    key: u64,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    /// Values that no entry has, and no tombstone: for tables of entries.
    pub(crate) const MARKERS: [Self; 2] = [Self { word: u64::MAX, key: 0 }, Self { word: u64::MAX, key: 1 }];

    #[inline]
    pub(crate) fn new(deadline: u64, cell: u32, tag: u32) -> Self {
        debug_assert!(deadline <= DEADLINE_MAX);
        Self { word: deadline, key: u64::from(tag) << 32 | u64::from(cell) }
    }

    /// The tombstone of this entry.
    #[inline]
    pub(crate) fn tombstone(self) -> Self {
        Self { word: self.word | TOMBSTONE, ..self }
    }

    /// The entry that this tombstone kills.
    #[inline]
    pub(crate) fn buried(self) -> Self {
        Self { word: self.word & !TOMBSTONE, ..self }
    }

    #[inline]
    pub(crate) fn is_tombstone(self) -> bool {
        self.word & TOMBSTONE != 0
    }

    /// Fibonacci hashing of all that differs between entries; the high bits are the good ones.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        (self.key ^ self.word.rotate_left(20)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Index of the timer's cell in the arena.
    #[inline]
    pub(crate) fn cell(self) -> u32 {
        self.key as u32
    }

    /// Low 32 bits of the cell's generation when it was armed.
    #[inline]
    pub(crate) fn tag(self) -> u32 {
        (self.key >> 32) as u32
    }

    /// Absolute, in ticks.
    #[inline]
    pub(crate) fn deadline(self) -> u64 {
        self.word & !TOMBSTONE
    }
}
