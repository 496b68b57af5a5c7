//! Trouble: what the machine may do to a process.

use std::hint::spin_loop;
use std::process::Command;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// Threads that take all cores for a while: two for each.
pub(crate) fn hog<'scope>(scope: &'scope Scope<'scope, '_>, time: Duration) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..2 * cores {
        scope.spawn(move || {
            let end = Instant::now() + time;
            while Instant::now() < end {
                spin_loop();
            }
        });
    }
}

/// Stops the process for a second, by SIGSTOP: all its threads, wherever they are.
pub(crate) fn suspend() -> Result<(), String> {
    let process = std::process::id();
    let script = format!("kill -STOP {process}; sleep 1; kill -CONT {process}");
    let status = Command::new("sh")
        .args(["-c", &script])
        .status()
        .map_err(|error| format!("no sh to stop the process with: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the process could not be stopped: {status}"))
    }
}
