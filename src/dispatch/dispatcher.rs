//! Dispatcher: a shard's way to its workers.

use super::sizes::EntryBatch;

/// Whether, and when, a shard checks once more on the work that it has submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookAgain {
    No,
    /// One tick later, but at least 0.1 ms and at most 1 ms.
    Soon,
    /// Some milliseconds later.
    Later,
}

/// A shard's way to its workers.
pub(crate) trait Dispatcher: Send {
    /// How many entries may be submitted now.
    fn room(&self) -> usize;

    /// Takes the entries off the batch and has them fired. It leaves an entry there if it has no
    /// room for it after all; the shard submits it again.
    fn submit(&mut self, batch: &mut EntryBatch);

    /// Looks whether submitted work is held up at a thread while others could help.
    fn look(&mut self) -> LookAgain {
        LookAgain::No
    }
}
