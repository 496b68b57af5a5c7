//! Page: the memory of some cells, and of their sides.
//!
//! The arena makes, publishes and frees pages. How many cells one has is known when it is compiled, by
//! their size: the same for all payloads of up to a kilobyte, fewer for larger ones.

use super::state::{Cell, Side, Slot};
use crate::mem::Zeroed;
use std::marker::PhantomData;

/// Cells in a page, at most: with 8-byte payloads they are 96 KiB.
#[cfg(not(loom))]
const CELLS_MAX: u32 = 4096;
#[cfg(loom)]
const CELLS_MAX: u32 = 2;

/// The cells of a page take no more than this, unless it has only one: 4,096 of a kilobyte.
const BYTES_MAX: usize = 4 << 20;

/// How many cells of a size a page has: a power of two, so that an index is parted by a shift.
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
const _: () = assert!(cells_of(4 << 20) == 1 && cells_of(2 << 20) == 2 && cells_of(usize::MAX) == 1);

/// All cells, then all sides: memory that is not touched costs nothing.
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

/// In a model, all of it: loom's types are not plain memory.
#[cfg(loom)]
pub(super) struct Start<T>([Cell<T>; CELLS_MAX as usize], [Side; CELLS_MAX as usize]);

#[cfg(loom)]
// SAFETY: made value by value.
unsafe impl<T> crate::mem::Zeroable for Start<T> {
    fn zeroed() -> Self {
        Self(std::array::from_fn(|_| Cell::zeroed()), std::array::from_fn(|_| Side::zeroed()))
    }
}

impl<T> Page<T> {
    /// Cells in a page of this payload.
    pub(super) const CELLS: u32 = cells_of(size_of::<Cell<T>>());

    /// Bytes that they take.
    pub(super) const CELLS_BYTES: usize = Self::CELLS as usize * size_of::<Cell<T>>();

    /// Cells and sides of zeros.
    pub(super) fn new() -> Self {
        #[cfg(not(loom))]
        let words = const {
            assert!(size_of::<Cell<T>>().is_multiple_of(8) && align_of::<Side>() == 8 && align_of::<Cell<T>>() <= 4096);
            (Self::CELLS_BYTES + Self::CELLS as usize * size_of::<Side>()) / size_of::<u64>()
        };
        #[cfg(loom)]
        let words = 1;
        Self { memory: Zeroed::new(words), _cells: PhantomData }
    }

    /// Has the system lay memory under all its cells now.
    pub(super) fn populate(&self) {
        self.memory.populate(Self::CELLS_BYTES);
    }

    pub(super) fn start(&self) -> *mut Start<T> {
        self.memory.as_ptr().cast_mut().cast()
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell<T>> {
        // SAFETY: the memory is this page's, which lives as long as `self`.
        (0..Self::CELLS).map(|cell| unsafe { Self::slot(self.start(), cell) }.cell)
    }

    /// The cell of an index, in its page.
    ///
    /// # Safety
    /// The memory is that of a page, which lives as long as what is returned.
    #[inline]
    pub(super) unsafe fn slot<'a>(start: *const Start<T>, cell: u32) -> Slot<'a, T> {
        let position = (cell % Self::CELLS) as usize;
        #[cfg(not(loom))]
        {
            // SAFETY: the caller's promise. A page has more cells than that.
            let here = unsafe { start.add(position) };
            // SAFETY: in the same page, after its last cell.
            let sides = unsafe { start.add(Self::CELLS as usize) }.cast::<Side>();
            // SAFETY: it has as many sides as cells. They are aligned, since cells take a multiple of 8 bytes.
            let side = unsafe { sides.add(position) };
            // SAFETY: the caller's promise. A cell may be zeros.
            let here = unsafe { &*here };
            // SAFETY: as above.
            let side = unsafe { &*side };
            Slot { index: cell, cell: here, side }
        }
        #[cfg(loom)]
        {
            // SAFETY: the caller's promise.
            let Start(cells, sides) = unsafe { &*start };
            Slot { index: cell, cell: &cells[position], side: &sides[position] }
        }
    }

    /// T3. Nobody looks at this page any more.
    #[cfg(not(loom))]
    pub(super) fn free(self) {}

    /// The same for a model, which notices whoever looks at it still. The memory stays.
    #[cfg(loom)]
    pub(super) fn free(mut self) {
        let Start(cells, _) = &mut self.memory[0];
        cells.iter_mut().for_each(Cell::poison);
        std::mem::forget(self);
    }

    /// Where the cell of an index is, or would be: an address only.
    #[inline]
    pub(super) fn address(start: *const Start<T>, cell: u32) -> *const Cell<T> {
        start.cast::<Cell<T>>().wrapping_add((cell % Self::CELLS) as usize)
    }
}
