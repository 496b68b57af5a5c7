//! Retry: async code that is run again when it fails. The functions for the shared service, and the
//! methods of [`Timers`] for a service of your own.

use super::timers::{Home, Timers};
use crate::retry::RetryPolicy;
use std::future::{Future, IntoFuture};

/// Runs async code, and again after a wait each time that it fails, with the shared service. Gives
/// the first `Ok`, or the error of the last attempt that the [`RetryPolicy`] allows.
///
/// Each attempt is a future of its own. The first one begins when the future that is returned is
/// polled for the first time. If this future is dropped, the attempt or the wait is dropped with
/// it. An attempt that may hang needs a [`timeout`](super::timeout()) of its own, as in the second
/// example.
///
/// Code that is run again may do twice what it does: the attempt that failed may have had its
/// effect before. Errors that no further attempt can help end it at once with [`retry_if`].
///
/// Cost: a [`Sleep`](super::Sleep) for each wait. An attempt costs no timer.
///
/// # Panics
/// As [`sleep`](super::sleep()). A panic of an attempt goes on to the caller, and ends it.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::future::retry;
/// use wheelwork::{RetryPolicy, testing};
///
/// testing::block_on(async {
///     let mut attempts = 0;
///     let answer = retry(RetryPolicy::new(), || {
///         attempts += 1;
///         let answer = if attempts < 3 { Err("busy") } else { Ok("the answer") };
///         async move { answer }
///     });
///     assert_eq!(answer.await, Ok("the answer"));
///     assert_eq!(attempts, 3);
///     // It has waited twice, for up to 100 and 200 ms.
///     assert!(testing::clock().elapsed() >= Duration::from_millis(150));
/// });
/// ```
///
/// Each attempt may take a second. An attempt that takes longer counts as failed:
/// ```
/// use std::io;
/// use std::time::Duration;
/// use wheelwork::future::{retry, timeout};
/// use wheelwork::{RetryPolicy, testing};
///
/// async fn ask() -> io::Result<u32> {
///     std::future::pending().await
/// }
///
/// testing::block_on(async {
///     let policy = RetryPolicy::new().attempts(2);
///     let answer = retry(policy, || async { timeout(Duration::from_secs(1), ask()).await? });
///     assert_eq!(answer.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
/// });
/// ```
pub fn retry<A, F, T, E>(policy: RetryPolicy, attempt: A) -> impl Future<Output = Result<T, E>>
where
    A: FnMut() -> F,
    F: IntoFuture<Output = Result<T, E>>,
{
    retry_on(Timers::shared(), policy, attempt, |_: &E| true)
}

/// As [`retry`], but only as long as `is_worth` says of the error that a further attempt may help.
/// Otherwise that error is the result at once.
///
/// # Panics
/// As [`retry`].
///
/// # Example
/// ```
/// use std::io;
/// use wheelwork::future::retry_if;
/// use wheelwork::{RetryPolicy, testing};
///
/// testing::block_on(async {
///     let mut attempts = 0;
///     let ask = || {
///         attempts += 1;
///         std::future::ready(Err::<u32, _>(io::Error::from(io::ErrorKind::PermissionDenied)))
///     };
///     let is_worth = |error: &io::Error| error.kind() != io::ErrorKind::PermissionDenied;
///     assert!(retry_if(RetryPolicy::new(), ask, is_worth).await.is_err());
///     assert_eq!(attempts, 1);
/// });
/// ```
pub fn retry_if<A, F, T, E>(
    policy: RetryPolicy,
    attempt: A,
    is_worth: impl FnMut(&E) -> bool,
) -> impl Future<Output = Result<T, E>>
where
    A: FnMut() -> F,
    F: IntoFuture<Output = Result<T, E>>,
{
    retry_on(Timers::shared(), policy, attempt, is_worth)
}

impl Timers {
    /// Runs async code, and again each time that it fails: see [`retry`].
    ///
    /// # Example
    /// See [`retry`].
    pub fn retry<A, F, T, E>(
        &self,
        policy: RetryPolicy,
        attempt: A,
    ) -> impl Future<Output = Result<T, E>> + use<A, F, T, E>
    where
        A: FnMut() -> F,
        F: IntoFuture<Output = Result<T, E>>,
    {
        retry_on(self.home(), policy, attempt, |_: &E| true)
    }

    /// Runs async code, and again each time that it fails with an error that is worth it: see
    /// [`retry_if`].
    ///
    /// # Example
    /// See [`retry_if`].
    pub fn retry_if<A, F, T, E, W>(
        &self,
        policy: RetryPolicy,
        attempt: A,
        is_worth: W,
    ) -> impl Future<Output = Result<T, E>> + use<A, F, T, E, W>
    where
        A: FnMut() -> F,
        F: IntoFuture<Output = Result<T, E>>,
        W: FnMut(&E) -> bool,
    {
        retry_on(self.home(), policy, attempt, is_worth)
    }
}

async fn retry_on<A, F, T, E>(
    home: Home,
    policy: RetryPolicy,
    mut attempt: A,
    mut is_worth: impl FnMut(&E) -> bool,
) -> Result<T, E>
where
    A: FnMut() -> F,
    F: IntoFuture<Output = Result<T, E>>,
{
    let mut attempts = 0_u32;
    loop {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        attempts = attempts.saturating_add(1);
        let wait = policy.wait_after(attempts);
        let Some(wait) = wait.filter(|_| is_worth(&error)) else {
            return Err(error);
        };
        // Before the wait: what it holds may be what the next attempt needs.
        drop(error);
        home.clone().sleep(wait).await;
    }
}
