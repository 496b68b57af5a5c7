//! `chaos`: services under whatever their users and the machine may do to them, and every timer
//! accounted for.

mod actors;
mod episode;
mod payload;
mod trouble;

use crate::wait::EndsAll;
use episode::{Size, Summary};
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use wheelwork_kit::program::say;
use wheelwork_kit::system;

/// An episode that takes longer has hung, by looks: its waits end by themselves, each once nothing
/// has come for a minute. (In a process that got half of a per cent of a core one took five
/// minutes.)
const EPISODE_MAX: Duration = Duration::from_secs(900);

/// How often a look is taken whether the episodes go on.
const WATCH_STEP: Duration = Duration::from_millis(100);

/// Timer services under load and trouble, one episode after the other, until the time is over. Each
/// timer is accounted for: one outcome, never early, its payload dropped exactly once.
///
/// Threads arm timers, cancel, take and move each other's, live for 1 ms, and arm in the
/// destructors of their thread-locals; tasks panic, block, and arm others, as do payloads that are
/// dropped; services are started, stopped and dropped under load; all cores are taken, the pool is
/// blocked, the process is stopped for a second. Beside each episode small ones run, services that
/// live for a moment. A fault is printed with the size and the seed of its episode; with that
/// `--seed`, and `--episodes 1`, the first full one and the first small one have it. The seed
/// decides what is drawn, not the order of the threads: the fault may not come again. Of the
/// timers, those that are named nowhere in a line were handed back by `stop`, or dropped with their
/// service; refused ones were armed while it stopped, or were too many for its limit.
#[derive(clap::Args)]
#[command(max_term_width = 110)]
pub(crate) struct Args {
    /// Time for it in minutes, from 0.01 up to 10,080 (a week); the last episode is finished
    #[arg(long = "minutes", value_name = "MINUTES", default_value = "1", value_parser = crate::minutes)]
    time: Duration,

    /// Seed of the first episode; each has that of the one before plus one [default: from the
    /// clock]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Full episodes at the most, before the time is over; small ones run beside them
    #[arg(long, value_name = "COUNT", default_value_t = u64::MAX, hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(1..))]
    episodes: u64,
}

/// Runs it. Returns what was wrong, each in one line.
pub(crate) fn run(args: &Args) -> Result<Vec<String>, String> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let from_clock = since.map_or(0, |since| since.as_micros() as u64 % 1_000_000_000);
    let seed = args.seed.unwrap_or(from_clock);
    let minutes = args.time.as_secs_f64() / 60.0;
    say(format_args!("chaos for {minutes} minutes, seed {seed}"));
    expect_panics();
    let why = match episodes(args.time, seed, args.episodes) {
        Ok(0) => return Ok(Vec::new()),
        Ok(faults) => format!("{faults} faults"),
        Err(why) => format!("chaos: {why}"),
    };
    Ok(vec![format!("{why}; the first seed was {seed}")])
}

/// Panics that belong to it are not printed.
fn expect_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        if !text.starts_with("chaos: ") {
            usual(info);
        }
    }));
}

/// The episode of its size that runs now.
#[derive(Default)]
struct Running {
    is_over: AtomicBool,
    seed: AtomicU64,
    /// Looks of the watch since it has begun.
    steps: AtomicU32,
    /// Episodes that have ended.
    ended: AtomicU64,
}

impl Running {
    /// Episodes of one size, until there is a fault, or `is_enough` says so.
    fn series(
        &self,
        size: Size,
        first_seed: u64,
        mut is_enough: impl FnMut(&Summary) -> bool,
    ) -> Result<Summary, String> {
        let _end = EndsAll(&self.is_over);
        let mut all = Summary::default();
        for seed in first_seed.. {
            self.seed.store(seed, SeqCst);
            self.steps.store(0, SeqCst);
            let summary = episode::run(seed, size);
            all.add(summary.map_err(|why| format!("{size:?} episode of seed {seed}: {why}"))?);
            self.ended.fetch_add(1, SeqCst);
            if is_enough(&all) || all.faults() > 0 {
                break;
            }
        }
        Ok(all)
    }

    /// Ends the process if the episode hangs.
    fn look(&self, size: Size) {
        if self.is_over.load(SeqCst) {
            return;
        }
        // Steps, not time: who stops the process, or the machine, makes no fault.
        if WATCH_STEP * self.steps.fetch_add(1, SeqCst) > EPISODE_MAX {
            let seed = self.seed.load(SeqCst);
            eprintln!("FAULT: the {size:?} episode of seed {seed} hangs");
            std::process::exit(1);
        }
    }
}

/// Episodes until the time is over; small ones beside them. Returns how many faults there were.
fn episodes(time: Duration, first_seed: u64, episodes: u64) -> Result<u64, String> {
    let start = Instant::now();
    let (full, small) = (&Running::default(), &Running::default());
    let (ended, has_ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while has_ended.recv_timeout(WATCH_STEP) == Err(RecvTimeoutError::Timeout) {
                small.look(Size::Small);
                full.look(Size::Full);
            }
        });
        let beside = scope
            .spawn(move || small.series(Size::Small, first_seed, |_| full.is_over.load(SeqCst)));
        let all = full.series(Size::Full, first_seed, |all| {
            let number = full.ended.load(SeqCst);
            say(format_args!(
                "{:6.1} min, {} MB, {number} episodes and {} small ones: {all}",
                start.elapsed().as_secs_f64() / 60.0,
                system::resident_bytes() / 1_000_000,
                small.ended.load(SeqCst)
            ));
            number == episodes || start.elapsed() >= time || small.is_over.load(SeqCst)
        });
        let beside = beside.join();
        drop(ended);
        let beside = beside.map_err(|_| "a small episode panicked".to_string())??;
        say(format_args!("  the small ones: {beside}"));
        Ok(all?.faults() + beside.faults())
    })
}
