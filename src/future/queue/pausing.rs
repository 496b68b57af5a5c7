//! Pausing: calls that pause a value and let it go on.

use super::expired::Deadline;
use super::key::Key;
use super::{DelayQueue, PAUSED, TICK_MAX};
use std::time::Duration;

impl<T> DelayQueue<T> {
    /// Pauses a value: it does not come until [`resume`](Self::resume), which goes on with the time
    /// that is left now. Returns `false` if the value is paused already, or gone. O(1).
    ///
    /// [`reset`](Self::reset) and [`reset_at`](Self::reset_at) of a paused value set what is left,
    /// and it stays paused.
    ///
    /// # Example
    /// ```
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    /// use wheelwork::future::Timers;
    /// use wheelwork::{ManualClock, TimerService};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Timers::start(TimerService::builder().clock(clock.clone()))?;
    /// let mut jobs = timers.delay_queue();
    /// let mut context = Context::from_waker(Waker::noop());
    /// let key = jobs.insert("a job", Duration::from_secs(10));
    /// clock.advance(Duration::from_secs(4));
    /// assert!(jobs.pause(key));
    /// clock.advance(Duration::from_secs(3_600));
    /// assert!(jobs.poll_expired(&mut context).is_pending());
    /// assert!(jobs.resume(key));
    /// clock.advance(Duration::from_secs(6));
    /// assert!(jobs.poll_expired(&mut context).is_ready());
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn pause(&mut self, key: Key) -> bool {
        let Some(deadline) = self.deadline(key) else {
            return false;
        };
        let left = deadline.saturating_duration_since(self.home.handle().now());
        let handle = self
            .handle(key)
            .filter(|&handle| self.wheel.reschedule(handle, PAUSED));
        let Some(queued) = handle.and_then(|handle| self.wheel.get_mut(handle)) else {
            return false;
        };
        queued.deadline = Deadline::of_left(left);
        true
    }

    /// Lets a value go on that is paused: it comes when what was left has passed. Returns `false`
    /// if it is not paused, or gone. O(1).
    ///
    /// # Example
    /// See [`pause`](Self::pause).
    pub fn resume(&mut self, key: Key) -> bool {
        let Some(handle) = self.handle(key).filter(|_| self.is_paused(key)) else {
            return false;
        };
        let Some(left) = self
            .wheel
            .get(handle)
            .map(|queued| queued.deadline.as_left())
        else {
            return false;
        };
        let (deadline, tick) = self.after(left);
        self.wheel.reschedule(handle, tick.min(TICK_MAX));
        if let Some(queued) = self.wheel.get_mut(handle) {
            queued.deadline = deadline;
        }
        self.hurry();
        true
    }

    /// Whether a value is paused. `false` if it is gone, too.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut queue = wheelwork::future::DelayQueue::new();
    /// let key = queue.insert('a', Duration::from_secs(10));
    /// queue.pause(key);
    /// assert!(queue.is_paused(key) && queue.len() == 1);
    /// ```
    #[must_use]
    pub fn is_paused(&self, key: Key) -> bool {
        let tick = self
            .handle(key)
            .and_then(|handle| self.wheel.deadline(handle));
        tick == Some(PAUSED)
    }

    /// Sets what is left of a paused value.
    pub(super) fn set_left(&mut self, key: Key, left: Duration) -> bool {
        let queued = self
            .handle(key)
            .and_then(|handle| self.wheel.get_mut(handle));
        queued.is_some_and(|queued| {
            queued.deadline = Deadline::of_left(left);
            true
        })
    }
}
