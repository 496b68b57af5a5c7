//! Claims: up to which deadline rows may be handed out, and since which epoch, as a thread sees it
//! that is about to call a handler.
//!
//! The writer sets both words; any thread looks, in RunAdmit.
//!
//! # Ground rules
//!  - When the store has failed, the claim goes (`ClaimDrop`). When another process has had it, the
//!    fence rises (`FenceRaise`) before anything is claimed again (`ClaimPublish`).
//!  - RunAdmit looks at the claim first (`ClaimLook`), and then at the fence (`FenceLook`). So a
//!    thread that sees a claim of the new epoch sees the fence of that epoch, too: it hands out no
//!    row that was claimed only for the epoch after it.
//!
//! Both say nothing of a thread that looked before the store has failed, and calls the handler
//! later. Its row was claimed by a watermark that is stored, and its entry stays in the window.

use crate::store::row::StoreTime;
use crate::sync::{AtomicU64, Fault, Ordering, ordering};

/// What may be handed out, where one process has the store. (Nodes that share one have their leases
/// for the epochs.)
pub(crate) struct Claims {
    /// The millisecond after the watermark: rows that are due before it may be handed out.
    claimed: AtomicU64,
    /// Deliveries of an earlier epoch are not handed out.
    fence_min: AtomicU64,
}

impl Claims {
    pub(crate) fn new() -> Self {
        Self {
            claimed: AtomicU64::new(0),
            fence_min: AtomicU64::new(0),
        }
    }

    /// ClaimLook: whether rows that are due then may be handed out.
    pub(crate) fn has(&self, due: StoreTime) -> bool {
        // Ordering: Acquire. Pairs with the Release store of ClaimPublish: the commit of the
        // watermark comes before, and so does FenceRaise.
        due.as_millis() < self.claimed.load(Ordering::Acquire)
    }

    /// FenceLook: whether deliveries of this epoch may be handed out.
    pub(crate) fn allow(&self, epoch: u64) -> bool {
        // Ordering: Relaxed. Ordered by ClaimLook, which comes before it. A thread that sees
        // neither the new claim nor the new fence is as one whose handler has just begun.
        epoch >= self.fence_min.load(Ordering::Relaxed)
    }

    /// ClaimPublish: the store has this watermark. The writer only.
    pub(crate) fn publish(&self, upto: StoreTime) {
        // Ordering: Release. Pairs with the Acquire load of ClaimLook.
        let release = ordering(Ordering::Release, Fault::ClaimPublishRelaxed);
        self.claimed.store(upto.as_millis() + 1, release);
    }

    /// ClaimDrop: nothing is claimed any more. The writer only.
    pub(crate) fn drop_all(&self) {
        // Ordering: Relaxed. It publishes nothing. A thread that reads the former value hands out a
        // row that was claimed, and whose entry stays in the window.
        self.claimed.store(0, Ordering::Relaxed);
    }

    /// FenceRaise: deliveries of earlier epochs are over. The writer only.
    pub(crate) fn raise_fence(&self, epoch: u64) {
        // Ordering: Relaxed. ClaimPublish comes after it.
        self.fence_min.store(epoch, Ordering::Relaxed);
    }
}
