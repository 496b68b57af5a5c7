//! A hierarchical wheel whose slots are linked lists: four levels of 256 slots, as wheelwork's lowest ones, one node a timer.

use super::Subject;
use super::lists::Lists;

const LEVELS: u32 = 4;
const BITS: u32 = 8;
const SLOTS: u64 = 1 << BITS;

pub(crate) struct LinkedWheel {
    lists: Lists,
    now: u64,
}

/// The list of a level's slot in which a tick lies.
fn list(level: u32, tick: u64) -> usize {
    let slot = tick >> (level * BITS) & (SLOTS - 1);
    (u64::from(level) * SLOTS + slot) as usize
}

impl LinkedWheel {
    /// Where a deadline lies: at the level of the highest digit in which it is not `now`'s.
    fn place(&self, deadline: u64) -> usize {
        let level = (deadline ^ self.now).checked_ilog2().unwrap_or(0) / BITS;
        list(level.min(LEVELS - 1), deadline)
    }

    /// Files the timers of the slots that `now` enters again, lower.
    fn cascade(&mut self) {
        let entered = (1..LEVELS).rev().filter(|level| self.now.trailing_zeros() >= level * BITS);
        for level in entered {
            let mut next = self.lists.first(list(level, self.now));
            while let Some(node) = next {
                next = self.lists.next(node);
                self.lists.relink(self.place(self.lists.deadline(node)), node);
            }
        }
    }
}

impl Subject for LinkedWheel {
    type Handle = u32;

    fn new() -> Self {
        Self { lists: Lists::new((LEVELS as u64 * SLOTS) as usize), now: 0 }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> u32 {
        self.lists.insert(self.place(deadline), deadline, key)
    }

    fn cancel(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while self.now < now {
            self.now += 1;
            self.cascade();
            self.lists.fire_all(list(0, self.now), &mut fire);
        }
    }
}
