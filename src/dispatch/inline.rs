//! Inline: fires on the shard's own thread.
//!
//! Owned by the shard, and touched by its thread alone.

use super::buffers::Buffers;
use super::dispatcher::Dispatcher;
use super::fire::Fire;
use super::job;
use super::sizes::EntryBatch;
use std::sync::Arc;

/// Fires on the shard's own thread.
pub(crate) struct Inline<F: Fire> {
    fire: Arc<F>,
    /// One portion, used for one part of a batch after the other.
    buffers: Buffers<F>,
}

impl<F: Fire> Inline<F> {
    pub(crate) fn new(fire: Arc<F>) -> Self {
        Self {
            fire,
            buffers: Buffers::alone(),
        }
    }
}

impl<F: Fire> Dispatcher for Inline<F> {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn submit(&mut self, batch: &mut EntryBatch) {
        job::alone(&*self.fire, batch, &mut self.buffers);
        batch.clear();
    }
}
