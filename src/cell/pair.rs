//! A thread's pair of magazines: where it takes free cells from, and puts them.
//!
//! One thread owns a pair. A thread that frees the cells it arms never leaves its own pair. Where
//! one thread arms and another fires, one exchange with the depot moves [`CELLS`] indices. There
//! are two magazines, not one, so that a thread on the edge of a magazine does not exchange at
//! every call. Cells in the order of their indices go through the depot as [`Runs`], without a
//! magazine.

use super::depot::Depot;
use super::magazine::{CELLS, Full, OwnMagazine, Runs};
use crate::prefetch::prefetch_all_to_write;
use crate::sync::{Fault, broken};

/// A thread's pair of magazines.
#[derive(Debug)]
pub(crate) struct Magazines {
    loaded: OwnMagazine,
    /// Full or empty: the magazine that was loaded before.
    previous: OwnMagazine,
    /// The stripe of the depot to which full magazines go.
    stripe: usize,
}

impl Magazines {
    pub(crate) fn new(depot: &Depot) -> Self {
        Self {
            loaded: depot.empty_for_pair(),
            previous: depot.empty_for_pair(),
            stripe: depot.next_stripe(),
        }
    }

    /// A free cell from the pair.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.loaded.is_empty() {
            std::mem::swap(&mut self.loaded, &mut self.previous);
        }
        self.loaded.pop()
    }

    /// The cell that `take` would give next, if the loaded magazine has it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u32> {
        self.loaded.last()
    }

    /// Fills the pair, which is empty, from the depot. Whether the depot had cells.
    #[cold]
    pub(crate) fn refill(&mut self, depot: &Depot) -> bool {
        match depot
            .pop_full(self.stripe)
            .or_else(|| depot.pop_partial().map(Full::Any))
        {
            Some(Full::Runs(runs)) => self.loaded.fill(runs),
            Some(Full::Any(full)) => {
                // It was last touched long ago, maybe by another core.
                prefetch_all_to_write(&*full);
                depot.push_empty(std::mem::replace(&mut self.loaded, full));
            }
            None => return false,
        }
        true
    }

    /// Fills the pair, which is empty, with `cells` fresh cells from `first` on: at most one
    /// magazine's. The depot had none.
    pub(super) fn fill(&mut self, first: u32, cells: u32) {
        if cells == CELLS as u32 {
            return self.loaded.fill(Runs::one(first));
        }
        (first..first + cells)
            .rev()
            .for_each(|cell| self.loaded.push(cell).expect("no more than a magazine has"));
    }

    /// Puts a cell back that the caller holds.
    #[inline]
    pub(crate) fn put(&mut self, cell: u32, depot: &Depot) {
        if self.loaded.push(cell).is_err() {
            self.put_beyond(cell, depot);
        }
    }

    /// `put` when the loaded magazine is full.
    #[cold]
    #[inline(never)]
    fn put_beyond(&mut self, cell: u32, depot: &Depot) {
        self.exchange(depot);
        self.loaded
            .push(cell)
            .expect("the exchange left an empty magazine");
    }

    /// Replaces `loaded`, which is full, by an empty magazine.
    fn exchange(&mut self, depot: &Depot) {
        if !self.previous.is_empty() {
            let full = match self.previous.runs() {
                Some(runs) => {
                    self.previous.clear();
                    Full::Runs(runs)
                }
                None => {
                    let empty = depot.pop_empty();
                    prefetch_all_to_write(&*empty);
                    let full = std::mem::replace(&mut self.previous, empty);
                    if broken(Fault::MagazineKept) {
                        self.loaded.cells = full.cells;
                    }
                    Full::Any(full)
                }
            };
            depot.push_full(full, self.stripe);
        }
        std::mem::swap(&mut self.loaded, &mut self.previous);
    }

    /// Gives all cells and both magazines back, when the thread ends.
    pub(crate) fn give_back(self, depot: &Depot) {
        depot.take_in(self.loaded);
        depot.take_in(self.previous);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_on_the_edge_exchanges_rarely() {
        let depot = Depot::new();
        let mut magazines = Magazines::new(&depot);
        let cells = CELLS as u32;
        assert_eq!(
            (magazines.take(), magazines.peek(), magazines.refill(&depot)),
            (None, None, false)
        );
        (0..2 * cells).for_each(|cell| magazines.put(cell, &depot));
        assert_eq!(depot.full_len(), 0, "two magazines are the thread's own");
        magazines.put(2 * cells, &depot);
        assert_eq!(depot.full_len(), 1);
        for cell in (0..=2 * cells).rev().take(CELLS + 1) {
            assert_eq!(
                (magazines.peek().unwrap_or(cell), magazines.take()),
                (cell, Some(cell))
            );
        }
        assert_eq!((magazines.peek(), magazines.take()), (None, None));
        magazines.put(9, &depot);
        assert_eq!(
            (depot.full_len(), magazines.peek(), magazines.take()),
            (1, Some(9), Some(9))
        );
        assert!(magazines.refill(&depot));
        assert_eq!((depot.full_len(), magazines.peek()), (0, Some(0)));
        assert!(
            (0..cells).eq(std::iter::from_fn(|| magazines.take())),
            "the first one of a run is taken first"
        );
    }
}
