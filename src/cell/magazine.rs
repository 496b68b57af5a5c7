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
}

impl Depot {
    pub(crate) fn new() -> Self {
        Self { full: Queue::new(), empty: Queue::new() }
    }

    /// Magazines with free cells in them.
    pub(super) fn full_len(&self) -> usize {
        self.full.len()
    }

    pub(super) fn pop_full(&self) -> Option<Box<Magazine>> {
        self.full.pop()
    }

    pub(super) fn push_full(&self, magazine: Box<Magazine>) {
        self.full.push(magazine);
    }

    fn pop_empty(&self) -> Box<Magazine> {
        self.empty.pop().unwrap_or_else(Magazine::empty)
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
    pub(crate) fn new() -> Self {
        Self { loaded: Magazine::empty(), previous: Magazine::empty() }
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
        let Some(full) = depot.pop_full() else { return false };
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
    pub(crate) fn give_back(&mut self, depot: &Depot) {
        for magazine in [&mut self.loaded, &mut self.previous] {
            if magazine.len > 0 {
                depot.push_full(std::mem::replace(magazine, Magazine::empty()));
            }
        }
    }
}
