//! Events: what a service tells by the crate `tracing`, beside its hooks. Feature `tracing` only.
//!
//! Ground rule: a subscriber is a user's code, so these are called as hooks are, by [`Hooks::tell`](super::hooks::Hooks::tell). All come from where something rare happens: none from
//! the way of a timer. `src/trace.rs` has the table of them.

use super::stats::Stats;
use super::stop::StopPolicy;
use std::any::Any;
use std::time::Duration;
use tracing::{debug, error, warn};

/// Tells of what happens to one service.
#[derive(Debug, Default)]
pub(super) struct Events {
    service: String,
}

impl Events {
    /// Those of the service with this name.
    pub(super) fn of(service: &str) -> Self {
        Self { service: service.to_string() }
    }

    pub(super) fn starts(&self, shards: usize, tick: Duration) {
        debug!(target: "wheelwork", service = self.service, shards, ?tick, "the timer service starts");
    }

    pub(super) fn stopped(&self, policy: StopPolicy, stats: &Stats) {
        let (fired, handed_back) = (stats.fired, stats.sum(|shard| shard.handed_back));
        debug!(target: "wheelwork", service = self.service, ?policy, fired, handed_back, "the timer service has stopped");
    }

    pub(super) fn unpinned(&self, shard: usize) {
        warn!(target: "wheelwork", service = self.service, shard, "a shard's thread could not be pinned");
    }

    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        error!(target: "wheelwork", service = self.service, panic = text, "a handler or task panicked");
    }

    pub(super) fn late(&self, lateness: Duration, timers: u64) {
        warn!(target: "wheelwork", service = self.service, ?lateness, timers, "timers fire late");
    }

    pub(super) fn dropped(&self, timers: u64) {
        warn!(target: "wheelwork", service = self.service, timers, "payloads of timers that fired were dropped");
    }

    pub(super) fn stalled(&self, shard: usize, overdue: Duration) {
        warn!(target: "wheelwork", service = self.service, shard, ?overdue, "a shard stalls");
    }
}
