//! Dispatcher: a shard's way to its workers.

use super::sizes::EntryBatch;

/// A shard's way to its workers.
pub(crate) trait Dispatcher: Send {
    /// How many entries may be submitted now.
    fn room(&self) -> usize;

    /// Takes the entries off the batch and has them fired. It leaves an entry there if it has no
    /// room for it after all; the shard submits it again.
    fn submit(&mut self, batch: &mut EntryBatch);

    /// Looks whether submitted work is held up at a thread while others could help. Returns whether
    /// to look again, in a millisecond or less.
    fn look(&mut self) -> bool {
        false
    }
}
