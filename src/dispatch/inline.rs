//! Inline: fires on the shard's own thread.
//!
//! Owned by the shard, and touched by its thread alone.

use super::dispatcher::Dispatcher;
use super::fire::Fire;
use super::grain::Grains;
use super::job;
use super::sizes::{EntryBatch, GRAIN};
use std::sync::Arc;

/// Fires on the shard's own thread.
pub(crate) struct Inline<F: Fire> {
    fire: Arc<F>,
    /// One grain, used for one part of a batch after the other.
    grains: Grains<F::Payload>,
}

impl<F: Fire> Inline<F> {
    pub(crate) fn new(fire: Arc<F>) -> Self {
        Self {
            fire,
            grains: Grains::new(GRAIN),
        }
    }
}

impl<F: Fire> Dispatcher for Inline<F> {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn submit(&mut self, batch: &mut EntryBatch) {
        job::alone(&*self.fire, batch, &mut self.grains);
        batch.clear();
    }
}
