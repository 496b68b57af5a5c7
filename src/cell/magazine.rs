//! Magazines and depot: free cells, a pair of arrays a thread, exchanged whole (Bonwick and Adams 2001).
//!
//! A thread that frees what it arms never leaves its own pair. Where one thread arms and another fires, one exchange moves
//! [`CELLS`] indices. Two magazines, not one, so that a thread on the edge does not exchange at every call.

use crate::mem::prefetch_to_write;
use crate::sync::{Fault, Queue, broken};

/// Indices in a magazine.
#[cfg(not(loom))]
pub(super) const CELLS: usize = 64;
#[cfg(loom)]
pub(super) const CELLS: usize = 1;

/// Whether a thread's magazines come from the one that had them before. Not in a model: its queue is a mutex, which orders threads that get nothing from
/// each other, and hides faults.
const RECYCLED: bool = cfg!(not(loom));

/// Free cells' indices; whoever has the magazine holds them.
#[derive(Debug)]
pub(super) struct Magazine {
    len: usize,
    cells: [u32; CELLS],
}

impl Magazine {
    pub(super) fn empty() -> Box<Self> {
        Box::new(Self { len: 0, cells: [0; CELLS] })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == CELLS
    }

    /// Asks for all its cache lines: one that comes from the depot was last touched long ago, maybe by another core.
    fn prefetch(&self) {
        let start = (&raw const *self).cast::<u8>();
        (0..size_of::<Self>()).step_by(64).for_each(|offset| prefetch_to_write(start.wrapping_add(offset)));
    }

    #[inline]
    pub(super) fn push(&mut self, cell: u32) -> Result<(), u32> {
        *self.cells.get_mut(self.len).ok_or(cell)? = cell;
        self.len += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.cells[self.len])
    }
}

/// Where threads exchange magazines.
#[derive(Debug)]
pub(crate) struct Depot {
    full: Queue<Box<Magazine>>,
    empty: Queue<Box<Magazine>>,
    /// Neither full nor empty, from threads that have ended: a few, since whoever adds one fills up another.
    partial: Queue<Box<Magazine>>,
}

impl Depot {
    pub(crate) fn new() -> Self {
        Self { full: Queue::new(), empty: Queue::new(), partial: Queue::new() }
    }

    /// Full magazines.
    pub(super) fn full_len(&self) -> usize {
        self.full.len()
    }

    pub(super) fn pop_full(&self) -> Option<Box<Magazine>> {
        self.full.pop()
    }

    pub(super) fn push_full(&self, magazine: Box<Magazine>) {
        self.full.push(magazine);
    }

    pub(super) fn pop_empty(&self) -> Box<Magazine> {
        self.empty.pop().unwrap_or_else(Magazine::empty)
    }

    /// Frees an empty magazine.
    pub(super) fn drop_empty(&self) {
        drop(self.empty.pop());
    }

    /// Takes a magazine in, however full it is.
    pub(super) fn take_in(&self, mut magazine: Box<Magazine>) {
        while magazine.len > 0 {
            if magazine.len == CELLS {
                return self.full.push(magazine);
            }
            let Some(mut other) = self.partial.pop() else { return self.partial.push(magazine) };
            while magazine.len > 0 && other.len < CELLS {
                other.cells[other.len] = magazine.cells[magazine.len - 1];
                (other.len, magazine.len) = (other.len + 1, magazine.len - 1);
            }
            let full_one = if other.len == CELLS { &self.full } else { &self.partial };
            full_one.push(other);
        }
        if RECYCLED {
            self.empty.push(magazine);
        }
    }
}

/// A thread's pair of magazines.
#[derive(Debug)]
pub(crate) struct Magazines {
    loaded: Box<Magazine>,
    /// Full or empty: what was loaded before.
    previous: Box<Magazine>,
}

impl Magazines {
    pub(crate) fn new(depot: &Depot) -> Self {
        let empty = || if RECYCLED { depot.pop_empty() } else { Magazine::empty() };
        Self { loaded: empty(), previous: empty() }
    }

    /// A free cell from the pair.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.loaded.len == 0 {
            std::mem::swap(&mut self.loaded, &mut self.previous);
        }
        self.loaded.pop()
    }

    /// The cell that `take` would give next, if it is at hand.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u32> {
        self.loaded.cells.get(self.loaded.len.wrapping_sub(1)).copied()
    }

    /// Fills the pair, found empty, from the depot. Whether there was something.
    #[cold]
    pub(crate) fn refill(&mut self, depot: &Depot) -> bool {
        let Some(full) = depot.pop_full().or_else(|| depot.partial.pop()) else { return false };
        full.prefetch();
        depot.empty.push(std::mem::replace(&mut self.loaded, full));
        true
    }

    /// The magazine to put fresh cells in, when the depot had none.
    pub(super) fn loaded(&mut self) -> &mut Magazine {
        &mut self.loaded
    }

    /// Puts a cell back that the caller holds.
    #[inline]
    pub(crate) fn put(&mut self, cell: u32, depot: &Depot) {
        if self.loaded.push(cell).is_err() {
            self.exchange(depot);
            self.loaded.push(cell).expect("the exchange left an empty magazine");
        }
    }

    #[cold]
    fn exchange(&mut self, depot: &Depot) {
        if self.previous.len == 0 {
            std::mem::swap(&mut self.loaded, &mut self.previous);
            return;
        }
        let empty = depot.pop_empty();
        empty.prefetch();
        let loaded = std::mem::replace(&mut self.loaded, empty);
        let full = std::mem::replace(&mut self.previous, loaded);
        if broken(Fault::MagazineKept) {
            *self.previous = Magazine { len: full.len, cells: full.cells };
        }
        depot.push_full(full);
    }

    /// Gives everything back, when the thread ends.
    pub(crate) fn give_back(self, depot: &Depot) {
        depot.take_in(self.loaded);
        depot.take_in(self.previous);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Threads that free one cell and end leave their cells together.
    #[test]
    fn partial_magazines_are_put_together() {
        let depot = Depot::new();
        for cell in 0..1_000 {
            let mut magazines = Magazines::new(&depot);
            magazines.put(cell, &depot);
            magazines.give_back(&depot);
        }
        assert_eq!((depot.full.len(), depot.partial.len()), (1_000 / CELLS, 1));
        assert!(depot.empty.len() <= 4, "{} empty ones", depot.empty.len());
        let mut magazines = Magazines::new(&depot);
        let mut cells = Vec::new();
        loop {
            cells.extend(std::iter::from_fn(|| magazines.take()));
            if !magazines.refill(&depot) {
                break;
            }
        }
        cells.sort_unstable();
        assert!(cells.into_iter().eq(0..1_000), "a cell is lost, or came twice");
    }

    #[test]
    fn a_thread_on_the_edge_exchanges_rarely() {
        let depot = Depot::new();
        let mut magazines = Magazines::new(&depot);
        let cells = CELLS as u32;
        assert_eq!((magazines.take(), magazines.peek(), magazines.refill(&depot)), (None, None, false));
        (0..2 * cells).for_each(|cell| magazines.put(cell, &depot));
        assert_eq!(depot.full_len(), 0, "two magazines are the thread's own");
        magazines.put(2 * cells, &depot);
        assert_eq!(depot.full_len(), 1);
        for cell in (0..=2 * cells).rev().take(CELLS + 1) {
            assert_eq!((magazines.peek().unwrap_or(cell), magazines.take()), (cell, Some(cell)));
        }
        assert_eq!((magazines.peek(), magazines.take()), (None, None));
        magazines.put(9, &depot);
        assert_eq!((depot.full_len(), magazines.peek(), magazines.take()), (1, Some(9), Some(9)));
        assert!(magazines.refill(&depot));
        assert_eq!((depot.full_len(), magazines.peek()), (0, Some(cells - 1)));
        assert!((0..cells).rev().eq(std::iter::from_fn(|| magazines.take())));
    }

    #[test]
    fn nothing_is_lost_however_full_they_are() {
        let depot = Depot::new();
        let mut cells = 0u32..;
        for len in (0..=CELLS).chain((0..=CELLS).rev()) {
            let mut magazine = Magazine::empty();
            cells.by_ref().take(len).for_each(|cell| magazine.push(cell).expect("there is room"));
            depot.take_in(magazine);
            assert!(depot.partial.len() <= 1, "two are put together");
        }
        let sum = CELLS * (CELLS + 1);
        assert_eq!((depot.full_len(), depot.partial.len()), (sum / CELLS, usize::from(!sum.is_multiple_of(CELLS))));
        let mut magazines = Magazines::new(&depot);
        let mut all = Vec::new();
        while magazines.refill(&depot) {
            all.extend(std::iter::from_fn(|| magazines.take()));
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..sum as u32));
    }

    #[test]
    fn empty_ones_are_used_again_or_dropped() {
        let depot = Depot::new();
        Magazines::new(&depot).give_back(&depot);
        assert_eq!(depot.empty.len(), 2);
        let magazines = Magazines::new(&depot);
        assert_eq!(depot.empty.len(), 0);
        magazines.give_back(&depot);
        for left in [1, 0, 0] {
            depot.drop_empty();
            assert_eq!(depot.empty.len(), left);
        }
    }
}
