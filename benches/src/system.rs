//! What the operating system says about this process: CPU time, memory, cores.

use std::time::Duration;

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of all threads so far, user and system.
pub(crate) fn cpu_time() -> Duration {
    // SAFETY: all-zero is a valid `rusage`; the call below fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0;
    assert!(!failed, "getrusage cannot fail for RUSAGE_SELF");
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Resident memory of this process, where /proc says it; else 0.
pub(crate) fn resident_bytes() -> u64 {
    field("/proc/self/status", "VmRSS:").unwrap_or(0)
}

/// Whether there is memory for so many timers, where /proc says it: else why not, in one line.
pub(crate) fn check_memory(timers: usize, bytes_per_timer: u64) -> Result<(), String> {
    let needed = timers as u64 * bytes_per_timer;
    match field("/proc/meminfo", "MemAvailable:") {
        Some(available) if needed > available => {
            Err(format!("{timers} timers need up to {} MiB of memory, {} are free", needed >> 20, available >> 20))
        }
        _ => Ok(()),
    }
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
