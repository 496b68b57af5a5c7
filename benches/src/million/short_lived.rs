//! `--short-lived`: threads that arm a hundred timers each and end, one after the other. What a
//! thread costs the service, and what stays of it.

use crate::args::Args;
use crate::figures::Figures;
use crate::ledger::{Ledger, Outcome};
use crate::phases::lead;
use crate::run;
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::TimerService;
use wheelwork_kit::report::Report;
use wheelwork_kit::{program, progress, system};

/// Timers of a thread.
const TIMERS_EACH: usize = 100;

/// Until what is not needed has gone back to the system, once nothing is pending.
const QUIET: Duration = Duration::from_secs(5);

/// The last timer may be late.
const PATIENCE: Duration = Duration::from_secs(30);

/// Threads that do the same without a service, first: what the system takes for a thread.
const BARE: usize = 1_000;

/// Runs the measurement. Returns the promises that were broken.
pub(crate) fn run(args: &Args) -> Result<Vec<String>, String> {
    let threads = args.short_lived.unwrap_or_default();
    let timers = threads * TIMERS_EACH;
    let ledger = Arc::new(Ledger::each(timers));
    let noted = ledger.clone();
    let service = run::service(args, move |batch| {
        let mut firing = noted.firing(Instant::now());
        batch.for_each(|line| firing.fired(line));
    })?;
    program::say(format_args!(
        "{threads} threads, {} at a time, that arm {TIMERS_EACH} timers each and end",
        args.threads()
    ));
    let bare = one_after_the_other(args.threads(), BARE, |_| ());
    let before = system::resident_bytes();
    let first_due = Instant::now() + lead(timers);
    let took = one_after_the_other(args.threads(), threads, |number| {
        arm(&service, &ledger, args, number, first_due);
    });
    let armed_bytes = system::resident_bytes().saturating_sub(before);
    wait_for_fires(&ledger, timers as u64);
    progress::wait("quiet", QUIET);
    let left_bytes = system::resident_bytes().saturating_sub(before);
    for unfired in service.stop() {
        ledger.close(unfired.payload, Outcome::HandedBack);
        ledger.count(Outcome::HandedBack, 1);
    }

    let mut report = Report::default();
    report.section("cost of a thread");
    let us = |time: Duration, threads: usize| time.as_secs_f64() * 1e6 / threads as f64;
    let (with, without) = (us(took, threads), us(bare, BARE));
    report.figure("started, armed, ended", "thread_us", with, "us");
    report.figure("started and ended alone", "bare_thread_us", without, "us");
    report.section("memory");
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let pending = armed_bytes as f64 / timers as f64;
    report.figure("per pending timer", "bytes_per_timer", pending, "B");
    let left = megabytes(left_bytes);
    report.figure("left 5 s after the last fired", "left_mb", left, "MB");
    report.section("lateness");
    report.lateness("lateness", &ledger.lateness());
    report.section("accounting");
    let balance = ledger.balance();
    report.balance(&balance);
    report.section("verdict");
    let broken = balance.broken();
    report.verdict(&broken);
    report.finish(args.json.as_deref())?;
    Ok(broken)
}

/// Runs `work` in this number of threads, `at_once` of them at a time. Returns the time for all.
fn one_after_the_other(at_once: usize, threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    // Ordering: Relaxed. Only the number matters.
    let numbers = || std::iter::from_fn(|| Some(next.fetch_add(1, Relaxed)));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                for number in numbers().take_while(|&number| number < threads) {
                    // A thread that `join` has seen end has also run its destructors.
                    thread::scope(|own| {
                        let own = own.spawn(|| work(number));
                        own.join().expect("it does not panic");
                    });
                }
            });
        }
    });
    start.elapsed()
}

fn arm(
    service: &TimerService<u32>,
    ledger: &Ledger,
    args: &Args,
    number: usize,
    first_due: Instant,
) {
    let mut rng = Rng::with_seed(args.seed.wrapping_add(number as u64));
    for line in number * TIMERS_EACH..(number + 1) * TIMERS_EACH {
        let due = first_due + args.spread.mul_f64(rng.f64());
        ledger.open(line as u32, due);
        service
            .schedule_at(due, line as u32)
            .expect("the service runs");
    }
}

fn wait_for_fires(ledger: &Ledger, timers: u64) {
    let last_due = ledger.last_due();
    let left = last_due.saturating_duration_since(Instant::now());
    progress::wait("fire", left);
    while ledger.fired_so_far() < timers && Instant::now() < last_due + PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
}
