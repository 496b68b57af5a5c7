//! Timers: a service whose payloads are wakers, and the reference that each future has to it.

use crate::dispatch::Dispatch;
use crate::engine::life::batch::Batch;
use crate::error::StartError;
use crate::service::{Builder, ServiceHandle, TimerService};
use crate::time::{later, nanos};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// A service for futures. Cloning it costs a reference count. It ends when all clones, and all
/// futures made from them, are gone.
///
/// The shard's own thread wakes the tasks, unless the builder's [`dispatch`](Builder::dispatch) was
/// called: a waker only puts its task into a queue, which takes less time than a hand-over to
/// another thread.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::TimerService;
/// use wheelwork::future::Timers;
///
/// let timers = Timers::start(TimerService::builder().tick(Duration::from_micros(100)))?;
/// # futures_lite::future::block_on(async {
/// timers.sleep(Duration::from_micros(300)).await;
/// # });
/// assert!(timers.handle().is_empty());
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timers(Arc<TimerService<Waker>>);

impl Timers {
    /// Starts a service with these settings.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start(builder: Builder) -> Result<Self, StartError> {
        let wake = |wakers: &mut Batch<'_, Waker>| wakers.for_each(Waker::wake);
        let builder = builder
            .dispatch_unless_set(Dispatch::Inline)
            .on_expire(wake)
            .let_go(Waker::wake);
        Ok(Self(Arc::new(builder.start()?)))
    }

    pub(super) fn home(&self) -> Home {
        Home::Own(self.clone())
    }

    /// The calls of the service: its time, its counters, and timers for wakers of your own.
    ///
    /// These calls see the timers of futures too ([`pending`](ServiceHandle::pending) gives their
    /// ids). A future is never ready before its time, whatever happens to its timer:
    ///
    ///  - [`cancel_all`](ServiceHandle::cancel_all) wakes all tasks, and your own wakers. A future
    ///    whose time has not come arms a new timer when it is polled.
    ///  - [`cancel`](ServiceHandle::cancel) drops the future's waker. A task that nothing else
    ///    wakes then waits for ever.
    ///  - [`take`](ServiceHandle::take) returns the future's waker.
    ///  - A future whose timer [`reschedule`](ServiceHandle::reschedule) moved to a later time may
    ///    wait until then.
    ///  - A future whose timer [`pause`](ServiceHandle::pause) paused waits until the timer is
    ///    resumed.
    #[must_use]
    pub fn handle(&self) -> &ServiceHandle<Waker> {
        &self.0
    }
}

/// The service that has a future's timers. The shared service costs no reference count.
#[derive(Clone, Debug)]
pub(super) enum Home {
    Global(&'static Timers),
    Own(Timers),
}

impl Home {
    pub(super) fn handle(&self) -> &ServiceHandle<Waker> {
        match self {
            Self::Global(timers) => timers.handle(),
            Self::Own(timers) => timers.handle(),
        }
    }

    /// Now + `delay`: as an instant, and by the service's clock. Neither is computed from the
    /// other: a clock that counts suspended time knows an instant only roughly.
    #[inline]
    pub(super) fn after(&self, delay: Duration) -> (Instant, u64) {
        let handle = self.handle();
        let now_ns = if delay.is_zero() {
            // Without a delay it is over at once, not soon.
            handle.now_ns()
        } else {
            handle.soon_ns()
        };
        (
            later(handle.clock().instant_of_now(now_ns), delay),
            now_ns.saturating_add(nanos(delay)),
        )
    }

    /// Whether a time has come.
    pub(super) fn is_over(&self, at_ns: u64) -> bool {
        // Most of the time the cheaper reading shows that it has not.
        self.handle().soon_ns() >= at_ns && self.handle().now_ns() >= at_ns
    }
}
