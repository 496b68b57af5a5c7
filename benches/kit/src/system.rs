//! What the operating system says about this process: cores, CPU time, memory. And threads pinned
//! to cores.

use std::time::Duration;

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Pins the calling thread. Numbers go from the last core down: wheelwork's shards are pinned from
/// the first one up, other services' threads go where there is room.
pub fn pin(number: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let core = cores.iter().rev().nth(number % cores.len().max(1));
    core.map(|core| core_affinity::set_for_current(*core));
}

/// Pins a thread that calls the returned closure as the calling thread is pinned now.
pub fn pin_as_caller() -> impl Fn() + Send + Sync + 'static {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    move || {
        if let [core] = cores[..] {
            core_affinity::set_for_current(core);
        }
    }
}

/// CPU time of all threads so far, user and system.
pub fn cpu_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread so far.
pub fn thread_cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    assert!(!failed, "every system has these clocks");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Resident memory of this process, where /proc says it; else 0.
pub fn resident_bytes() -> u64 {
    field("/proc/self/status", "VmRSS:").unwrap_or(0)
}

/// The same, after free pages of the allocator were given back.
pub fn trimmed_bytes() -> u64 {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call takes a number and may be made at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
    resident_bytes()
}

/// Memory that is free, where /proc says it.
pub fn available_bytes() -> Option<u64> {
    field("/proc/meminfo", "MemAvailable:")
}

/// Whether there is memory for this number of timers, where /proc says it: else why not, in one
/// line.
pub fn check_memory(timers: usize, bytes_per_timer: u64) -> Result<(), String> {
    let needed = timers as u64 * bytes_per_timer;
    match available_bytes() {
        Some(available) if needed > available => Err(format!(
            "{timers} timers need up to {} MiB of memory, {} are free",
            needed >> 20,
            available >> 20
        )),
        _ => Ok(()),
    }
}

/// Lets this process have that many open files, and those that it starts from then on: else why
/// not, in one line. Only root may have more than the system's hard limit.
pub fn allow_open_files(count: usize) -> Result<(), String> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0;
    assert!(!failed, "every system has this limit");
    let count = count as libc::rlim_t;
    if limit.rlim_cur >= count {
        return Ok(());
    }
    let hard = limit.rlim_max;
    limit.rlim_cur = count;
    limit.rlim_max = hard.max(count);
    // SAFETY: the pointer is valid for the call.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(()),
        _ => Err(format!(
            "{count} open files are needed, and {hard} are allowed (ulimit -Hn)"
        )),
    }
}

/// A number of KiB, in bytes.
fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
