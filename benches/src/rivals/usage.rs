//! Usage: CPU time and voluntary context switches, of the calling thread and of the process.

use std::ops::Sub;
use std::time::Duration;

/// What a thread or a process has used so far, or within a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Voluntary context switches: each is a sleep that ends with a wake-up.
    pub(crate) wakeups: u64,
}

impl Usage {
    pub(crate) fn of_process() -> Self {
        Self { cpu: clock(libc::CLOCK_PROCESS_CPUTIME_ID), wakeups: switches(libc::RUSAGE_SELF) }
    }

    pub(crate) fn of_thread() -> Self {
        Self { cpu: thread_cpu(), wakeups: switches(libc::RUSAGE_THREAD) }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(before.cpu), wakeups: self.wakeups.saturating_sub(before.wakeups) }
    }
}

/// CPU time of the calling thread so far.
pub(crate) fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    assert!(!failed, "Linux has these clocks");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn switches(whose: libc::c_int) -> u64 {
    // SAFETY: all-zero is a valid `rusage`; the call below fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::getrusage(whose, &raw mut usage) } != 0;
    assert!(!failed, "getrusage cannot fail for these");
    usage.ru_nvcsw as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_is_a_part_of_the_process() {
        let before = Usage::of_process();
        let of_thread = thread::spawn(|| {
            thread::sleep(Duration::from_millis(1));
            Usage::of_thread()
        });
        let of_thread = of_thread.join().expect("it does not panic");
        let of_process = Usage::of_process() - before;
        assert!(of_thread.wakeups <= of_process.wakeups, "{of_thread:?} {of_process:?}");
        assert!(of_thread.cpu <= of_process.cpu, "{of_thread:?} {of_process:?}");
    }
}
