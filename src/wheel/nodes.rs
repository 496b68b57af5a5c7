//! Nodes: the timers of a `Wheel`, in cells. A handle names a cell and its generation.
//!
//! A cell's generation rises when its timer goes. So a handle names one timer for ever. A cell that
//! has used all its generations is not used again.

use crate::prefetch::prefetch_to_write;
use alloc::vec::Vec;
use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

/// Names one timer of one [`Wheel`](super::Wheel).
///
/// Plain `Copy` data of 8 bytes; so is `Option<Handle>`. It is safe to keep for ever. Once its
/// timer is gone, every call answers that there is no such timer. No other timer of the wheel ever
/// gets an equal handle: a cell serves 2^32 - 1 timers, and is not used after that.
///
/// A handle does not name its wheel. A handle of another wheel may name a timer here.
///
/// # Example
/// ```
/// use wheelwork::wheel::Wheel;
///
/// let mut wheel = Wheel::new(0);
/// let first = wheel.insert(10, "first");
/// assert_eq!(wheel.cancel(first), Some("first"));
/// let second = wheel.insert(10, "second");
/// assert_ne!(first, second);
/// assert_eq!(wheel.cancel(first), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(
    /// Its cell and its generation. One number, so that it is stored at once: who loads it soon
    /// after does not wait.
    NonZeroU64,
);

const _: () = assert!(size_of::<Option<Handle>>() == 8);

impl Handle {
    #[inline]
    fn new(cell: u32, generation: NonZeroU32) -> Self {
        Self(NonZeroU64::from(generation) | u64::from(cell) << 32)
    }

    /// The number of its cell.
    #[inline]
    pub(super) const fn cell(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    #[inline]
    const fn generation(self) -> u32 {
        self.0.get() as u32
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({}:{})", self.cell(), self.generation())
    }
}

/// A timer that is gone.
pub(super) struct Gone<K> {
    pub(super) handle: Handle,
    pub(super) deadline: u64,
    pub(super) key: K,
}

enum KeyCell<K> {
    Free {
        /// The generation of its next timer.
        generation: NonZeroU32,
        /// The cell that is used after it, or `NONE`.
        next: u32,
    },
    Taken {
        generation: NonZeroU32,
        deadline: u64,
        key: K,
    },
    /// It has no generations left.
    GivenUp,
}

/// The number of a cell has 31 bits: a link is a `u32` that names lists and cells (`link.rs`).
const CELLS_MAX: u32 = (1 << 31) - 1;

/// New cells at a time.
const CELLS_AT_A_TIME: usize = 64;

/// No cell.
const NONE: u32 = u32::MAX;

/// The cells of a wheel.
pub(super) struct Nodes<K> {
    cells: Vec<KeyCell<K>>,
    /// The first cell without a timer that has generations left: the one that was used last, whose
    /// cache lines are warm.
    free: u32,
    len: usize,
    /// Cells without generations.
    given_up: usize,
}

impl<K> Nodes<K> {
    pub(super) fn with_capacity(timers: usize) -> Self {
        Self {
            cells: Vec::with_capacity(timers),
            free: NONE,
            len: 0,
            given_up: 0,
        }
    }

    /// The number of timers for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        self.cells.capacity() - self.given_up
    }

    /// Takes memory for this number of timers beyond those that there are.
    pub(super) fn reserve(&mut self, timers: usize) {
        let free = self.cells.len() - self.len - self.given_up;
        self.cells.reserve(timers.saturating_sub(free));
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of cells, with timers and without. (Not more than `CELLS_MAX`.)
    pub(super) fn cells(&self) -> u32 {
        self.cells.len() as u32
    }

    /// Puts a timer into a free cell. Gives the key back if there is none.
    #[inline]
    pub(super) fn put(&mut self, deadline: u64, key: K) -> Result<Handle, K> {
        let cell = self.free;
        if let Some(free) = self.cells.get_mut(cell as usize)
            && let KeyCell::Free { generation, next } = *free
        {
            self.free = next;
            self.len += 1;
            *free = KeyCell::Taken {
                generation,
                deadline,
                key,
            };
            return Ok(Handle::new(cell, generation));
        }
        Err(key)
    }

    /// Adds new cells: at least one, and not more than there is memory for. None is free before.
    /// Returns how many cells there are then.
    ///
    /// # Panics
    /// If there are as many as there may be.
    pub(super) fn add(&mut self) -> u32 {
        let first = self.cells.len();
        assert!(
            first < CELLS_MAX as usize,
            "a wheel has at most 2^31 - 1 timers"
        );
        self.cells.reserve(1);
        let end = (first + CELLS_AT_A_TIME)
            .min(self.cells.capacity())
            .min(CELLS_MAX as usize);
        // (Not more than `CELLS_MAX`.)
        let (first, end) = (first as u32, end as u32);
        self.cells
            .extend((first + 1..=end).map(|next| KeyCell::Free {
                generation: NonZeroU32::MIN,
                next: if next < end { next } else { NONE },
            }));
        self.free = first;
        end
    }

    #[inline]
    pub(super) fn take(&mut self, handle: Handle) -> Option<Gone<K>> {
        self.take_if(handle.cell(), |generation| {
            generation.get() == handle.generation()
        })
    }

    /// Prefetches a cell.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        if let Some(cell) = self.cells.get(number as usize) {
            prefetch_to_write(cell);
        }
    }

    /// Takes the timer of a cell.
    #[inline]
    pub(super) fn take_cell(&mut self, cell: u32) -> Option<Gone<K>> {
        self.take_if(cell, |_| true)
    }

    #[inline]
    fn take_if(&mut self, number: u32, is_it: impl FnOnce(NonZeroU32) -> bool) -> Option<Gone<K>> {
        let cell = self.cells.get_mut(number as usize)?;
        let generation = match cell {
            KeyCell::Taken { generation, .. } if is_it(*generation) => *generation,
            _ => return None,
        };
        let rest = match generation.checked_add(1) {
            Some(generation) => {
                let next = core::mem::replace(&mut self.free, number);
                KeyCell::Free { generation, next }
            }
            None => {
                self.given_up += 1;
                KeyCell::GivenUp
            }
        };
        self.len -= 1;
        let KeyCell::Taken { deadline, key, .. } = core::mem::replace(cell, rest) else {
            return None;
        };
        let handle = Handle::new(number, generation);
        Some(Gone {
            handle,
            deadline,
            key,
        })
    }

    /// The deadline and the key of a timer.
    #[inline]
    pub(super) fn get(&self, handle: Handle) -> Option<(u64, &K)> {
        match self.cells.get(handle.cell() as usize)? {
            KeyCell::Taken {
                generation,
                deadline,
                key,
            } if generation.get() == handle.generation() => Some((*deadline, key)),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut K> {
        match self.cells.get_mut(handle.cell() as usize)? {
            KeyCell::Taken {
                generation, key, ..
            } if generation.get() == handle.generation() => Some(key),
            _ => None,
        }
    }

    /// Gives a timer another deadline. Returns the former one.
    #[inline]
    pub(super) fn set_deadline(&mut self, handle: Handle, to: u64) -> Option<u64> {
        match self.cells.get_mut(handle.cell() as usize)? {
            KeyCell::Taken {
                generation,
                deadline,
                ..
            } if generation.get() == handle.generation() => Some(core::mem::replace(deadline, to)),
            _ => None,
        }
    }

    /// The deadline of the timer in a cell.
    #[inline]
    pub(super) fn deadline(&self, number: u32) -> Option<u64> {
        match *self.cells.get(number as usize)? {
            KeyCell::Taken { deadline, .. } => Some(deadline),
            _ => None,
        }
    }

    /// The handle of a cell's timer.
    pub(super) fn handle(&self, number: u32) -> Option<Handle> {
        match *self.cells.get(number as usize)? {
            KeyCell::Taken { generation, .. } => Some(Handle::new(number, generation)),
            _ => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, u64, &K)> {
        // A cell's number is below `CELLS_MAX`: see `add`.
        (0..).zip(&self.cells).filter_map(|(cell, content)| {
            let KeyCell::Taken {
                generation,
                deadline,
                key,
            } = content
            else {
                return None;
            };
            let (generation, deadline) = (*generation, *deadline);
            Some((Handle::new(cell, generation), deadline, key))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_timer_of_a_number_takes_24_bytes() {
        assert_eq!(size_of::<KeyCell<u64>>(), 24);
    }

    #[test]
    fn a_cell_whose_generations_are_used_up_is_given_up() {
        let mut nodes = Nodes::with_capacity(0);
        assert_eq!(nodes.put(1, 'a'), Err('a'));
        nodes.add();
        let first = nodes.put(1, 'a').expect("a cell was added");
        let KeyCell::Taken { generation, .. } = &mut nodes.cells[0] else {
            panic!("it is taken");
        };
        *generation = NonZeroU32::MAX;
        assert!(nodes.get(first).is_none());
        let last = Handle::new(0, NonZeroU32::MAX);
        assert_eq!(nodes.take(last).map(|gone| gone.key), Some('a'));
        assert!(
            nodes.take(last).is_none()
                && nodes.get(last).is_none()
                && nodes.get_mut(last).is_none()
        );
        // The cell is not used again.
        let other = nodes.put(1, 'b').expect("another cell is free");
        assert_eq!((other.cell(), nodes.len(), nodes.iter().count()), (1, 1, 1));
    }
}
