//! `soak`: one service under a server's load for as long as told, every timer accounted for, and
//! figures that stay flat.

mod book;
mod load;
mod samples;

use book::{Book, State};
use clap::Parser;
use fastrand::Rng;
use load::{Done, Load, Region};
use samples::Sampler;
use std::mem;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, TimerService};
use wheelwork_bench::lateness::Lateness;
use wheelwork_bench::lock::lock;
use wheelwork_bench::program;

/// Samples of a run, and the time between two at the most.
const SAMPLES: u32 = 60;
const SAMPLE_TIME_MAX: Duration = Duration::from_secs(60);

/// The allocator and the service become warm in the first quarter of this time, and no sooner.
const JUDGED_FROM: Duration = Duration::from_secs(10 * 60);

/// A timer that is later by more is lost: a machine that is shared stalls for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Periodic timers beside the load, and the ticks between two runs of one.
const PERIODIC: usize = 64;
const PERIOD_TICKS: u32 = 1_000;

/// One timer service under a server's load: time-outs that are cancelled or moved on, timers that
/// fire, some for hours of ticks, a few for a day, 64 periodic ones, threads that live for a
/// second.
///
/// Each timer is accounted for: it has one outcome and is never early. From ten minutes on, memory
/// must not rise by more than 2 % and 1 MB from the second quarter of the time to the third, and
/// again to the last. (Once it may: when the machine stalls.)
///
/// All times are in ticks, so with a tick of 50 us a service lives twenty times as fast as with
/// one of 1 ms: 72 minutes have as many ticks as a day of 1 ms. Exit codes: 0 every timer was
/// accounted for, and memory is flat; 1 not so; 2 wrong arguments.
#[derive(Parser)]
#[command(name = "soak", version, max_term_width = 110)]
struct Args {
    /// Time for it in minutes, up to 10,080 (a week)
    #[arg(long, value_name = "MINUTES", default_value = "10")]
    minutes: f64,

    /// Tick of the service
    #[arg(long, value_name = "TIME", default_value = "1ms",
        value_parser = program::duration(Duration::from_micros(10)..=Duration::from_secs(1)))]
    tick: Duration,

    /// Timers that may be pending at a time
    #[arg(long, value_name = "COUNT", default_value = "100k",
        value_parser = program::count(100..=10_000_000))]
    timers: usize,

    /// Steps in a second, of all threads: a timer is armed, moved, or cancelled and armed anew.
    /// What the machine cannot do is left out, as `M steps` shows
    #[arg(long, value_name = "COUNT", default_value = "100k",
        value_parser = program::count(1..=100_000_000))]
    rate: usize,

    /// Threads that do this
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = program::count(1..=64))]
    threads: usize,

    /// Shards of the service [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = program::count(1..=64))]
    shards: Option<usize>,

    /// Seed of what is drawn
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
}

fn main() -> ExitCode {
    program::run(|args: &Args| {
        let minutes = args.minutes;
        if !(minutes > 0.0 && minutes <= 10_080.0) {
            return Err(format!("{minutes} minutes: more than 0, at most 10,080"));
        }
        let wrong = run(args)?;
        wrong.iter().for_each(|what| eprintln!("FAULT: {what}"));
        if wrong.is_empty() {
            println!("every timer was accounted for");
        }
        Ok(ExitCode::from(u8::from(!wrong.is_empty())))
    })
}

/// Runs it. Returns what was wrong, each in one line.
fn run(args: &Args) -> Result<Vec<String>, String> {
    let book = Arc::new(Book::new(args.timers));
    let lateness = Arc::new(Mutex::new(Lateness::ready()));
    let (noted, late) = (book.clone(), lateness.clone());
    let builder = TimerService::builder()
        .tick(args.tick)
        .name("soak")
        .on_expire(move |batch: &mut Batch<'_, u64>| {
            let now_ns = noted.ns(Instant::now());
            let mut late = lock(&late);
            batch.for_each(|payload| noted.fires(payload, now_ns, &mut late));
        });
    let builder = match args.shards {
        Some(shards) => builder.shards(shards),
        None => builder,
    };
    let service = builder
        .start()
        .map_err(|error| format!("no service: {error}"))?;

    let runs = Arc::new(AtomicU64::new(0));
    for _ in 0..PERIODIC {
        let runs = runs.clone();
        let periodic = service.every(args.tick * PERIOD_TICKS);
        periodic
            .start(move || _ = runs.fetch_add(1, Relaxed))
            .map_err(|error| format!("no periodic timer: {error}"))?;
    }

    let (done, is_over) = (Done::default(), AtomicBool::new(false));
    let load = Load {
        book: &book,
        handle: service.handle(),
        done: &done,
        tick: args.tick,
        rate: args.rate as f64 / args.threads as f64,
        is_over: &is_over,
    };
    let time = Duration::from_secs_f64(60.0 * args.minutes);
    let mut samples = Vec::new();
    let mut rng = Rng::with_seed(args.seed);
    println!("{}", samples::TITLES);
    thread::scope(|scope| {
        let load = &load;
        for number in 0..args.threads {
            let [first, end] = [number, number + 1].map(|n| n * args.timers / args.threads);
            let region = Region::new(first, end - first, rng.fork());
            scope.spawn(move || load.go_on(region));
        }
        let mut sampler = Sampler::new(args.tick);
        let (start, pause) = (Instant::now(), (time / SAMPLES).min(SAMPLE_TIME_MAX));
        while start.elapsed() < time && book.faults() == 0 {
            thread::sleep(pause.min(time.saturating_sub(start.elapsed())));
            let late = mem::replace(&mut *lock(&lateness), Lateness::ready());
            let sample = sampler.sample(&service.stats(), &done, &late);
            println!("{sample}");
            samples.push(sample);
            let overdue = book.overdue(PATIENCE);
            if overdue > 0 {
                let after = PATIENCE.as_secs();
                book.fault(format_args!("{overdue} timers did not fire for {after} s"));
            }
        }
        is_over.store(true, SeqCst);
    });

    for unfired in service.stop() {
        book.close(unfired.payload, State::HandedBack);
    }
    // What had begun to fire goes on after the stop.
    let patient = Instant::now() + PATIENCE;
    while book.pending() > 0 && Instant::now() < patient {
        thread::sleep(Duration::from_millis(1));
    }
    let timers = service.stats().timers;
    let mut wrong = Vec::new();
    let mut equal = |what: &str, counted: u64, noted: u64| {
        if counted != noted {
            wrong.push(format!("{counted} {what} by the service, {noted} noted"));
        }
    };
    equal(
        "timers armed",
        timers.armed,
        done.armed.load(Relaxed) + PERIODIC as u64,
    );
    equal("cancelled", timers.cancelled, done.cancelled.load(Relaxed));
    equal("moved", timers.rearmed, done.moved.load(Relaxed));
    equal("runs", timers.runs, runs.load(Relaxed));
    equal("without an outcome", timers.pending, book.pending() as u64);
    let outcomes = timers.fired + timers.cancelled + timers.handed_back + timers.ended;
    equal("outcomes", outcomes, timers.armed);
    wrong.extend((book.faults() > 0).then(|| format!("{} faults", book.faults())));
    println!("{}", samples::summary(&samples));
    println!(
        "{} timers, {PERIODIC} of them periodic, with {} runs; {} threads that lived for a second",
        timers.armed,
        timers.runs,
        done.threads.load(Relaxed)
    );
    if time >= JUDGED_FROM {
        wrong.extend(samples::risen(&samples));
    } else {
        println!("too short to say whether memory is flat: that takes ten minutes");
    }
    Ok(wrong)
}
