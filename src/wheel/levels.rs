//! Levels: in which slot each timer lies, and which slot comes next.
//!
//! A hierarchy of timing wheels (Varghese and Lauck 1987). Write a deadline and the time in base
//! 256. The level of the deadline is the highest digit in which they differ (level 0 if they are
//! equal), and its slot is the deadline's digit there. So the slots of a level come in order
//! of their digits, and all that lies in a lower level comes before all that lies in a higher
//! one: slots come in order of their numbers.
//!
//! A slot is a ring of cells, linked in both directions. The slot is itself a link of the ring. So
//! a cell is put in and taken out without a look at whether it is the first or the last one.

/// Bits of a digit.
const BITS: u32 = 8;

/// Slots of a level.
const SLOTS: usize = 1 << BITS;

/// Levels: 7 x 8 bits have all of the 52 bits of a deadline.
const LEVELS: usize = 7;

/// All slots, and some that are never used: so that no index is too large.
const ALL: usize = (LEVELS * SLOTS).next_power_of_two();

/// The number of a slot: its level and its digit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotNumber(u16);

impl SlotNumber {
    /// Where a deadline belongs, and the tick at which that slot begins.
    #[inline]
    fn of(deadline: u64, time: u64) -> (Self, u64) {
        let shift = ((deadline ^ time) | 1).ilog2() / BITS * BITS;
        let digit = (deadline >> shift) as u16 % SLOTS as u16;
        // (At most level 6.)
        let number = (shift * (SLOTS as u32 / BITS)) as u16 | digit;
        (Self(number), deadline >> shift << shift)
    }

    const fn index(self) -> usize {
        self.0 as usize % ALL
    }

    pub(super) const fn link(self) -> u32 {
        self.0 as u32
    }

    /// Whether it is of one tick.
    pub(super) const fn is_tick(self) -> bool {
        (self.0 as usize) < SLOTS
    }

    /// The tick at which it begins.
    #[inline]
    const fn begin(self, time: u64) -> u64 {
        let shift = (self.index() / SLOTS) as u32 * BITS;
        let above = time >> shift >> BITS << BITS;
        (above | (self.index() % SLOTS) as u64) << shift
    }
}

/// Which slots have timers.
#[derive(Clone, Copy, Default)]
struct Occupied {
    /// A bit for each slot.
    words: [u64; ALL / 64],
    /// A bit for each word that is not zero, and for some that are: `settle` clears those.
    nonzero: u32,
}

const _: () = assert!(ALL / 64 == 32, "a bit for each word");

impl Occupied {
    #[inline]
    fn set(&mut self, slot: SlotNumber) {
        self.words[slot.index() / 64] |= 1 << (slot.index() % 64);
        self.nonzero |= 1 << (slot.index() / 64);
    }

    /// Clears a slot, or does nothing. (Without a branch, which would be hard to predict.)
    #[inline]
    fn clear_if(&mut self, slot: SlotNumber, is_empty: bool) {
        self.words[slot.index() / 64] &= !(u64::from(is_empty) << (slot.index() % 64));
    }

    #[inline]
    fn first(&self) -> Option<SlotNumber> {
        let mut nonzero = self.nonzero;
        loop {
            let nth = nonzero.trailing_zeros();
            match *self.words.get(nth as usize)? {
                0 => nonzero &= nonzero - 1,
                word => return Some(SlotNumber((nth * 64 + word.trailing_zeros()) as u16)),
            }
        }
    }

    /// `first`, after which no word before that one is looked at again.
    fn settle(&mut self) -> Option<SlotNumber> {
        let first = self.first();
        self.nonzero &= first.map_or(0, |first| u32::MAX << (first.index() / 64));
        first
    }

    fn all(&self) -> impl Iterator<Item = SlotNumber> {
        let mut left = *self;
        std::iter::from_fn(move || {
            let slot = left.first()?;
            left.clear_if(slot, true);
            Some(slot)
        })
    }
}

/// A slot's or a cell's place in a ring. A link is named by a number: first come those of the
/// slots, then those of the cells.
#[derive(Clone, Copy)]
struct Link {
    before: u32,
    next: u32,
}

impl Link {
    /// The ring of a slot without timers.
    const fn alone(slot: u32) -> Self {
        Self {
            before: slot,
            next: slot,
        }
    }
}

/// The link of a cell.
#[inline]
const fn link_of(cell: u32) -> u32 {
    ALL as u32 + cell
}

/// The cell that has a link; `None` if a slot has it.
#[inline]
const fn cell_of(link: u32) -> Option<u32> {
    link.checked_sub(ALL as u32)
}

/// The slots around a time.
pub(super) struct SlotLists {
    links: Vec<Link>,
    /// For each slot that has timers, at or before the deadlines of all of them.
    earliest: Box<[u64; ALL]>,
    occupied: Occupied,
    /// No slot that has timers begins at or before it, but for the slot of this tick itself.
    time: u64,
    /// At or before the beginning of the first slot that has timers.
    event: u64,
    /// The slot that begins at `event`, if any does.
    next: SlotNumber,
}

impl SlotLists {
    /// No timers, and memory for the links of `capacity` cells.
    pub(super) fn new(time: u64, capacity: usize) -> Self {
        let mut links = Vec::with_capacity(ALL + capacity);
        links.extend((0..ALL as u32).map(Link::alone));
        Self {
            links,
            earliest: Box::new([u64::MAX; ALL]),
            occupied: Occupied::default(),
            time,
            event: u64::MAX,
            next: SlotNumber(0),
        }
    }

    /// Takes all cells out of all slots, and sets the time.
    pub(super) fn clear(&mut self, time: u64) {
        for (link, slot) in self.links.iter_mut().zip(0..ALL as u32) {
            *link = Link::alone(slot);
        }
        self.earliest.fill(u64::MAX);
        self.occupied = Occupied::default();
        (self.time, self.event) = (time, u64::MAX);
    }

    /// Takes memory for the links of `cells` cells in all.
    pub(super) fn reserve_to(&mut self, cells: usize) {
        let more = (ALL + cells).saturating_sub(self.links.len());
        self.links.reserve_exact(more);
    }

    /// A link for one more cell.
    pub(super) fn add(&mut self) {
        self.links.push(Link::alone(0));
    }

    /// Puts a cell at the head of the slot of its deadline, which is not before `time`. The cell is
    /// in no list. A new one was `add`ed.
    #[inline]
    pub(super) fn put(&mut self, cell: u32, deadline: u64) {
        let (slot, begin) = SlotNumber::of(deadline, self.time);
        let is_first = self.put_first(slot, cell) == slot.link();
        let earliest = &mut self.earliest[slot.index()];
        if is_first {
            *earliest = deadline;
            self.occupy(slot, begin);
        } else if deadline < *earliest {
            *earliest = deadline;
        }
    }

    /// `put` for the cells of a slot that was entered: most of them go to a lower level, those that
    /// were put off to any. Whether a slot is empty is hard to predict then: it costs less to mark
    /// it each time.
    #[inline]
    pub(super) fn put_entered(&mut self, cell: u32, deadline: u64) {
        let (slot, begin) = SlotNumber::of(deadline, self.time);
        let is_first = self.put_first(slot, cell) == slot.link();
        let earliest = &mut self.earliest[slot.index()];
        *earliest = deadline.min(if is_first { u64::MAX } else { *earliest });
        self.occupy(slot, begin);
    }

    /// Puts a cell at the head of a slot. Returns the link that comes after it now.
    #[inline]
    fn put_first(&mut self, slot: SlotNumber, cell: u32) -> u32 {
        let own = link_of(cell);
        let next = std::mem::replace(&mut self.links[slot.index()].next, own);
        self.links[next as usize].before = own;
        let before = slot.link();
        self.links[own as usize] = Link { before, next };
        next
    }

    /// A slot has timers. It begins at `begin`.
    #[inline]
    fn occupy(&mut self, slot: SlotNumber, begin: u64) {
        self.occupied.set(slot);
        if begin <= self.event {
            (self.event, self.next) = (begin, slot);
        }
    }

    /// Takes a cell out of the list that it is in. `few`: there are few timers, so that it is hard
    /// to predict whether it was alone. Then it costs less not to branch.
    #[inline]
    pub(super) fn unlink(&mut self, cell: u32, few: bool) {
        let Link { before, next } = self.links[link_of(cell) as usize];
        self.links[before as usize].next = next;
        self.links[next as usize].before = before;
        // If it was alone, both are the slot.
        let was_alone = before == next;
        if few || was_alone {
            self.occupied.clear_if(SlotNumber(before as u16), was_alone);
        }
    }

    /// At or before the earliest deadline, if there is one.
    pub(super) fn earliest(&self) -> Option<u64> {
        let first = self.occupied.first()?;
        Some(self.earliest[first.index()])
    }

    /// Moves time up to `now`, which is not before it, if no slot with timers may begin until then.
    /// Whether it did.
    #[inline]
    pub(super) fn pass(&mut self, now: u64) -> bool {
        let passes = now < self.event;
        if passes {
            self.time = now;
        }
        passes
    }

    /// Moves time up to `now`, but not beyond the first slot that has timers: that one is returned.
    /// It begins at the time, then.
    pub(super) fn enter(&mut self, now: u64) -> Option<SlotNumber> {
        if self.head(self.next).is_none() {
            // Nothing is left in it.
            let first = self.occupied.settle();
            self.event = first.map_or(u64::MAX, |first| first.begin(self.time));
            self.next = first.unwrap_or(self.next);
        }
        if self.pass(now) {
            return None;
        }
        self.time = self.event;
        Some(self.next)
    }

    /// The time, up to which all slots were entered.
    pub(super) const fn time(&self) -> u64 {
        self.time
    }

    /// At or before the beginning of the first slot that has timers, and the slot that begins
    /// there, if it has timers.
    #[cfg(all(test, not(loom)))]
    pub(super) fn event(&self) -> (u64, Option<SlotNumber>) {
        let next = Some(self.next).filter(|&next| self.head(next).is_some());
        (self.event, next)
    }

    /// At or before the deadlines of a slot's timers.
    #[cfg(all(test, not(loom)))]
    pub(super) fn earliest_of(&self, slot: SlotNumber) -> u64 {
        self.earliest[slot.index()]
    }

    /// The link before a cell's, its own, and the one after it.
    #[cfg(all(test, not(loom)))]
    pub(super) fn links_of(&self, cell: u32) -> [u32; 3] {
        let own = link_of(cell);
        let Link { before, next } = self.links[own as usize];
        [before, own, next]
    }

    /// The first cell of a slot.
    #[inline]
    pub(super) fn head(&self, slot: SlotNumber) -> Option<u32> {
        cell_of(self.links[slot.index()].next)
    }

    /// The cell after a cell, in its list or in one that was taken out of its slot.
    #[inline]
    pub(super) fn next(&self, cell: u32) -> Option<u32> {
        cell_of(self.links[link_of(cell) as usize].next)
    }

    /// Takes the first cell out of a slot that has some. Whether it was the last one, too.
    #[inline]
    pub(super) fn pop(&mut self, slot: SlotNumber) -> (u32, bool) {
        let first = self.links[slot.index()].next;
        let next = self.links[first as usize].next;
        self.links[slot.index()].next = next;
        self.links[next as usize].before = slot.link();
        let is_last = next == slot.link();
        if is_last {
            self.occupied.clear_if(slot, true);
        }
        (first - ALL as u32, is_last)
    }

    /// Takes all cells out of a slot. Returns the first and the last one.
    pub(super) fn take_all(&mut self, slot: SlotNumber) -> Option<(u32, u32)> {
        let alone = Link::alone(slot.link());
        let Link { before, next } = std::mem::replace(&mut self.links[slot.index()], alone);
        self.occupied.clear_if(slot, true);
        Some((cell_of(next)?, cell_of(before)?))
    }

    /// The first and the last of the cells between two of a list.
    #[inline]
    pub(super) fn between(&self, first: u32, last: u32) -> Option<(u32, u32)> {
        let next = self.links[link_of(first) as usize].next;
        let before = self.links[link_of(last) as usize].before;
        if first == last || next == link_of(last) {
            return None;
        }
        Some((cell_of(next)?, cell_of(before)?))
    }

    /// The slots that have timers, in order of time, with the ticks at which they begin.
    pub(super) fn all(&self) -> impl Iterator<Item = (SlotNumber, u64)> {
        let slots = self.occupied.all();
        slots.map(|slot| (slot, slot.begin(self.time)))
    }
}
