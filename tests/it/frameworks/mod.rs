//! Promise: frameworks that take a timer of yours run on wheelwork's: their limits end at the times
//! of its clock, and a limit that is moved keeps its timer.
//!
//! Servers and clients are real, on the loopback. Time moves by hand; all else waits for events.

mod backon;
mod hyper;
mod hyper_util;
mod quinn;
mod tonic;

use std::time::Duration;
use wheelwork::future::Timers;
use wheelwork::{ManualClock, TimerService};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A clock, and a service for futures on it.
fn setup() -> (ManualClock, Timers) {
    let clock = ManualClock::new();
    let timers = Timers::start(TimerService::builder().clock(clock.clone())).unwrap();
    (clock, timers)
}

/// Lets the other tasks of this thread run until a condition holds.
async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}
