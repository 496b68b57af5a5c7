//! Snapshot: what a copy of a store has, as it is told.

use std::time::Duration;

/// What a [`backup`](crate::DurableClient::backup) has copied.
///
/// # Example
/// See [`DurableClient::backup`](crate::DurableClient::backup).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// Timers that are to fire, and those that were being handled.
    pub rows: u64,
    /// Dead letters.
    pub dead: u64,
    /// Records of runs that are done.
    pub done: u64,
    /// The length of the new file, in bytes.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}
