//! A binary heap, std's. A cancelled timer loses its key, and its place in the heap stays until it
//! is due.

use super::Subject;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A key, and the number of the insert that brought it.
struct Timer {
    key: u64,
    number: u64,
}

pub(crate) struct Heap {
    /// Deadline, number, and place among the timers: one that has another number now is not meant.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    timers: Slab<Timer>,
    inserts: u64,
}

impl Subject for Heap {
    type Handle = usize;

    fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            timers: Slab::new(),
            inserts: 0,
        }
    }

    fn insert(&mut self, deadline: u64, key: u64) -> usize {
        self.inserts += 1;
        let place = self.timers.insert(Timer {
            key,
            number: self.inserts,
        });
        self.heap.push(Reverse((deadline, self.inserts, place)));
        place
    }

    fn cancel(&mut self, handle: usize) {
        self.timers.remove(handle);
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while self
            .heap
            .peek()
            .is_some_and(|Reverse((deadline, ..))| *deadline <= now)
        {
            let Some(Reverse((_, number, place))) = self.heap.pop() else {
                return;
            };
            if self
                .timers
                .get(place)
                .is_some_and(|timer| timer.number == number)
            {
                fire(self.timers.remove(place).key);
            }
        }
    }
}
