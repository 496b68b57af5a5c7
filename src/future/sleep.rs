//! Sleep: a future that waits for its timer.

use super::timers::Home;
use super::waiting::Waiting;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Waits until its deadline; [`sleep`](super::sleep()) makes one.
///
/// It arms its timer when it is polled for the first time, with the waker that it is given, and cancels it when it is dropped. Polled with the same waker again it has one look
/// at the timer; with another one it arms the timer anew. It is ready at the first tick at or after its deadline, never before, and stays so. It allocates nothing, may be moved
/// (it is `Unpin`), and may be polled by any thread, under any runtime.
///
/// It is never ready before its deadline. Its timer is one of those that
/// [`Timers::handle`](super::Timers::handle) sees: if somebody cancels it there, or moves it to an
/// earlier time, the next poll arms a new one.
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
    /// As it was asked for.
    deadline: Instant,
    waiting: Waiting,
}

impl Sleep {
    pub(super) fn new(home: Home, deadline: Instant, at_ns: u64) -> Self {
        Self { deadline, waiting: Waiting::new(home, at_ns) }
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
        self.deadline
    }

    /// Whether its time has come.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.waiting.is_over()
    }

    /// Waits for so long from now on; one whose time had come waits again. The task that was waiting is woken at the new deadline. Costs a
    /// [`reschedule`](crate::TimerHandle::reschedule). Without a delay it is like
    /// [`reset_at`](Self::reset_at) now.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn reset(&mut self, delay: Duration) {
        let home = self.waiting.home();
        if delay.is_zero() {
            return self.reset_at(home.handle().now());
        }
        let (deadline, at_ns) = home.after(delay);
        self.deadline = deadline;
        self.waiting.move_ahead(at_ns);
    }

    /// Waits until this deadline. If that has passed, the task that was waiting is woken at once,
    /// and the next poll is ready. Otherwise like [`reset`](Self::reset).
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
        self.deadline = deadline;
        self.waiting.move_to(self.waiting.home().handle().instant_ns(deadline));
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.get_mut().waiting.poll(context)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).field("is_elapsed", &self.is_elapsed()).finish_non_exhaustive()
    }
}
