//! Timeout: a future with a deadline.

use super::sleep::Sleep;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// Runs a future until a deadline at most. [`timeout`](super::timeout()) makes one. `S` is the
    /// sleep that ends with the deadline.
    ///
    /// It gives what the future gives, or [`Elapsed`] if the deadline came first. After `Elapsed`
    /// the future is still there; it is dropped with the timeout.
    ///
    /// The future is polled before the deadline. So a future that is ready at once costs no
    /// timer, and one that becomes ready together with the deadline wins.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::future::{sleep, timeout};
    ///
    /// # futures_lite::future::block_on(async {
    /// let slow = async { sleep(Duration::from_secs(60)).await };
    /// assert!(timeout(Duration::from_millis(2), slow).await.is_err());
    /// # });
    /// ```
    #[must_use = "a future does nothing until it is polled"]
    #[derive(Debug)]
    pub struct Timeout<F, S = Sleep> {
        #[pin]
        future: F,
        sleep: S,
    }
}

/// The deadline came before the future was ready. It converts to an [`io::Error`] of the kind
/// [`TimedOut`](io::ErrorKind::TimedOut).
///
/// # Example
/// ```
/// use std::future::pending;
/// use std::time::Duration;
///
/// # futures_lite::future::block_on(async {
/// let outcome = wheelwork::future::timeout(Duration::ZERO, pending::<()>()).await;
/// let error: std::io::Error = outcome.unwrap_err().into();
/// assert_eq!(error.to_string(), "the time is over");
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is over")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}

impl<F, S> Timeout<F, S> {
    pub(super) fn new(future: F, sleep: S) -> Self {
        Self { future, sleep }
    }

    /// The future, without the timeout.
    ///
    /// # Example
    /// ```
    /// let timeout = wheelwork::future::timeout(std::time::Duration::ZERO, std::future::ready(5));
    /// assert_eq!(futures_lite::future::block_on(timeout.into_inner()), 5);
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future, S: Future<Output = ()> + Unpin> Future for Timeout<F, S> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.future.poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(this.sleep).poll(context).map(|()| Err(Elapsed)),
        }
    }
}
