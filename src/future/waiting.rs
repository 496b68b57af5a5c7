//! Waiting: what sleeps, intervals and queues share: a time by the service's clock, and a timer
//! that wakes the task.

use super::timers::Home;
use super::wait::{Alarm, Wait};
use crate::engine::id::TimerId;
use crate::error::ScheduleError;
use crate::time::Nanos;
use std::fmt;
use std::num::NonZeroU64;
use std::task::{Context, Poll, Waker};

/// Waits until a time. Its drop cancels its timer.
pub(super) struct Waiting {
    due: Due,
    wait: Wait,
}

/// When, and by whose clock.
struct Due {
    home: Home,
    /// At most the start of the last tick.
    at_ns: u64,
    /// One more than what is left, if it is paused. It then waits for nothing.
    left: Option<NonZeroU64>,
}

impl Due {
    fn left_ns(&self) -> Option<u64> {
        self.left.map(|left| left.get() - 1)
    }

    fn set(&mut self, at_ns: u64) {
        let ticks = self.home.handle().ticks();
        self.at_ns = at_ns.min(ticks.start(ticks.deadline(Nanos(at_ns))).0);
    }
}

impl Alarm for Due {
    fn is_over(&self) -> bool {
        self.left.is_none() && self.home.is_over(self.at_ns)
    }

    fn arm(&self, waker: Waker) -> Result<TimerId, Waker> {
        let handle = self.home.handle();
        let armed = match self.left_ns() {
            None => handle.schedule_at_ns(self.at_ns, waker),
            Some(left_ns) => handle.schedule_paused(left_ns, waker),
        };
        armed.map_err(ScheduleError::into_payload)
    }

    fn is_pending(&self, id: TimerId) -> bool {
        self.home.handle().is_pending(id)
    }

    fn rearm(&self, id: TimerId) -> bool {
        self.home.handle().reschedule_at_ns(id, self.at_ns)
    }

    fn take(&self, id: TimerId) -> Option<Waker> {
        self.home.handle().take(id)
    }
}

impl Waiting {
    pub(super) fn new(home: Home, at_ns: u64) -> Self {
        let mut due = Due {
            home,
            at_ns,
            left: None,
        };
        due.set(at_ns);
        Self {
            due,
            wait: Wait::Idle,
        }
    }

    pub(super) fn home(&self) -> &Home {
        &self.due.home
    }

    /// The timer that it is armed with.
    pub(super) fn timer(&self) -> Option<TimerId> {
        match self.wait {
            Wait::Armed(id, _) => Some(id),
            Wait::Idle | Wait::Over => None,
        }
    }

    /// The time until which it waits.
    pub(super) fn at_ns(&self) -> u64 {
        self.due.at_ns
    }

    pub(super) fn is_over(&self) -> bool {
        match self.wait {
            Wait::Armed(id, _) if self.due.is_pending(id) => false,
            Wait::Idle | Wait::Armed(..) => self.due.is_over(),
            Wait::Over => true,
        }
    }

    /// Waits until another time. A task that waits is woken then, or at once if that time has
    /// passed.
    pub(super) fn move_to(&mut self, at_ns: u64) {
        self.due.set(at_ns);
        if self.is_paused() {
            return self.set_left();
        }
        self.wait.follow(&self.due, true);
    }

    /// As [`move_to`](Self::move_to), for a time that is known to lie in the future. Saves a
    /// reading of the clock.
    pub(super) fn move_ahead(&mut self, at_ns: u64) {
        self.due.set(at_ns);
        if self.is_paused() {
            return self.set_left();
        }
        self.wait.follow(&self.due, false);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.due.left.is_some()
    }

    /// Waits no more until it is resumed, even if its time has come. What is left is counted from
    /// `now_ns`. `false`: it is paused already.
    pub(super) fn pause(&mut self, now_ns: u64) -> bool {
        if self.is_paused() {
            return false;
        }
        self.leave_from(now_ns);
        match self.wait {
            // Its timer may go off just now. Then its task is woken, and arms another one.
            Wait::Armed(id, _) => _ = self.due.home.handle().pause(id),
            Wait::Idle | Wait::Over => self.wait = Wait::Idle,
        }
        true
    }

    /// Waits for what was left. Returns the time from which that is counted. `None`: it is not
    /// paused.
    pub(super) fn resume(&mut self) -> Option<u64> {
        let left_ns = self.due.left_ns()?;
        self.due.left = None;
        let now_ns = self.due.home.handle().soon_ns();
        self.due.set(now_ns.saturating_add(left_ns));
        let is_resumed = match self.wait {
            Wait::Armed(id, _) => self.due.home.handle().resume_at_ns(id, self.due.at_ns),
            Wait::Idle | Wait::Over => true,
        };
        if !is_resumed || self.due.is_over() {
            // Nothing was left; or somebody else has ended its timer, or resumed it.
            self.wait.follow(&self.due, true);
        }
        Some(now_ns)
    }

    /// What is left from now on.
    fn set_left(&mut self) {
        self.leave_from(self.due.home.handle().now_ns());
    }

    /// Sets what is left, from `now_ns` on, of one that is paused.
    pub(super) fn leave_from(&mut self, now_ns: u64) {
        let left_ns = self.due.at_ns.saturating_sub(now_ns);
        self.due.left = Some(NonZeroU64::MIN.saturating_add(left_ns));
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.wait.poll(&self.due, context.waker())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Wait::Armed(id, _) = self.wait {
            self.due.home.handle().cancel(id);
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("is_over", &self.is_over())
            .finish_non_exhaustive()
    }
}
