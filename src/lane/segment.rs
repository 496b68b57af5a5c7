//! Segment: an array of a track's messages, with the bits that say what became of each.
//!
//! The producer writes a segment, the shard reads it, and `track.rs` links it into its track's
//! chain. Protocol and proof: README.md of this room.

use crate::mem::Zeroable;
use crate::sync::{AtomicU64, Fault, Ordering, UnsafeCell, broken};
use std::mem::MaybeUninit;
#[cfg(loom)]
use std::ptr;

/// Messages in a segment. With 16-byte messages they take a page of memory. The rest of the segment
/// takes some cache lines.
#[cfg(not(loom))]
pub(super) const LEN: usize = 256;
#[cfg(loom)]
pub(super) const LEN: usize = 2;

/// How many of a track's newest segments the producer may look into, to vouch for messages. `trim`
/// does not free them.
pub(super) const RECENT: usize = if cfg!(loom) { 3 } else { 4 };

/// An array of messages, with their bits. README.md says which thread touches what.
pub(super) struct Segment<M> {
    /// The next segment of the chain; null in the newest one.
    pub(super) next: UnsafeCell<*mut Segment<M>>,
    /// A bit for each message that was recalled. Only the producer writes it.
    pub(super) recalled: [AtomicU64; LEN.div_ceil(64)],
    /// A bit for each message that is in doubt. Only the producer writes it.
    pub(super) doubted: [AtomicU64; LEN.div_ceil(64)],
    /// For each group of 64 messages the least word of its messages in doubt. Only the producer
    /// writes it.
    pub(super) doubt: [AtomicU64; LEN.div_ceil(64)],
    /// The least key of the deferred messages. Only the producer writes it.
    pub(super) least: AtomicU64,
    /// The slab in which it lies. Only `slab.rs` knows its type.
    pub(super) slab: *mut (),
    pub(super) messages: [UnsafeCell<MaybeUninit<M>>; LEN],
    /// The bits of `recalled` that the shard has seen: it skipped these messages. The shard writes
    /// it; the producer clears it when it reuses the segment.
    pub(super) skipped: [AtomicU64; LEN.div_ceil(64)],
    /// Shows loom that a thread uses a segment that another one frees.
    #[cfg(loom)]
    pub(super) alive: UnsafeCell<()>,
}

// SAFETY: null, zeros, and messages that are not initialized. It needs no drop: messages are Copy.
unsafe impl<M> Zeroable for Segment<M> {
    #[cfg(loom)]
    fn zeroed() -> Self {
        Self {
            next: UnsafeCell::new(ptr::null_mut()),
            recalled: std::array::from_fn(|_| AtomicU64::new(0)),
            doubted: std::array::from_fn(|_| AtomicU64::new(0)),
            doubt: std::array::from_fn(|_| AtomicU64::new(0)),
            least: AtomicU64::new(0),
            slab: ptr::null_mut(),
            messages: std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
            skipped: std::array::from_fn(|_| AtomicU64::new(0)),
            alive: UnsafeCell::new(()),
        }
    }
}

impl<M> Segment<M> {
    /// Turns zeroed memory of this slab into a segment without messages.
    pub(super) fn begin(&mut self, slab: *mut ()) {
        self.slab = slab;
        self.clear();
    }

    /// Clears the bits of the messages that lay here before a reuse. The caller has unlinked the
    /// segment, and no other thread has it.
    pub(super) fn clear(&self) {
        // Ordering: Relaxed. The shard reads it after the DrainLoad of a later message.
        self.least.store(u64::MAX, Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.recalled
            .iter()
            .chain(&self.skipped)
            .for_each(|bits| bits.store(0, Ordering::Relaxed));
        if !broken(Fault::LaneDoubtKept) {
            // Ordering: Relaxed. As above.
            self.doubted
                .iter()
                .for_each(|bits| bits.store(0, Ordering::Relaxed));
        }
    }
}
