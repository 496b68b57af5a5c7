//! Timers of quinn: [`Runtime`] takes the timers of QUIC from wheelwork, and sockets and tasks from
//! another runtime.
//!
//! A connection of QUIC moves its timer with nearly every packet, and seldom lets it fire. Here a
//! move is [`Sleep::reset_at`]. It sends a message to another thread only if the new time is
//! earlier, or the timer has been moved on by more than 262,143 ticks.

use crate::future::{Sleep, Timers};
use quinn::{AsyncTimer, AsyncUdpSocket};
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// A timer of quinn, with the feature `quinn`.
impl AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, context)
    }
}

/// A runtime for quinn whose timers and whose time are those of wheelwork. Sockets and tasks are
/// those of the runtime `R`, such as quinn's `TokioRuntime` or `SmolRuntime`.
///
/// Give it to `quinn::Endpoint::new` in an `Arc`.
///
/// # Example
/// ```
/// use quinn::{Endpoint, EndpointConfig, TokioRuntime};
/// use std::net::UdpSocket;
/// use std::sync::Arc;
/// use wheelwork::{future::Timers, quinn::Runtime};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let runtime = Runtime::new(&Timers::current(), TokioRuntime);
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(runtime))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Runtime<R> {
    timers: Timers,
    inner: R,
}

impl<R> Runtime<R> {
    /// Takes timers from `timers`, and all else from `inner`.
    pub fn new(timers: &Timers, inner: R) -> Self {
        Self {
            timers: timers.clone(),
            inner,
        }
    }
}

impl<R: quinn::Runtime> quinn::Runtime for Runtime<R> {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(self.timers.sleep_until(deadline))
    }

    #[track_caller]
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(task);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.inner.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.timers.handle().now()
    }
}
