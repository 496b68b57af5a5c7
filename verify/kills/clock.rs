//! Clock: one that all processes of this machine have in common, and that nobody sets.

/// Nanoseconds on the machine's monotonic clock.
pub(crate) fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// What to add to the monotonic clock to get the server's, in nanoseconds. (The server runs here.)
pub(crate) fn offset_ns() -> i64 {
    let before = read(libc::CLOCK_MONOTONIC);
    let real = read(libc::CLOCK_REALTIME);
    let after = read(libc::CLOCK_MONOTONIC);
    real as i64 - (before / 2 + after / 2) as i64
}

/// The system's clock, in microseconds since the epoch. Stores have it, too.
pub(crate) fn system_us() -> i64 {
    (read(libc::CLOCK_REALTIME) / 1_000) as i64
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    assert!(!failed, "every system has these clocks");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
