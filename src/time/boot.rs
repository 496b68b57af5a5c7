//! Boot: the system's clock that counts suspended time too. Linux has one (CLOCK_BOOTTIME).

use std::time::Duration;

/// Time since the machine was started. `None` where there is no such clock.
#[cfg(target_os = "linux")]
pub(super) fn now() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the type that the call fills.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    (outcome == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// As above.
#[cfg(not(target_os = "linux"))]
pub(super) fn now() -> Option<Duration> {
    None
}
