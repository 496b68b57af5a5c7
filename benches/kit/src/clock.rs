//! The system's clock: deadlines of timers that survive their process are by it.

use std::time::SystemTime;

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    now_ns() / 1_000_000
}

/// Nanoseconds since the Unix epoch.
pub fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}
