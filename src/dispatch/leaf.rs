//! Leaf: payloads of claimed timers, which several threads take one by one.
//!
//! The payloads of a whole batch lie in one buffer, cut into leaves. One thread, the *owner*, fills a leaf (L1) and takes from it; others may help.
//!
//! Ground rules: each leaf is filled once, until whoever is alone with the batch clears them all. Whoever helps has seen that something is left; a thread that has not may be before L1.
//!
//! # How it works
//!
//! As long as nobody helps the owner takes without a locked instruction, which would cost more than an empty task: it moves `front` (T1), passes a light fence (T2) and looks
//! at `share` (T3). Who wants to help says so there (H1), passes the heavy fence (H2), and looks at `front` (H3). So the owner has seen H1, or the helper sees T1. The
//! first of the two to write its `front` to `share` (T4, H4) decides where the positions begin that all share, which are taken by an increment of `share` (S1). An
//! owner that has moved `front` over a position, but finds in T3 that it is shared, leaves it to S1: its own are those before the shared ones, and no other is. It has
//! taken one by S1 for each that it has so left, so when `front` has come to the end nothing is left.

use super::LEAF;
use crate::sync::{AtomicU64, AtomicUsize, Fault, Ordering, UnsafeCell, broken, heavy_fence, light_fence, ordering};
use std::mem::MaybeUninit;

/// `share`: the owner takes alone.
const ALONE: u64 = 0;

/// `share`: somebody wants to help.
const WANTED: u64 = 1;

/// `share`: positions are taken by increments. Beside it the first one that is, and the next one.
const SHARED: u64 = 2;
const FIRST_SHIFT: u32 = 2;
/// (In models there are places for a few steps beyond the end, as here for 2^32.)
const NEXT_SHIFT: u32 = if cfg!(loom) { 61 } else { 32 };

const _: () = assert!((LEAF as u64) < 1 << (NEXT_SHIFT - FIRST_SHIFT));

/// The payloads of a batch.
pub(crate) struct Leaves<P> {
    payloads: Box<[UnsafeCell<MaybeUninit<P>>]>,
    counts: Box<[Counts]>,
    /// Leaves of this batch: there may be room for more.
    len: usize,
}

/// How far a leaf is. A cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Counts {
    filled: AtomicUsize,
    /// Positions below are the owner's, unless they are shared. Written by the owner alone.
    front: AtomicUsize,
    share: AtomicU64,
}

// SAFETY: a payload is written by the one thread that fills its leaf, and read by the one that takes it (L3).
unsafe impl<P: Send> Sync for Leaves<P> {}

/// One of them.
pub(crate) struct Leaf<'a, P> {
    payloads: &'a [UnsafeCell<MaybeUninit<P>>],
    counts: &'a Counts,
    /// Whether this thread has filled it.
    is_owner: bool,
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
        let len = entries.div_ceil(LEAF);
        Self { payloads, counts: (0..len).map(|_| Counts::default()).collect(), len }
    }

    /// Makes them fit for a batch of so many entries, after a `clear`. Costs two allocations, if they are too small.
    pub(crate) fn fit(&mut self, entries: usize) {
        if self.payloads.len() < entries {
            *self = Self::new(entries);
        }
        self.len = entries.div_ceil(LEAF);
    }

    /// Bytes of the payloads that there is room for.
    pub(crate) fn payload_bytes(&self) -> usize {
        size_of_val(&*self.payloads)
    }

    /// Makes them as they were: whatever is left is dropped.
    pub(crate) fn clear(&mut self) {
        self.iter().filter(|leaf| leaf.left() > 0).for_each(|leaf| while leaf.take().is_some() {});
        self.counts[..self.len].fill_with(Counts::default);
    }

    /// The leaf of this number, if there is one.
    pub(crate) fn leaf(&self, number: usize) -> Option<Leaf<'_, P>> {
        let counts = self.counts[..self.len].get(number)?;
        let first = number * LEAF;
        Some(Leaf { payloads: &self.payloads[first..self.payloads.len().min(first + LEAF)], counts, is_owner: false })
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Leaf<'_, P>> {
        (0..self.len).filter_map(|number| self.leaf(number))
    }
}

impl<P> Drop for Leaves<P> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<P> Leaf<'_, P> {
    /// L1. Fills the leaf with what `fill` adds: not more than its entries. The calling thread becomes its owner.
    ///
    /// # Safety
    /// Called once for each leaf, and again after a `clear`.
    #[inline]
    pub(crate) unsafe fn fill(&mut self, fill: impl FnOnce(&mut Filling<'_, P>)) {
        let mut filling = Filling { payloads: self.payloads.iter() };
        fill(&mut filling);
        let filled = self.payloads.len() - filling.payloads.len();
        // Ordering: Release (L1). Pairs with the Acquire in `filled`; publishes the payloads.
        self.counts.filled.store(filled, ordering(Ordering::Release, Fault::LeafFillRelaxed));
        self.is_owner = true;
    }

    fn filled(&self) -> usize {
        // Ordering: Acquire. Pairs with L1.
        self.counts.filled.load(Ordering::Acquire)
    }

    /// How many payloads are left to take.
    ///
    /// Who finds none comes after the J1 of those who took them, so that its own J3 leaves them counted.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        // Ordering: Acquire. Pairs with S1 and H4; a stale answer costs one empty look.
        let share = self.counts.share.load(Ordering::Acquire);
        // Ordering: Acquire. Pairs with T1.
        let taken = if share & SHARED == 0 { self.counts.front.load(Ordering::Acquire) } else { (share >> NEXT_SHIFT) as usize };
        self.filled().saturating_sub(taken)
    }

    /// Takes a payload. Only after something was left.
    #[inline]
    pub(crate) fn take(&self) -> Option<P> {
        let own = if self.is_owner { self.own_position() } else { None };
        let position = own.unwrap_or_else(|| self.shared_position());
        if position >= self.filled() {
            return None;
        }
        // SAFETY: each position is the owner's or shared, and those are given to one taker each, after L1.
        let payload = self.payloads[position].with(|slot| unsafe { slot.read() });
        // SAFETY: L1 wrote it.
        Some(unsafe { payload.assume_init() })
    }

    /// T1 to T4. The owner's next position, unless that is shared.
    #[inline]
    fn own_position(&self) -> Option<usize> {
        // Ordering: Relaxed. This thread alone writes it.
        let position = self.counts.front.load(Ordering::Relaxed);
        if position >= self.filled() {
            return Some(position);
        }
        // Ordering: Release (T1). Pairs with the Acquire in `left`. For H3 it is ordered by T2.
        self.counts.front.store(position + 1, Ordering::Release);
        // Ordering: light (T2). Pairs with H2.
        light_fence();
        // Ordering: Relaxed (T3). Ordered by T2; `share_from` acquires.
        let is_alone = self.counts.share.load(Ordering::Relaxed) == ALONE;
        (is_alone || position < self.share_from(position + 1)).then_some(position)
    }

    /// S1. The next position of those that are shared.
    #[cold]
    fn shared_position(&self) -> usize {
        // Ordering: Acquire. Pairs with H4 and T4.
        let share = self.counts.share.load(Ordering::Acquire);
        if share & SHARED == 0 {
            // Ordering: Relaxed (H1). Ordered by H2. If it fails somebody else has been here.
            let _ = self.counts.share.compare_exchange(ALONE, WANTED, Ordering::Relaxed, Ordering::Relaxed);
            if !broken(Fault::LeafHelpNoFence) {
                // Ordering: heavy (H2). Pairs with T2.
                heavy_fence();
            }
            // Ordering: Acquire (H3). Pairs with T1, as in `left`.
            self.share_from(self.counts.front.load(Ordering::Acquire));
        }
        // Ordering: Acquire. As in `left`.
        let position = (self.counts.share.load(Ordering::Acquire) >> NEXT_SHIFT) as usize;
        if position >= self.filled() && !broken(Fault::LeafStepsPastEnd) {
            // Without a step: who asks on and on would bring the count round. So it goes past the end by a step for each thread at the most.
            return position;
        }
        let next = 1 << NEXT_SHIFT;
        // Ordering: AcqRel (S1). Pairs with itself and with `left`.
        let before = if broken(Fault::LeafTakeNotAtomic) {
            // Ordering: Acquire, and Release. The broken variant: two takers may both get here.
            let share = self.counts.share.load(Ordering::Acquire);
            self.counts.share.store(share + next, Ordering::Release);
            share
        } else {
            self.counts.share.fetch_add(next, Ordering::AcqRel)
        };
        (before >> NEXT_SHIFT) as usize
    }

    /// T4, H4. Shares the positions from `front` on, unless that is decided. Returns the first one that is shared.
    #[cold]
    fn share_from(&self, front: usize) -> usize {
        let share = SHARED | (front as u64) << FIRST_SHIFT | (front as u64) << NEXT_SHIFT;
        if broken(Fault::LeafSharedTwice) {
            // Ordering: Release. The broken variant: it may be decided already.
            self.counts.share.store(share, Ordering::Release);
            return front;
        }
        // Ordering: AcqRel (T4, H4). Pairs with itself: who comes second acquires what the first one, and those that took since, did before. Acquire if lost, for the same.
        let decided = match self.counts.share.compare_exchange(WANTED, share, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => share,
            Err(decided) => decided,
        };
        (decided as u32 >> FIRST_SHIFT) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn shared_leaf(next: u64) -> Leaves<&'static str> {
        let leaves = Leaves::new(2);
        let mut leaf = leaves.leaf(0).expect("it has one");
        // SAFETY: once.
        unsafe { leaf.fill(|filling| ["one", "two"].into_iter().for_each(|payload| filling.add(payload))) };
        leaf.counts.share.store(SHARED | next << NEXT_SHIFT, Ordering::Relaxed);
        leaves
    }

    #[test]
    fn a_leaf_that_is_asked_on_and_on_gives_each_payload_once() {
        let leaves = shared_leaf(0);
        let leaf = leaves.leaf(0).expect("it has one");
        assert_eq!(std::iter::from_fn(|| leaf.take()).collect::<Vec<_>>(), ["one", "two"]);
        (0..1_000).for_each(|_| assert_eq!((leaf.take(), leaf.left()), (None, 0)));
        assert_eq!(leaf.counts.share.load(Ordering::Relaxed) >> NEXT_SHIFT, 2, "no step past the end");
    }

    #[test]
    fn the_count_of_a_leaf_does_not_come_round() {
        // As far as 2^32 - 2 steps would have brought it.
        let leaves = shared_leaf(u64::from(u32::MAX) - 1);
        let leaf = leaves.leaf(0).expect("it has one");
        (0..4).for_each(|_| assert_eq!(leaf.take(), None));
    }
}
