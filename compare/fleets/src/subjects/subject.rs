//! What all subjects in Rust can do.

use crate::ledger::Ledger;
use crate::timers::Timer;
use std::sync::Arc;
use std::time::Duration;

/// Where the store is, and how it is used.
pub(crate) struct Opening {
    /// `postgres://USER@HOST:PORT/DATABASE`
    pub(crate) url: String,
    /// In place of its own poll interval.
    pub(crate) poll: Option<Duration>,
}

/// Durable timers that processes share.
pub(crate) trait Subject: Sized {
    /// Arms one batch of timers after the other, on a thread of its own.
    type Caller: Send;

    /// Timers of a call for many.
    const BATCH: usize;
    /// Such calls under way.
    const BATCHES: usize;

    /// Opens the store, or makes it. The ledger is the handler of what fires.
    fn open(opening: &Opening, ledger: &Arc<Ledger>) -> Result<Self, String>;

    fn caller(&self) -> Result<Self::Caller, String>;

    /// Arms all of them. They are durable when it returns.
    fn arm(caller: &mut Self::Caller, timers: &[Timer]) -> Result<(), String>;

    /// Handles what is due, from now on.
    fn work(&mut self) -> Result<(), String>;

    /// Whether a timer is not acknowledged.
    fn left(&mut self) -> Result<bool, String>;

    /// Closes the store in an orderly way.
    fn close(self) -> Result<(), String>;
}
