//! Wait: what a sleep does when it is polled, apart from time and service.
//!
//! Ground rules: one thread at a time polls (the sleep is borrowed mutably); the alarm goes off on another one.
//!
//! A sleep is armed with the waker of the poll that found it idle (P1). When it is polled again with this waker it looks whether its timer is pending (P2): if it is, the alarm, which goes off after the claim
//! that ends that, wakes a task that has been polled since. If it is not, the time has come. Polled with another waker it takes the timer away (P3), and arms it anew; if there was
//! none to take, the time has come. So the waker that is woken is that of the last poll, or that poll has seen the time come.

use crate::service::TimerId;
use crate::sync::{Fault, broken};
use std::task::{Poll, Waker};

/// A service as one sleep sees it.
pub(crate) trait Alarm {
    /// Whether the deadline has passed.
    fn is_over(&self) -> bool;

    /// Arms a timer with a waker; which comes back if there is no room.
    fn arm(&self, waker: Waker) -> Result<TimerId, Waker>;

    /// Whether a timer has not gone off.
    fn is_pending(&self, id: TimerId) -> bool;

    /// Cancels a timer, and gives its waker back; `None`: it has gone off.
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
        if let Self::Armed(id, armed_with) = *self {
            let is_same = armed_with == WakerName::of(waker) || broken(Fault::SleepKeepsWaker);
            let is_pending = if is_same { alarm.is_pending(id) } else { alarm.take(id).is_some() }; // P2, P3
            if is_same && is_pending {
                return Poll::Pending;
            }
            *self = if is_pending { Self::Idle } else { Self::Over };
        }
        if matches!(self, Self::Idle) {
            if alarm.is_over() {
                *self = Self::Over;
            } else {
                match alarm.arm(waker.clone()) {
                    Ok(id) => *self = Self::Armed(id, WakerName::of(waker)), // P1
                    // Perhaps there is room the next time.
                    Err(waker) => waker.wake(),
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}
