//! Stream ext: the calls that give streams time limits, a pace, and chunks, and that wait until one
//! is quiet. Each is there twice: as a method of streams, for the shared service, and of
//! [`Timers`], for a service of your own.

use super::chunks::ChunksTimeout;
use super::debounce::Debounce;
use super::stream_timeout::StreamTimeout;
use super::throttle::Throttle;
use super::timers::Timers;
use futures_core::Stream;
use std::time::Duration;

/// Time for streams, with the shared service. Every [`Stream`] has these calls.
///
/// Each wraps the stream in another one. It gives `None` for ever when the stream has given `None`
/// once. If the future of its next item is dropped before it is ready, no item is lost.
///
/// # Example
/// ```
/// use futures_lite::{StreamExt as _, stream};
/// use std::time::Duration;
/// use wheelwork::future::StreamExt as _;
///
/// # futures_lite::future::block_on(async {
/// let answers = stream::iter([1, 2]).chain(stream::pending());
/// let mut answers = answers.timeout(Duration::from_millis(2));
/// assert_eq!(answers.next().await, Some(Ok(1)));
/// assert_eq!(answers.next().await, Some(Ok(2)));
/// assert!(answers.next().await.unwrap().is_err());
/// # });
/// ```
pub trait StreamExt: Stream {
    /// Gives each item at most `delay`: see [`StreamTimeout`].
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()).
    fn timeout(self, delay: Duration) -> StreamTimeout<Self>
    where
        Self: Sized,
    {
        StreamTimeout::new(Timers::shared(), delay, self)
    }

    /// Waits for `delay` after each item: see [`Throttle`].
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()).
    ///
    /// # Example
    /// See [`Throttle`].
    fn throttle(self, delay: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new(Timers::shared(), delay, self)
    }

    /// Gives an item when no other one has followed it for `quiet`: see [`Debounce`].
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()).
    ///
    /// # Example
    /// See [`Debounce`].
    fn debounce(self, quiet: Duration) -> Debounce<Self>
    where
        Self: Sized,
    {
        Debounce::new(Timers::shared(), quiet, self)
    }

    /// Gathers up to `max` items, for at most `delay`: see [`ChunksTimeout`].
    ///
    /// # Panics
    /// As [`sleep`](super::sleep()).
    ///
    /// # Example
    /// See [`ChunksTimeout`].
    fn chunks_timeout(self, max: usize, delay: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new(Timers::shared(), max, delay, self)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

impl Timers {
    /// Gives each item of a stream at most `delay`: see [`StreamTimeout`].
    ///
    /// # Example
    /// ```
    /// use futures_lite::{StreamExt, stream};
    /// use std::time::Duration;
    /// use wheelwork::future::Timers;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Timers::start(TimerService::builder().clock(clock.clone()))?;
    /// let mut silent = timers.stream_timeout(Duration::from_secs(60), stream::pending::<()>());
    /// # futures_lite::future::block_on(async {
    /// assert_eq!(futures_lite::future::poll_once(silent.next()).await, None);
    /// clock.advance(Duration::from_secs(60));
    /// assert!(silent.next().await.unwrap().is_err());
    /// # });
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn stream_timeout<S: Stream>(&self, delay: Duration, stream: S) -> StreamTimeout<S> {
        StreamTimeout::new(self.home(), delay, stream)
    }

    /// Waits for `delay` after each item of a stream: see [`Throttle`].
    ///
    /// # Example
    /// See [`stream_timeout`](Self::stream_timeout).
    pub fn throttle<S: Stream>(&self, delay: Duration, stream: S) -> Throttle<S> {
        Throttle::new(self.home(), delay, stream)
    }

    /// Gives an item of a stream when no other one has followed it for `quiet`: see [`Debounce`].
    ///
    /// # Example
    /// See [`stream_timeout`](Self::stream_timeout).
    pub fn debounce<S: Stream>(&self, quiet: Duration, stream: S) -> Debounce<S> {
        Debounce::new(self.home(), quiet, stream)
    }

    /// Gathers up to `max` items of a stream, for at most `delay`: see [`ChunksTimeout`].
    ///
    /// # Example
    /// See [`stream_timeout`](Self::stream_timeout).
    pub fn chunks_timeout<S: Stream>(
        &self,
        max: usize,
        delay: Duration,
        stream: S,
    ) -> ChunksTimeout<S> {
        ChunksTimeout::new(self.home(), max, delay, stream)
    }
}
