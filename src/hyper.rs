//! Timers of hyper: its traits, for the futures of this crate.
//!
//! hyper moves the limits of its keep-alive by `Timer::reset`. Here that moves the timer that there
//! is. The trait's own way makes a new sleep.

use crate::future::{Sleep, Timers};
use hyper::rt;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A timer of hyper. hyper boxes each sleep; this is its only allocation.
impl rt::Sleep for Sleep {}

/// Timers for hyper and hyper-util, with the feature `hyper`: give a clone to `timer` or
/// `pool_timer` of their builders. From then on the time-outs of these builders run on this
/// service, and by its clock.
///
/// Cost: a `reset` is [`Sleep::reset_at`]. It sends a message to another thread only if the new
/// time is earlier, or the timer has been moved on by more than 262,143 ticks.
///
/// # Example
/// A server's limits for the head of a request, and for the answers of an HTTP/2 client to pings;
/// and a client whose pool closes idle connections:
/// ```
/// use http_body_util::Empty;
/// use hyper::body::Bytes;
/// use hyper::server::conn::{http1, http2};
/// use hyper_util::client::legacy::{Client, connect::HttpConnector};
/// use hyper_util::rt::TokioExecutor;
/// use std::time::Duration;
/// use wheelwork::future::Timers;
///
/// let timers = Timers::current();
/// let mut server = http1::Builder::new();
/// server.timer(timers.clone()).header_read_timeout(Duration::from_secs(10));
/// let mut server = http2::Builder::new(TokioExecutor::new());
/// server.timer(timers.clone());
/// server.keep_alive_interval(Duration::from_secs(60)).keep_alive_timeout(Duration::from_secs(10));
/// let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new())
///     .timer(timers.clone())
///     .pool_timer(timers)
///     .pool_idle_timeout(Duration::from_secs(60))
///     .build_http();
/// ```
impl rt::Timer for Timers {
    fn sleep(&self, delay: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.sleep(delay))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.sleep_until(deadline))
    }

    fn now(&self) -> Instant {
        self.handle().now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(sleep) => sleep.get_mut().reset_at(deadline),
            // Another library's.
            None => *sleep = rt::Timer::sleep_until(self, deadline),
        }
    }
}
