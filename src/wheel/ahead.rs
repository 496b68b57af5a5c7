//! Ahead: goes along the lists of the next ticks, so that their timers are in the processor's
//! caches when they are given out.
//!
//! A list names its next cell in this one. Over many timers, which are not in the caches, each step
//! waits for memory. But the lists of several ticks do not depend on each other: in turn, each goes
//! on by a step, to what was fetched a turn before.

/// Ticks at a time.
const LISTS: usize = 8;

/// Where it is in the lists of the next ticks: of slots of level 0, by their numbers. All of it is
/// a hint: the lists may have changed since.
pub(super) struct Ahead {
    lists: [List; LISTS],
    /// The list that is next in turn.
    turn: usize,
    /// The slot that is given out.
    now: usize,
    /// The last slot whose list was begun.
    front: usize,
}

#[derive(Clone, Copy)]
struct List {
    slot: usize,
    /// The number of a link in it.
    at: u32,
}

impl Ahead {
    #[inline]
    pub(super) const fn new() -> Self {
        Self {
            lists: [List { slot: 0, at: 0 }; LISTS],
            turn: 0,
            now: 0,
            front: 0,
        }
    }

    /// A cell of this slot is given out.
    #[inline]
    pub(super) fn given_out(&mut self, slot: usize) {
        if slot < self.now {
            // Of the next 256 ticks.
            *self = Self::new();
        }
        self.now = slot;
    }

    /// The link from which to go on in the list whose turn it is. `None` if its tick is over: it
    /// makes room for that of the first slot that has timers after `front`.
    #[inline]
    pub(super) fn turn(&mut self) -> Option<u32> {
        self.turn = (self.turn + 1) % LISTS;
        let list = self.lists[self.turn];
        (list.slot > self.now).then_some(list.at)
    }

    /// The last slot whose list was begun, or the one that is given out if that is later.
    #[inline]
    pub(super) fn front(&self) -> usize {
        self.front.max(self.now)
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
    }
}
