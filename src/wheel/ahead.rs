//! Ahead: goes along the lists of the next ticks, so that their timers are in the processor's
//! caches when they are given out.
//!
//! Each cell of a list names the next one. Many timers do not fit into the caches, so each step
//! along a list waits for memory. But the lists of several ticks do not depend on each other. So
//! the lists take turns. At its turn a list goes on by one step, to the cell that was fetched at
//! its turn before.

/// How many lists take turns. Each is the list of one tick.
const TICKS: usize = 8;

/// The most cells that were fetched and are not given out yet. A cell has to be in the cache still
/// when it is given out.
const CELLS: usize = 256;

/// How far the lists of the next ticks were gone along. They are the lists of slots of level 0, and
/// are named by the slots' numbers.
///
/// All of it is a hint. If a cell has left its list, another list is gone along, or none. When time
/// has come to the next 256 ticks, their slots have the same numbers as the former ones. A list
/// that has come to its end stays there until its tick is over.
pub(super) struct Ahead {
    lists: [List; TICKS],
    /// The list whose turn it is.
    turn: usize,
    /// The slot that is given out.
    current: usize,
    /// The last slot whose list was begun.
    front: usize,
    /// How many cells were fetched and are not given out yet.
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
            // The slot belongs to other 256 ticks.
            *self = Self::new();
        }
        self.current = slot;
        self.cells = self.cells.saturating_sub(1);
    }

    /// Whether more cells may be fetched.
    #[inline]
    pub(super) fn may_go_on(&self) -> bool {
        self.cells < CELLS
    }

    /// Gives the next list its turn, and returns the link from which to go on there. `None` if the
    /// list's tick is over: then the list of the first slot after `front` that has timers takes its
    /// place.
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
