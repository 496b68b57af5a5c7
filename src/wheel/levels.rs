//! Levels: in which slot each timer lies, and which slot comes next.
//!
//! A hierarchy of timing wheels (Varghese and Lauck 1987). Write a deadline and the time in base
//! 256. The level of the deadline is the highest digit in which they differ (level 0 if they are
//! equal), and its slot is the deadline's digit there. So the slots of a level come in order
//! of their digits, and all that lies in a lower level comes before all that lies in a higher
//! one: slots come in order of their numbers.
//!
//! All but the hottest functions are `inline`: only programs that have such a wheel compile them.
//!
//! A slot is a ring of cells, linked in both directions. The slot is itself a link of the ring. So
//! a cell is put in and taken out without a look at whether it is the first or the last one.
//!
//! **Many timers** do not fit into the processor's caches, and a list names its next cell in this
//! one: who goes along it waits for memory at each step. So a slot of levels 1 and 2 has four
//! further lists, which do not wait for each other. With more than 262,144 timers, a cell that is
//! put into the slot goes into one of the four, which share them about equally (until a slot is
//! entered and there are fewer timers). When the slot is entered, all its lists are gone along in
//! turn, and what comes next in each is prefetched meanwhile. While the timers of a tick are given
//! out, those of the next ticks are prefetched in the same way (`ahead.rs`). A level does without
//! if the slot that was entered last had few cells, or cells that lie side by side in memory, which
//! the processor finds by itself.

use super::ahead::Ahead;
use super::link::{FIRST_CELL, Link, cell_of, further, link_of, lists};
use super::occupied::{LevelBits, Occupied};
use super::slot::{ALL, FURTHER, SlotNumber};
use crate::prefetch::prefetch_to_write;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::iter;
use core::ops::Range;

/// With more timers than this, cells are put into further lists, and what comes next is prefetched.
/// (Fewer in unit tests, which see both.)
const MANY: usize = if cfg!(test) { 64 } else { 1 << 18 };

/// With fewer timers than this, the next put, or the next slot that is entered, takes all cells out
/// of further lists.
const FEW_AGAIN: usize = MANY / 4;

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// With fewer cells in a slot, further lists gain nothing.
const DENSE: usize = if cfg!(test) { 4 } else { 64 };

/// The levels whose slots have further lists.
const SPLIT_LEVELS: LevelBits = 0b110;

/// The level whose cells tell whether it pays to fetch those of the next ticks.
const FETCHED: LevelBits = 0b10;

/// The ends of all lists of a slot, that of the slot itself first.
pub(super) type Ends = [Option<(u32, u32)>; FURTHER + 1];

/// The slots around a time.
pub(super) struct SlotLists {
    links: Vec<Link>,
    /// For each slot that has timers, at or before the deadlines of all of them.
    earliest: Box<[u64; ALL]>,
    occupied: Occupied,
    /// No slot that has timers begins at or before it, but for the slot of this tick itself. It is
    /// not after `event`.
    time: u64,
    /// At or before the beginning of the first slot that has timers.
    event: u64,
    /// The slot that begins at `event`, if any does.
    next: SlotNumber,
    /// The levels whose cells are put into further lists.
    splits: LevelBits,
    /// The levels of which the slot that was entered last, among many timers, gained by further
    /// lists, or would have. All until then.
    gaining: LevelBits,
    /// Whether the slot of level 1 that was entered last did.
    fetches: bool,
    /// With more timers than this, cells are put by `put_among_many`: 0 while further lists may
    /// have cells, `usize::MAX` while no level gains.
    alone_max: usize,
    /// With other numbers of timers, `put_among_many` decides anew.
    settled: Range<usize>,
    ahead: Ahead,
}

impl SlotLists {
    /// No timers, and memory for the links of `capacity` cells.
    #[inline]
    pub(super) fn new(time: u64, capacity: usize) -> Self {
        let mut links = Vec::with_capacity(FIRST_CELL as usize + capacity);
        links.extend((0..FIRST_CELL).map(Link::alone));
        Self {
            links,
            earliest: Box::new([u64::MAX; ALL]),
            occupied: Occupied::new(),
            time,
            event: u64::MAX,
            next: SlotNumber::new(0),
            splits: 0,
            gaining: SPLIT_LEVELS,
            fetches: false,
            alone_max: MANY,
            settled: 0..0,
            ahead: Ahead::new(),
        }
    }

    /// Takes all cells out of all slots, and sets the time.
    #[inline]
    pub(super) fn clear(&mut self, time: u64) {
        for list in self.occupied.all().flat_map(lists) {
            self.links[list as usize] = Link::alone(list);
        }
        self.occupied = Occupied::new();
        (self.fetches, self.gaining) = (false, SPLIT_LEVELS);
        self.expect(0);
        (self.time, self.event) = (time, u64::MAX);
    }

    /// Takes memory for the links of `cells` cells in all.
    #[inline]
    pub(super) fn reserve_to(&mut self, cells: usize) {
        let more = (FIRST_CELL as usize + cells).saturating_sub(self.links.len());
        self.links.reserve_exact(more);
    }

    /// Adds links, of cells that are in no list yet, until there is one for each of `cells` cells.
    /// Takes memory for the links of `capacity` cells.
    #[inline]
    pub(super) fn add(&mut self, capacity: usize, cells: u32) {
        self.reserve_to(capacity);
        self.links
            .resize((FIRST_CELL + cells) as usize, Link::alone(0));
    }

    /// Decides by the number of timers which levels use further lists: when a slot is entered, and
    /// when a cell is put with a number that is not `settled`.
    #[inline(never)]
    fn expect(&mut self, timers: usize) {
        self.splits = if timers > MANY { self.gaining } else { 0 };
        if timers < FEW_AGAIN && self.occupied.further != 0 {
            self.give_up_further_lists();
        } else if self.splits != self.occupied.further {
            self.occupied.set_further(self.splits);
        }
        self.alone_max = match (self.occupied.further, self.gaining) {
            (0, 0) => usize::MAX,
            (0, _) => MANY,
            _ => 0,
        };
        self.settled = match (self.occupied.further, self.splits, self.gaining) {
            (0, ..) => 0..0,
            (_, 0, 1..) => FEW_AGAIN..MANY + 1,
            _ => FEW_AGAIN..usize::MAX,
        };
    }

    /// Puts the cells of all further lists into their slots' own lists. Costs some steps for each
    /// list, whatever it has.
    #[cold]
    #[inline]
    fn give_up_further_lists(&mut self) {
        let mut at = self.occupied.first();
        while let Some(slot) = at {
            at = self.occupied.next(slot);
            for list in lists(slot).skip(1) {
                if let Some((first, last)) = self.take_list(list) {
                    let own = slot.link();
                    let (first, last) = (link_of(first), link_of(last));
                    let next = core::mem::replace(&mut self.links[own as usize].next, first);
                    self.links[first as usize].before = own;
                    self.links[last as usize].next = next;
                    self.links[next as usize].before = last;
                    self.occupied.set(slot, own);
                }
            }
        }
        self.occupied.set_further(0);
    }

    /// Whether further lists may have cells, or are to have some with this number of timers.
    #[inline]
    pub(super) fn are_many(&self, timers: usize) -> bool {
        timers > MANY || self.occupied.further != 0
    }

    /// Notes of a slot that was entered how many cells it had, and whether these lie scattered in
    /// memory, not side by side. Then decides as `expect` does, by the number of timers.
    #[inline]
    pub(super) fn entered(
        &mut self,
        slot: SlotNumber,
        cells: usize,
        are_scattered: bool,
        timers: usize,
    ) {
        let level = 1 << slot.level() & SPLIT_LEVELS;
        let gains = are_scattered && cells >= DENSE;
        if level == FETCHED {
            self.fetches = gains;
        }
        self.gaining = self.gaining & !level | if gains { level } else { 0 };
        self.expect(timers);
    }

    /// Whether it pays to fetch what is given out next: there are many timers, and the cells of the
    /// last slot of level 1 lie scattered in memory.
    #[inline]
    pub(super) const fn gains(&self) -> bool {
        self.fetches && self.splits & FETCHED != 0
    }

    /// Puts a cell at the head of the slot of its deadline, which is not before `time`. The cell is
    /// in no list. A new one was `add`ed. `timers` there are, with this one.
    // (Always: else the rest of the crate decides whether an insert calls it.)
    #[inline(always)]
    pub(super) fn put(&mut self, cell: u32, deadline: u64, timers: usize) {
        if timers > self.alone_max {
            return self.put_among_many(cell, deadline, timers);
        }
        let (slot, begin) = SlotNumber::of(deadline, self.time);
        let is_first = self.put_first(slot.link(), cell) == slot.link();
        let earliest = &mut self.earliest[slot.index()];
        if is_first {
            *earliest = deadline;
            self.occupy(slot, slot.link(), begin);
        } else if deadline < *earliest {
            *earliest = deadline;
        }
    }

    /// `put` for the cells of a slot that was entered: most of them go to a lower level, those that
    /// were put off to any. Whether a slot is empty is hard to predict then: it costs less to mark
    /// it each time.
    #[inline]
    pub(super) fn put_entered(&mut self, cell: u32, deadline: u64, _: usize) {
        let (slot, begin) = SlotNumber::of(deadline, self.time);
        let is_first = self.put_first(slot.link(), cell) == slot.link();
        let earliest = &mut self.earliest[slot.index()];
        *earliest = deadline.min(if is_first { u64::MAX } else { *earliest });
        self.occupy(slot, slot.link(), begin);
    }

    /// `put_entered`, where further lists may have cells.
    #[inline]
    pub(super) fn put_entered_among_many(&mut self, cell: u32, deadline: u64, timers: usize) {
        let (slot, _) = SlotNumber::of(deadline, self.time);
        if slot.is_tick() {
            self.put_entered(cell, deadline, timers);
        } else {
            self.put_by_cell(cell, deadline);
        }
    }

    /// `put`, where further lists may have cells, or are to have some. (The rare call comes last:
    /// registers that are saved for it are stores, and wait behind those to memory out of cache.)
    #[inline(never)]
    fn put_among_many(&mut self, cell: u32, deadline: u64, timers: usize) {
        if !self.settled.contains(&timers) {
            return self.put_after_change(cell, deadline, timers);
        }
        self.put_into_one(cell, deadline, self.turn(deadline, timers));
    }

    /// `put_among_many`, after a decision which levels use further lists.
    #[cold]
    #[inline(never)]
    fn put_after_change(&mut self, cell: u32, deadline: u64, timers: usize) {
        self.expect(timers);
        self.put_into_one(cell, deadline, self.turn(deadline, timers));
    }

    /// Which further list a cell goes into: by a hash (Fibonacci hashing, Knuth 1973, volume 3,
    /// 6.4) of what differs between timers, or between ticks, and by a number that differs while
    /// timers are armed. The number of the cell would share them out as well, but is not known as
    /// early: after a cancel it comes from a handle for which the processor may wait.
    #[inline]
    const fn turn(&self, deadline: u64, timers: usize) -> u32 {
        let hash = deadline.wrapping_add(self.time).wrapping_mul(GOLDEN);
        (hash >> 62) as u32 ^ timers as u32
    }

    /// `put_entered_among_many`, into a slot of several ticks.
    #[inline(never)]
    fn put_by_cell(&mut self, cell: u32, deadline: u64) {
        self.put_into_one(cell, deadline, cell);
    }

    /// Puts a cell into one of its slot's further lists, or into the slot's own list if its level
    /// does not use them.
    #[inline]
    fn put_into_one(&mut self, cell: u32, deadline: u64, which: u32) {
        let (slot, begin) = SlotNumber::of(deadline, self.time);
        let list = if self.splits >> slot.level() & 1 != 0 {
            further(slot.index(), which)
        } else {
            slot.link()
        };
        if self.put_first(list, cell) == list {
            return self.begin_list(slot, list, deadline, begin);
        }
        let earliest = &mut self.earliest[slot.index()];
        if deadline < *earliest {
            *earliest = deadline;
        }
    }

    /// A list that was empty has a cell with this deadline. (Most lists have cells already.)
    #[inline(never)]
    fn begin_list(&mut self, slot: SlotNumber, list: u32, deadline: u64, begin: u64) {
        let is_empty = !self.occupied.contains(slot);
        let earliest = &mut self.earliest[slot.index()];
        *earliest = deadline.min(if is_empty { u64::MAX } else { *earliest });
        self.occupy(slot, list, begin);
    }

    /// Puts a cell at the head of a list. Returns the link that comes after it now.
    #[inline]
    fn put_first(&mut self, list: u32, cell: u32) -> u32 {
        let own = link_of(cell);
        let next = core::mem::replace(&mut self.links[list as usize].next, own);
        self.links[next as usize].before = own;
        self.links[own as usize] = Link { before: list, next };
        next
    }

    /// A list of a slot has timers. The slot begins at `begin`.
    #[inline]
    fn occupy(&mut self, slot: SlotNumber, list: u32, begin: u64) {
        self.occupied.set(slot, list);
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
        // If it was alone, both are the list.
        let was_alone = before == next;
        if few || was_alone {
            self.occupied.clear_if(before, was_alone);
        }
    }

    /// At or before the earliest deadline, if there is one.
    #[inline]
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
        if !self.occupied.contains(self.next) {
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
    #[inline]
    pub(super) const fn time(&self) -> u64 {
        self.time
    }

    /// At or before the beginning of the first slot that has timers, and the slot that begins
    /// there, if it has timers.
    #[cfg(all(test, not(loom)))]
    pub(super) fn event(&self) -> (u64, Option<SlotNumber>) {
        let next = Some(self.next).filter(|&next| self.occupied.contains(next));
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

    /// Whether a list has timers, by its bit.
    #[cfg(all(test, not(loom)))]
    pub(super) fn has(&self, list: u32) -> bool {
        self.occupied.has(list)
    }

    /// Whether further lists may have timers.
    #[cfg(all(test, not(loom)))]
    pub(super) fn has_further(&self) -> bool {
        self.occupied.further != 0
    }

    /// The first cell of a slot of level 0.
    #[inline]
    pub(super) fn head(&self, slot: SlotNumber) -> Option<u32> {
        cell_of(self.links[slot.index()].next)
    }

    /// The cells of a list.
    #[inline]
    pub(super) fn cells_of(&self, list: u32) -> impl Iterator<Item = u32> {
        let head = cell_of(self.links[list as usize].next);
        iter::successors(head, |&cell| {
            cell_of(self.links[link_of(cell) as usize].next)
        })
    }

    /// Takes the first cell out of a slot of level 0 that has some. Whether it was the last one,
    /// too.
    #[inline]
    pub(super) fn pop(&mut self, slot: SlotNumber) -> (u32, bool) {
        let first = self.links[slot.index()].next;
        let next = self.links[first as usize].next;
        self.links[slot.index()].next = next;
        self.links[next as usize].before = slot.link();
        let is_last = next == slot.link();
        if is_last {
            self.occupied.clear_if(slot.link(), true);
        }
        (first - FIRST_CELL, is_last)
    }

    /// The only list of a slot that has cells; `None` if there are several.
    #[inline]
    pub(super) fn only_list(&self, slot: SlotNumber) -> Option<u32> {
        if self.occupied.further >> slot.level() & 1 == 0 {
            return Some(slot.link());
        }
        let (mut only, mut count) = (slot.link(), 0);
        for list in lists(slot) {
            if self.occupied.has(list) {
                (only, count) = (list, count + 1);
            }
        }
        (count == 1).then_some(only)
    }

    /// Takes all cells out of a slot. Returns the first and the last one of each list.
    #[inline]
    pub(super) fn take_all(&mut self, slot: SlotNumber) -> Ends {
        let mut all = Ends::default();
        for (ends, list) in all.iter_mut().zip(lists(slot)) {
            *ends = self.take_list(list);
        }
        all
    }

    /// Takes all cells out of a list. Returns the first and the last one.
    #[inline]
    pub(super) fn take_list(&mut self, list: u32) -> Option<(u32, u32)> {
        let alone = Link::alone(list);
        let Link { before, next } = core::mem::replace(&mut self.links[list as usize], alone);
        self.occupied.clear_if(list, true);
        Some((cell_of(next)?, cell_of(before)?))
    }

    /// The first and the last of the cells between two of a list.
    #[inline]
    pub(super) fn between(&self, (first, last): (u32, u32)) -> Option<(u32, u32)> {
        let next = self.links[link_of(first) as usize].next;
        let before = self.links[link_of(last) as usize].before;
        if first == last || next == link_of(last) {
            return None;
        }
        Some((cell_of(next)?, cell_of(before)?))
    }

    /// Prefetches the link of a cell.
    #[inline]
    pub(super) fn prefetch(&self, cell: u32) {
        prefetch_to_write(&raw const self.links[link_of(cell) as usize]);
    }

    /// A cell of a slot of level 0 is given out next.
    #[inline]
    pub(super) fn given_out(&mut self, slot: SlotNumber) {
        self.ahead.given_out(slot.index());
    }

    /// Goes one step on in the list of one of the next ticks. Returns the cell there, to be
    /// prefetched.
    #[inline]
    pub(super) fn look_ahead(&mut self) -> Option<u32> {
        if !self.ahead.may_go_on() {
            return None;
        }
        let at = match self.ahead.turn() {
            Some(at) => at,
            None => {
                let slot = self.occupied.next_tick(self.ahead.front())?;
                self.ahead.began(slot);
                slot as u32
            }
        };
        let next = self.links[at as usize].next;
        let cell = cell_of(next)?;
        self.ahead.reached(next);
        Some(cell)
    }

    /// The slots that have timers, in order of time, with the ticks at which they begin.
    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = (SlotNumber, u64)> {
        let slots = self.occupied.all();
        slots.map(|slot| (slot, slot.begin(self.time)))
    }
}
