//! One wheel with a slot for each of the next ticks, and a list without order for what is due after them, which is looked through once a round.

use super::Subject;
use super::lists::Lists;

const SLOTS: u64 = 4_096;

/// The list that comes after the slots.
const OVERFLOW: usize = SLOTS as usize;

pub(crate) struct OneWheel {
    lists: Lists,
    now: u64,
}

fn slot(deadline: u64) -> usize {
    (deadline % SLOTS) as usize
}

impl OneWheel {
    /// Files what is due in the round that begins.
    fn begin_round(&mut self) {
        let mut next = self.lists.first(OVERFLOW);
        while let Some(node) = next {
            next = self.lists.next(node);
            let deadline = self.lists.deadline(node);
            if deadline < self.now + SLOTS {
                self.lists.relink(slot(deadline), node);
            }
        }
    }
}

impl Subject for OneWheel {
    type Handle = u32;

    fn new() -> Self {
        Self { lists: Lists::new(OVERFLOW + 1), now: 0 }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> u32 {
        let list = if deadline < self.now + SLOTS { slot(deadline) } else { OVERFLOW };
        self.lists.insert(list, deadline, key)
    }

    fn cancel(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while self.now < now {
            self.now += 1;
            if self.now.is_multiple_of(SLOTS) {
                self.begin_round();
            }
            self.lists.fire_all(slot(self.now), &mut fire);
        }
    }
}
