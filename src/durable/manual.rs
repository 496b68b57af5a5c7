//! Manual: the writer on a clock that is moved by hand. It has no thread there.
//!
//! Its turns are taken by who calls it, by the handlers of its timers, by a timer of its own when
//! the time of the next turn has come, and by who moves the clock when the time of day was set.

use super::fault::{DurableFault, is_broken};
use super::request::Request;
use super::shared::{DurableShared, Turns};
use super::window::Fired;
use super::writer::{After, Writer};
use crate::time::{Busy, Driven, ManualClock, Pass};
use std::sync::Arc;
use std::time::Duration;

/// The writer is told from now on when the time of day is set.
pub(super) fn follow(clock: &ManualClock, shared: &Arc<DurableShared>) {
    let driven: Arc<dyn Driven> = shared.clone();
    clock.register(Arc::downgrade(&driven));
}

/// The window's service has the timers: here is nothing to drive.
impl Driven for DurableShared {
    fn turn(&self) -> Pass {
        Pass::default()
    }

    fn has_messages(&self) -> bool {
        false
    }

    fn next_event_ns(&self) -> Result<Option<u64>, Busy> {
        Ok(None)
    }

    /// SetTell. The turn reads the clocks, and follows them. One that is being taken, and has read
    /// them before, takes this request too, or is followed by one that does.
    fn wall_was_set(&self) {
        if !is_broken(DurableFault::SetUntold) {
            self.tell(Request::Look);
            self.take_turns();
        }
    }

    fn dispatched(&self) -> u64 {
        0
    }
}

impl Turns for Writer {
    fn take_turns(&mut self) -> bool {
        loop {
            match self.turn() {
                After::End => return false,
                After::Turn => {}
                After::Wait(_) if !self.requests.is_empty() => {}
                After::Wait(wait) => {
                    let service = self.window.service();
                    if let Some(timer) = self.next_turn.take() {
                        service.cancel(timer);
                    }
                    // (At least a tick: a turn at this very time has just found nothing to do.)
                    let wait = wait.map(|wait| wait.max(Duration::from_millis(1)));
                    self.next_turn = wait.and_then(|wait| service.schedule(wait, Fired::Turn).ok());
                    return true;
                }
            }
        }
    }
}
