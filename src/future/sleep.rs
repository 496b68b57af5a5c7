//! Sleep: a future that waits for its timer.

use super::timers::Home;
use super::wait::{Alarm, Wait};
use crate::error::ScheduleError;
use crate::service::TimerId;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Waits until its deadline; [`sleep`](super::sleep()) makes one.
///
/// It arms its timer when it is polled for the first time, with the waker that it is given, and cancels it when it is dropped. Polled with the same waker again it has one look
/// at the timer; with another one it arms the timer anew. It is ready at the first tick at or after its deadline, never before, and stays so. It allocates nothing, may be moved
/// (it is `Unpin`), and may be polled by any thread, under any runtime.
///
/// It is never ready before its deadline. Its timer is one of those that [`Timers::handle`](super::Timers::handle) sees:
/// if somebody cancels it there, or moves it to an earlier time, the next poll arms a new one.
///
/// As long as a service of your own has as many timers as it may, its sleeps ask to be polled again at once.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::future::sleep;
///
/// # futures_lite::future::block_on(async {
/// let mut idle = sleep(Duration::from_secs(60));
/// // Something came in:
/// idle.reset(Duration::from_millis(2));
/// (&mut idle).await;
/// assert!(idle.is_elapsed());
/// # });
/// ```
#[must_use = "a future does nothing until it is polled"]
pub struct Sleep {
    due: Due,
    wait: Wait,
}

/// When, and by whose clock.
struct Due {
    home: Home,
    /// As it was asked for.
    deadline: Instant,
    /// The same by the service's clock, which decides.
    at_ns: u64,
}

impl Due {
    fn move_to(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.at_ns = self.home.handle().instant_ns(deadline);
    }
}

impl Alarm for Due {
    fn is_over(&self) -> bool {
        self.home.handle().is_over(self.at_ns)
    }

    fn arm(&self, waker: Waker) -> Result<TimerId, Waker> {
        self.home.handle().schedule_at_ns(self.at_ns, waker).map_err(ScheduleError::into_payload)
    }

    fn is_pending(&self, id: TimerId) -> bool {
        self.home.handle().is_pending(id)
    }

    fn take(&self, id: TimerId) -> Option<Waker> {
        self.home.handle().take(id)
    }
}

impl Sleep {
    pub(super) fn new(home: Home, deadline: Instant) -> Self {
        let at_ns = home.handle().instant_ns(deadline);
        Self { due: Due { home, deadline, at_ns }, wait: Wait::Idle }
    }

    /// Its deadline, as it was asked for.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    /// let at = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(wheelwork::future::sleep_until(at).deadline(), at);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.due.deadline
    }

    /// Whether its time has come.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match self.wait {
            Wait::Armed(id, _) if self.due.is_pending(id) => false,
            Wait::Idle | Wait::Armed(..) => self.due.is_over(),
            Wait::Over => true,
        }
    }

    /// Waits for so long from now on; one whose time had come waits again. The task that was waiting is woken at the new deadline. Costs a
    /// [`reschedule`](crate::TimerHandle::reschedule).
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn reset(&mut self, delay: Duration) {
        let deadline = self.due.home.deadline(delay);
        self.reset_at(deadline);
    }

    /// Waits until this deadline. Otherwise like [`reset`](Self::reset).
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// # futures_lite::future::block_on(async {
    /// let mut sleep = wheelwork::future::sleep(Duration::MAX);
    /// sleep.reset_at(Instant::now());
    /// sleep.await;
    /// # });
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.due.move_to(deadline);
        match self.wait {
            Wait::Armed(id, _) if self.due.home.handle().reschedule_at_ns(id, self.due.at_ns) => {}
            _ => self.wait = Wait::Idle,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { due, wait } = self.get_mut();
        wait.poll(due, context.waker())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Wait::Armed(id, _) = self.wait {
            self.due.home.handle().cancel(id);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.due.deadline).field("is_elapsed", &self.is_elapsed()).finish_non_exhaustive()
    }
}
