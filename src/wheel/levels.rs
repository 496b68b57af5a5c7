//! Levels: in which slot each timer lies, and which slot comes next.
//!
//! A hierarchy of timing wheels (Varghese and Lauck 1987). Write a deadline and the time in base
//! 256. The level of the deadline is the highest digit in which they differ, and its slot is the
//! deadline's digit there. So the slots of a level come in order of their digits, and all that lies
//! in a lower level comes before all that lies in a higher one.
//!
//! A slot is a list of cells. Here is only its head: the links are in the cells (`nodes.rs`).

use super::nodes::{Link, NONE};

/// Bits of a digit.
const BITS: u32 = 8;

/// Slots of a level.
const SLOTS: usize = 1 << BITS;

/// Levels: 7 x 8 bits have all of the 52 bits of a deadline.
const LEVELS: usize = 7;

/// All slots, and some that are never used: so that no index is too large.
const ALL: usize = (LEVELS * SLOTS).next_power_of_two();

/// The link of a head to its slot has this bit. Others do not.
const SLOT: u32 = 1 << 31;

/// The number of a slot: its level and its digit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotNumber(u16);

impl SlotNumber {
    /// Where a deadline belongs.
    #[inline]
    fn of(deadline: u64, time: u64) -> Self {
        let level = (63 - ((deadline ^ time) | 1).leading_zeros()) / BITS;
        let digit = (deadline >> (level * BITS)) as u16 & (SLOTS as u16 - 1);
        // (At most level 6.)
        Self((level as u16) << BITS | digit)
    }

    const fn at(level: usize, digit: u32) -> Self {
        Self((level << BITS) as u16 | digit as u16)
    }

    const fn index(self) -> usize {
        self.0 as usize % ALL
    }

    const fn level(self) -> usize {
        (self.0 >> BITS) as usize % (LEVELS + 1)
    }

    const fn digit(self) -> usize {
        self.0 as usize % SLOTS
    }

    /// As the link of its head.
    const fn link(self) -> u32 {
        SLOT | self.0 as u32
    }

    /// The slot whose head has this link, if it is a head.
    #[inline]
    pub(super) const fn of_link(link: u32) -> Option<Self> {
        if link & SLOT == 0 {
            None
        } else {
            Some(Self(link as u16))
        }
    }

    /// Whether it is of one tick.
    pub(super) const fn is_tick(self) -> bool {
        self.level() == 0
    }

    /// The tick at which it begins.
    #[inline]
    const fn begin(self, time: u64) -> u64 {
        let shift = self.level() as u32 * BITS;
        let above = time >> shift >> BITS << BITS;
        (above | self.digit() as u64) << shift
    }
}

/// What is known of a slot's list.
#[derive(Clone, Copy)]
struct SlotHead {
    /// At or before the deadlines of all its timers. `u64::MAX` if it has none.
    earliest: u64,
    /// The cell that came last, or `NONE`, in the lower half; the one before it in the upper one.
    /// (Halves of a word are moved faster than numbers of 32 bits.)
    last: u64,
    /// The two that came before these, in the same way. All but the first may be elsewhere by now.
    former: u64,
}

impl SlotHead {
    /// All cells are `NONE`.
    const EMPTY: Self = Self {
        earliest: u64::MAX,
        last: u64::MAX,
        former: u64::MAX,
    };

    #[inline]
    const fn head(&self) -> u32 {
        self.last as u32
    }
}

/// Which slots of a level have timers.
#[derive(Clone, Copy, Default)]
struct Occupied {
    /// A bit for each slot.
    words: [u64; SLOTS / 64],
    /// A bit for each word that is not zero.
    nonzero: u8,
}

impl Occupied {
    #[inline]
    fn set(&mut self, digit: usize) {
        self.words[digit / 64] |= 1 << (digit % 64);
        self.nonzero |= 1 << (digit / 64);
    }

    #[inline]
    fn clear(&mut self, digit: usize) {
        let word = &mut self.words[digit / 64];
        *word &= !(1 << (digit % 64));
        if *word == 0 {
            self.nonzero &= !(1 << (digit / 64));
        }
    }

    #[inline]
    fn first(&self) -> Option<u32> {
        let nth = self.nonzero.trailing_zeros();
        let word = self.words.get(nth as usize)?;
        Some(nth * 64 + word.trailing_zeros())
    }

    fn all(&self) -> impl Iterator<Item = u32> {
        let mut left = *self;
        std::iter::from_fn(move || {
            let digit = left.first()?;
            left.clear(digit as usize);
            Some(digit)
        })
    }
}

/// The slots around a time.
pub(super) struct SlotLists {
    slots: Box<[SlotHead; ALL]>,
    /// (One more level, which is empty: so that no index is too large.)
    occupied: [Occupied; LEVELS + 1],
    /// A bit for each level that has timers.
    inhabited: u8,
    /// No slot that has timers begins at or before it, but for the slot of this tick itself.
    time: u64,
    /// At or before the beginning of the first slot that has timers.
    event: u64,
}

impl SlotLists {
    pub(super) fn new(time: u64) -> Self {
        Self {
            slots: Box::new([SlotHead::EMPTY; ALL]),
            occupied: Default::default(),
            inhabited: 0,
            time,
            event: u64::MAX,
        }
    }

    /// Puts a cell at the head of the slot of its deadline, which is not before `time`. Returns its
    /// links.
    #[inline]
    pub(super) fn put(&mut self, cell: u32, deadline: u64) -> Link {
        let number = SlotNumber::of(deadline, self.time);
        let slot = &mut self.slots[number.index()];
        slot.earliest = slot.earliest.min(deadline);
        let (next, ahead) = (slot.head(), (slot.former >> 32) as u32);
        slot.former = slot.former << 32 | slot.last >> 32;
        slot.last = slot.last << 32 | u64::from(cell);
        if next == NONE {
            self.occupied[number.level()].set(number.digit());
            self.inhabited |= 1 << number.level();
            self.event = self.event.min(number.begin(self.time));
        }
        Link {
            before: number.link(),
            next,
            ahead,
        }
    }

    /// The head of a slot is another cell now, or none.
    #[inline]
    pub(super) fn set_head(&mut self, number: SlotNumber, head: u32) {
        let slot = &mut self.slots[number.index()];
        slot.last = slot.last >> 32 << 32 | u64::from(head);
        if head == NONE {
            self.vacate(number);
        }
    }

    /// A slot has no timers any more.
    fn vacate(&mut self, number: SlotNumber) {
        self.slots[number.index()] = SlotHead::EMPTY;
        let occupied = &mut self.occupied[number.level()];
        occupied.clear(number.digit());
        if occupied.nonzero == 0 {
            self.inhabited &= !(1 << number.level());
        }
    }

    /// The first slot that has timers.
    fn first(&self) -> Option<SlotNumber> {
        let level = self.inhabited.trailing_zeros() as usize;
        let digit = self.occupied.get(level)?.first()?;
        Some(SlotNumber::at(level, digit))
    }

    /// At or before the earliest deadline, if there is one.
    pub(super) fn earliest(&self) -> Option<u64> {
        let first = self.first()?;
        Some(self.slots[first.index()].earliest)
    }

    /// Moves time up to `now`, but not beyond the first slot that has timers: that one is returned.
    /// It begins at the time, then.
    #[inline]
    pub(super) fn move_to(&mut self, now: u64) -> Option<SlotNumber> {
        if now < self.event {
            self.time = self.time.max(now);
            return None;
        }
        self.enter(now)
    }

    fn enter(&mut self, now: u64) -> Option<SlotNumber> {
        let first = self.first();
        self.event = first.map_or(u64::MAX, |first| first.begin(self.time));
        if now < self.event {
            self.time = self.time.max(now);
            return None;
        }
        self.time = self.event;
        first
    }

    /// The time, up to which all slots were entered.
    pub(super) const fn time(&self) -> u64 {
        self.time
    }

    /// At or before the beginning of the first slot that has timers.
    #[cfg(all(test, not(loom)))]
    pub(super) const fn event(&self) -> u64 {
        self.event
    }

    /// At or before the deadlines of a slot's timers.
    #[cfg(all(test, not(loom)))]
    pub(super) fn earliest_of(&self, slot: SlotNumber) -> u64 {
        self.slots[slot.index()].earliest
    }

    /// The first cell of a slot, or `NONE`.
    #[inline]
    pub(super) fn head(&self, slot: SlotNumber) -> u32 {
        self.slots[slot.index()].head()
    }

    /// Takes all cells out of a slot. Returns the first one.
    pub(super) fn take_all(&mut self, slot: SlotNumber) -> u32 {
        let head = self.head(slot);
        self.vacate(slot);
        head
    }

    /// The slots that have timers, in order of time, with the ticks at which they begin.
    pub(super) fn all(&self) -> impl Iterator<Item = (SlotNumber, u64)> {
        let levels = (0..).zip(&self.occupied);
        let slots = levels.flat_map(|(level, occupied)| {
            occupied
                .all()
                .map(move |digit| SlotNumber::at(level, digit))
        });
        slots.map(|slot| (slot, slot.begin(self.time)))
    }
}
