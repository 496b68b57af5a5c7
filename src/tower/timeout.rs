//! Timeout: a limit for each call of a service.

use crate::future::{Elapsed, Timeout, Timers};
use pin_project_lite::pin_project;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// As in `tower`, so that its layers compose with this one.
type BoxError = Box<dyn Error + Send + Sync>;

/// Limits the time of each call of a service, as a layer: see [`TimeoutService`].
///
/// # Example
/// See the [module](super)'s.
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    limit: Duration,
    timers: Option<Timers>,
}

impl TimeoutLayer {
    /// Limits calls to this time, with the shared service of [`future`](crate::future), or with the
    /// one that the thread has entered.
    ///
    /// # Example
    /// See the [module](super)'s.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            timers: None,
        }
    }

    /// The same, with a service for timers of your own.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::tower::TimeoutLayer;
    /// use wheelwork::{ManualClock, TimerService, future::Timers};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Timers::start(TimerService::builder().clock(clock.clone()))?;
    /// let layer = TimeoutLayer::on(&timers, Duration::from_secs(30));
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    #[must_use]
    pub fn on(timers: &Timers, limit: Duration) -> Self {
        Self {
            limit,
            timers: Some(timers.clone()),
        }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = TimeoutService<S>;

    fn layer(&self, inner: S) -> TimeoutService<S> {
        TimeoutService {
            inner,
            layer: self.clone(),
        }
    }
}

/// Limits the time of each call of a service. [`TimeoutLayer`] makes one.
///
/// The time begins with the call and ends when its future is ready: with a response of HTTP when
/// the head of the response is there. The body may follow for as long as it likes. A call whose
/// time is over is dropped, and gives the error [`Elapsed`], boxed. Errors of the service itself
/// are boxed too, as those of `tower`'s own `Timeout` are. A framework may want a response in place
/// of an error: [the guide](crate::guide::futures#services-of-tower) has what axum wants, and
/// [what tonic wants](crate::guide::frameworks#a-server-of-tonic).
///
/// # Panics
/// A call panics as [`sleep`](crate::future::sleep()) does, unless the layer has
/// [`on`](TimeoutLayer::on).
///
/// # Example
/// See the [module](super)'s.
#[derive(Clone, Debug)]
pub struct TimeoutService<S> {
    inner: S,
    layer: TimeoutLayer,
}

impl<S, R> Service<R> for TimeoutService<S>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = TimeoutCall<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> TimeoutCall<S::Future> {
        let limit = self.layer.limit;
        let call = self.inner.call(request);
        let timeout = match &self.layer.timers {
            Some(timers) => timers.timeout(limit, call),
            None => crate::future::timeout(limit, call),
        };
        TimeoutCall { timeout }
    }
}

pin_project! {
    /// A call of a [`TimeoutService`]: gives its response, or an error if the time is over.
    ///
    /// # Example
    /// See the [module](super)'s.
    #[must_use = "a future does nothing until it is polled"]
    #[derive(Debug)]
    pub struct TimeoutCall<F> {
        #[pin]
        timeout: Timeout<F>,
    }
}

impl<F, T, E> Future for TimeoutCall<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().timeout.poll(context)) {
            Ok(response) => response.map_err(Into::into),
            Err(Elapsed) => Err(Elapsed.into()),
        })
    }
}
