//! Events: what a service reports to the crate `tracing`, beside its hooks. Feature `tracing` only.
//!
//! Owned by the hooks. The thread that notices an event reports it.
//!
//! Ground rule: a subscriber is user code. So events are reported by
//! [`Hooks::tell`](super::hooks::Hooks::tell), as hooks are called. All events are rare: a timer on
//! its normal way reports none. `src/trace.rs` has the table of events.

use super::news::{Late, Stall};
use std::any::Any;
use std::time::Duration;
use tracing::{debug, error, warn};

/// Reports events of one service.
#[derive(Debug, Default)]
pub(crate) struct Events {
    service: String,
}

impl Events {
    /// The events of the service with this name.
    pub(crate) fn of(service: &str) -> Self {
        Self {
            service: service.to_string(),
        }
    }

    pub(crate) fn starts(&self, shards: usize, tick: Duration) {
        debug!(
            target: "wheelwork", service = self.service, shards, ?tick,
            "the timer service starts"
        );
    }

    pub(crate) fn stopped(&self, policy: impl std::fmt::Debug, fired: u64, handed_back: u64) {
        debug!(
            target: "wheelwork", service = self.service, ?policy, fired, handed_back,
            "the timer service has stopped"
        );
    }

    pub(crate) fn unpinned(&self, shard: usize) {
        warn!(
            target: "wheelwork", service = self.service, shard,
            "a shard's thread could not be pinned"
        );
    }

    pub(crate) fn panicked(&self, panic: &(dyn Any + Send)) {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        error!(
            target: "wheelwork", service = self.service, panic = text,
            "a handler or task panicked"
        );
    }

    pub(super) fn late(&self, late: &Late) {
        warn!(
            target: "wheelwork", service = self.service,
            lateness = ?late.max_lateness, timers = late.timers,
            "timers fire late"
        );
    }

    pub(crate) fn dropped(&self, timers: u64) {
        warn!(
            target: "wheelwork", service = self.service, timers,
            "payloads of timers that fired were dropped"
        );
    }

    pub(super) fn stalled(&self, stall: &Stall) {
        warn!(
            target: "wheelwork", service = self.service,
            shard = stall.shard, overdue = ?stall.overdue,
            "a shard stalls"
        );
    }
}
