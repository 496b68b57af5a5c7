//! The clock by which entries are due.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// Nanoseconds since the first call.
pub(crate) fn now_ns() -> u64 {
    origin().elapsed().as_nanos() as u64
}

/// The instant at which it shows that.
pub(crate) fn instant(due_ns: u64) -> Instant {
    origin() + Duration::from_nanos(due_ns)
}
