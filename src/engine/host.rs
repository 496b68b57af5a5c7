//! Host: one shard's view of its service.
//!
//! Shared by the shard's thread and its jobs, by an `Arc`. It keeps the engine alive.

use super::Engine;
use crate::cell::Maintenance;
use crate::doorbell::Doorbell;
use crate::shard::Counters;
use crate::shard::worker::Host;
use crate::time::{Clock, TickLength};
use std::sync::Arc;

/// One shard's view of its service. The shard's thread uses it as [`Host`]; whoever fires the
/// shard's timers uses it as `Fire` (`life/fire.rs`).
pub(crate) struct ShardHost<T> {
    pub(crate) engine: Arc<Engine<T>>,
    pub(crate) shard: usize,
}

impl<T: Send + 'static> Engine<T> {
    /// One shard's view of this service.
    pub(crate) fn host(self: &Arc<Self>, shard: usize) -> Arc<ShardHost<T>> {
        Arc::new(ShardHost {
            engine: self.clone(),
            shard,
        })
    }
}

impl<T: Send + 'static> Host for ShardHost<T> {
    fn clock(&self) -> &Clock {
        &self.engine.clock
    }

    fn tick(&self) -> TickLength {
        self.engine.tick
    }

    fn doorbell(&self) -> &Doorbell {
        self.engine.cells.shared.bell(self.shard)
    }

    fn counters(&self) -> &Counters {
        &self.engine.counters[self.shard]
    }

    fn is_stopped(&self) -> bool {
        self.engine.cells.shared.is_stopped()
    }

    fn spin_ns(&self) -> u64 {
        self.engine.spin_ns
    }

    fn wakeup_ns(&self) -> u64 {
        self.engine.wakeup_ns
    }

    fn maintain(&self, now_ns: u64) -> Maintenance {
        self.engine.cells.maintain(now_ns)
    }
}
