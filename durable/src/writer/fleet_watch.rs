//! Fleet watch: what a node knows of what other nodes do, and when it looks again.

use crate::store::row::StoreTime;
use std::time::Duration;

/// What a node knows of what others do.
pub(super) struct FleetWatch {
    /// How far ahead of its deadline a row's watermark is stored.
    pub(super) ahead: Duration,
    /// No row of this node's partitions is due before, as far as it is known. `None`: nor is any.
    pub(super) next_due: Option<StoreTime>,
    /// When to scan next, by the node's clock.
    pub(super) scan_at: Duration,
    /// When to scan all of it next.
    pub(super) scan_all_at: Duration,
    /// All of it was scanned last.
    pub(super) scanned_all: bool,
    /// When it was scanned last, and when the leases were renewed last.
    pub(super) scanned: Duration,
    pub(super) renewed: Duration,
    /// When to renew the leases.
    pub(super) renew_at: Duration,
    /// How long the loads since the last scan have taken.
    pub(super) loaded_for: Duration,
    /// How many partitions are over the share; and when one of them rests, or another one.
    pub(super) surplus: usize,
    pub(super) rest_at: Duration,
    /// Where all are: when all rest, or go on.
    pub(super) rest_all_at: Duration,
    /// The loads since the last claim have found rows.
    pub(super) found: bool,
}

impl FleetWatch {
    pub(super) fn new(ahead: Duration) -> Self {
        Self {
            ahead,
            // Nobody knows yet what is due.
            next_due: Some(StoreTime::MIN),
            scan_at: Duration::ZERO,
            scan_all_at: Duration::ZERO,
            scanned_all: false,
            scanned: Duration::ZERO,
            renewed: Duration::ZERO,
            renew_at: Duration::ZERO,
            loaded_for: Duration::ZERO,
            surplus: 0,
            rest_at: Duration::ZERO,
            rest_all_at: Duration::ZERO,
            found: false,
        }
    }
}
