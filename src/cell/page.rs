//! Page: the memory of 4,096 cells (fewer if their payload is large), and of their two sides.
//!
//! The arena owns pages: it makes, publishes and frees them. The number of cells is known at
//! compile time, from their size: 4,096 cells of up to a kilobyte each, fewer of larger ones. The
//! cells come first, then the sides for re-arms, then those for pauses. Memory that is not touched
//! costs nothing.

use super::state::{Cell, CellRef, PauseSide, Side};
use crate::mem::Zeroed;
use std::marker::PhantomData;

/// Greatest number of cells in a page: with 8-byte payloads they take 96 KiB.
#[cfg(not(loom))]
const CELLS_MAX: u32 = 4096;
#[cfg(loom)]
const CELLS_MAX: u32 = 2;

/// Greatest size of a page's cells (4,096 of a kilobyte). A page of one cell may take more.
const BYTES_MAX: usize = 4 << 20;

/// How many cells of this size a page has: a power of two, so that a shift gives an index's page.
const fn cells_of(bytes: usize) -> u32 {
    let mut cells = CELLS_MAX;
    while cells > 1 && bytes > BYTES_MAX / cells as usize {
        cells /= 2;
    }
    cells
}

#[cfg(not(loom))]
const _: () = assert!(cells_of(1 << 10) == 4096 && cells_of((1 << 10) + 8) == 2048);
#[cfg(not(loom))]
const _: () =
    assert!(cells_of(4 << 20) == 1 && cells_of(2 << 20) == 2 && cells_of(usize::MAX) == 1);

/// A page's memory: all cells, then all sides of either kind.
pub(super) struct Page<T> {
    #[cfg(not(loom))]
    memory: Zeroed<u64>,
    #[cfg(loom)]
    memory: Zeroed<Start<T>>,
    _cells: PhantomData<Cell<T>>,
}

/// What a page's memory begins with: its first cell.
#[cfg(not(loom))]
pub(super) type Start<T> = Cell<T>;

/// In a model, all cells and sides: loom's types are not plain memory.
#[cfg(loom)]
pub(super) struct Start<T>(
    [Cell<T>; CELLS_MAX as usize],
    [Side; CELLS_MAX as usize],
    [PauseSide; CELLS_MAX as usize],
);

#[cfg(loom)]
// SAFETY: made value by value.
unsafe impl<T> crate::mem::Zeroable for Start<T> {
    fn zeroed() -> Self {
        Self(
            std::array::from_fn(|_| Cell::zeroed()),
            std::array::from_fn(|_| Side::zeroed()),
            std::array::from_fn(|_| PauseSide::zeroed()),
        )
    }
}

impl<T> Page<T> {
    /// Cells in a page of this payload.
    pub(super) const CELLS: u32 = cells_of(size_of::<Cell<T>>());

    /// Bytes that the cells of a page take.
    pub(super) const CELLS_BYTES: usize = Self::CELLS as usize * size_of::<Cell<T>>();

    /// A page of zeros.
    pub(super) fn new() -> Self {
        #[cfg(not(loom))]
        let words = const {
            assert!(
                align_of::<Cell<T>>() <= 4096,
                "a timer's payload has an alignment of at most 4096 bytes: box it"
            );
            assert!(size_of::<Cell<T>>().is_multiple_of(8));
            assert!(align_of::<Side>() == 8 && align_of::<PauseSide>() == 8);
            let sides = size_of::<Side>() + size_of::<PauseSide>();
            (Self::CELLS_BYTES + Self::CELLS as usize * sides) / size_of::<u64>()
        };
        #[cfg(loom)]
        let words = 1;
        Self {
            memory: Zeroed::new(words),
            _cells: PhantomData,
        }
    }

    /// Asks the system for the memory of all its cells now.
    pub(super) fn populate(&self) {
        self.memory.populate(Self::CELLS_BYTES);
    }

    /// StripZero. Gives the memory of some cells back to the system, as far as it is whole pages of
    /// the system. Returns whether there were any: then the words of these cells are zeros now, or
    /// may be.
    ///
    /// # Safety
    /// The caller holds these cells. They are cells of this page, by their position.
    pub(super) unsafe fn strip(&self, cells: std::ops::Range<u32>) -> bool {
        #[cfg(not(loom))]
        {
            let [start, end] =
                [cells.start, cells.end].map(|cell| cell as usize * size_of::<Cell<T>>());
            // SAFETY: the caller holds the cells, so they are VACANT: nobody writes them, others
            // read their words and `due_at` only, and zeros are a word that is VACANT.
            unsafe { self.memory.discard(start..end) }
        }
        #[cfg(loom)]
        {
            let Start(all, ..) = &self.memory[0];
            all[cells.start as usize..cells.end as usize]
                .iter()
                .for_each(Cell::strip);
            true
        }
    }

    pub(super) fn start(&self) -> *mut Start<T> {
        self.memory.as_ptr().cast_mut().cast()
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell<T>> {
        // SAFETY: the memory is this page's, and lives as long as `self`.
        (0..Self::CELLS).map(|index| unsafe { Self::cell_ref(self.start(), index) }.cell)
    }

    /// The cell of an index, in its page.
    ///
    /// # Safety
    /// The memory is a page's, and lives as long as the returned reference.
    #[inline]
    pub(super) unsafe fn cell_ref<'a>(start: *const Start<T>, index: u32) -> CellRef<'a, T> {
        let position = (index % Self::CELLS) as usize;
        #[cfg(not(loom))]
        {
            // SAFETY: the caller's promise. `position` is less than the number of cells.
            let cell = unsafe { start.add(position) };
            // SAFETY: in this page, after its last cell.
            let sides = unsafe { start.add(Self::CELLS as usize) }.cast::<Side>();
            // SAFETY: the page has as many sides as cells. They are aligned, because cells take a
            // multiple of 8 bytes.
            let side = unsafe { sides.add(position) };
            // SAFETY: the caller's promise. A cell may be zeros.
            let cell = unsafe { &*cell };
            // SAFETY: as above.
            let side = unsafe { &*side };
            CellRef {
                index,
                cell,
                side,
                #[cfg(not(test))]
                page: start.cast(),
                #[cfg(test)]
                // SAFETY: the caller's promise.
                pause_side: unsafe { Self::pause_side(start, index) },
            }
        }
        #[cfg(loom)]
        {
            // SAFETY: the caller's promise.
            let Start(cells, sides, pause_sides) = unsafe { &*start };
            CellRef {
                index,
                cell: &cells[position],
                side: &sides[position],
                pause_side: &pause_sides[position],
            }
        }
    }

    /// The pause side of an index, in its page.
    ///
    /// # Safety
    /// As `cell_ref`.
    #[cfg(not(loom))]
    unsafe fn pause_side<'a>(start: *const Start<T>, index: u32) -> &'a PauseSide {
        let position = (index % Self::CELLS) as usize;
        // SAFETY: in this page, after its last cell.
        let sides = unsafe { start.add(Self::CELLS as usize) }.cast::<Side>();
        // SAFETY: in this page, after its last side.
        let pause_sides = unsafe { sides.add(Self::CELLS as usize) }.cast::<PauseSide>();
        // SAFETY: the page has as many of these as cells. They are aligned, because sides take a
        // multiple of 8 bytes.
        let pause_side = unsafe { pause_sides.add(position) };
        // SAFETY: the caller's promise.
        unsafe { &*pause_side }
    }

    /// RetireFree. No thread looks at this page any more.
    #[cfg(not(loom))]
    pub(super) fn free(self) {}

    /// RetireFree in a model: poisons the cells, so that a later look fails. The memory stays.
    #[cfg(loom)]
    pub(super) fn free(mut self) {
        let Start(cells, ..) = &mut self.memory[0];
        cells.iter_mut().for_each(Cell::poison);
        std::mem::forget(self);
    }

    /// Where the cell of an index is, or would be. Only an address: nothing is read.
    #[inline]
    pub(super) fn address(start: *const Start<T>, index: u32) -> *const Cell<T> {
        start
            .cast::<Cell<T>>()
            .wrapping_add((index % Self::CELLS) as usize)
    }
}

impl<T> CellRef<'_, T> {
    /// What the cell's timer needs when it is paused.
    pub(super) fn pause_side(&self) -> &PauseSide {
        #[cfg(not(any(loom, test)))]
        {
            // SAFETY: `page` is where the page of the cell begins, and lives as long as the cell.
            unsafe { Page::<T>::pause_side(self.page.cast(), self.index) }
        }
        #[cfg(any(loom, test))]
        {
            self.pause_side
        }
    }
}
