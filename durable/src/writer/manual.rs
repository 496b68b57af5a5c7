//! Manual: the writer on a clock that is moved by hand. It has no thread there.
//!
//! Its turns are taken by who calls it, by the handlers of its timers, by a timer of its own when
//! the time of the next turn has come, and by who moves the clock when the time of day was set.

use super::turn::{After, Writer};
use crate::queue::fired::Fired;
use crate::queue::link::{DurableShared, Turns};
use crate::queue::request::Told;
use crate::store::fault::{DurableFault, is_broken};
use std::sync::Arc;
use std::time::Duration;
use wheelwork::{ManualClock, TimeOfDayWatch};

/// A writer that is told when the time of day is set.
struct ManualWriter {
    writer: Writer,
    _watch: TimeOfDayWatch,
}

/// A writer on a manual clock. As long as it lives, it is told when the time of day is set.
pub(crate) fn on_manual_clock(
    writer: Writer,
    clock: &ManualClock,
    shared: &Arc<DurableShared>,
) -> Box<dyn Turns> {
    let told = Arc::downgrade(shared);
    let _watch = clock.watch_time_of_day(move || {
        if let Some(shared) = told.upgrade() {
            time_was_set(&shared);
        }
    });
    Box::new(ManualWriter { writer, _watch })
}

/// SetTell. The turn reads the clocks, and follows them. One that is being taken, and has read them
/// before, takes this request too, or is followed by one that does.
fn time_was_set(shared: &DurableShared) {
    if !is_broken(DurableFault::SetUntold) {
        shared.tell(Told::News);
        shared.take_turns();
    }
}

impl Turns for ManualWriter {
    fn take_turns(&mut self) -> bool {
        let writer = &mut self.writer;
        loop {
            match writer.turn() {
                After::End => return false,
                After::Turn => {}
                After::Wait(_) if !writer.requests.is_empty() => {}
                After::Wait(wait) => {
                    let service = writer.core.window.service();
                    if let Some(timer) = writer.next_turn.take() {
                        service.cancel(timer);
                    }
                    // (At least a tick: a turn at this very time has just found nothing to do.)
                    let wait = wait.map(|wait| wait.max(Duration::from_millis(1)));
                    writer.next_turn =
                        wait.and_then(|wait| service.schedule(wait, Fired::Turn).ok());
                    return true;
                }
            }
        }
    }
}
