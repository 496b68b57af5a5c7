//! Errors of the public interface. An error returns what the caller put in.

use std::fmt;

/// Why a timer was not armed. It has the payload.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{Batch, ScheduleError, TimerService};
///
/// let service = TimerService::builder()
///     .on_expire(|messages: &mut Batch<'_, String>| messages.for_each(drop))
///     .start()?;
/// service.stop();
/// match service.schedule(Duration::from_secs(1), "too late".to_string()) {
///     Err(ScheduleError::Stopped(payload)) => assert_eq!(payload, "too late"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError<T> {
    /// The service was stopped.
    Stopped(T),
    /// No more timers may be pending. The limit is that of the builder's
    /// [`max_pending`](crate::Builder::max_pending), or the number of cells: 2^30 timers. For
    /// payloads of more than 1,008 bytes the number of cells is lower, at least half a tebibyte of
    /// payloads.
    Full(T),
    /// A periodic timer with [`times(0)`](crate::Periodic::times).
    NoRuns(T),
    /// The service that [`after`](crate::after) uses could not be started.
    /// [`global`](crate::global) says why.
    NotStarted(T),
}

impl<T> ScheduleError<T> {
    /// The payload that was not armed.
    ///
    /// # Example
    /// ```
    /// assert_eq!(wheelwork::ScheduleError::Stopped(7).into_payload(), 7);
    /// ```
    pub fn into_payload(self) -> T {
        match self {
            Self::Stopped(payload)
            | Self::Full(payload)
            | Self::NoRuns(payload)
            | Self::NotStarted(payload) => payload,
        }
    }
}

impl<T> ScheduleError<T> {
    /// This error with another payload.
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> ScheduleError<U> {
        match self {
            Self::Stopped(payload) => ScheduleError::Stopped(f(payload)),
            Self::Full(payload) => ScheduleError::Full(f(payload)),
            Self::NoRuns(payload) => ScheduleError::NoRuns(f(payload)),
            Self::NotStarted(payload) => ScheduleError::NotStarted(f(payload)),
        }
    }
}

// Not derived, so that a payload needs no Debug.
impl<T> fmt::Debug for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped(_) => "Stopped(..)",
            Self::Full(_) => "Full(..)",
            Self::NoRuns(_) => "NoRuns(..)",
            Self::NotStarted(_) => "NotStarted(..)",
        })
    }
}

impl<T> fmt::Display for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped(_) => "the timer service is stopped",
            Self::Full(_) => "the timer service is full: as many timers are pending as it allows",
            Self::NoRuns(_) => "times(0): a periodic timer runs once at least",
            Self::NotStarted(_) => "the service for callbacks could not be started",
        })
    }
}

impl<T> std::error::Error for ScheduleError<T> {}

/// [`cancel_and_wait`](crate::ServiceHandle::cancel_and_wait) was called inside a task. The call
/// might have waited for that task itself.
///
/// # Example
/// ```
/// use wheelwork::InsideTaskError;
///
/// let message = "called from inside a task, which would wait for itself";
/// assert_eq!(InsideTaskError.to_string(), message);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsideTaskError;

impl fmt::Display for InsideTaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("called from inside a task, which would wait for itself")
    }
}

impl std::error::Error for InsideTaskError {}

/// Why a service did not start.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{StartError, TimerService};
///
/// let error = TimerService::builder().tick(Duration::ZERO).start().unwrap_err();
/// assert!(matches!(error, StartError::Tick(_)));
/// assert_eq!(error.to_string(), "a tick of 0ns is not between 1us and 24h");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The tick is shorter than a microsecond or longer than a day.
    Tick(std::time::Duration),
    /// The number of shards is zero or above 4,096.
    Shards(usize),
    /// The name has a NUL character, which no thread's name may have.
    Name(String),
    /// The system has no clock that counts suspended time:
    /// [`boot_time`](crate::Builder::boot_time).
    BootTime,
    /// The pool is to have no threads, or more than 4,096, or could not be built.
    Pool(String),
    /// The system did not provide a thread for a shard or for the watchdog.
    Thread(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick(tick) => write!(f, "a tick of {tick:?} is not between 1us and 24h"),
            Self::Shards(shards) => {
                write!(f, "the number of shards must be 1 to 4096, not {shards}")
            }
            Self::Name(name) => write!(
                f,
                "no thread can be named {name:?}: it has a NUL character in it"
            ),
            Self::BootTime => f.write_str("this system has no clock that counts suspended time"),
            Self::Pool(why) => write!(f, "no pool to dispatch to: {why}"),
            Self::Thread(why) => write!(f, "no thread for a shard or the watchdog: {why}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Thread(why) => Some(why),
            _ => None,
        }
    }
}
