//! Boot clock: the system's clock that counts the time for which the machine is suspended. Linux
//! has one (`CLOCK_BOOTTIME`).

use std::time::Duration;

/// The time since the machine was started. `None` where there is no such clock.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
pub(super) fn now() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local variable of the type that the call fills.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    (outcome == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Other systems have no such clock.
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
pub(super) fn now() -> Option<Duration> {
    None
}
