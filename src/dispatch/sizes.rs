//! Sizes: how many entries a batch and a grain have, and how many batches may wait.

use crate::entry::Entry;

/// Entries that one worker claims at a time.
#[cfg(not(loom))]
pub(crate) const GRAIN: usize = 64;
#[cfg(loom)]
pub(crate) const GRAIN: usize = 3;

/// Entries of one job: some 20 us of empty tasks. So the cost of a job is small beside its tasks,
/// and a burst spreads over the pool.
pub(crate) const BATCH: usize = 1024;

/// While this many batches of a shard wait for a worker, there is no room for more: they are some
/// milliseconds of work for two workers. A job that has begun does not count, however long it
/// takes.
pub(crate) const WAITING_MAX: usize = 64;

/// Due entries on their way to a worker.
pub(crate) type EntryBatch = Vec<Entry>;
