//! `soak`: one service under a server's load for as long as told, every timer accounted for, and
//! memory that stays flat.

mod load;
mod periodic;
mod samples;

use crate::ledger::{Ledger, Outcome};
use crate::wait::{EndsAll, Patience};
use fastrand::Rng;
use load::{Done, Load, Region};
use periodic::Periodic;
use samples::Sampler;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, TimerService};
use wheelwork_kit::lateness::Lateness;
use wheelwork_kit::lock::lock;
use wheelwork_kit::program::{self, say};
use wheelwork_kit::system;

/// Samples of a run, and the time between two at the most.
const SAMPLES: u32 = 60;
const SAMPLE_TIME_MAX: Duration = Duration::from_secs(60);

/// The allocator and the service become warm in the first quarter of this time, and no sooner. In
/// less time a machine that is busy may be late for most of it.
const JUDGED_FROM: Duration = Duration::from_secs(10 * 60);

/// A timer that is later by more may be lost. It is, if nothing that is late comes in this time
/// more while the program runs: a machine that is shared stalls, and a process may be stopped.
const PATIENCE: Patience = Patience {
    look: Duration::from_millis(100),
    looks: 100,
};

/// What a line and its timer take.
const BYTES_EACH: u64 = 150;

/// One timer service under a server's load: time-outs that are cancelled or moved on, timers that
/// fire, some for hours of ticks, a few for a day, 64 periodic ones, threads that live for a
/// second.
///
/// Each timer is accounted for: it has one outcome, is never early, and comes. From ten minutes on,
/// memory must not rise by more than 2 % and 1 MB from the second quarter of the time to the third,
/// and again to the last. (Once it may: when the machine stalls.) And most runs of periodic timers
/// must be less than a period late. The other figures are shown: M is a million; `entries` are the
/// timers in the wheels, with cancelled ones that were not swept yet, so they swing.
///
/// Delays and periods are in ticks, so with a tick of 50 us timers come twenty times as soon as
/// with one of 1 ms: 72 minutes have as many ticks as a day of 1 ms. The rate and the threads'
/// lives are by the clock.
#[derive(clap::Args)]
#[command(max_term_width = 110)]
pub(crate) struct Args {
    /// Time for it in minutes, from 0.01 up to 10,080 (a week)
    #[arg(long = "minutes", value_name = "MINUTES", default_value = "10", value_parser = crate::minutes)]
    time: Duration,

    /// Tick of the service, from 10us to 1s
    #[arg(long, value_name = "TIME", default_value = "1ms",
        value_parser = program::duration(Duration::from_micros(10)..=Duration::from_secs(1)))]
    tick: Duration,

    /// Timers that may be pending at a time, from 100 to 10M
    #[arg(long, value_name = "COUNT", default_value = "100k",
        value_parser = program::count(100..=10_000_000))]
    timers: usize,

    /// Steps in a second, of all threads: a timer is looked at, and armed, moved, or cancelled and
    /// armed anew. What the machine cannot do is left out, as `M steps` shows. At most 100M
    #[arg(long, value_name = "COUNT", default_value = "100k",
        value_parser = program::count(1..=100_000_000))]
    rate: usize,

    /// Threads that do this, at most 64
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = program::count(1..=64))]
    threads: usize,

    /// Shards of the service [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = program::count(1..=64))]
    shards: Option<usize>,

    /// Seed of what is drawn
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
}

/// Runs it. Returns what was wrong, each in one line.
pub(crate) fn run(args: &Args) -> Result<Vec<String>, String> {
    system::check_memory(args.timers, BYTES_EACH)?;
    let ledger = Ledger::new(false);
    let lines: Arc<[_]> = (0..args.timers).map(|_| ledger.blank()).collect();
    let lateness = Arc::new(Mutex::new(Lateness::ready()));
    let (noted, noted_lines, late) = (ledger.clone(), lines.clone(), lateness.clone());
    let builder = TimerService::builder()
        .tick(args.tick)
        .name("soak")
        .on_expire(move |batch: &mut Batch<'_, u64>| {
            let now_ns = noted.now_ns();
            let fires = |payload| {
                let (place, number) = load::read(payload);
                let line = &noted_lines[place];
                // Before the line may have another timer.
                let due_ns = line.due_ns();
                let is_first = noted.end(line, number, Outcome::Fired);
                is_first.then(|| noted.fires(line, due_ns, now_ns))?;
                Some(due_ns)
            };
            let fired = batch.filter_map(fires);
            let dues_ns: Vec<_> = fired.collect();
            let mut late = lock(&late);
            dues_ns
                .into_iter()
                .for_each(|due_ns| late.fired(due_ns, now_ns));
        });
    let builder = match args.shards {
        Some(shards) => builder.shards(shards),
        None => builder,
    };
    let service = builder
        .start()
        .map_err(|error| format!("no service: {error}"))?;
    let periodic = Periodic::start(&service.handle(), &ledger, args.tick)?;

    let (done, is_over) = (Done::default(), AtomicBool::new(false));
    let load = Load {
        ledger: &ledger,
        lines: &lines,
        handle: service.handle(),
        done: &done,
        tick: args.tick,
        rate: args.rate as f64 / args.threads as f64,
        is_over: &is_over,
    };
    let time = args.time;
    let mut samples = Vec::new();
    let mut rng = Rng::with_seed(args.seed);
    let look = |ago: Duration| {
        let before_ns = ledger.ago_ns(ago);
        let timers = || match ledger.missing(before_ns) {
            (0, _) => None,
            (count, one) => Some((count, format!("timers do not come: {one:?}"))),
        };
        let runs = || match ledger.overdue(before_ns) {
            0 => None,
            count => Some((count, "periodic timers do not come".to_string())),
        };
        let stuck = [PATIENCE.wait_while(timers), PATIENCE.wait_while(runs)];
        for (count, what) in stuck.into_iter().flatten() {
            ledger.fault(format_args!("{count} {what}"));
        }
    };
    say(format_args!("{}", samples::titles()));
    thread::scope(|scope| {
        let _end = EndsAll(&is_over);
        let load = &load;
        for number in 0..args.threads {
            let [first, end] = [number, number + 1].map(|n| n * args.timers / args.threads);
            let region = Region::new(first, end - first, rng.fork());
            scope.spawn(move || load.go_on(region));
        }
        let mut sampler = Sampler::new(args.tick);
        let (start, pause) = (Instant::now(), (time / SAMPLES).min(SAMPLE_TIME_MAX));
        while start.elapsed() < time && ledger.faults() == 0 && !is_over.load(SeqCst) {
            thread::sleep(pause.min(time.saturating_sub(start.elapsed())));
            let next = Lateness::ready();
            let late = mem::replace(&mut *lock(&lateness), next);
            let sample = sampler.sample(&service.stats(), &done, &late);
            say(format_args!("{sample}"));
            samples.push(sample);
            look(PATIENCE.time());
        }
    });
    // What is due by now comes.
    look(Duration::ZERO);

    for unfired in service.stop() {
        let (place, number) = load::read(unfired.payload);
        ledger.end(&lines[place], number, Outcome::HandedBack);
    }
    let timers = service.stats().timers;
    let mut wrong = Vec::new();
    let mut equal = |what: &str, counted: u64, noted: u64| {
        if counted != noted {
            wrong.push(format!("{counted} {what} by the service, {noted} noted"));
        }
    };
    let noted = ledger.totals();
    equal("timers armed", timers.armed, noted.lines);
    equal("fired", timers.fired, noted.fired);
    equal("cancelled", timers.cancelled, noted.cancelled);
    equal("handed back", timers.handed_back, noted.handed_back);
    equal("periodic ones ended", timers.ended, periodic::COUNT as u64);
    equal("moved", timers.rearmed, done.moved.load(Relaxed));
    equal("runs", timers.runs, periodic.count());
    equal("without an outcome", timers.pending, ledger.pending());
    let outcomes = timers.fired + timers.cancelled + timers.handed_back + timers.ended;
    equal("outcomes", outcomes, timers.armed);
    wrong.extend((ledger.faults() > 0).then(|| format!("{} faults", ledger.faults())));
    say(format_args!("{}", samples::summary(&samples)));
    say(format_args!(
        "{} timers, {} of them periodic, with {} runs; {} threads, two at a time",
        timers.armed,
        periodic::COUNT,
        timers.runs,
        done.threads.load(Relaxed)
    ));
    if time < JUDGED_FROM {
        let what = "memory is flat and periodic timers keep their rate";
        say(format_args!(
            "too short to say whether {what}: that takes ten minutes"
        ));
        return Ok(wrong);
    }
    if periodic.is_slow() {
        wrong.push("most runs of periodic timers are late by a period or more".to_string());
    }
    wrong.extend(samples::risen(&samples));
    Ok(wrong)
}
