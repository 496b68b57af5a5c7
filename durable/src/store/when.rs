//! What the calls take: points in time, and payloads.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// When a durable timer is to fire: after a delay, or at a time. Calls take anything that makes
/// one.
///
/// A delay is added to the time of the call. A time in the past is due at once. A delay that no
/// time can hold counts as the last one that the store can hold.
///
/// # Example
/// ```
/// use std::time::{Duration, SystemTime};
/// use wheelwork_durable::When;
///
/// let _in_an_hour: When = Duration::from_secs(3_600).into();
/// let _at_the_epoch: When = SystemTime::UNIX_EPOCH.into();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// This long after the call.
    After(Duration),
    /// At this time of the store's clock: the system's, or in a fleet the database's.
    At(SystemTime),
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<SystemTime> for When {
    fn from(time: SystemTime) -> Self {
        Self::At(time)
    }
}

/// What a handler gets: bytes. Calls take anything that makes one.
///
/// # Example
/// ```
/// use wheelwork_durable::PayloadBytes;
///
/// let text: PayloadBytes = "order 4711".into();
/// let bytes: PayloadBytes = vec![1, 2, 3].into();
/// assert_eq!((text.as_ref(), bytes.len()), (&b"order 4711"[..], 3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadBytes(pub(crate) Arc<[u8]>);

impl PayloadBytes {
    /// Its size, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl AsRef<[u8]> for PayloadBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for PayloadBytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl<const N: usize> From<&[u8; N]> for PayloadBytes {
    fn from(bytes: &[u8; N]) -> Self {
        Self(bytes.as_slice().into())
    }
}

impl<const N: usize> From<[u8; N]> for PayloadBytes {
    fn from(bytes: [u8; N]) -> Self {
        Self(bytes.as_slice().into())
    }
}

impl From<Vec<u8>> for PayloadBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&str> for PayloadBytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for PayloadBytes {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<Arc<[u8]>> for PayloadBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(bytes)
    }
}
