//! Wait: the protocol of a sleep, apart from clock and service.
//!
//! Ground rules: one thread at a time polls, since a poll borrows the sleep mutably. The alarm goes
//! off on another thread.
//!
//! Poll:
//!
//!  - `PollTake`: the sleep is armed with another waker: take its timer away.
//!  - `PollPending`: the sleep is armed with this waker, and its timer is pending: done. The alarm
//!    goes off after the claim that ends "pending", so it wakes a task that was polled before.
//!  - `PollClock`: there is no timer any more. The alarm has gone off, or somebody else has ended
//!    or moved the timer. The clock tells which: an alarm goes off after its time, so whoever sees
//!    that it has gone off reads no earlier time. If the deadline has passed, the sleep is over.
//!  - `PollArm`: otherwise arm a new timer with the waker of this poll.
//!
//! So the waker that is woken is that of the last poll, or the last poll has seen the time come. No
//! poll is ready before the deadline.
//!
//! Reset:
//!
//!  - `ResetToPast`: the new deadline has passed: take the timer away, and wake its task. If there
//!    is no timer to take, the alarm wakes the task, or somebody else has ended the timer.
//!
//! Otherwise the sleep moves its timer.
//!
//! `cancel_all` wakes the tasks after it has ended their timers, as an alarm does. A `cancel` by id
//! wakes nobody: the sleep arms a new timer when its task is polled for another reason.

use crate::engine::id::TimerId;
use crate::sync::{Fault, broken};
use std::task::{Poll, Waker};

/// A service as one sleep sees it.
pub(crate) trait Alarm {
    /// Whether the deadline has passed.
    fn is_over(&self) -> bool;

    /// Arms a timer with a waker. If there is no room, the waker comes back.
    fn arm(&self, waker: Waker) -> Result<TimerId, Waker>;

    /// Whether a timer has neither gone off nor been ended.
    fn is_pending(&self, id: TimerId) -> bool;

    /// Moves a timer to the deadline. `false`: it is gone.
    fn rearm(&self, id: TimerId) -> bool;

    /// Cancels a timer, and returns its waker. `None`: the timer is gone.
    fn take(&self, id: TimerId) -> Option<Waker>;
}

/// The state of a sleep.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// Not armed.
    Idle,
    /// Armed with this waker.
    Armed(TimerId, WakerName),
    /// The deadline has passed.
    Over,
}

/// Tells two wakers apart without keeping one alive. The waker with which a timer is armed lives as
/// long as the timer is pending.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakerName(usize, usize);

impl WakerName {
    fn of(waker: &Waker) -> Self {
        Self(
            waker.data().addr(),
            std::ptr::from_ref(waker.vtable()).addr(),
        )
    }
}

impl Wait {
    pub(crate) fn poll(&mut self, alarm: &impl Alarm, waker: &Waker) -> Poll<()> {
        let (mut new_waker, mut old_waker) = (None, None);
        if let Self::Armed(id, armed_with) = *self {
            if armed_with != WakerName::of(waker) && !broken(Fault::SleepKeepsWaker) {
                // Cloned before the old waker is taken: if the clone panics, nothing has changed.
                new_waker = Some(waker.clone());
                old_waker = alarm.take(id); // PollTake
            } else if alarm.is_pending(id) {
                return Poll::Pending; // PollPending
            }
            let is_over = old_waker.is_none() && broken(Fault::SleepTakesGoneForOver);
            *self = if is_over { Self::Over } else { Self::Idle };
        }
        let outcome = self.poll_without_timer(alarm, waker, new_waker);
        // The drop comes last: it is the user's code and may panic.
        drop(old_waker);
        outcome
    }

    /// The deadline was moved; with `perhaps_past`, perhaps into the past. A task that waits is
    /// woken at the new deadline, or at once if that has passed.
    pub(crate) fn follow(&mut self, alarm: &impl Alarm, perhaps_past: bool) {
        let Self::Armed(id, _) = *self else {
            *self = Self::Idle;
            return;
        };
        if perhaps_past && alarm.is_over() {
            let waker = alarm.take(id); // ResetToPast
            *self = Self::Over;
            if let Some(waker) = waker.filter(|_| !broken(Fault::SleepMovedInSilence)) {
                waker.wake();
            }
        } else if !alarm.rearm(id) {
            *self = Self::Idle;
        }
    }

    fn poll_without_timer(
        &mut self,
        alarm: &impl Alarm,
        waker: &Waker,
        new_waker: Option<Waker>,
    ) -> Poll<()> {
        if matches!(self, Self::Over) || alarm.is_over() {
            *self = Self::Over; // PollClock
            return Poll::Ready(());
        }
        match alarm.arm(new_waker.unwrap_or_else(|| waker.clone())) {
            Ok(id) => *self = Self::Armed(id, WakerName::of(waker)), // PollArm
            // No room. The task polls again at once.
            Err(waker) => waker.wake(),
        }
        Poll::Pending
    }
}
