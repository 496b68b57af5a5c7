//! Slab: memory for some segments of a track, which goes back to the system as a whole.
//!
//! An allocator would keep the memory that a backlog has needed. The producer takes segments out of
//! a slab one after the other. A thread that frees a segment counts it. The thread that frees the
//! last segment frees the slab. A segment that was freed is not taken again.

use super::segment::Segment;
use crate::mem::Zeroed;
use crate::sync::{AtomicUsize, Ordering};

/// Segments in a slab. With 16-byte messages it is 64 KiB.
const SEGMENTS: usize = if cfg!(loom) { 1 } else { 15 };

/// Memory for segments.
pub(super) struct SegmentSlab<M> {
    segments: Zeroed<Segment<M>>,
    /// Segments that are not freed yet, including those that were never taken.
    left: AtomicUsize,
}

/// Where a producer takes segments from.
pub(super) struct SegmentSlabs<M> {
    /// The slab that is in use; null before the first one.
    slab: *mut SegmentSlab<M>,
    /// Segments that were taken out of it.
    taken: usize,
}

impl<M> SegmentSlabs<M> {
    pub(super) const fn new() -> Self {
        Self {
            slab: std::ptr::null_mut(),
            taken: SEGMENTS,
        }
    }

    /// A segment without messages.
    pub(super) fn take(&mut self) -> *mut Segment<M> {
        if self.taken == SEGMENTS {
            self.slab = Box::into_raw(Box::new(SegmentSlab {
                segments: Zeroed::new(SEGMENTS),
                left: AtomicUsize::new(SEGMENTS),
            }));
            self.taken = 0;
        }
        // SAFETY: this slab has a segment that was not taken, so it is not freed.
        let slab = unsafe { &*self.slab };
        let segment = slab.segments.as_ptr().wrapping_add(self.taken).cast_mut();
        self.taken += 1;
        // SAFETY: within the slab, zeroed (`Zeroable`), and no other thread has it.
        let fresh = unsafe { &mut *segment };
        fresh.begin(self.slab.cast());
        segment
    }
}

impl<M> Drop for SegmentSlabs<M> {
    fn drop(&mut self) {
        if !self.slab.is_null() && self.taken < SEGMENTS {
            // SAFETY: those that were not taken are counted as left, and are given up here, once.
            unsafe { give_up(self.slab, SEGMENTS - self.taken) };
        }
    }
}

/// Frees a segment.
///
/// # Safety
/// No thread uses it any more. It came from `SegmentSlabs::take`, and is freed once.
pub(super) unsafe fn free<M>(segment: *mut Segment<M>) {
    // SAFETY: the caller's promise.
    let slab = unsafe { (*segment).slab };
    // SAFETY: as above; `take` has written it.
    unsafe { give_up(slab.cast::<SegmentSlab<M>>(), 1) };
}

/// Counts segments as freed, and frees the slab after the last one.
///
/// # Safety
/// These segments are not counted yet.
unsafe fn give_up<M>(slab: *mut SegmentSlab<M>, segments: usize) {
    // SAFETY: it has these segments left, so it is alive.
    let left = unsafe { &(*slab).left };
    // Ordering: AcqRel. Pairs with itself: what others did with their segments comes before the
    // free.
    if left.fetch_sub(segments, Ordering::AcqRel) == segments {
        // SAFETY: from `into_raw` in `take`, and none of its segments is left.
        drop(unsafe { Box::from_raw(slab) });
    }
}
