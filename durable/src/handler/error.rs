//! Errors of the calls.

use crate::store::contract::StoreError;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;
use wheelwork::StartError;

/// The longest name of a kind, in bytes.
pub(crate) const KIND_BYTES_MAX: usize = 255;

/// The longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 1_024;

/// Why a call to durable timers failed.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, DurableError, Memory};
///
/// let timers = Durable::builder(Memory::new()).start()?;
/// let long = "k".repeat(2_000);
/// let error = timers.key(&long).schedule("mail", Duration::ZERO, "").unwrap_err();
/// assert!(matches!(error, DurableError::KeyTooLong { bytes: 2_000, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DurableError {
    /// The service has stopped. Nothing was stored, or of a call for many timers not all.
    Stopped,
    /// The store has failed during this call. Whether the change was stored is not known: it shows
    /// when the store works again. (In a fleet a commit that hangs in the database may be made even
    /// later.)
    Store(StoreError),
    /// The store does not work just now. Nothing was stored. It is opened again by itself, so the
    /// call may be tried later.
    Unavailable {
        /// Since when.
        since: SystemTime,
        /// Why: what has failed last.
        why: StoreError,
    },
    /// The payload is too large. Nothing was stored.
    PayloadTooLarge {
        /// Its size, in bytes.
        bytes: usize,
        /// The largest size that is taken, in bytes.
        max: usize,
    },
    /// The key is too long. Nothing was stored.
    KeyTooLong {
        /// Its length, in bytes.
        bytes: usize,
        /// The greatest length that is taken, in bytes.
        max: usize,
    },
    /// The name of a kind is too long. Nothing was stored.
    KindTooLong {
        /// Its length, in bytes.
        bytes: usize,
        /// The greatest length that is taken, in bytes.
        max: usize,
    },
    /// `stop` was called inside a handler, or inside a hook. It would have to wait for it.
    InsideHandler,
    /// `stop` was called on a thread that polls the future of a handler: it would have to wait for
    /// that future. Nothing was stopped. Await [`stop_async`](crate::Durable::stop_async) there.
    PollsHandler,
    /// The stop of a `stop_async` has not ended within its limit. It goes on.
    StopGoesOn,
    /// The call makes no sense, and says why: the payload could not be encoded, the calendar has no
    /// run any more, the timer would expire before it is due, or a database cannot have its key.
    Invalid(String),
    /// The store refuses this call, and no other: why. Nothing was stored, or of a call for many
    /// timers not all.
    Refused(Arc<str>),
    /// This timer or its key was locked by another transaction, or by several, for five minutes. A
    /// call for many timers waits for as long for each of its slices. Nothing was stored, or of a
    /// call for many timers not all.
    Blocked,
}

impl fmt::Display for DurableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the durable timers have stopped"),
            Self::StopGoesOn => f.write_str("the stop has not ended within its limit, and goes on"),
            Self::Store(error) => write!(f, "the store has failed: {error}"),
            Self::Unavailable { why, .. } => {
                write!(f, "the store is not available, and is opened again: {why}")
            }
            Self::PayloadTooLarge { bytes, max } => {
                write!(
                    f,
                    "a payload of {bytes} bytes: at most {max} are taken (`max_payload`)"
                )
            }
            Self::KeyTooLong { bytes, max } => {
                write!(f, "a key of {bytes} bytes: at most {max} are taken")
            }
            Self::KindTooLong { bytes, max } => {
                write!(f, "a kind of {bytes} bytes: at most {max} are taken")
            }
            Self::InsideHandler => {
                f.write_str("a handler, or a hook, cannot stop the timers that it runs for")
            }
            Self::PollsHandler => f.write_str(
                "this thread polls the future of a handler, for which `stop` would wait for ever: \
                 await `stop_async`",
            ),
            Self::Invalid(why) => f.write_str(why),
            Self::Refused(why) => write!(f, "the store refuses this call: {why}"),
            Self::Blocked => f.write_str("another transaction has locked the timer or its key"),
        }
    }
}

impl std::error::Error for DurableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // (What it says itself is in this error's line.)
            Self::Store(error) | Self::Unavailable { why: error, .. } => error.source(),
            _ => None,
        }
    }
}

/// Why durable timers could not be started.
///
/// # Example
/// See [`Durable::builder`](crate::Durable::builder).
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The store failed.
    Store(StoreError),
    /// The timer service of the window could not be started.
    Service(StartError),
    /// The system has no thread for the writer.
    Thread(std::io::Error),
    /// A setting cannot be: which, and why.
    Setting(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "no thread for the writer: {error}"),
            Self::Setting(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // (They say the same as this error.)
            Self::Store(error) => error.source(),
            Self::Service(error) => error.source(),
            Self::Thread(error) => Some(error),
            Self::Setting(_) => None,
        }
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
