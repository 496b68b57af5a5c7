//! W5 and W5b: how late timers fire, and what firing costs. Arming is over, and has settled, before
//! the first one is due.

use crate::job::Job;
use crate::ledger::{self, Lateness};
use crate::producers::{self, start};
use crate::subjects::{Producer, Subject};
use fastrand::Rng;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

/// How long after the last one is due all must have fired.
const PATIENCE: Duration = Duration::from_secs(20);

/// Arming takes at most this time, and [`ARMING_NS_EACH`] more for each timer: in the slowest
/// service, on a slow machine.
const ARMING_NS: u64 = 500_000_000;
const ARMING_NS_EACH: u64 = 4_000;

/// The first one is due at any time of a tick, of services that count them from their start.
const PHASES_NS: u64 = 10_000_000;

/// What a producer owns: when its timers are due, after the first one.
struct Own<H> {
    offsets_ns: Vec<u64>,
    slots: Vec<Option<H>>,
}

/// W5: due uniformly over 2 s.
pub(crate) fn spread<S: Subject>(job: &Job) -> Result<Figures, String> {
    let spread_ns = if job.quick {
        500_000_000
    } else {
        2_000_000_000
    };
    let (lateness, cpu, _) = fire::<S>(job, spread_ns)?;
    let mut figures = lateness.figures();
    figures.extend([
        ("late_ms_p999", lateness.quantile_ns(0.999) as f64 / 1e6),
        ("cpu_s", cpu.as_secs_f64()),
    ]);
    Ok(figures)
}

/// W5b: all at one instant. The last one's time is that of one of the last 64 of its thread.
pub(crate) fn burst<S: Subject>(job: &Job) -> Result<Figures, String> {
    let (lateness, cpu, due_ns) = fire::<S>(job, 0)?;
    let ms_after = |time_ns: u64| (time_ns as f64 - due_ns as f64) / 1e6;
    let last_ms = ms_after(lateness.last_ns);
    Ok(Figures::from([
        ("first_ms", ms_after(lateness.first_ns)),
        ("last_ms", last_ms),
        ("mops", job.timers as f64 / 1e3 / last_ms),
        ("cpu_s", cpu.as_secs_f64()),
    ]))
}

/// Arms timers due uniformly over a time, and waits until they have fired. Returns how late they
/// were, the CPU time from when all were armed, and when the first one was due.
fn fire<S: Subject>(job: &Job, spread_ns: u64) -> Result<(Lateness, Duration, u64), String> {
    let share = job.timers.div_ceil(job.threads);
    let own = |thread: usize| {
        let mut rng = Rng::with_seed(job.seed.wrapping_mul(6007).wrapping_add(thread as u64));
        Own {
            offsets_ns: (0..share).map(|_| rng.u64(..=spread_ns)).collect(),
            slots: (0..share).map(|_| None).collect(),
        }
    };
    let mut owns: Vec<_> = (0..job.threads).map(own).collect();
    let timers = (share * job.threads) as u64;
    let lead_ns = if job.quick { ARMING_NS / 2 } else { ARMING_NS }
        + timers * ARMING_NS_EACH
        + Rng::with_seed(job.seed).u64(..PHASES_NS);
    let first = OnceLock::new();
    let arm = |producer: &mut S::Producer, own: &mut Own<_>| {
        let first_ns = *first.get_or_init(|| ledger::now_ns() + lead_ns);
        for (slot, offset_ns) in own.slots.iter_mut().zip(&own.offsets_ns) {
            let due_ns = first_ns + offset_ns;
            let payload = if spread_ns > 0 { due_ns } else { ledger::BURST };
            *slot = Some(producer.arm(ledger::delay_until(due_ns), payload));
        }
    };
    let serve = |producer: &mut S::Producer, _: &mut Own<_>| producer.serve();
    let first_ns = || first.get().copied().unwrap_or(0);
    let (mut cpu, mut result) = (Duration::ZERO, Ok(()));
    producers::run(start::<S>(job), &mut owns, &[&arm, &serve], |phase| {
        if phase == 0 {
            cpu = system::cpu_time();
            if ledger::now_ns() >= first_ns() {
                let ms = lead_ns / 1_000_000;
                result = Err(format!("{timers} timers were not armed in {ms} ms"));
            }
        } else if result.is_ok() {
            result = wait_for_fires(timers, first_ns() + spread_ns);
            cpu = system::cpu_time() - cpu;
        }
    });
    std::mem::forget(owns);
    result.map(|()| (ledger::lateness(), cpu, first_ns()))
}

/// Looks for the first time when the last one is due: looking costs CPU time.
fn wait_for_fires(timers: u64, last_due_ns: u64) -> Result<(), String> {
    thread::sleep(ledger::delay_until(last_due_ns));
    let patience_ns = last_due_ns + PATIENCE.as_nanos() as u64;
    while ledger::fired_so_far() < timers {
        if ledger::now_ns() > patience_ns {
            return Err(format!(
                "{} of {timers} timers have fired {PATIENCE:?} after the last was due",
                ledger::fired_so_far()
            ));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
