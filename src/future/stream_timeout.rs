//! Stream timeout: a stream that tells when an item is late.

use super::sleep::Sleep;
use super::timeout::Elapsed;
use super::timers::Home;
use futures_core::{FusedStream, Stream};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

pin_project! {
    /// A stream that gives each item at most a delay.
    /// [`StreamExt::timeout`](super::StreamExt::timeout) makes one.
    ///
    /// The delay counts from when the last item was given; for the first item, from when this
    /// stream was made. If the item does not come in time, this stream gives one [`Elapsed`]. The
    /// late item is not lost: it comes when it is there. So between two items there is at most one
    /// `Elapsed`. To end at the first one, drop the stream then.
    ///
    /// The stream is polled before the deadline. So an item that is there wins, however late it is
    /// asked for, and costs no timer.
    ///
    /// # Example
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use wheelwork::future::{StreamExt as _, sleep};
    /// use wheelwork::testing;
    ///
    /// testing::block_on(async {
    ///     let slow = stream::once_future(async {
    ///         sleep(Duration::from_secs(10)).await;
    ///         "late"
    ///     });
    ///     let items: Vec<_> = slow.timeout(Duration::from_secs(2)).collect().await;
    ///     assert!(items.len() == 2 && items[0].is_err());
    ///     assert_eq!(items[1], Ok("late"));
    ///     assert_eq!(testing::clock().elapsed(), Duration::from_secs(10));
    /// });
    /// ```
    #[must_use = "a stream does nothing until it is polled"]
    #[derive(Debug)]
    pub struct StreamTimeout<S> {
        #[pin]
        stream: S,
        delay: Duration,
        // Until the next item is late. `None`: the stream has ended.
        sleep: Option<Sleep>,
        // Whether it was told that the next item is late.
        is_told: bool,
    }
}

impl<S> StreamTimeout<S> {
    pub(super) fn new(home: Home, delay: Duration, stream: S) -> Self {
        Self {
            stream,
            delay,
            sleep: Some(home.sleep(delay)),
            is_told: false,
        }
    }

    /// The stream, without the timeout. It has all items that were not given yet.
    ///
    /// # Example
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use wheelwork::future::StreamExt as _;
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut items = stream::iter([1, 2, 3]).timeout(Duration::from_secs(60));
    /// assert_eq!(items.next().await, Some(Ok(1)));
    /// assert_eq!(items.into_inner().collect::<Vec<_>>().await, [2, 3]);
    /// # });
    /// ```
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for StreamTimeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let Some(sleep) = this.sleep else {
            return Poll::Ready(None);
        };
        match this.stream.poll_next(context) {
            Poll::Ready(Some(item)) => {
                sleep.reset(*this.delay);
                *this.is_told = false;
                Poll::Ready(Some(Ok(item)))
            }
            Poll::Ready(None) => {
                *this.sleep = None;
                Poll::Ready(None)
            }
            Poll::Pending if *this.is_told => Poll::Pending,
            Poll::Pending => {
                ready!(Pin::new(sleep).poll(context));
                *this.is_told = true;
                Poll::Ready(Some(Err(Elapsed)))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.sleep.is_none() {
            return (0, Some(0));
        }
        let (least, most) = self.stream.size_hint();
        // Each of them may be late, and so may be the end.
        let most = most.and_then(|most| most.checked_mul(2)?.checked_add(1));
        (least, most)
    }
}

impl<S: Stream> FusedStream for StreamTimeout<S> {
    fn is_terminated(&self) -> bool {
        self.sleep.is_none()
    }
}
