//! Chunks: a stream whose items come together.

use super::sleep::Sleep;
use super::timers::Home;
use futures_core::{FusedStream, Stream};
use pin_project_lite::pin_project;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Items that are taken before the task yields, however many are there.
const IN_A_ROW_MAX: usize = 256;

pin_project! {
    /// A stream that gathers the items of another one.
    /// [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout) makes one.
    ///
    /// A chunk comes when it has the greatest number of items, or the delay since its first item
    /// has passed, or the stream has ended. So it is never empty, and no item is left behind. A
    /// greatest number of zero acts as one. A chunk that is full before the task waits costs no
    /// timer.
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
    /// let rows = stream::iter([1, 2, 3, 4, 5]).chain(stream::pending());
    /// let mut batches = rows.chunks_timeout(3, Duration::from_millis(2));
    /// assert_eq!(batches.next().await, Some(vec![1, 2, 3]));
    /// assert_eq!(batches.next().await, Some(vec![4, 5]), "2 ms later");
    /// # });
    /// ```
    #[must_use = "a stream does nothing until it is polled"]
    #[derive(Debug)]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: S,
        home: Home,
        max: usize,
        delay: Duration,
        chunk: Vec<S::Item>,
        // Until the chunk comes, however few items it has. `None` while it has none.
        sleep: Option<Sleep>,
        has_ended: bool,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    pub(super) fn new(home: Home, max: usize, delay: Duration, stream: S) -> Self {
        Self {
            stream,
            home,
            max: max.max(1),
            delay,
            chunk: Vec::new(),
            sleep: None,
            has_ended: false,
        }
    }

    /// The stream, and the items that were gathered and not given yet.
    ///
    /// # Example
    /// ```
    /// use futures_lite::{StreamExt as _, future::poll_once, stream};
    /// use std::time::Duration;
    /// use wheelwork::future::StreamExt as _;
    ///
    /// # futures_lite::future::block_on(async {
    /// let rows = stream::iter([1, 2]).chain(stream::pending());
    /// let mut batches = rows.chunks_timeout(3, Duration::from_secs(60));
    /// assert_eq!(poll_once(batches.next()).await, None);
    /// let (_, gathered) = batches.into_parts();
    /// assert_eq!(gathered, [1, 2]);
    /// # });
    /// ```
    pub fn into_parts(self) -> (S, Vec<S::Item>) {
        (self.stream, self.chunk)
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<S::Item>>> {
        let mut this = self.project();
        if *this.has_ended {
            return Poll::Ready(None);
        }
        let mut in_a_row = 0;
        while in_a_row < IN_A_ROW_MAX {
            match this.stream.as_mut().poll_next(context) {
                Poll::Ready(Some(item)) => {
                    if this.chunk.is_empty() {
                        *this.sleep = Some(this.home.clone().sleep(*this.delay));
                    }
                    this.chunk.push(item);
                    if this.chunk.len() >= *this.max {
                        *this.sleep = None;
                        return Poll::Ready(Some(mem::take(this.chunk)));
                    }
                    in_a_row += 1;
                }
                Poll::Ready(None) => {
                    *this.has_ended = true;
                    *this.sleep = None;
                    let last = mem::take(this.chunk);
                    return Poll::Ready((!last.is_empty()).then_some(last));
                }
                Poll::Pending => break,
            }
        }
        if let Some(sleep) = this.sleep
            && Pin::new(sleep).poll(context).is_ready()
        {
            *this.sleep = None;
            return Poll::Ready(Some(mem::take(this.chunk)));
        }
        if in_a_row == IN_A_ROW_MAX {
            // Yields: other tasks run first.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let gathered = self.chunk.len();
        if self.has_ended {
            return (0, Some(0));
        }
        let (least, most) = self.stream.size_hint();
        (
            least.saturating_add(gathered).div_ceil(self.max),
            most.and_then(|most| most.checked_add(usize::from(gathered > 0))),
        )
    }
}

impl<S: Stream> FusedStream for ChunksTimeout<S> {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}
