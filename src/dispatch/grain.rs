//! Grain: payloads of claimed timers, which several threads take one by one.
//!
//! Owned by a job. One thread, the *owner*, fills a grain and takes from it; other workers of the
//! job may help. README.md of this room has the protocol.
//!
//! Ground rules:
//!
//! - A grain is filled once. Whoever is alone with the batch clears all grains; then they may be
//!   filled again.
//! - A helper has seen that something is left. A thread that has not may come before GrainFill.

use super::sizes::GRAIN;
use crate::sync::{
    AtomicU64, AtomicUsize, Fault, Ordering, UnsafeCell, broken, cas_unless, heavy_fence_unless,
    light_fence, ordering,
};
use std::mem::MaybeUninit;

/// `share`: the owner takes alone.
const ALONE: u64 = 0;

/// `share`: somebody wants to help.
const WANTED: u64 = 1;

/// `share`: positions are taken by increments. The word also has the first shared position and the
/// next one.
const SHARED: u64 = 2;
const FIRST_SHIFT: u32 = 2;
/// Models have room for a few steps beyond the end; otherwise there is room for 2^32.
const NEXT_SHIFT: u32 = if cfg!(loom) { 61 } else { 32 };

const _: () = assert!((GRAIN as u64) < 1 << (NEXT_SHIFT - FIRST_SHIFT));

/// The payloads of a batch.
pub(crate) struct Grains<P> {
    payloads: Vec<UnsafeCell<MaybeUninit<P>>>,
    counts: Vec<Counts>,
    /// Grains of this batch. There may be room for more.
    len: usize,
}

/// How far a grain has been taken. It has a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Counts {
    filled: AtomicUsize,
    /// The owner has moved over the positions below. Written by the owner alone.
    front: AtomicUsize,
    share: AtomicU64,
}

// SAFETY: a payload is written by the one thread that fills its grain (GrainFill), and read by the
// one thread that takes its position (OwnerLook, SharedTake).
unsafe impl<P: Send> Sync for Grains<P> {}

/// One grain of a batch.
pub(crate) struct Grain<'a, P> {
    payloads: &'a [UnsafeCell<MaybeUninit<P>>],
    counts: &'a Counts,
    /// Whether the calling thread has filled it.
    is_owner: bool,
}

/// A grain that is being filled. Nobody else touches its payloads.
pub(crate) struct Filling<'a, P> {
    /// The places that are left.
    payloads: std::slice::Iter<'a, UnsafeCell<MaybeUninit<P>>>,
}

impl<P> Filling<'_, P> {
    #[inline]
    pub(crate) fn add(&mut self, payload: P) {
        let place = self.payloads.next().expect("at most one payload an entry");
        // SAFETY: 1. nobody takes before GrainFill; 2. nobody else fills, by the promise of
        // `fill`'s caller.
        place.with_mut(|place| unsafe { (*place).write(payload) });
    }
}

impl<P> Grains<P> {
    /// Grains for a batch of `entries` entries. Costs two allocations.
    pub(crate) fn new(entries: usize) -> Self {
        let mut payloads = Vec::with_capacity(entries);
        for _ in 0..entries {
            payloads.push(UnsafeCell::new(MaybeUninit::uninit()));
        }
        let len = entries.div_ceil(GRAIN);
        let mut counts = Vec::with_capacity(len);
        for _ in 0..len {
            counts.push(Counts::default());
        }
        Self {
            payloads,
            counts,
            len,
        }
    }

    /// Makes room for a batch of `entries` entries, after a `clear`. Costs two allocations if there
    /// is too little room.
    #[inline]
    pub(crate) fn fit(&mut self, entries: usize) {
        if self.payloads.len() < entries {
            *self = Self::new(entries);
        }
        self.len = entries.div_ceil(GRAIN);
    }

    /// The room for payloads, in bytes.
    pub(super) fn payload_bytes(&self) -> usize {
        size_of_val(&*self.payloads)
    }

    /// Empties all grains: drops the payloads that are left.
    pub(crate) fn clear(&mut self) {
        for grain in self.iter() {
            if grain.left() > 0 {
                while grain.take().is_some() {}
            }
        }
        for counts in &mut self.counts[..self.len] {
            *counts = Counts::default();
        }
    }

    /// The grain of this number, if there is one.
    #[inline]
    pub(crate) fn grain(&self, number: usize) -> Option<Grain<'_, P>> {
        let counts = self.counts[..self.len].get(number)?;
        let first = number * GRAIN;
        Some(Grain {
            payloads: &self.payloads[first..self.payloads.len().min(first + GRAIN)],
            counts,
            is_owner: false,
        })
    }

    /// All grains.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Grain<'_, P>> {
        (0..self.len).filter_map(|number| self.grain(number))
    }
}

impl<P> Drop for Grains<P> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<P> Grain<'_, P> {
    /// GrainFill. Fills the grain with the payloads that `fill` adds: at most one an entry. The
    /// calling thread becomes the owner.
    ///
    /// # Safety
    /// Called once for each grain; once again after a `clear`.
    #[inline]
    pub(crate) unsafe fn fill(&mut self, fill: impl FnOnce(&mut Filling<'_, P>)) {
        let mut filling = Filling {
            payloads: self.payloads.iter(),
        };
        fill(&mut filling);
        let filled = self.payloads.len() - filling.payloads.len();
        // Ordering: Release (GrainFill). Pairs with the Acquire in `filled`; publishes the
        // payloads.
        self.counts
            .filled
            .store(filled, ordering(Ordering::Release, Fault::GrainFillRelaxed));
        self.is_owner = true;
    }

    #[inline]
    fn filled(&self) -> usize {
        // Ordering: Acquire. Pairs with GrainFill.
        self.counts.filled.load(Ordering::Acquire)
    }

    /// How many payloads are left to take.
    ///
    /// A thread that finds none comes after the FireBegin of the threads that took them. So those
    /// are still counted when this thread passes its own FireEnd.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        // Ordering: Acquire. Pairs with SharedTake and HelpShare. A stale answer costs one vain
        // look.
        let share = self.counts.share.load(Ordering::Acquire);
        // Ordering: Acquire. Pairs with OwnerStep.
        let taken = if share & SHARED == 0 {
            self.counts.front.load(Ordering::Acquire)
        } else {
            (share >> NEXT_SHIFT) as usize
        };
        self.filled().saturating_sub(taken)
    }

    /// Takes a payload. Called only after something was left.
    #[inline]
    pub(crate) fn take(&self) -> Option<P> {
        let own = if self.is_owner {
            self.own_position()
        } else {
            None
        };
        let position = own.unwrap_or_else(|| self.shared_position());
        if position >= self.filled() {
            return None;
        }
        // SAFETY: 1. a position is the owner's or shared, and a shared one goes to one thread
        // (SharedTake); 2. GrainFill came before.
        let payload = self.payloads[position].with(|place| unsafe { place.read() });
        // SAFETY: GrainFill wrote it.
        Some(unsafe { payload.assume_init() })
    }

    /// OwnerStep to OwnerShare. The owner's next position, unless that one is shared.
    #[inline]
    fn own_position(&self) -> Option<usize> {
        // Ordering: Relaxed. Only this thread writes it.
        let position = self.counts.front.load(Ordering::Relaxed);
        if position >= self.filled() {
            return Some(position);
        }
        // Ordering: Release (OwnerStep). Pairs with the Acquire in `left`. OwnerFence orders it for
        // HelpLook.
        self.counts.front.store(position + 1, Ordering::Release);
        // Ordering: light (OwnerFence). Pairs with HelpFence.
        light_fence();
        // Ordering: Relaxed (OwnerLook). Ordered by OwnerFence; `share_from` acquires.
        let is_alone = self.counts.share.load(Ordering::Relaxed) == ALONE;
        (is_alone || position < self.share_from(position + 1)).then_some(position)
    }

    /// HelpAsk to SharedTake. The next shared position.
    #[cold]
    fn shared_position(&self) -> usize {
        // Ordering: Acquire. Pairs with HelpShare and OwnerShare.
        let share = self.counts.share.load(Ordering::Acquire);
        if share & SHARED == 0 {
            // Ordering: Relaxed (HelpAsk). Ordered by HelpFence. If it fails, another helper was
            // first.
            let _ = self.counts.share.compare_exchange(
                ALONE,
                WANTED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            // Ordering: heavy (HelpFence). Pairs with OwnerFence.
            heavy_fence_unless(Fault::GrainHelpNoFence);
            // Ordering: Acquire (HelpLook). Pairs with OwnerStep, as in `left`.
            self.share_from(self.counts.front.load(Ordering::Acquire));
        }
        // Ordering: Acquire. As in `left`.
        let position = (self.counts.share.load(Ordering::Acquire) >> NEXT_SHIFT) as usize;
        if position >= self.filled() && !broken(Fault::GrainStepsPastEnd) {
            // No step: a thread that asks again and again would make the position overflow. So it
            // goes past the end by at most one step for each thread.
            return position;
        }
        let next = 1 << NEXT_SHIFT;
        // Ordering: AcqRel (SharedTake). Pairs with itself and with `left`.
        let before = if broken(Fault::GrainTakeNotAtomic) {
            // Ordering: Acquire, and Release. The broken variant: two threads may take one
            // position.
            let share = self.counts.share.load(Ordering::Acquire);
            self.counts.share.store(share + next, Ordering::Release);
            share
        } else {
            self.counts.share.fetch_add(next, Ordering::AcqRel)
        };
        (before >> NEXT_SHIFT) as usize
    }

    /// OwnerShare, HelpShare. Shares the positions from `front` on, unless that is decided. Returns
    /// the first shared position.
    #[cold]
    fn share_from(&self, front: usize) -> usize {
        let share = SHARED | (front as u64) << FIRST_SHIFT | (front as u64) << NEXT_SHIFT;
        // Ordering: AcqRel (OwnerShare, HelpShare). Pairs with itself: the second thread acquires
        // what the first thread did before, and what the threads did that took since. Acquire if
        // lost, for this reason too.
        let orderings = (Ordering::AcqRel, Ordering::Acquire);
        let shared = &self.counts.share;
        let decided = match cas_unless(Fault::GrainSharedTwice, shared, (WANTED, share), orderings)
        {
            Ok(_) => share,
            Err(decided) => decided,
        };
        (decided as u32 >> FIRST_SHIFT) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn shared_grain(next: u64) -> Grains<&'static str> {
        let grains = Grains::new(2);
        let mut grain = grains.grain(0).expect("it has one");
        // SAFETY: the only call.
        unsafe {
            grain.fill(|filling| {
                ["one", "two"]
                    .into_iter()
                    .for_each(|payload| filling.add(payload))
            })
        };
        grain
            .counts
            .share
            .store(SHARED | next << NEXT_SHIFT, Ordering::Relaxed);
        grains
    }

    #[test]
    fn a_grain_that_is_asked_again_and_again_gives_each_payload_once() {
        let grains = shared_grain(0);
        let grain = grains.grain(0).expect("it has one");
        assert_eq!(
            std::iter::from_fn(|| grain.take()).collect::<Vec<_>>(),
            ["one", "two"]
        );
        (0..1_000).for_each(|_| assert_eq!((grain.take(), grain.left()), (None, 0)));
        assert_eq!(
            grain.counts.share.load(Ordering::Relaxed) >> NEXT_SHIFT,
            2,
            "no step past the end"
        );
    }

    #[test]
    fn the_position_of_a_grain_does_not_overflow() {
        // As far as 2^32 - 2 steps would have brought it.
        let grains = shared_grain(u64::from(u32::MAX) - 1);
        let grain = grains.grain(0).expect("it has one");
        (0..4).for_each(|_| assert_eq!(grain.take(), None));
    }
}
