//! Idle: tells when a service has had nothing to do for some time.
//!
//! Owned by the service, its clones and its calls, on any thread; one task waits. A lock guards
//! what they share, and it is held for a few instructions: count a call, note a time.
//!
//! A call arms no timer. The task's timer fires at the end of a time in which nobody had called, as
//! far as was known when it was armed. Then the task looks: if calls are in flight, the last one
//! wakes it at its end. If the last call ended meanwhile, the timer is moved on.

use crate::future::{Sleep, Timers};
use crate::time::later;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tower_service::Service;

/// What calls leave for the task that waits.
#[derive(Debug)]
struct Calls {
    in_flight: usize,
    /// When the last call ended.
    ended: Instant,
    /// Of the task, while it waits for the end of the last call.
    waker: Option<Waker>,
}

/// What a service, its calls and the task that waits have in common.
#[derive(Debug)]
struct IdleWatch {
    timers: Timers,
    calls: Mutex<Calls>,
}

impl IdleWatch {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.timers.handle().now()
    }
}

/// Passes calls on to a service, and tells an [`Idle`] of them: for the connections of a server, to
/// close those on which nothing happens.
///
/// A service is idle while no call is in flight: from the beginning, or from the end of the last
/// call, to the next one. A call is in flight until its future is ready or dropped. With HTTP/2
/// several are at a time, and the service is idle when none is. Clones count as one service.
///
/// The future of a call is ready with the head of a response. Where bodies take long, as downloads
/// and the streams of gRPC do, let each body keep the service [busy](Self::keep_busy) to its end.
///
/// Calls are let through, idle or not. So a request that comes at the moment in which the time is
/// over is answered, if the connection is then closed gracefully: hyper's `graceful_shutdown` lets
/// calls in flight end, with their bodies. With HTTP/1 it drops a head of which only a part has
/// come, unless it is the first one of its connection. It waits for the rest of the first one, and
/// for clients that do not read. [`Graceful`](super::Graceful) limits that wait.
/// [The guide](crate::guide::futures#services-of-tower) shows both with hyper.
///
/// Cost: a lock of the connection's own, twice a call, and one reading of the clock.
///
/// # Example
/// A connection that closes after a minute without requests:
/// ```
/// use std::time::Duration;
/// use tower_service::Service;
/// use wheelwork::testing;
/// use wheelwork::tower::IdleService;
/// # #[derive(Clone)]
/// # struct Echo;
/// # impl Service<u32> for Echo {
/// #     type Response = u32;
/// #     type Error = std::convert::Infallible;
/// #     type Future = std::future::Ready<Result<u32, Self::Error>>;
/// #     fn poll_ready(
/// #         &mut self,
/// #         _: &mut std::task::Context<'_>,
/// #     ) -> std::task::Poll<Result<(), Self::Error>> {
/// #         std::task::Poll::Ready(Ok(()))
/// #     }
/// #     fn call(&mut self, request: u32) -> Self::Future {
/// #         std::future::ready(Ok(request))
/// #     }
/// # }
///
/// testing::block_on(async {
///     let (mut service, idle) = IdleService::new(Echo, Duration::from_secs(60));
///     let requests = testing::spawn(async move {
///         for request in 0..10 {
///             wheelwork::future::sleep(Duration::from_secs(59)).await;
///             assert_eq!(service.call(request).await, Ok(request));
///         }
///     });
///     idle.await;
///     assert!(requests.is_finished());
///     assert_eq!(testing::clock().elapsed(), Duration::from_secs(10 * 59 + 60));
/// });
/// ```
#[derive(Clone, Debug)]
pub struct IdleService<S> {
    inner: S,
    watch: Arc<IdleWatch>,
}

impl<S> IdleService<S> {
    /// Passes calls on to `inner`. The future is ready when the service has been idle for `limit`.
    /// The time is that of the shared service of [`future`](crate::future), or of the one that the
    /// thread has entered.
    ///
    /// # Panics
    /// As [`sleep`](crate::future::sleep()).
    pub fn new(inner: S, limit: Duration) -> (Self, Idle) {
        Self::on(&Timers::current(), inner, limit)
    }

    /// The same, with a service for timers of your own.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::tower::IdleService;
    /// use wheelwork::{ManualClock, TimerService, future::Timers};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Timers::start(TimerService::builder().clock(clock.clone()))?;
    /// let (_service, idle) = IdleService::on(&timers, "any service", Duration::from_secs(60));
    /// clock.advance(Duration::from_secs(60));
    /// futures_lite::future::block_on(idle);
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn on(timers: &Timers, inner: S, limit: Duration) -> (Self, Idle) {
        let begun = timers.handle().now();
        let watch = Arc::new(IdleWatch {
            timers: timers.clone(),
            calls: Mutex::new(Calls {
                in_flight: 0,
                ended: begun,
                waker: None,
            }),
        });
        let idle = Idle {
            sleep: timers.sleep_until(later(begun, limit)),
            limit,
            watch: watch.clone(),
        };
        (Self { inner, watch }, idle)
    }

    /// Keeps the service from being idle until the [`Busy`] is dropped, as a call in flight does.
    /// Put it into the body of a response, and the service is idle only when the body has ended, or
    /// was dropped. hyper drops a body when it has taken its last piece, which may still be on its
    /// way then.
    ///
    /// Cost: that of a call.
    ///
    /// # Example
    /// ```
    /// use http_body_util::{BodyExt, Full};
    /// use hyper::Response;
    /// use hyper::body::{Body, Bytes};
    /// use std::time::Duration;
    /// use wheelwork::tower::IdleService;
    ///
    /// /// A response whose connection is busy until the body has ended, or is dropped.
    /// fn busy<B: Body>(calls: &IdleService<&str>, response: Response<B>) -> Response<impl Body> {
    ///     let busy = calls.keep_busy();
    ///     response.map(|body| {
    ///         body.map_frame(move |frame| {
    ///             let _ = &busy; // belongs to the body from now on
    ///             frame
    ///         })
    ///     })
    /// }
    ///
    /// let (service, _idle) = IdleService::new("any service", Duration::from_secs(60));
    /// let response = busy(&service, Response::new(Full::new(Bytes::from("a long body"))));
    /// # drop(response);
    /// ```
    #[must_use = "the service is busy only as long as this lives"]
    pub fn keep_busy(&self) -> Busy {
        Busy::begin(&self.watch)
    }
}

impl<S: Service<R>, R> Service<R> for IdleService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = IdleCall<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> IdleCall<S::Future> {
        // Before the call, which may panic.
        let busy = Busy::begin(&self.watch);
        IdleCall {
            call: self.inner.call(request),
            busy: Some(busy),
        }
    }
}

/// While it lives, its [`IdleService`] is not idle. It counts as a call in flight.
///
/// # Example
/// See [`IdleService::keep_busy`].
#[must_use = "the service is busy only as long as this lives"]
#[derive(Debug)]
pub struct Busy(Arc<IdleWatch>);

impl Busy {
    fn begin(watch: &Arc<IdleWatch>) -> Self {
        watch.calls().in_flight += 1;
        Self(watch.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let now = self.0.now();
        let mut calls = self.0.calls();
        calls.in_flight -= 1;
        // Of two threads that end a call the later one may have read the clock first.
        calls.ended = calls.ended.max(now);
        let waker = if calls.in_flight == 0 {
            calls.waker.take()
        } else {
            None
        };
        drop(calls);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

pin_project! {
    /// A call of an [`IdleService`]: gives what the inner service gives.
    ///
    /// # Example
    /// See [`IdleService`].
    #[must_use = "a future does nothing until it is polled"]
    #[derive(Debug)]
    pub struct IdleCall<F> {
        #[pin]
        call: F,
        busy: Option<Busy>,
    }
}

impl<F: Future> Future for IdleCall<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let output = ready!(this.call.poll(context));
        drop(this.busy.take());
        Poll::Ready(output)
    }
}

/// Is ready when its service has been idle for some time. [`IdleService::new`] makes one.
///
/// It does not keep the service alive. If the service is dropped, the time runs on.
///
/// # Example
/// See [`IdleService`].
#[must_use = "a future does nothing until it is polled"]
#[derive(Debug)]
pub struct Idle {
    sleep: Sleep,
    limit: Duration,
    watch: Arc<IdleWatch>,
}

impl Idle {
    /// When the time is over, as far as is known. `None`: calls are in flight, and the last one
    /// wakes the task.
    fn look(&self, waker: &Waker) -> Option<Instant> {
        // The user's code, so not under the lock: the clone here, and the drop at the end.
        let mut waker = Some(waker.clone());
        let mut calls = self.watch.calls();
        if calls.in_flight == 0 {
            return Some(later(calls.ended, self.limit));
        }
        std::mem::swap(&mut calls.waker, &mut waker);
        drop(calls);
        None
    }
}

impl Future for Idle {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(Pin::new(&mut self.sleep).poll(context));
            match self.look(context.waker()) {
                None => return Poll::Pending,
                Some(over) if over > self.sleep.deadline() => self.sleep.reset_at(over),
                Some(_) => return Poll::Ready(()),
            }
        }
    }
}
