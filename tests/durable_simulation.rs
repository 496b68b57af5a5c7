//! Promise: durable timers keep their promises when processes die, disks fill and clocks are set.
//!
//! - An acknowledged timer is handled, or dead and listed.
//! - It is handled never early, and twice only if a process ended between.
//! - A `cancel` that says `true` is true.
//! - Nothing is dropped in silence: what is counted adds up.
//!
//! `WHEELWORK_SEEDS` seeds are tried, from `WHEELWORK_SEED` on. A seed that fails prints its story.
//! With the feature `__faults` each step that can be broken is, and some seed has to fail.

#[path = "common/simulation/mod.rs"]
mod simulation;

use simulation::{Open, Report, simulate, simulate_on};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::{env, fs, process, thread};
use wheelwork::durable::Redb;

/// Seeds of a run of all tests.
const SEEDS: u64 = 2_000;

/// The last lines of a story are printed.
const LINES_MAX: usize = 200;

/// What is broken on purpose.
#[cfg(feature = "__faults")]
type Fault = Option<wheelwork::durable::DurableFault>;
#[cfg(not(feature = "__faults"))]
type Fault = Option<()>;

/// Breaks a step in all that this thread runs.
fn set(fault: Fault) {
    #[cfg(feature = "__faults")]
    wheelwork::durable::set_durable_fault(fault);
    let _ = fault;
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// Lives through seeds, on all cores, until one fails. Returns what they came to together, or the
/// seed that failed and its story.
fn try_all(seeds: Range<u64>, fault: Fault) -> Result<Report, (u64, String)> {
    let (next, is_over) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (sum, failure) = (Mutex::new(Report::default()), Mutex::new(None));
    let work = || {
        set(fault);
        while !is_over.load(SeqCst) {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds.end {
                return;
            }
            match simulate(seed) {
                Ok(report) => {
                    let mut sum = sum.lock().unwrap();
                    sum.armed += report.armed;
                    sum.handled += report.handled;
                    sum.repeated += report.repeated;
                    sum.cancelled += report.cancelled;
                    sum.dead += report.dead;
                    sum.lives += report.lives;
                }
                Err(story) => {
                    is_over.store(true, SeqCst);
                    failure.lock().unwrap().get_or_insert((seed, story));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    match failure.into_inner().unwrap() {
        Some(failure) => Err(failure),
        None => Ok(sum.into_inner().unwrap()),
    }
}

/// A store in a file that goes when the last of those who open it does.
fn in_a_file() -> Open {
    struct Folder(PathBuf);
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
    static FOLDERS: AtomicU64 = AtomicU64::new(0);
    let number = FOLDERS.fetch_add(1, SeqCst);
    let name = format!("wheelwork-simulation-{}-{number}", process::id());
    let folder = Folder(env::temp_dir().join(name));
    fs::create_dir_all(&folder.0).unwrap();
    Box::new(move || Box::new(Redb::open(folder.0.join("timers.redb")).unwrap()))
}

/// The end of a story.
fn end_of(story: &str) -> String {
    let lines: Vec<_> = story.lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}

#[test]
fn all_promises_are_kept() {
    let first = number("WHEELWORK_SEED").unwrap_or(0);
    let count = number("WHEELWORK_SEEDS").unwrap_or(SEEDS);
    if count == 1
        && let Ok(report) = simulate(first)
    {
        println!("{}", report.story);
    }
    match try_all(first..first + count, None) {
        Ok(sum) => println!("{count} seeds: {sum:?}"),
        Err((seed, story)) => panic!(
            "{}\nseed {seed} fails; again: scripts/check simulation --seed {seed} --seeds 1",
            end_of(&story)
        ),
    }
}

#[test]
fn they_are_kept_on_a_file() {
    let first = number("WHEELWORK_SEED").unwrap_or(0);
    let count = number("WHEELWORK_SEEDS").unwrap_or(SEEDS) / 200;
    for seed in first..first + count.max(1) {
        if let Err(story) = simulate_on(in_a_file(), seed) {
            panic!("{}\nseed {seed} fails on a file", end_of(&story));
        }
    }
}

#[test]
fn a_seed_is_one_story() {
    for seed in (0..40).chain([1 << 40]) {
        let [first, second] = [(); 2].map(|()| simulate(seed).unwrap().story);
        assert!(first.lines().count() > 20, "{first}");
        assert_eq!(first, second);
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_breaks_a_promise() {
    for fault in wheelwork::durable::DURABLE_FAULTS {
        let failure = try_all(0..500, Some(fault)).expect_err(&format!("{fault:?} is not noticed"));
        let (seed, story) = failure;
        let wrong = story.lines().find(|line| line.starts_with("WRONG"));
        println!("{fault:?}: seed {seed}: {}", wrong.unwrap_or_default());
    }
}
