//! A worker that is blocked until the test lets it go on: for lateness and backlogs on a manual
//! clock.

use std::sync::mpsc;
use std::time::Duration;
use wheelwork::{ManualClock, ServiceHandle};

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Blocks a worker of the service by a timer of a millisecond, which has fired when this returns. A
/// message lets the worker go on.
pub fn block_a_worker(service: &ServiceHandle, clock: &ManualClock) -> mpsc::Sender<()> {
    let (send, blocked) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let task = move || {
        send.send(()).unwrap();
        released.recv_timeout(HANGS).unwrap();
    };
    service.schedule(Duration::from_millis(1), task).unwrap();
    clock.advance(Duration::from_millis(1));
    blocked.recv_timeout(HANGS).unwrap();
    release
}
