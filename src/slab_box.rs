//! Slab box: a box whose memory is a part of a slab's. The slab goes back to the system with the
//! last of its boxes.
//!
//! For what is allocated by the thousand in a burst, and dropped after it by other threads. An
//! allocator would keep that memory.
//!
//! Ground rule: a [`SlabBox`] is the one handle of its value, as a box is. A slab is never filled
//! again: each box that is left keeps all of it.

use crate::mem::{Zeroable, Zeroed};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Memory for several values.
struct BoxSlab<T>(Zeroed<SlabPlace<T>>);

/// A value, and the slab in which it lies: null if it lies alone.
struct SlabPlace<T> {
    slab: *const BoxSlab<T>,
    value: T,
}

// SAFETY: a null pointer, and a value that may be zeros.
unsafe impl<T: Zeroable> Zeroable for SlabPlace<T> {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self {
            slab: ptr::null(),
            value: T::zeroed(),
        }
    }
}

/// A value in memory of its own, or in a slab's.
#[derive(Debug)]
pub(crate) struct SlabBox<T: Zeroable>(NonNull<SlabPlace<T>>);

// SAFETY: it owns its value as a box does. The slab's other values are not touched, and its count
// is an `Arc`'s.
unsafe impl<T: Zeroable + Send> Send for SlabBox<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroable + Sync> Sync for SlabBox<T> {}

impl<T: Zeroable> SlabBox<T> {
    /// A value by itself.
    pub(crate) fn alone(value: T) -> Self {
        let slab = ptr::null();
        Self(NonNull::from(Box::leak(Box::new(SlabPlace {
            slab,
            value,
        }))))
    }

    /// The values of a new slab of about this many bytes, all zeros.
    pub(crate) fn slab(bytes: usize) -> impl Iterator<Item = Self> {
        let len = (bytes / size_of::<SlabPlace<T>>()).max(1);
        let slab = Arc::new(BoxSlab(Zeroed::new(len)));
        slab.0.populate(usize::MAX);
        (0..len).map(move |index| {
            // (Not by a reference to the slab's values: others have boxes by now.)
            let place = slab.0.as_ptr().wrapping_add(index).cast_mut();
            // SAFETY: within the slab. It has no other handle, and this one keeps the slab, by its
            // count.
            unsafe { (*place).slab = Arc::into_raw(slab.clone()) };
            Self(NonNull::new(place).expect("memory is not at null"))
        })
    }

    #[inline]
    fn place(&self) -> &SlabPlace<T> {
        // SAFETY: the one handle of a place that lives as long.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Zeroable> Deref for SlabBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.place().value
    }
}

impl<T: Zeroable> DerefMut for SlabBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `place`, and this has it mutably.
        let place = unsafe { self.0.as_mut() };
        &mut place.value
    }
}

impl<T: Zeroable> Drop for SlabBox<T> {
    fn drop(&mut self) {
        let slab = self.place().slab;
        if slab.is_null() {
            // SAFETY: `alone` leaked it, and this was its one handle.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        } else {
            // SAFETY: the count that `slab` gave this handle. The value needs no drop.
            drop(unsafe { Arc::from_raw(slab) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_slab_lives_as_long_as_one_of_its_boxes() {
        let mut all: Vec<_> = SlabBox::<u64>::slab(4_096).collect();
        assert!(all.len() == 256 && all.iter().all(|value| **value == 0));
        let slab = all[0].place().slab;
        // SAFETY: a count more, of a slab that lives.
        unsafe { Arc::increment_strong_count(slab) };
        // SAFETY: that count.
        let slab = unsafe { Arc::from_raw(slab) };
        (0..)
            .zip(&mut all)
            .for_each(|(number, value)| **value = number);
        while let Some(value) = all.pop() {
            assert_eq!(*value, all.len() as u64);
            assert_eq!(Arc::strong_count(&slab), all.len() + 2);
        }
        assert_eq!(Arc::strong_count(&slab), 1);
        assert_eq!(*SlabBox::alone(7), 7);
    }

    #[test]
    fn a_slab_has_a_box_at_least() {
        assert_eq!(SlabBox::<[u64; 100]>::slab(1).count(), 1);
    }
}
