//! Stream: the wrapper around a stream of bytes.

use super::limits::Limits;
use super::watch::Watch;
use crate::future::Timers;
use pin_project_lite::pin_project;
use std::pin::Pin;

pin_project! {
    /// A stream of bytes with [time limits](Limits).
    ///
    /// A poll asks the stream first. So an operation that is ready at once costs no timer, and
    /// bytes that are there when a time is over are still read, unless the stream is too old. After
    /// an error the stream is still there: a server may write a last message. (When the stream is
    /// too old, it can only do so by [`get_mut`](TimeoutIo::get_mut).)
    ///
    /// An error comes to the operations that wait. If none waits when a time is over, the next one
    /// that has to wait fails.
    ///
    /// It has tokio's `AsyncRead` and `AsyncWrite` with the feature `tokio`, and those of `futures`
    /// with the feature `futures-io`, if the stream has them. For hyper it goes inside of
    /// hyper-util's wrapper: `TokioIo::new(TimeoutIo::new(stream, limits))`.
    ///
    /// The stream may be split, as by `tokio::io::split`, and used by two tasks. Errors then come
    /// to each task that a limit concerns.
    ///
    /// # Cost
    /// A stream has at most one timer, whatever its limits. Bytes do not move it. With limits of a
    /// minute the timer fires about once a minute while bytes go, wakes the task for nothing, and
    /// is set anew. A read or write takes a reading of the clock for a limit of the age, one for a
    /// limit of idle time if bytes went, and one or two if it has to wait. The limits take some 300
    /// bytes, 64 of them apart.
    ///
    /// # Example
    /// See the [module](super)'s.
    #[derive(Debug)]
    pub struct TimeoutIo<T> {
        #[pin]
        pub(super) inner: T,
        pub(super) watch: Watch,
    }
}

impl<T> TimeoutIo<T> {
    /// Limits the times of `inner`, by the shared service of [`future`](crate::future), or by the
    /// one that the thread has entered.
    ///
    /// # Panics
    /// As [`sleep`](crate::future::sleep()).
    pub fn new(inner: T, limits: Limits) -> Self {
        Self::on(&Timers::current(), inner, limits)
    }

    /// The same, with a service for timers of your own.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::io::{Limits, TimeoutIo};
    /// use wheelwork::{TimerService, future::Timers};
    ///
    /// let timers = Timers::start(TimerService::builder().tick(Duration::from_micros(100)))?;
    /// let limits = Limits::new().idle(Duration::from_secs(60));
    /// let stream = TimeoutIo::on(&timers, "any stream", limits);
    /// assert_eq!(stream.into_inner(), "any stream");
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn on(timers: &Timers, inner: T, limits: Limits) -> Self {
        Self {
            inner,
            watch: Watch::new(timers, limits),
        }
    }

    /// The limits that hold now.
    pub fn limits(&self) -> Limits {
        self.watch.limits()
    }

    /// Sets other limits, for example when a client has logged in. A task that waits is woken, and
    /// polls with the new limits. The age counts from the beginning, and that of an
    /// operation that waits from the beginning of its wait. If there was no such limit before, idle
    /// time counts from now, and the wait of an operation from its next poll.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::io::{Limits, TimeoutIo};
    ///
    /// let mut stream = TimeoutIo::new("any stream", Limits::new().read(Duration::from_secs(5)));
    /// stream.set_limits(stream.limits().read(Duration::from_secs(60)));
    /// ```
    pub fn set_limits(&mut self, limits: Limits) {
        self.watch.set_limits(limits);
    }

    /// The stream inside.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The stream inside. No limit notices what is read or written there.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// As [`get_mut`](Self::get_mut), for a stream that is pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut T> {
        self.project().inner
    }

    /// The stream inside, without its limits.
    pub fn into_inner(self) -> T {
        self.inner
    }
}
