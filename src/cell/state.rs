//! Cell: state word, place and payload of one timer. States and protocol: README.md of this room.

use crate::entry::{DEADLINE_BITS, DEADLINE_MAX, Entry};
#[cfg(not(loom))]
use crate::mem::Zeroable;
use crate::sync::{AtomicU64, Fault, Ordering, UnsafeCell, broken, ordering};
use std::mem::MaybeUninit;

const STATE_BITS: u32 = 2;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;
const VACANT: u64 = 0;
const ARMED: u64 = 1;

/// Bits of a shard's number, beside the deadline in one word.
pub(crate) const SHARD_BITS: u32 = 64 - DEADLINE_BITS;

/// Where a timer's entry is: its deadline (a tick) and its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    #[inline]
    pub(crate) fn new(deadline: u64, shard: usize) -> Self {
        debug_assert!(deadline <= DEADLINE_MAX && shard < 1 << SHARD_BITS);
        Self((shard as u64) << DEADLINE_BITS | deadline)
    }

    #[inline]
    pub(crate) fn deadline(self) -> u64 {
        self.0 & DEADLINE_MAX
    }

    #[inline]
    pub(crate) fn shard(self) -> usize {
        (self.0 >> DEADLINE_BITS) as usize
    }
}

/// One timer's shared state: 16 bytes and the payload.
#[repr(C)]
pub(crate) struct Cell<T> {
    word: AtomicU64,
    place: AtomicU64,
    payload: UnsafeCell<MaybeUninit<T>>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Cell<u64>>() == 24);

// SAFETY: a cell hands its payload from thread to thread, never shares it: `claim` has one winner.
unsafe impl<T: Send> Sync for Cell<T> {}

// SAFETY: atomics of zero are VACANT of generation 0; the payload may be uninitialized; it is not dropped with the cell (stop claims all).
#[cfg(not(loom))]
unsafe impl<T> Zeroable for Cell<T> {}

#[cfg(loom)]
// SAFETY: made value by value.
unsafe impl<T> crate::mem::Zeroable for Cell<T> {
    fn zeroed() -> Self {
        Self { word: AtomicU64::new(0), place: AtomicU64::new(0), payload: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

impl<T> Cell<T> {
    /// The generation of the cell's present or next timer.
    pub(super) fn generation(&self) -> u64 {
        // Ordering: Acquire. Pairs with the Release of C3: for a holder of the index that is its own, or came with the depot.
        self.word.load(Ordering::Acquire) >> STATE_BITS
    }

    /// Lets a cell of a new page start at a generation that its predecessors have not used.
    pub(crate) fn start_at(&self, generation: u64) {
        // Ordering: Relaxed. The page is not published yet.
        self.word.store(generation << STATE_BITS | VACANT, Ordering::Relaxed);
    }

    /// Stores a payload and makes it claimable (A1, A2). Returns its generation.
    ///
    /// # Safety
    /// The caller holds this cell's index, and gives it up: the winner of the claim has it next.
    #[inline]
    pub(crate) unsafe fn arm(&self, place: Place, payload: T) -> u64 {
        // Ordering: Relaxed. The holder's own: it freed the cell, or got the index through the depot.
        let generation = self.word.load(Ordering::Relaxed) >> STATE_BITS;
        // SAFETY: A1. The cell is VACANT and its index is the caller's: nobody else touches the payload.
        self.payload.with_mut(|slot| unsafe { (*slot).write(payload) });
        // Ordering: Relaxed. Published by A2; a reader of an older generation fails at C3.
        self.place.store(place.0, Ordering::Relaxed);
        // Ordering: Release (A2). Pairs with the Acquire of C1; publishes payload and place. A store suffices: nobody else writes a
        // VACANT word.
        self.word.store(generation << STATE_BITS | ARMED, ordering(Ordering::Release, Fault::ArmRelaxed));
        generation
    }

    /// Claims the timer if `wanted` says so of its generation and place (C1 to C3). The winner owns the payload, and the index.
    #[inline]
    fn claim(&self, wanted: impl FnOnce(u64, Place) -> bool) -> Option<(Place, T)> {
        // Ordering: Acquire (C1). Pairs with the Release of A2; publishes payload and place.
        let word = self.word.load(Ordering::Acquire);
        if word & STATE_MASK != ARMED {
            return None;
        }
        // Ordering: Relaxed. C2: if it is a later timer's, C3 fails.
        let place = Place(self.place.load(Ordering::Relaxed));
        if !wanted(word >> STATE_BITS, place) {
            return None;
        }
        let vacant = ((word >> STATE_BITS) + 1) << STATE_BITS | VACANT;
        if broken(Fault::ClaimNotAtomic) {
            // Ordering: Release. The broken variant: two claimers may both get here.
            self.word.store(vacant, Ordering::Release);
        } else {
            // Ordering: AcqRel (C3) if won: the payload is read after it, and `stop` that sees the word sees the winner's job begun (F1). Acquire if
            // lost, for the same reason: the look of `stop` may be the one that fails here, and X5 leans on it.
            let won = ordering(Ordering::AcqRel, Fault::ClaimRelaxed);
            self.word.compare_exchange(word, vacant, won, ordering(Ordering::Acquire, Fault::ClaimLostRelaxed)).ok()?;
        }
        // SAFETY: C4. We won this generation's only transition out of ARMED: nobody writes the payload, and nobody else reads it.
        let payload = self.payload.with(|slot| unsafe { slot.read() });
        // SAFETY: A1 wrote it, and it is ours.
        Some((place, unsafe { payload.assume_init() }))
    }

    /// Claims for a due entry.
    #[inline]
    pub(crate) fn claim_due(&self, entry: Entry) -> Option<T> {
        let same_deadline = |place: Place| place.deadline() == entry.deadline() || broken(Fault::ClaimIgnoresDeadline);
        let same_tag = |generation: u64| generation as u32 == entry.tag() || broken(Fault::ClaimIgnoresGeneration);
        self.claim(|generation, place| same_tag(generation) && same_deadline(place)).map(|(_, payload)| payload)
    }

    /// Claims for the holder of an id.
    #[inline]
    pub(crate) fn claim_id(&self, generation: u64) -> Option<(Place, T)> {
        self.claim(|present, _| present == generation || broken(Fault::ClaimIgnoresGeneration))
    }

    /// Claims whatever is armed, for `stop`.
    pub(crate) fn claim_any(&self) -> Option<(Place, T)> {
        self.claim(|_, _| true)
    }

    /// Whether the timer of this generation still waits.
    #[inline]
    pub(crate) fn is_armed(&self, generation: u64) -> bool {
        // Ordering: Acquire. Whoever learns that a timer is gone may act on what its claimer did before.
        self.word.load(Ordering::Acquire) == generation << STATE_BITS | ARMED
    }
}
