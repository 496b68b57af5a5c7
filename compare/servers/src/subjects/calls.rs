//! Calls: since when a connection has none, for a limit of idle time on a timer of tokio.
//!
//! A call moves no timer. The connection's timer fires when the connection could be idle for long
//! enough; then its task asks when that is, and moves the timer. `wheelwork::tower::IdleService`
//! does so too.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::Service;

struct Calls {
    in_flight: usize,
    /// When the last one ended.
    ended: Instant,
}

/// Of one connection.
#[derive(Clone)]
pub(super) struct SharedCalls(Arc<Mutex<Calls>>);

impl SharedCalls {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Calls {
            in_flight: 0,
            ended: Instant::now(),
        })))
    }

    fn change<R>(&self, change: impl FnOnce(&mut Calls) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// When the connection has been idle for that long, as far as is known.
    pub(super) fn idle_at(&self, limit: Duration) -> Instant {
        self.change(|calls| match calls.in_flight {
            0 => calls.ended + limit,
            _ => Instant::now() + limit,
        })
    }
}

/// Counts the calls of a service.
#[derive(Clone)]
pub(super) struct CountCalls<S> {
    inner: S,
    calls: SharedCalls,
}

impl<S> CountCalls<S> {
    pub(super) fn new(inner: S) -> (Self, SharedCalls) {
        let calls = SharedCalls::new();
        let counted = Self {
            inner,
            calls: calls.clone(),
        };
        (counted, calls)
    }
}

impl<S: Service<R>, R> Service<R> for CountCalls<S>
where
    S::Future: Unpin,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Call<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Call<S::Future> {
        self.calls.change(|calls| calls.in_flight += 1);
        Call {
            calls: self.calls.clone(),
            future: self.inner.call(request),
        }
    }
}

/// Has ended when it is dropped, which hyper does as soon as it is ready.
pub(super) struct Call<F> {
    future: F,
    calls: SharedCalls,
}

impl<F> Drop for Call<F> {
    fn drop(&mut self) {
        let now = Instant::now();
        self.calls.change(|calls| {
            calls.in_flight -= 1;
            calls.ended = now;
        });
    }
}

impl<F: Future + Unpin> Future for Call<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.future).poll(context)
    }
}
