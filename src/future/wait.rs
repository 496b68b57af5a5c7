//! Wait: what a sleep does when it is polled, apart from time and service.
//!
//! Ground rules: one thread at a time polls (the sleep is borrowed mutably); the alarm goes off on another one.
//!
//! A sleep is armed with the waker of the poll that found it idle (P1). When it is polled again with this waker it looks whether its timer is pending (P2): if it is, the alarm, which goes off after the claim
//! that ends that, wakes a task that has been polled since. Polled with another waker it takes the
//! timer away (P3).
//!
//! If there is no timer any more, the alarm has gone off, or somebody else has ended or moved the
//! timer. The clock tells which (P4): an alarm goes off after its time, so whoever sees that it has
//! reads no earlier time. Before the deadline the sleep arms a new timer (P1). So the waker that is
//! woken is that of the last poll, or that poll has seen the time come; and no poll is ready before
//! its time.
//!
//! Who ends the timers of all wakes their tasks after that, as an alarm does. Who ends one by its id
//! wakes nobody: such a sleep arms anew when its task is polled for another reason.
//!
//! A sleep that is moved takes its timer along. If the new deadline has passed, it takes the timer
//! away and wakes the task itself (P5). If there is none to take, the alarm wakes the task, or it
//! was ended.

use crate::service::TimerId;
use crate::sync::{Fault, broken};
use std::task::{Poll, Waker};

/// A service as one sleep sees it.
pub(crate) trait Alarm {
    /// Whether the deadline has passed.
    fn is_over(&self) -> bool;

    /// Arms a timer with a waker; which comes back if there is no room.
    fn arm(&self, waker: Waker) -> Result<TimerId, Waker>;

    /// Whether a timer has neither gone off nor been ended.
    fn is_pending(&self, id: TimerId) -> bool;

    /// Moves a timer to the deadline. `false`: it is gone.
    fn rearm(&self, id: TimerId) -> bool;

    /// Cancels a timer, and gives its waker back; `None`: it is gone.
    fn take(&self, id: TimerId) -> Option<Waker>;
}

/// How far a sleep is.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// Not armed.
    Idle,
    /// Armed with this waker.
    Armed(TimerId, WakerName),
    /// The time has come.
    Over,
}

/// What tells a waker from another one, without keeping it alive: the armed one is alive as long as its timer is pending.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakerName(usize, usize);

impl WakerName {
    fn of(waker: &Waker) -> Self {
        Self(waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
    }
}

impl Wait {
    pub(crate) fn poll(&mut self, alarm: &impl Alarm, waker: &Waker) -> Poll<()> {
        let (mut new_waker, mut old_waker) = (None, None);
        if let Self::Armed(id, armed_with) = *self {
            if armed_with != WakerName::of(waker) && !broken(Fault::SleepKeepsWaker) {
                // Before the old one is taken: if it panics nothing has happened.
                new_waker = Some(waker.clone());
                old_waker = alarm.take(id); // P3
            } else if alarm.is_pending(id) {
                return Poll::Pending; // P2
            }
            let is_over = old_waker.is_none() && broken(Fault::SleepTakesGoneForOver);
            *self = if is_over { Self::Over } else { Self::Idle };
        }
        let outcome = self.poll_without_timer(alarm, waker, new_waker);
        // Its drop is the user's code and may panic: so it comes last.
        drop(old_waker);
        outcome
    }

    /// The deadline was moved, perhaps into the past. The task that waits is woken then; at once,
    /// if it has passed.
    pub(crate) fn follow(&mut self, alarm: &impl Alarm, perhaps_past: bool) {
        let Self::Armed(id, _) = *self else {
            *self = Self::Idle;
            return;
        };
        if perhaps_past && alarm.is_over() {
            let waker = alarm.take(id); // P5
            *self = Self::Over;
            if let Some(waker) = waker.filter(|_| !broken(Fault::SleepMovedInSilence)) {
                waker.wake();
            }
        } else if !alarm.rearm(id) {
            *self = Self::Idle;
        }
    }

    fn poll_without_timer(&mut self, alarm: &impl Alarm, waker: &Waker, new_waker: Option<Waker>) -> Poll<()> {
        if matches!(self, Self::Over) || alarm.is_over() {
            *self = Self::Over; // P4
            return Poll::Ready(());
        }
        match alarm.arm(new_waker.unwrap_or_else(|| waker.clone())) {
            Ok(id) => *self = Self::Armed(id, WakerName::of(waker)), // P1
            // Perhaps there is room the next time.
            Err(waker) => waker.wake(),
        }
        Poll::Pending
    }
}
