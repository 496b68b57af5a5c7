//! Timeouts: what one around a future costs, by wheelwork and by tokio, under tokio's scheduler.
//!
//! Each of the runtime's workers has one task, which makes a timeout of 30 s around a future, polls
//! it once, and drops it: a future that is ready, or one that is not. Both kinds in turn, by both
//! timers in turn, each in a runtime of its own; medians.

use std::future::{Future, pending, poll_fn, ready};
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use wheelwork_kit::line::Summary;
use wheelwork_kit::program::{self, say};
use wheelwork_kit::system;

const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct Timeouts {
    /// Timeouts of each thread in each repetition.
    #[arg(long, default_value = "500k", value_name = "N", value_parser = program::count(1..=1_000_000_000))]
    timeouts: usize,
    /// Repetitions: the median counts.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = program::count(1..=1_000))]
    reps: usize,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', value_name = "T,..", default_values_t = threads(), value_parser = program::count(1..=256))]
    threads: Vec<usize>,
}

/// 1, 2, 4 .. and all cores.
fn threads() -> Vec<usize> {
    let powers = (0..).map(|power| 1 << power);
    let mut threads: Vec<usize> = powers
        .take_while(|&threads| threads < system::cores())
        .collect();
    threads.push(system::cores());
    threads
}

#[derive(Clone, Copy)]
enum Kind {
    Ready,
    Pending,
}

#[derive(Clone, Copy)]
enum By {
    Wheelwork,
    Tokio,
}

/// All measurements, and a table of them.
pub(crate) fn run(args: &Timeouts) {
    say(format_args!(
        "a timeout of 30 s: made, polled once, dropped; ns of one thread, median (min - max) of {}",
        args.reps
    ));
    let row = |[future, threads, ours, theirs, ratio]: [&str; 5]| {
        say(format_args!(
            "{future:<10} {threads:>7} {ours:>26} {theirs:>26} {ratio:>8}"
        ));
    };
    row(["future", "threads", "wheelwork", "tokio", "ratio"]);
    for (name, kind) in [("ready", Kind::Ready), ("pending", Kind::Pending)] {
        for &threads in &args.threads {
            let [ours, theirs] = medians(args, kind, threads);
            let shown = |Summary { median, min, max }: Summary| {
                format!("{median:.1} ({min:.1} - {max:.1})")
            };
            let ratio = format!("{:.1} x", theirs.median / ours.median);
            let threads = threads.to_string();
            row([name, &threads, &shown(ours), &shown(theirs), &ratio]);
        }
    }
}

/// Of both in turn.
fn medians(args: &Timeouts, kind: Kind, threads: usize) -> [Summary; 2] {
    let mut ns = [Vec::new(), Vec::new()];
    for _ in 0..args.reps {
        for (by, ns) in [By::Wheelwork, By::Tokio].into_iter().zip(&mut ns) {
            ns.push(measure(by, kind, threads, args.timeouts));
        }
    }
    ns.map(|ns| Summary::of(ns).expect("there is a repetition"))
}

/// Nanoseconds of one thread for each timeout.
fn measure(by: By, kind: Kind, threads: usize, timeouts: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_time()
        .build()
        .expect("a runtime starts");
    let gate = Arc::new(Barrier::new(threads));
    let task = |gate: Arc<Barrier>| async move {
        // The first one starts what is started once.
        make(by, kind, 1).await;
        // It holds up its worker, so that no two tasks have the same one.
        gate.wait();
        let start = Instant::now();
        make(by, kind, timeouts).await;
        start.elapsed()
    };
    let tasks: Vec<_> = (0..threads)
        .map(|_| runtime.spawn(task(gate.clone())))
        .collect();
    let slowest = tasks
        .into_iter()
        .map(|task| runtime.block_on(task).expect("no task panics"))
        .max()
        .unwrap_or_default();
    slowest.as_nanos() as f64 / timeouts as f64
}

async fn make(by: By, kind: Kind, number: usize) {
    use {tokio::time::timeout as tokios, wheelwork::future::timeout as ours};
    match (by, kind) {
        (By::Wheelwork, Kind::Ready) => each(number, || ours(TIMEOUT, ready(()))).await,
        (By::Wheelwork, Kind::Pending) => each(number, || ours(TIMEOUT, pending::<()>())).await,
        (By::Tokio, Kind::Ready) => each(number, || tokios(TIMEOUT, ready(()))).await,
        (By::Tokio, Kind::Pending) => each(number, || tokios(TIMEOUT, pending::<()>())).await,
    }
}

/// Makes this number of futures, polls each once, and drops it. Beyond the budget of polls that
/// tokio gives a task.
async fn each<F: Future>(futures: usize, make: impl Fn() -> F) {
    let all = poll_fn(|context: &mut Context<'_>| {
        for _ in 0..futures {
            let future = pin!(make());
            let _ = std::hint::black_box(future.poll(context));
        }
        Poll::Ready(())
    });
    tokio::task::unconstrained(all).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_all() {
        for by in [By::Wheelwork, By::Tokio] {
            for kind in [Kind::Ready, Kind::Pending] {
                assert!(measure(by, kind, 2, 100) > 0.0);
            }
        }
    }

    #[test]
    fn threads_end_with_all_cores() {
        assert!(threads().is_sorted() && !threads().is_empty());
    }
}
