//! Debounce: a stream that gives the last item when it has been quiet for some time.

use super::sleep::Sleep;
use super::timers::Home;
use futures_core::{FusedStream, Stream};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Items that are taken before the task yields, however many are there.
const IN_A_ROW_MAX: usize = 256;

pin_project! {
    /// A stream that gives an item when no other one has followed it for some time.
    /// [`StreamExt::debounce`](super::StreamExt::debounce) makes one.
    ///
    /// An item that another one follows sooner is dropped. The time counts from when this stream
    /// took the item. When the stream ends, its last item comes at once. As long as items follow
    /// each other sooner than that, none comes.
    ///
    /// After 256 items in one poll it yields to other tasks.
    ///
    /// # Example
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use wheelwork::future::StreamExt as _;
    ///
    /// # futures_lite::future::block_on(async {
    /// let sizes = stream::iter(["80x24", "100x30", "120x40"]).chain(stream::pending());
    /// let mut sizes = sizes.debounce(Duration::from_millis(2));
    /// assert_eq!(sizes.next().await, Some("120x40"), "the size that the window has in the end");
    /// # });
    /// ```
    #[must_use = "a stream does nothing until it is polled"]
    #[derive(Debug)]
    pub struct Debounce<S: Stream> {
        #[pin]
        stream: S,
        quiet: Duration,
        // The item that was taken last, if it was not given yet.
        latest: Option<S::Item>,
        // Until the item comes. Ready at once before the first one.
        sleep: Sleep,
        has_ended: bool,
    }
}

impl<S: Stream> Debounce<S> {
    pub(super) fn new(home: Home, quiet: Duration, stream: S) -> Self {
        let now = home.handle().now();
        Self {
            stream,
            quiet,
            latest: None,
            sleep: home.sleep_until(now),
            has_ended: false,
        }
    }

    /// The stream, and the item that was taken and not given yet.
    ///
    /// # Example
    /// ```
    /// use futures_lite::{StreamExt as _, future::poll_once, stream};
    /// use std::time::Duration;
    /// use wheelwork::future::StreamExt as _;
    ///
    /// # futures_lite::future::block_on(async {
    /// let items = stream::iter([1, 2]).chain(stream::pending());
    /// let mut items = items.debounce(Duration::from_secs(60));
    /// assert_eq!(poll_once(items.next()).await, None);
    /// assert_eq!(items.into_parts().1, Some(2));
    /// # });
    /// ```
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.stream, self.latest)
    }
}

impl<S: Stream> Stream for Debounce<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        if *this.has_ended {
            return Poll::Ready(None);
        }
        let mut in_a_row = 0;
        while in_a_row < IN_A_ROW_MAX {
            match this.stream.as_mut().poll_next(context) {
                Poll::Ready(Some(item)) => {
                    *this.latest = Some(item);
                    in_a_row += 1;
                }
                Poll::Ready(None) => {
                    *this.has_ended = true;
                    return Poll::Ready(this.latest.take());
                }
                Poll::Pending => break,
            }
        }
        if in_a_row > 0 {
            this.sleep.reset(*this.quiet);
        }
        if this.latest.is_some() && Pin::new(this.sleep).poll(context).is_ready() {
            return Poll::Ready(this.latest.take());
        }
        if in_a_row == IN_A_ROW_MAX {
            // Yields: other tasks run first.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let held = usize::from(self.latest.is_some());
        if self.has_ended {
            return (0, Some(0));
        }
        let (least, most) = self.stream.size_hint();
        (
            least.saturating_add(held).min(1),
            most.and_then(|most| most.checked_add(held)),
        )
    }
}

impl<S: Stream> FusedStream for Debounce<S> {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}
