//! W6 and W7: what timers cost that only wait.

use crate::job::Job;
use crate::line::Figures;
use crate::memory::trimmed_bytes;
use crate::subjects::Subject;
use crate::throughput::{Own, arm, start, touch};
use crate::{crew, system};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// A service's threads have begun by then.
const AWAKE: Duration = Duration::from_millis(100);

/// None of them fires meanwhile.
const FAR: Duration = Duration::from_secs(3_600);

/// W6: resident bytes, without the slots in which the harness keeps the handles. Of an empty service with those of its producer's thread.
pub(crate) fn memory<S: Subject>(job: &Job) -> Figures {
    let mut owns = Own::shares(job);
    // The delays stay different: timers do not share a tick more than in other workloads.
    owns.iter_mut().flat_map(|own| &mut own.delays).for_each(|delay| *delay += FAR / 10);
    let nothing = trimmed_bytes();
    let (mut empty, mut full) = (0, 0);
    crew::run(start::<S>(), &mut owns, &[&touch, &arm], |phase, _| match phase {
        0 => {
            thread::sleep(AWAKE);
            empty = trimmed_bytes();
        }
        _ => full = trimmed_bytes(),
    });
    std::mem::forget(owns);
    Figures::from([
        ("empty_bytes", empty.saturating_sub(nothing) as f64),
        ("bytes_per_timer", full.saturating_sub(empty) as f64 / job.timers as f64),
    ])
}

/// W7: nothing happens, for 10 s, 10 s after the last timer was armed.
pub(crate) fn idle<S: Subject>(job: &Job) -> Figures {
    let mut owns = Own::shares(job);
    owns.iter_mut().for_each(|own| own.delays.fill(FAR));
    let (quiet, time) = if job.quick { (3, 1) } else { (10, 10) };
    let mut figures = Figures::default();
    crew::run(start::<S>(), &mut owns, &[&arm], |_, _| {
        thread::sleep(Duration::from_secs(quiet));
        let (wakeups, cpu) = (other_threads_wakeups(), system::cpu_time());
        thread::sleep(Duration::from_secs(time));
        let wakeups = other_threads_wakeups().saturating_sub(wakeups) as f64;
        let cpu = system::cpu_time() - cpu;
        figures = Figures::from([("wakeups", wakeups), ("wakeups_per_s", wakeups / time as f64), ("cpu_s", cpu.as_secs_f64())]);
    });
    std::mem::forget(owns);
    figures
}

/// Voluntary context switches of all threads but the main one, which is who asks: each is a sleep that ends with a wake-up.
pub(crate) fn other_threads_wakeups() -> u64 {
    let main = std::process::id().to_string();
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter(|thread| *thread.file_name() != *main).filter_map(|thread| switches(&thread.path().join("status"))).sum()
}

fn switches(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}
