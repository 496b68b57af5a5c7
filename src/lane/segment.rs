//! Segment: an array of a lane's messages, with the bits that say what became of each.
//!
//! The producer writes a segment, the shard reads it, and `shared.rs` links it into its lane's
//! chain. Protocol and proof: README.md of this room.

use crate::sync::{AtomicU64, Fault, Ordering, UnsafeCell, broken};
use std::mem::MaybeUninit;
use std::ptr;

/// Messages in a segment. With 16-byte messages they are a page of memory; the rest of the segment
/// is some cache lines.
#[cfg(not(loom))]
pub(super) const LEN: usize = 256;
#[cfg(loom)]
pub(super) const LEN: usize = 2;

/// How many of a lane's newest segments the producer may look into, to recall messages. `trim` does
/// not free them.
#[cfg(not(loom))]
pub(super) const RECENT: usize = 8;
#[cfg(loom)]
pub(super) const RECENT: usize = 3;

/// An array of messages, with their bits. README.md says who touches what.
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
    pub(super) messages: [UnsafeCell<MaybeUninit<M>>; LEN],
    /// The bits of `recalled` that the shard has seen: it skipped these messages. The shard writes
    /// it; the producer clears it when it reuses the segment.
    pub(super) skipped: [AtomicU64; LEN.div_ceil(64)],
}

impl<M> Segment<M> {
    /// A segment without messages, from a box.
    pub(super) fn allocate() -> *mut Self {
        Box::into_raw(Box::new(Self {
            next: UnsafeCell::new(ptr::null_mut()),
            recalled: std::array::from_fn(|_| AtomicU64::new(0)),
            doubted: std::array::from_fn(|_| AtomicU64::new(0)),
            doubt: std::array::from_fn(|_| AtomicU64::new(0)),
            messages: std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
            skipped: std::array::from_fn(|_| AtomicU64::new(0)),
        }))
    }

    /// Clears the bits of the messages that lay here before a reuse. The caller has unlinked the
    /// segment, and no other thread has it.
    pub(super) fn clear(&self) {
        // Ordering: Relaxed. The shard reads it after the DrainLoad of a later message.
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
