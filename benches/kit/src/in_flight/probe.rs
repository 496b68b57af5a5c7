//! Probe: a thread that arms a short timer each millisecond. How late these fire is what the rest
//! of a program feels.

use super::service::{InFlight, Timers};
use super::touched::touched;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Of the probe's timers.
pub const DELAY: Duration = Duration::from_millis(5);

/// Between two of them.
const STEP: Duration = Duration::from_millis(1);

/// The handles of a flight of this time, which are kept until its end. (To drop a future cancels
/// it.)
pub(super) fn handles<H>(time: Duration) -> Vec<Option<H>> {
    touched((time.as_nanos() / STEP.as_nanos()) as usize + 1)
}

/// Arms until it is over. Returns how many.
pub(super) fn probe<S: InFlight>(
    timers: &mut S::Timers<'_>,
    handles: &mut [Option<S::Handle>],
    is_over: &AtomicBool,
) -> u64 {
    let (mut armed, mut next) = (0, Instant::now());
    for handle in handles {
        // Ordering: Relaxed. Nothing is read that was written before it.
        if is_over.load(Relaxed) {
            break;
        }
        let due_ns = S::now_ns() + DELAY.as_nanos() as u64;
        *handle = Some(timers.arm(DELAY, due_ns));
        armed += 1;
        // What was missed is not made up for.
        next = Instant::now().max(next + STEP);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    armed
}
