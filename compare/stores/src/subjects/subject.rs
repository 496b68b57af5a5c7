//! What all subjects can do.

use crate::ledger::Ledger;
use crate::random::Payload;
use std::path::Path;
use std::sync::Arc;

/// Durable timers. Deadlines are milliseconds since the Unix epoch.
pub(crate) trait Subject: Send + Sync + Sized + 'static {
    /// Names a timer.
    type Id: Copy + Send + 'static;
    /// Resolves when an arm is durable.
    type Armed: Send;
    /// Resolves when a cancel is durable.
    type Cancelled: Send;

    /// Opens the store in a folder, or makes it. The ledger is the handler of what fires from now
    /// on.
    fn open(folder: &Path, ledger: &Arc<Ledger>) -> Result<Self, String>;

    /// The same with at most this number of timers in memory, if it keeps some there.
    fn open_window(folder: &Path, ledger: &Arc<Ledger>, rows: usize) -> Result<Self, String> {
        let _ = rows;
        Self::open(folder, ledger)
    }

    /// Queues an arm.
    fn arm(&self, due_ms: u64, payload: &Payload) -> Result<Self::Armed, String>;

    /// Waits for one.
    fn armed(&self, ticket: Self::Armed) -> Result<Self::Id, String>;

    /// Queues a cancel.
    fn cancel(&self, id: Self::Id) -> Result<Self::Cancelled, String>;

    /// Waits for one.
    fn cancelled(&self, ticket: Self::Cancelled) -> Result<(), String>;

    /// Timers whose ack is durable, since the store was opened.
    fn acked(&self) -> u64;

    /// Timers that it keeps in memory, if it knows.
    fn in_memory(&self) -> Option<u64> {
        None
    }

    /// The process that keeps the timers, if it is not this one.
    fn server(&self) -> Option<u32> {
        None
    }

    /// Closes the store in an orderly way.
    fn close(self) -> Result<(), String>;
}
