//! Throttle: a stream with a pause after each item.

use super::sleep::Sleep;
use super::timers::Home;
use futures_core::{FusedStream, Stream};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

pin_project! {
    /// A stream that waits for a delay after each item.
    /// [`StreamExt::throttle`](super::StreamExt::throttle) makes one.
    ///
    /// The delay counts from when the item was given. The stream is not polled meanwhile, so what
    /// it has not given waits there. The first item comes without a delay. A delay that is not zero
    /// lasts until the service's next tick at least.
    ///
    /// # Example
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::{Duration, Instant};
    /// use wheelwork::future::StreamExt as _;
    ///
    /// # futures_lite::future::block_on(async {
    /// let start = Instant::now();
    /// let items = stream::iter([1, 2, 3]).throttle(Duration::from_millis(2));
    /// assert_eq!(items.collect::<Vec<_>>().await, [1, 2, 3]);
    /// assert!(start.elapsed() >= Duration::from_millis(4));
    /// # });
    /// ```
    #[must_use = "a stream does nothing until it is polled"]
    #[derive(Debug)]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        delay: Duration,
        // Until the next item may come. `None`: the stream has ended.
        sleep: Option<Sleep>,
    }
}

impl<S> Throttle<S> {
    pub(super) fn new(home: Home, delay: Duration, stream: S) -> Self {
        let now = home.handle().now();
        Self {
            stream,
            delay,
            // Ready at once.
            sleep: Some(home.sleep_until(now)),
        }
    }

    /// The stream, without the pauses. It has all items that were not given yet.
    ///
    /// # Example
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use wheelwork::future::StreamExt as _;
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut items = stream::iter([1, 2, 3]).throttle(Duration::from_secs(60));
    /// assert_eq!(items.next().await, Some(1));
    /// assert_eq!(items.into_inner().collect::<Vec<_>>().await, [2, 3]);
    /// # });
    /// ```
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        let Some(sleep) = this.sleep else {
            return Poll::Ready(None);
        };
        ready!(Pin::new(&mut *sleep).poll(context));
        let item = ready!(this.stream.poll_next(context));
        if item.is_some() {
            sleep.reset(*this.delay);
        } else {
            *this.sleep = None;
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.sleep.is_none() {
            return (0, Some(0));
        }
        self.stream.size_hint()
    }
}

impl<S: Stream> FusedStream for Throttle<S> {
    fn is_terminated(&self) -> bool {
        self.sleep.is_none()
    }
}
