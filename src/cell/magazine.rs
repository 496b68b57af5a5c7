//! Magazine: an array of free cells' indices, which threads exchange whole (Bonwick and Adams
//! 2001).
//!
//! The thread that has a magazine holds its indices. [`Full`] is the form in which the depot keeps
//! the indices of a full magazine: as [`Runs`] of successive indices, or as the magazine itself.

use crate::mem::Zeroable;
use crate::slab_box::SlabBox;

/// Indices in a magazine.
#[cfg(not(loom))]
pub(super) const CELLS: usize = 64;
#[cfg(loom)]
pub(super) const CELLS: usize = 1;

/// Whether full magazines are searched for runs. Not in a model, where every magazine is a run.
const TELLS_RUNS: bool = cfg!(not(loom));

/// Indices of free cells. The thread that has the magazine holds them.
#[derive(Debug)]
pub(super) struct Magazine {
    len: usize,
    pub(super) cells: [u32; CELLS],
}

// SAFETY: numbers.
unsafe impl Zeroable for Magazine {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self::EMPTY
    }
}

/// A magazine, owned. Those of a burst lie in slabs: after cancels in random order the depot has
/// one for each 64 free cells, for some tenths of a second.
pub(super) type OwnMagazine = SlabBox<Magazine>;

/// Bytes of a slab of magazines.
const SLAB: usize = if cfg!(loom) { 1 } else { 64 << 10 };

impl Magazine {
    const EMPTY: Self = Self {
        len: 0,
        cells: [0; CELLS],
    };

    /// An empty magazine by itself.
    pub(super) fn alone() -> OwnMagazine {
        SlabBox::alone(Self::EMPTY)
    }

    /// Some empty magazines, which share a slab. At least one.
    pub(super) fn slab() -> impl Iterator<Item = OwnMagazine> {
        SlabBox::slab(SLAB)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == CELLS
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

    /// The cell that `pop` would return.
    #[inline]
    pub(super) fn last(&self) -> Option<u32> {
        self.cells.get(self.len.wrapping_sub(1)).copied()
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Fills it backwards, so that `pop` returns the first cell of the runs first.
    pub(super) fn fill(&mut self, runs: Runs) {
        let (second, first) = self.cells.split_at_mut(CELLS - runs.split as usize);
        fill_backwards(first, runs.first);
        fill_backwards(second, runs.second);
        self.len = CELLS;
    }

    /// Moves cells to another magazine until this one is empty or the other one is full.
    pub(super) fn move_to(&mut self, other: &mut Self) {
        while !self.is_empty() && !other.is_full() {
            other.cells[other.len] = self.cells[self.len - 1];
            (other.len, self.len) = (other.len + 1, self.len - 1);
        }
    }

    /// The cells of a full magazine, if they are at most two runs.
    pub(super) fn runs(&self) -> Option<Runs> {
        let (first, last) = (self.cells[0], self.cells[CELLS - 1]);
        // Cheap test: in at most two runs the middle cell follows from the first cell, or from the
        // last one. Most other magazines fail it.
        if !TELLS_RUNS
            || self.cells[CELLS / 2] != first + (CELLS / 2) as u32
                && self.cells[CELLS / 2] + (CELLS / 2) as u32 != last + 1
        {
            return None;
        }
        let split = successive(&self.cells);
        let rest = &self.cells[split..];
        (rest.is_empty() || successive(rest) == rest.len()).then(|| Runs {
            first,
            split: split as u32,
            second: rest.first().copied().unwrap_or(0),
        })
    }
}

/// How many of the first cells are successive ones.
// (Four at a time, as two numbers: optimized for size, the compiler makes no vectors.)
fn successive(cells: &[u32]) -> usize {
    const TWO: u64 = 2 << 32 | 2;
    let number = |one: u32, other: u32| u64::from(one) | u64::from(other) << 32;
    let Some(&first) = cells.first() else {
        return 0;
    };
    let mut expected = number(first, first.wrapping_add(1));
    let mut found = 0;
    for &[one, two, three, four] in cells.as_chunks::<4>().0 {
        let next = expected.wrapping_add(TWO);
        if (number(one, two) ^ expected) | (number(three, four) ^ next) != 0 {
            break;
        }
        expected = next.wrapping_add(TWO);
        found += 4;
    }
    while cells.get(found) == Some(&first.wrapping_add(found as u32)) {
        found += 1;
    }
    found
}

/// Fills with successive cells from `first` on, from the end to the begin.
// (Two at a time, for the same reason.)
fn fill_backwards(places: &mut [u32], first: u32) {
    let mut next = first;
    let (rest, pairs) = places.as_rchunks_mut::<2>();
    let mut pair_of_next = u64::from(next) << 32 | u64::from(next + 1);
    for pair in pairs.iter_mut().rev() {
        *pair = [pair_of_next as u32, (pair_of_next >> 32) as u32];
        pair_of_next += 2 << 32 | 2;
        next += 2;
    }
    for place in rest.iter_mut().rev() {
        *place = next;
        next += 1;
    }
}

/// As many cells as a magazine has, in two runs: `split` successive ones from `first` on, the
/// others from `second` on. Timers that were armed one after the other, and end in that order,
/// leave runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    first: u32,
    split: u32,
    second: u32,
}

impl Runs {
    /// One run, from `first` on.
    pub(super) fn one(first: u32) -> Self {
        Self {
            first,
            split: CELLS as u32,
            second: 0,
        }
    }
}

/// The cells of a full magazine, as the depot keeps them.
#[derive(Debug)]
pub(super) enum Full {
    /// Runs need no memory. (A million timers that end at once would have to wait for it.)
    Runs(Runs),
    /// In any order.
    Any(OwnMagazine),
}

const _: () = assert!(size_of::<Full>() == 16);

impl Full {
    pub(super) fn of(magazine: OwnMagazine) -> Self {
        match magazine.runs() {
            Some(runs) => Self::Runs(runs),
            None => Self::Any(magazine),
        }
    }

    /// Calls `f` for each cell, the last one first.
    pub(super) fn for_each(self, f: impl FnMut(u32)) {
        match self {
            Self::Runs(Runs {
                first,
                split,
                second,
            }) => (first..first + split)
                .chain(second..second + CELLS as u32 - split)
                .rev()
                .for_each(f),
            Self::Any(magazine) => magazine.cells.into_iter().rev().for_each(f),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_form_gives_all_its_cells() {
        let all = |full: Full| {
            let mut cells = Vec::new();
            full.for_each(|cell| cells.push(cell));
            cells
        };
        let mut magazine = Magazine::alone();
        magazine.fill(Runs {
            first: 0,
            split: 10,
            second: 100,
        });
        assert!(magazine.is_full() && magazine.runs().is_none());
        magazine.cells.reverse();
        let runs = magazine.runs().expect("two");
        assert!(all(Full::Runs(runs)).iter().rev().eq(&magazine.cells));
        assert!(
            all(Full::Any(magazine))
                .into_iter()
                .rev()
                .eq((0..10).chain(100..154))
        );
        assert!(all(Full::Runs(Runs::one(7))).into_iter().rev().eq(7..71));
    }
}
