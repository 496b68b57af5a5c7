//! When the memory of timers that are gone comes back.

use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::system::trimmed_bytes;

/// The per cent of what the timers took that may stay: the allocator's own.
const KEPT_PERCENT: u64 = 20;

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits until what came on top of `before` up to `full` is back, but for a rest. Returns how long
/// that took, unless it took too long, and the rest.
pub(crate) fn wait_for_return(
    before: u64,
    full: u64,
    patience: Duration,
) -> (Option<Duration>, u64) {
    let start = Instant::now();
    loop {
        let kept = trimmed_bytes().saturating_sub(before);
        let elapsed = start.elapsed();
        if kept * 100 <= full.saturating_sub(before) * KEPT_PERCENT {
            return (Some(elapsed), kept);
        }
        if elapsed > patience {
            return (None, kept);
        }
        thread::sleep(LOOK_AGAIN);
    }
}
