//! Usage: CPU time and voluntary context switches, of the calling thread and of the process.

use std::ops::Sub;
use std::time::Duration;
use wheelwork_kit::system;

/// What a thread or a process has used so far, or within a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Voluntary context switches: each is a sleep that ends with a wake-up.
    pub(crate) wakeups: u64,
}

impl Usage {
    pub(crate) fn of_process() -> Self {
        Self {
            cpu: system::cpu_time(),
            wakeups: switches(libc::RUSAGE_SELF),
        }
    }

    pub(crate) fn of_thread() -> Self {
        Self {
            cpu: system::thread_cpu_time(),
            wakeups: switches(libc::RUSAGE_THREAD),
        }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            wakeups: self.wakeups.saturating_sub(before.wakeups),
        }
    }
}

fn switches(whose: libc::c_int) -> u64 {
    // SAFETY: all-zero is a valid `rusage`; the call below fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::getrusage(whose, &raw mut usage) } != 0;
    assert!(!failed, "getrusage cannot fail for these");
    usage.ru_nvcsw as u64
}

/// Those of all threads but the main one, which is who asks.
pub(crate) fn other_threads_wakeups() -> u64 {
    let main = std::process::id().to_string();
    let threads = std::fs::read_dir("/proc/self/task");
    let others = threads.into_iter().flatten().flatten();
    let others = others.filter(|thread| *thread.file_name() != *main);
    let switches = others.filter_map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let mut lines = status.lines();
        let switches = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        switches.trim().parse::<u64>().ok()
    });
    switches.sum()
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
        let thread = of_thread.join().expect("it does not panic");
        let process = Usage::of_process() - before;
        let is_part = thread.wakeups <= process.wakeups && thread.cpu <= process.cpu;
        assert!(is_part, "{thread:?} {process:?}");
    }
}
