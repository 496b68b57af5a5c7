//! Prefetch queue: what the wheel needs for a message is prefetched some messages before.
//!
//! Empty between two drains.

use crate::entry::Entry;
use crate::entry_wheel::EntryWheel;

/// Prefetch distance, in messages.
const PREFETCH_DISTANCE: usize = 16;

/// Messages on their way into the wheel.
pub(super) struct PrefetchQueue {
    waiting: [Entry; PREFETCH_DISTANCE],
    /// The position of the message that has waited longest.
    next: usize,
}

impl PrefetchQueue {
    pub(super) const EMPTY: Self = Self {
        waiting: [Entry::NONE; PREFETCH_DISTANCE],
        next: 0,
    };

    /// Prefetches for a message, and gives the message that has waited longest to the wheel.
    #[inline]
    pub(super) fn push(&mut self, message: Entry, wheel: &mut EntryWheel) {
        wheel.prefetch(message);
        self.replace_first(message, wheel);
    }

    /// Gives all messages to the wheel.
    pub(super) fn flush(&mut self, wheel: &mut EntryWheel) {
        (0..PREFETCH_DISTANCE).for_each(|_| self.replace_first(Entry::NONE, wheel));
    }

    #[inline]
    fn replace_first(&mut self, message: Entry, wheel: &mut EntryWheel) {
        let first = std::mem::replace(&mut self.waiting[self.next], message);
        self.next = (self.next + 1) % PREFETCH_DISTANCE;
        if first != Entry::NONE {
            wheel.accept(first);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A tombstone does not overtake an entry of its lane, and no message stays behind.
    #[test]
    fn messages_that_wait_come_in_order_and_all() {
        let mut queue = PrefetchQueue::EMPTY;
        let entry = |cell: usize| Entry::new(30_000, cell as u32, 1);
        for (round, messages) in [
            1,
            PREFETCH_DISTANCE - 1,
            PREFETCH_DISTANCE,
            PREFETCH_DISTANCE + 1,
            100,
        ]
        .into_iter()
        .enumerate()
        {
            let mut wheel = EntryWheel::new(0, 1_000);
            let from = round * 1_000;
            (from..from + messages).for_each(|cell| queue.push(entry(cell), &mut wheel));
            assert_eq!(
                wheel.len(),
                messages.saturating_sub(PREFETCH_DISTANCE),
                "{PREFETCH_DISTANCE} wait"
            );
            queue.flush(&mut wheel);
            assert_eq!((wheel.len(), wheel.holes()), (messages, 0));
            assert!(queue.waiting.iter().all(|&message| message == Entry::NONE));
            (from..from + messages)
                .for_each(|cell| queue.push(entry(cell).tombstone(), &mut wheel));
            queue.flush(&mut wheel);
            let given = |_: &[Entry]| panic!("an entry is alive");
            while wheel.advance(30_000, 1_000, given) {}
            assert_eq!(wheel.len(), 0);
        }
    }
}
