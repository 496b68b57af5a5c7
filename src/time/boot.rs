//! Boot clock: the system's clock that counts the time for which the machine is suspended. Linux
//! has one (`CLOCK_BOOTTIME`).

use std::time::Duration;

/// The time since the machine was started, by the system's clock that counts suspended time
/// (CLOCK_BOOTTIME, Linux only). `None` where there is no such clock.
///
/// A service reads this clock after [`Builder::boot_time`](crate::Builder::boot_time). No `Instant`
/// shows it. Costs a system call that the kernel answers without leaving the process.
///
/// # Example
/// ```
/// if let Some(begin) = wheelwork::boot_time() {
///     let passed = wheelwork::boot_time().unwrap_or_default().saturating_sub(begin);
///     println!("{passed:?}, of which the machine may have slept a part");
/// }
/// ```
#[must_use]
pub fn boot_time() -> Option<Duration> {
    now()
}

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
