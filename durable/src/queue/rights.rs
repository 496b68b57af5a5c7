//! Rights: under which leases this node may hand out, as handlers' threads see it.
//!
//! The writer sets them; any thread that is about to call a handler looks.
//!
//! # Ground rules
//!  - A lease that is lost, or given back, goes (`RightsWithdraw`) before the others last longer
//!    (`RightsExtend`). So whoever reads the new end also sees which leases it is for.
//!  - Time is the node's monotonic clock, in nanoseconds.

use crate::store::row::Partition;
use crate::sync::{AtomicU64, Fault, Ordering, ordering};

/// The leases of a node.
pub(crate) struct LeaseRights {
    /// Nothing is handed out from then on.
    until_ns: AtomicU64,
    /// The epoch of each partition's lease; 0: it is another's.
    epochs: Box<[AtomicU64]>,
}

impl LeaseRights {
    /// No leases, of this number of partitions.
    pub(crate) fn new(partitions: u32) -> Self {
        Self {
            until_ns: AtomicU64::new(0),
            epochs: (0..partitions).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Whether a row of this partition may be handed out now that was loaded under this epoch.
    pub(crate) fn allow(&self, partition: Partition, epoch: u64, now_ns: u64) -> bool {
        // Ordering: Acquire (RightsLook). Pairs with the Release of RightsExtend: the leases that
        // were lost before are seen to be gone.
        if now_ns >= self.until_ns.load(Ordering::Acquire) {
            return false;
        }
        self.epochs.get(usize::from(partition)).is_some_and(|own| {
            // Ordering: Relaxed. Ordered by RightsLook.
            epoch > 0 && own.load(Ordering::Relaxed) == epoch
        })
    }

    /// Whether leases last until now.
    pub(crate) fn last(&self, now_ns: u64) -> bool {
        // Ordering: Relaxed. The writer reads what it has written.
        now_ns < self.until_ns.load(Ordering::Relaxed)
    }

    /// RightsWithdraw with epoch 0; else a lease that was taken.
    pub(crate) fn set(&self, partition: Partition, epoch: u64) {
        if let Some(own) = self.epochs.get(usize::from(partition)) {
            // Ordering: Relaxed. RightsExtend comes after it.
            own.store(epoch, Ordering::Relaxed);
        }
    }

    /// RightsExtend: the leases last until then.
    pub(crate) fn extend(&self, until_ns: u64) {
        // Ordering: Release. Pairs with RightsLook; publishes what `set` has done.
        let release = ordering(Ordering::Release, Fault::RightsExtendRelaxed);
        self.until_ns.store(until_ns, release);
    }
}
