//! Limits: how long a stream may take for what, and the error that says which limit is over.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// The limits of a [`TimeoutIo`](super::TimeoutIo). Each is off until it is set.
///
/// | limit | begins | is renewed by | ends |
/// |---|---|---|---|
/// | [`read`](Self::read) | when a read has to wait | | when a read is ready |
/// | [`write`](Self::write) | when a write, a flush or a shutdown has to wait | | when one of them is ready |
/// | [`idle`](Self::idle) | with the `TimeoutIo` | bytes that were read or written | |
/// | [`max_age`](Self::max_age) | with the `TimeoutIo` | nothing | |
///
/// After its error a limit stays over: each further read (or write) that has to wait fails at once,
/// until the stream is ready. To go on after an error, take the limit away and set it again
/// ([`set_limits`](super::TimeoutIo::set_limits)), or wait in a
/// [`timeout`](crate::future::timeout()) instead.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::io::Limits;
///
/// let limits = Limits::new()
///     .write(Duration::from_secs(10))
///     .idle(Duration::from_secs(60));
/// assert_ne!(limits, Limits::new());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub(super) read: Option<Duration>,
    pub(super) write: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) max_age: Option<Duration>,
}

impl Limits {
    /// No limits.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            read: None,
            write: None,
            idle: None,
            max_age: None,
        }
    }

    /// How long a read may wait for the next bytes, or for the end of the stream.
    ///
    /// The time runs from the first poll that found nothing. It runs on if the read is dropped, for
    /// example in a `select`: what counts is how long nothing has come since somebody asked. A
    /// stream that nobody reads has no limit for reads.
    #[must_use]
    pub const fn read(mut self, limit: Duration) -> Self {
        self.read = Some(limit);
        self
    }

    /// How long a write may wait until the stream takes bytes. A flush and a shutdown count as
    /// writes.
    ///
    /// A socket of Linux has room again when a third of its send buffer is free, and that buffer
    /// grows up to 4 MB. So a limit of 10 s may also cut off a client that reads all the time, but
    /// only 100 KB a second. A smaller buffer (`SO_SNDBUF`) lets slower clients through.
    #[must_use]
    pub const fn write(mut self, limit: Duration) -> Self {
        self.write = Some(limit);
        self
    }

    /// How long no bytes may go either way. A read or a write that waits then fails.
    #[must_use]
    pub const fn idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    /// How long the stream may be used, whatever goes on. From then on each read and each write
    /// fails. A flush and a shutdown are still tried, and fail if they would have to wait.
    #[must_use]
    pub const fn max_age(mut self, limit: Duration) -> Self {
        self.max_age = Some(limit);
        self
    }
}

/// The limit of a [`TimeoutIo`](super::TimeoutIo) that is over. It is inside of the error of the
/// operation, whose kind is [`TimedOut`](io::ErrorKind::TimedOut).
///
/// # Example
/// ```
/// use std::io;
/// use wheelwork::io::ElapsedLimit;
///
/// let error = io::Error::from(ElapsedLimit::Write);
/// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
/// assert_eq!(ElapsedLimit::of(&error), Some(ElapsedLimit::Write));
/// assert_eq!(error.to_string(), "the time for a write is over");
/// assert_eq!(ElapsedLimit::of(&io::Error::other("another error")), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElapsedLimit {
    /// A read has waited for too long.
    Read,
    /// A write, a flush or a shutdown has waited for too long.
    Write,
    /// No bytes have gone either way for too long.
    Idle,
    /// The stream has been used for too long.
    Age,
}

impl ElapsedLimit {
    /// The limit that an error is about. `None`: another error.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for ElapsedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "the time for a read is over",
            Self::Write => "the time for a write is over",
            Self::Idle => "no bytes were read or written for too long",
            Self::Age => "the stream is too old",
        })
    }
}

impl Error for ElapsedLimit {}

impl From<ElapsedLimit> for io::Error {
    fn from(over: ElapsedLimit) -> Self {
        Self::new(io::ErrorKind::TimedOut, over)
    }
}
