//! Sleep: a future that waits for its timer.

use super::timers::Home;
use super::waiting::Waiting;
use crate::time::{later, nanos};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Waits until its deadline. [`sleep`](super::sleep()) makes one.
///
/// It is ready at the first tick at or after its deadline, never before, and stays ready. (Where
/// more timers fire than the budget of wake-ups allows, its task is woken at the next full
/// millisecond: [`max_wakeups_per_s`](crate::Builder::max_wakeups_per_s).) Its first poll arms a
/// timer with the waker that it gets; its drop cancels the timer. A further poll with the same
/// waker reads the timer's state. A poll with another waker arms a new timer.
///
/// It allocates nothing of its own: its first poll is a
/// [`schedule`](crate::ServiceHandle::schedule), and may allocate as that does. It may be moved (it
/// is `Unpin`), and may be polled on any thread, under any runtime.
///
/// [`Timers::handle`](super::Timers::handle) gives access to this timer, too. If the timer is
/// cancelled there, or moved to an earlier time, the next poll arms a new one.
///
/// A service of your own may be full ([`max_pending`](crate::Builder::max_pending)). As long as it
/// is, a sleep asks to be polled again at once.
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
    /// As the caller gave it: not rounded.
    deadline: Instant,
    waiting: Waiting,
}

impl Sleep {
    pub(super) fn new(home: Home, deadline: Instant, at_ns: u64) -> Self {
        Self {
            deadline,
            waiting: Waiting::new(home, at_ns),
        }
    }

    /// Its deadline, as the caller gave it. After a [pause](Self::pause) it is later by the time of
    /// the pause; while the sleep is paused, it is the one that it had.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let at = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(wheelwork::future::sleep_until(at).deadline(), at);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether its deadline has passed, and its timer, if it has one, has fired.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.waiting.is_over()
    }

    /// Moves the deadline to now + `delay`. A sleep that was ready waits again. If a task waits, it
    /// is woken at the new deadline. A delay of zero acts as [`reset_at`](Self::reset_at) now.
    ///
    /// Costs a [`reschedule`](crate::ServiceHandle::reschedule).
    pub fn reset(&mut self, delay: Duration) {
        let home = self.waiting.home();
        if delay.is_zero() {
            return self.reset_at(home.handle().now());
        }
        let (deadline, at_ns) = home.after(delay);
        self.deadline = deadline;
        self.waiting.move_ahead(at_ns);
        if self.waiting.is_paused() {
            // All of the delay is left.
            self.waiting.leave_from(at_ns.saturating_sub(nanos(delay)));
        }
    }

    /// Pauses it: it is not ready until [`resume`](Self::resume), which goes on with the time that
    /// is left now. Returns `false` if it is paused already, or [is elapsed](Self::is_elapsed).
    ///
    /// [`reset`](Self::reset) and [`reset_at`](Self::reset_at) of a paused sleep set what is left,
    /// and it stays paused. Costs a [pause](crate::ServiceHandle::pause) of its timer.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::future::Timers;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Timers::start(TimerService::builder().clock(clock.clone()))?;
    /// let mut turn = timers.sleep(Duration::from_secs(10));
    /// clock.advance(Duration::from_secs(4));
    /// assert!(turn.pause());
    /// clock.advance(Duration::from_secs(3_600));
    /// assert!(turn.resume());
    /// clock.advance(Duration::from_secs(5));
    /// assert!(!turn.is_elapsed());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(turn.is_elapsed());
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn pause(&mut self) -> bool {
        !self.is_elapsed() && {
            let now_ns = self.waiting.home().handle().now_ns();
            self.waiting.pause(now_ns)
        }
    }

    /// Goes on after a [`pause`](Self::pause). A task that waits is woken when what was left has
    /// passed. Returns `false` if it is not paused.
    ///
    /// # Example
    /// See [`pause`](Self::pause).
    pub fn resume(&mut self) -> bool {
        let before_ns = self.waiting.at_ns();
        let is_resumed = self.waiting.resume().is_some();
        if is_resumed {
            let moved_ns = self.waiting.at_ns().saturating_sub(before_ns);
            self.deadline = later(self.deadline, Duration::from_nanos(moved_ns));
        }
        is_resumed
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.waiting.is_paused()
    }

    /// Moves the deadline to a point in time. If that has passed, a task that waits is woken at
    /// once, and the next poll is ready. Otherwise like [`reset`](Self::reset).
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
        self.waiting
            .move_to(self.waiting.home().handle().instant_ns(deadline));
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
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
