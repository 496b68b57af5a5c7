//! Receiver: the user's end of a channel of batches.
//!
//! Any thread may have one, and clones of it: each batch goes to one of them. The type hides which
//! channel lies behind it.

use crossbeam_channel as channel;
use std::fmt;
use std::sync::mpsc::{RecvError, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// The receiving end of a channel of due payloads, in batches:
/// [`Builder::on_expire_channel`](crate::Builder::on_expire_channel) makes one.
///
/// Clones receive from one channel: each batch goes to one of them. When the last one is gone,
/// payloads are dropped as their timers fire.
///
/// The calls and their errors are those of [`std::sync::mpsc::Receiver`].
///
/// # Example
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use wheelwork::TimerService;
///
/// let (builder, expired) = TimerService::builder().on_expire_channel::<&str>(None);
/// let service = builder.start()?;
/// let consumer = thread::spawn(move || expired.iter().flatten().collect::<Vec<_>>());
/// service.schedule(Duration::from_millis(1), "first")?;
/// service.schedule(Duration::from_millis(9), "second")?;
/// while !service.is_empty() {
///     thread::yield_now();
/// }
/// // Disconnects the channel: the consumer has got all.
/// drop(service);
/// assert_eq!(consumer.join().unwrap(), ["first", "second"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Receiver<P>(channel::Receiver<Vec<P>>);

impl<P> Receiver<P> {
    pub(super) const fn new(receiver: channel::Receiver<Vec<P>>) -> Self {
        Self(receiver)
    }

    /// Waits for a batch.
    ///
    /// # Errors
    /// If there is none, and none will come: the service and its handles are gone. (A stop is not
    /// enough: each handle that is left keeps the channel connected.)
    pub fn recv(&self) -> Result<Vec<P>, RecvError> {
        self.0.recv().map_err(|_| RecvError)
    }

    /// Waits for a batch, for this time at most.
    ///
    /// # Errors
    /// [`Timeout`](RecvTimeoutError::Timeout) if none came in time,
    /// [`Disconnected`](RecvTimeoutError::Disconnected) if none will come: the service and its
    /// handles are gone.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Vec<P>, RecvTimeoutError> {
        self.0.recv_timeout(timeout).map_err(why)
    }

    /// Waits for a batch, until this instant at most.
    ///
    /// # Errors
    /// As [`recv_timeout`](Self::recv_timeout).
    pub fn recv_deadline(&self, deadline: Instant) -> Result<Vec<P>, RecvTimeoutError> {
        self.0.recv_deadline(deadline).map_err(why)
    }

    /// A batch that is there already.
    ///
    /// # Errors
    /// [`Empty`](TryRecvError::Empty) if there is none now,
    /// [`Disconnected`](TryRecvError::Disconnected) if none will come: the service and its handles
    /// are gone.
    pub fn try_recv(&self) -> Result<Vec<P>, TryRecvError> {
        self.0.try_recv().map_err(|error| match error {
            channel::TryRecvError::Empty => TryRecvError::Empty,
            channel::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }

    /// The batches as they come. It waits for each, and ends when the service and its handles are
    /// gone.
    pub fn iter(&self) -> impl Iterator<Item = Vec<P>> {
        self.0.iter()
    }

    /// The batches that are there already. It never waits.
    pub fn try_iter(&self) -> impl Iterator<Item = Vec<P>> {
        self.0.try_iter()
    }

    /// The number of batches that are there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no batch is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn why(error: channel::RecvTimeoutError) -> RecvTimeoutError {
    match error {
        channel::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
        channel::RecvTimeoutError::Disconnected => RecvTimeoutError::Disconnected,
    }
}

// Not derived: a payload needs no Clone.
impl<P> Clone for Receiver<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P> fmt::Debug for Receiver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("batches", &self.len())
            .finish_non_exhaustive()
    }
}
