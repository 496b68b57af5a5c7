//! Leaf: payloads of claimed timers, which several threads take one by one.
//!
//! The payloads of a whole batch lie in one buffer, cut into leaves. One thread fills a leaf (L1), then anybody takes from it (L2, L3).
//!
//! Ground rules: each leaf is filled once, by one thread. Whoever takes has seen that something is left; a thread that has not may be before L1.

use super::LEAF;
use crate::sync::{AtomicUsize, Fault, Ordering, UnsafeCell, broken, ordering};
use std::mem::MaybeUninit;

/// The payloads of a batch.
pub(crate) struct Leaves<P> {
    payloads: Box<[UnsafeCell<MaybeUninit<P>>]>,
    counts: Box<[Counts]>,
}

/// How far a leaf is. A cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Counts {
    filled: AtomicUsize,
    /// Positions below have been taken; it runs on beyond `filled`.
    taken: AtomicUsize,
}

// SAFETY: a payload is written by the one thread that fills its leaf, and read by the one that takes it (L3).
unsafe impl<P: Send> Sync for Leaves<P> {}

/// One of them.
pub(crate) struct Leaf<'a, P> {
    payloads: &'a [UnsafeCell<MaybeUninit<P>>],
    counts: &'a Counts,
}

/// A leaf that is being filled: nobody else touches its payloads.
pub(crate) struct Filling<'a, P> {
    /// The places that are left.
    payloads: std::slice::Iter<'a, UnsafeCell<MaybeUninit<P>>>,
}

impl<P> Filling<'_, P> {
    #[inline]
    pub(crate) fn add(&mut self, payload: P) {
        let slot = self.payloads.next().expect("as many as entries at most");
        // SAFETY: nobody takes before L1, and nobody else fills (the promise of `fill`'s caller).
        slot.with_mut(|slot| unsafe { (*slot).write(payload) });
    }
}

impl<P> Leaves<P> {
    /// For a batch of so many entries. Costs two allocations.
    pub(crate) fn new(entries: usize) -> Self {
        let payloads = (0..entries).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Self { payloads, counts: (0..entries.div_ceil(LEAF)).map(|_| Counts::default()).collect() }
    }

    /// Makes them as they were: whatever is left is dropped.
    pub(crate) fn clear(&mut self) {
        self.iter().filter(|leaf| leaf.left() > 0).for_each(|leaf| while leaf.take().is_some() {});
        self.counts.fill_with(Counts::default);
    }

    /// The leaf of this number, if there is one.
    pub(crate) fn leaf(&self, number: usize) -> Option<Leaf<'_, P>> {
        let counts = self.counts.get(number)?;
        let first = number * LEAF;
        Some(Leaf { payloads: &self.payloads[first..self.payloads.len().min(first + LEAF)], counts })
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Leaf<'_, P>> {
        (0..self.counts.len()).filter_map(|number| self.leaf(number))
    }
}

impl<P> Drop for Leaves<P> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<P> Leaf<'_, P> {
    /// L1. Fills the leaf with what `fill` adds: not more than its entries.
    ///
    /// # Safety
    /// Called once for each leaf, and again after a `clear`.
    #[inline]
    pub(crate) unsafe fn fill(&self, fill: impl FnOnce(&mut Filling<'_, P>)) {
        let mut filling = Filling { payloads: self.payloads.iter() };
        fill(&mut filling);
        let filled = self.payloads.len() - filling.payloads.len();
        // Ordering: Release (L1). Pairs with the Acquire in `filled`; publishes the payloads.
        self.counts.filled.store(filled, ordering(Ordering::Release, Fault::LeafFillRelaxed));
    }

    fn filled(&self) -> usize {
        // Ordering: Acquire. Pairs with L1.
        self.counts.filled.load(Ordering::Acquire)
    }

    /// How many payloads are left to take.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        // Ordering: Acquire. See `take`; a stale answer costs one empty look.
        self.filled().saturating_sub(self.counts.taken.load(Ordering::Acquire))
    }

    /// Takes a payload. Only after something was left.
    #[inline]
    pub(crate) fn take(&self) -> Option<P> {
        // Ordering: AcqRel (L2). Pairs with itself and with `left`: who finds nothing left comes after the J1 of those who took the rest, so its own J3
        // leaves them counted.
        let position = if broken(Fault::LeafTakeNotAtomic) {
            // Ordering: Acquire, and Release. The broken variant: two takers may both get here.
            let position = self.counts.taken.load(Ordering::Acquire);
            self.counts.taken.store(position + 1, Ordering::Release);
            position
        } else {
            self.counts.taken.fetch_add(1, Ordering::AcqRel)
        };
        if position >= self.filled() {
            return None;
        }
        // SAFETY: L3. The counter gives each position to one taker, after L1.
        let payload = self.payloads[position].with(|slot| unsafe { slot.read() });
        // SAFETY: L1 wrote it.
        Some(unsafe { payload.assume_init() })
    }
}
