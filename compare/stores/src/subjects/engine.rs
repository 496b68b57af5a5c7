//! An engine that keeps rows in order, and is no timer: what is needed of it to keep timers.

use crate::ledger::Ledger;
use crate::random::Payload;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

/// Names a row, and has its place: by deadline, then by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    /// Milliseconds since the Unix epoch.
    pub(crate) due: u64,
    pub(crate) number: u64,
}

/// Deadlines, from the first to the last one.
pub(crate) type Span = RangeInclusive<u64>;

pub(crate) type Row = (Key, Payload);

impl Key {
    /// The keys of these deadlines, as bits.
    pub(crate) fn span(span: &Span) -> Range<u128> {
        Self::first(*span.start()).bits()..Self::first(span.end() + 1).bits()
    }

    /// The first key of a deadline.
    pub(crate) fn first(due: u64) -> Self {
        Self { due, number: 0 }
    }

    /// Ordered as the keys are.
    pub(crate) fn bits(self) -> u128 {
        u128::from(self.due) << 64 | u128::from(self.number)
    }

    pub(crate) fn from_bits(bits: u128) -> Self {
        Self {
            due: (bits >> 64) as u64,
            number: bits as u64,
        }
    }
}

/// What a commit does to a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Arm(Key, Payload),
    /// A cancel, or an ack.
    Delete(Key),
}

/// Owned by one thread, that commits.
pub(crate) trait Engine: Send + Sized + 'static {
    type Reader: Reader;

    /// Opens it, or makes it.
    fn open(folder: &Path, ledger: &Arc<Ledger>) -> Result<Self, String>;

    /// All changes, or none. They are durable when it returns.
    fn commit(&mut self, changes: &[Change]) -> Result<(), String>;

    /// Looks for what is due, on another thread. None: the engine has workers of its own.
    fn reader(&self) -> Result<Option<Self::Reader>, String>;

    /// Counts what its own workers have acknowledged.
    fn own_acks(&self) -> Option<Box<dyn Fn() -> u64 + Send + Sync>> {
        None
    }

    /// The process that keeps the rows, if it is not this one.
    fn server(&self) -> Option<u32> {
        None
    }

    /// Closes it in an orderly way.
    fn close(self) -> Result<(), String>;
}

/// Reads what was committed.
pub(crate) trait Reader: Send + 'static {
    /// Appends up to `limit` rows of these deadlines, in order; reads their payloads too.
    fn due(&mut self, span: Span, limit: usize, rows: &mut Vec<Row>) -> Result<(), String>;
}

/// An error of an engine as text.
pub(crate) fn failed(what: &str) -> impl Fn(&dyn Display) -> String + '_ {
    move |error| format!("{what}: {error}")
}

/// Bytes of a payload as an engine gives them back.
#[cfg(feature = "rivals")]
pub(crate) fn payload(bytes: &[u8]) -> Result<Payload, String> {
    let wrong = |_| format!("a payload has {} bytes", bytes.len());
    Payload::try_from(bytes).map_err(wrong)
}
