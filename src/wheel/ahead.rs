//! Ahead: goes along the lists of the next ticks, so that their timers are in the processor's
//! caches when they are given out.
//!
//! A list names its next cell in this one. Over many timers, which are not in the caches, each step
//! waits for memory. But the lists of several ticks do not depend on each other: in turn, each goes
//! on by a step, to what was fetched a turn before.

/// Lists at a time, each of a tick.
const TICKS: usize = 8;

/// Cells that it is ahead, at most: what was fetched is still to be in the cache when its turn
/// comes.
const CELLS: usize = 256;

/// Where it is in the lists of the next ticks: of slots of level 0, by their numbers.
///
/// All of it is a hint. A cell may have left its list since: then another list is gone along, or
/// none. Time may be in other 256 ticks by now, whose slots have the same numbers. And a list that
/// is at its end stays there until its tick is over.
pub(super) struct Ahead {
    lists: [List; TICKS],
    /// The list whose turn it is.
    turn: usize,
    /// The slot that is given out.
    current: usize,
    /// The last slot whose list was begun.
    front: usize,
    /// How many cells it is ahead.
    cells: usize,
}

#[derive(Clone, Copy)]
struct List {
    slot: usize,
    /// The number of a link: the last one that was reached.
    at: u32,
}

impl Ahead {
    #[inline]
    pub(super) const fn new() -> Self {
        Self {
            lists: [List { slot: 0, at: 0 }; TICKS],
            turn: 0,
            current: 0,
            front: 0,
            cells: 0,
        }
    }

    /// A cell of this slot is given out.
    #[inline]
    pub(super) fn given_out(&mut self, slot: usize) {
        if slot < self.current {
            // It is one of other 256 ticks.
            *self = Self::new();
        }
        self.current = slot;
        self.cells = self.cells.saturating_sub(1);
    }

    /// Whether it may go on.
    #[inline]
    pub(super) fn may_go_on(&self) -> bool {
        self.cells < CELLS
    }

    /// Gives the next list its turn, and returns the link from which to go on there. `None` if its
    /// tick is over: it makes room for that of the first slot that has timers after `front`.
    #[inline]
    pub(super) fn turn(&mut self) -> Option<u32> {
        self.turn = (self.turn + 1) % TICKS;
        let list = self.lists[self.turn];
        (list.slot > self.current).then_some(list.at)
    }

    /// The last slot whose list was begun, or the one that is given out if that is later.
    #[inline]
    pub(super) fn front(&self) -> usize {
        self.front.max(self.current)
    }

    /// The turn began with the list of this slot.
    #[inline]
    pub(super) fn began(&mut self, slot: usize) {
        self.front = slot;
        self.lists[self.turn].slot = slot;
    }

    /// The turn led to this link.
    #[inline]
    pub(super) fn reached(&mut self, link: u32) {
        self.lists[self.turn].at = link;
        self.cells += 1;
    }
}
