//! Clock: the system's, which parent, child and store share.

use std::time::SystemTime;

/// In microseconds since the epoch.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}
