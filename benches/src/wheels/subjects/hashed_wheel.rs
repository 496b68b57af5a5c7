//! A hashed wheel: deadlines of all rounds lie in the slot of their remainder, and each tick looks at all of its slot. A comparison of deadlines
//! tells the rounds apart, in place of a count of rounds in each timer.

use super::Subject;
use super::lists::Lists;

const SLOTS: u64 = 4_096;

pub(crate) struct HashedWheel {
    lists: Lists,
    now: u64,
}

fn slot(deadline: u64) -> usize {
    (deadline % SLOTS) as usize
}

impl Subject for HashedWheel {
    type Handle = u32;

    fn new() -> Self {
        Self { lists: Lists::new(SLOTS as usize), now: 0 }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> u32 {
        self.lists.insert(slot(deadline), deadline, key)
    }

    fn cancel(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while self.now < now {
            self.now += 1;
            self.lists.fire_due(slot(self.now), self.now, &mut fire);
        }
    }
}
