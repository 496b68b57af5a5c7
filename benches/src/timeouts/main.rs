//! `timeouts`: what a timeout around a future costs, by wheelwork and by tokio, under tokio's scheduler.
//!
//! Each of the runtime's workers has one task, which makes a timeout of 30 s around a future, polls it once, and drops it: a future that is ready, or one that is not.
//! Both kinds in turn, by both timers in turn, each in a runtime of its own; medians.

#[path = "../command_line.rs"]
mod command_line;

use clap::Parser;
use command_line::{parse, wrong};
use std::future::{Future, pending, poll_fn, ready};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

/// What a timeout around a ready future and around a pending one costs, by wheelwork and by tokio.
#[derive(Parser)]
#[command(name = "timeouts", version)]
struct Args {
    /// Timeouts of each thread in each repetition.
    #[arg(long, default_value_t = 500_000, value_name = "N")]
    timeouts: usize,
    /// Repetitions: the median counts.
    #[arg(long, default_value_t = 5, value_name = "N")]
    reps: usize,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', value_name = "T,..", default_values_t = threads())]
    threads: Vec<usize>,
}

/// 1, 2, 4 .. and all cores.
fn threads() -> Vec<usize> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut threads: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&threads| threads < cores).collect();
    threads.push(cores);
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

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if args.timeouts == 0 || args.reps == 0 || args.threads.contains(&0) {
        return wrong::<Args>("nothing can't be measured: numbers are at least 1");
    }
    println!("a timeout of 30 s: made, polled once, dropped; ns of one thread, median (min - max) of {}", args.reps);
    println!("{:<10} {:>7} {:>26} {:>26} {:>8}", "future", "threads", "wheelwork", "tokio", "ratio");
    for (name, kind) in [("ready", Kind::Ready), ("pending", Kind::Pending)] {
        for &threads in &args.threads {
            let mut ns = [Vec::new(), Vec::new()];
            for _ in 0..args.reps {
                for (by, ns) in [By::Wheelwork, By::Tokio].into_iter().zip(&mut ns) {
                    ns.push(measure(by, kind, threads, args.timeouts));
                }
            }
            let [ours, theirs] = ns.map(|mut ns| {
                ns.sort_by(f64::total_cmp);
                (ns[ns.len() / 2], format!("{:.1} ({:.1} - {:.1})", ns[ns.len() / 2], ns[0], ns[ns.len() - 1]))
            });
            println!("{name:<10} {threads:>7} {:>26} {:>26} {:>6.1} x", ours.1, theirs.1, theirs.0 / ours.0);
        }
    }
    ExitCode::SUCCESS
}

/// Nanoseconds of one thread for each timeout.
fn measure(by: By, kind: Kind, threads: usize, timeouts: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_time().build().expect("a runtime starts");
    let gate = Arc::new(Barrier::new(threads));
    let task = |gate: Arc<Barrier>| async move {
        // The first one starts what is started once.
        run(by, kind, 1).await;
        // It holds up its worker, so that no two tasks have the same one.
        gate.wait();
        let start = Instant::now();
        run(by, kind, timeouts).await;
        start.elapsed()
    };
    let tasks: Vec<_> = (0..threads).map(|_| runtime.spawn(task(gate.clone()))).collect();
    let slowest = tasks.into_iter().map(|task| runtime.block_on(task).expect("no task panics")).max().unwrap_or_default();
    slowest.as_nanos() as f64 / timeouts as f64
}

async fn run(by: By, kind: Kind, timeouts: usize) {
    match (by, kind) {
        (By::Wheelwork, Kind::Ready) => each(timeouts, || wheelwork::future::timeout(TIMEOUT, ready(()))).await,
        (By::Wheelwork, Kind::Pending) => each(timeouts, || wheelwork::future::timeout(TIMEOUT, pending::<()>())).await,
        (By::Tokio, Kind::Ready) => each(timeouts, || tokio::time::timeout(TIMEOUT, ready(()))).await,
        (By::Tokio, Kind::Pending) => each(timeouts, || tokio::time::timeout(TIMEOUT, pending::<()>())).await,
    }
}

/// Makes so many futures, polls each once, and drops it. Beyond the budget of polls that tokio gives a task.
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
