//! W6 and W7: what timers cost that only wait.

use crate::job::Job;
use crate::producers::{self, start};
use crate::subjects::Subject;
use crate::throughput::{Own, arm, touch};
use crate::usage::other_threads_wakeups;
use std::thread;
use std::time::Duration;
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

/// A service's threads have begun by then.
const AWAKE: Duration = Duration::from_millis(100);

/// None of them fires meanwhile.
const FAR: Duration = Duration::from_secs(3_600);

/// W6: resident bytes, without the slots in which the harness keeps the handles. Of an empty
/// service with those of its producer's thread.
pub(crate) fn memory<S: Subject>(job: &Job) -> Figures {
    let mut owns = Own::shares(job);
    // The delays stay different: timers do not share a tick more than in other workloads.
    let delays = owns.iter_mut().flat_map(|own| &mut own.delays);
    delays.for_each(|delay| *delay += FAR / 10);
    let nothing = system::trimmed_bytes();
    let (mut empty, mut full) = (0, 0);
    producers::run(start::<S>(job), &mut owns, &[&touch, &arm], |phase| {
        if phase == 0 {
            thread::sleep(AWAKE);
            empty = system::trimmed_bytes();
        } else {
            full = system::trimmed_bytes();
        }
    });
    std::mem::forget(owns);
    let of_timers = full.saturating_sub(empty) as f64;
    Figures::from([
        ("empty_bytes", empty.saturating_sub(nothing) as f64),
        ("bytes_per_timer", of_timers / job.timers as f64),
    ])
}

/// W7: nothing happens, for 10 s, 10 s after the last timer was armed.
pub(crate) fn idle<S: Subject>(job: &Job) -> Figures {
    let mut owns = Own::shares(job);
    owns.iter_mut().for_each(|own| own.delays.fill(FAR));
    let (quiet, time) = if job.quick { (3, 1) } else { (10, 10) };
    let mut figures = Figures::default();
    producers::run(start::<S>(job), &mut owns, &[&arm], |_| {
        thread::sleep(Duration::from_secs(quiet));
        let (wakeups, cpu) = (other_threads_wakeups(), system::cpu_time());
        thread::sleep(Duration::from_secs(time));
        let wakeups = other_threads_wakeups().saturating_sub(wakeups) as f64;
        let cpu = system::cpu_time() - cpu;
        figures = Figures::from([
            ("wakeups", wakeups),
            ("wakeups_per_s", wakeups / time as f64),
            ("cpu_s", cpu.as_secs_f64()),
        ]);
    });
    std::mem::forget(owns);
    figures
}
