//! Keys: the timers of a `Wheel`, in cells. A handle names a cell and its generation.
//!
//! A cell's generation rises when its timer goes. So a handle names one timer for ever. A cell that
//! has used all its generations is not used again.

use crate::entry::Entry;
use std::fmt;
use std::num::NonZeroU32;

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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    cell: u32,
    generation: NonZeroU32,
}

const _: () = assert!(size_of::<Option<Handle>>() == 8);

impl Handle {
    /// The entry of this timer at a deadline.
    #[inline]
    pub(super) fn entry(self, deadline: u64) -> Entry {
        Entry::new(deadline, self.cell, self.generation.get().into())
    }

    /// The timer that an entry names. The inverse of `entry`.
    #[inline]
    pub(super) fn of(entry: Entry) -> Option<Self> {
        Some(Self {
            cell: entry.cell(),
            generation: NonZeroU32::new(entry.generation() as u32)?,
        })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({}:{})", self.cell, self.generation)
    }
}

/// A timer of a wheel.
pub(super) struct Timer<K> {
    pub(super) deadline: u64,
    /// The deadline of its live entry. Not after `deadline`: a timer that is moved to a later
    /// deadline keeps its entry until the old one comes.
    pub(super) entry_at: u64,
    pub(super) key: K,
}

struct KeyCell<K> {
    /// The generation of its timer, or of its next timer.
    generation: NonZeroU32,
    timer: Option<Timer<K>>,
}

/// The cells of a wheel.
pub(super) struct Keys<K> {
    cells: Vec<KeyCell<K>>,
    /// Cells without a timer that have generations left. The last one is used first: its cache
    /// lines are warm.
    free: Vec<u32>,
    len: usize,
}

impl<K> Keys<K> {
    pub(super) fn with_capacity(timers: usize) -> Self {
        Self {
            cells: Vec::with_capacity(timers),
            free: Vec::with_capacity(timers),
            len: 0,
        }
    }

    /// The number of timers for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        // Neither free nor in use: cells that were given up, and those that never had a timer.
        self.len + self.free.len() + self.cells.capacity() - self.cells.len()
    }

    /// Takes memory for this number of timers beyond those that there are.
    pub(super) fn reserve(&mut self, timers: usize) {
        self.cells.reserve(timers.saturating_sub(self.free.len()));
        // All of them may be free at one time.
        self.free
            .reserve(self.cells.capacity().saturating_sub(self.free.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn put(&mut self, timer: Timer<K>) -> Handle {
        self.len += 1;
        if let Some(cell) = self.free.pop() {
            let KeyCell {
                generation,
                timer: vacant,
            } = &mut self.cells[cell as usize];
            *vacant = Some(timer);
            return Handle {
                cell,
                generation: *generation,
            };
        }
        let cell = u32::try_from(self.cells.len()).expect("2^32 timers take more than 200 GB");
        let generation = NonZeroU32::MIN;
        self.cells.push(KeyCell {
            generation,
            timer: Some(timer),
        });
        Handle { cell, generation }
    }

    #[inline]
    pub(super) fn take(&mut self, handle: Handle) -> Option<Timer<K>> {
        let cell = self
            .cells
            .get_mut(handle.cell as usize)
            .filter(|cell| cell.generation == handle.generation)?;
        let timer = cell.timer.take()?;
        self.len -= 1;
        if let Some(next) = cell.generation.checked_add(1) {
            cell.generation = next;
            self.free.push(handle.cell);
        }
        Some(timer)
    }

    pub(super) fn get(&self, handle: Handle) -> Option<&Timer<K>> {
        let cell = self
            .cells
            .get(handle.cell as usize)
            .filter(|cell| cell.generation == handle.generation)?;
        cell.timer.as_ref()
    }

    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut Timer<K>> {
        let cell = self
            .cells
            .get_mut(handle.cell as usize)
            .filter(|cell| cell.generation == handle.generation)?;
        cell.timer.as_mut()
    }

    /// The deadline of a live entry's timer. `None`: the entry is dead.
    pub(super) fn deadline_of(&self, entry: Entry) -> Option<u64> {
        let timer = self.get(Handle::of(entry)?)?;
        (timer.entry_at == entry.deadline()).then_some(timer.deadline)
    }

    /// The timer of a live entry. `None`: the entry is dead.
    #[inline]
    pub(super) fn by_entry(&mut self, entry: Entry) -> Option<(Handle, &mut Timer<K>)> {
        let handle = Handle::of(entry)?;
        let timer = self
            .get_mut(handle)
            .filter(|timer| timer.entry_at == entry.deadline())?;
        Some((handle, timer))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, &Timer<K>)> {
        // A cell's number has 32 bits: see `put`.
        (0..)
            .zip(&self.cells)
            .filter_map(|(cell, KeyCell { generation, timer })| {
                let handle = Handle {
                    cell,
                    generation: *generation,
                };
                timer.as_ref().map(|timer| (handle, timer))
            })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cell_whose_generations_are_used_up_is_given_up() {
        let mut keys = Keys::with_capacity(0);
        let timer = |key| Timer {
            deadline: 1,
            entry_at: 1,
            key,
        };
        let first = keys.put(timer('a'));
        keys.cells[0].generation = NonZeroU32::MAX;
        assert!(keys.get(first).is_none());
        let last = Handle {
            cell: 0,
            generation: NonZeroU32::MAX,
        };
        assert_eq!(keys.take(last).map(|timer| timer.key), Some('a'));
        assert!(
            keys.take(last).is_none() && keys.get(last).is_none() && keys.get_mut(last).is_none()
        );
        let other = keys.put(timer('b'));
        assert_eq!((other.cell, keys.len(), keys.iter().count()), (1, 1, 1));
    }
}
