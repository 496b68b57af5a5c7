//! Seeds: many are tried, on all cores. One that fails has its story printed.

use super::ledger::Report;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::{env, thread};

/// The last lines of a story are printed.
const LINES_MAX: usize = 400;

/// A step of durable timers that is broken on purpose.
#[cfg(feature = "__faults")]
pub type Fault = Option<wheelwork_durable::DurableFault>;
#[cfg(not(feature = "__faults"))]
pub type Fault = Option<()>;

/// What came of many seeds.
pub struct Tried {
    /// The counts of the seeds that kept all promises, added up.
    pub sum: Report,
    /// Seeds that failed with their stories, the least seed first.
    pub failures: Vec<(u64, String)>,
}

/// Breaks a step in all that this thread runs.
fn set(fault: Fault) {
    #[cfg(feature = "__faults")]
    wheelwork_durable::set_durable_fault(fault);
    let _ = fault;
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// The seeds that the environment asks for. Without a word from it: the first `count`.
pub fn asked_for(count: u64) -> Range<u64> {
    let first = number("WHEELWORK_SEED").unwrap_or(0);
    first..first + number("WHEELWORK_SEEDS").unwrap_or(count)
}

/// Lives through seeds, on all cores, until one fails, or through all.
pub fn try_all(
    seeds: Range<u64>,
    fault: Fault,
    is_first_enough: bool,
    simulate: impl Fn(u64) -> Result<Report, String> + Sync,
) -> Tried {
    let (next, is_over) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (sum, failures) = (Mutex::new(Report::default()), Mutex::new(Vec::new()));
    let work = || {
        set(fault);
        while !is_over.load(SeqCst) {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds.end {
                return;
            }
            match simulate(seed) {
                Ok(report) => sum.lock().unwrap().add(&report),
                Err(story) => {
                    is_over.store(is_first_enough, SeqCst);
                    failures.lock().unwrap().push((seed, story));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    let sum = sum.into_inner().unwrap();
    Tried { sum, failures }
}

/// The last lines of a story.
fn end_of(story: &str) -> String {
    let lines: Vec<_> = story.lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}

/// Seeds keep all promises. The story of a single one is printed in any case.
pub fn demand_all_kept(
    scene: &str,
    seeds: Range<u64>,
    simulate: impl Fn(u64) -> Result<Report, String> + Sync,
) {
    let count = seeds.end - seeds.start;
    if count == 1
        && let Ok(report) = simulate(seeds.start)
    {
        println!("{scene}, seed {}:\n{}", seeds.start, report.story);
    }
    let tried = try_all(seeds, None, count < 100_000, simulate);
    let Some((seed, story)) = tried.failures.first() else {
        println!("{scene}, {count} seeds: {:?}", tried.sum.counts);
        return;
    };
    panic!(
        "{}\nseed {seed} {scene} fails; \
        again: scripts/check simulation --seed {seed} --seeds 1",
        end_of(story)
    );
}

/// Some seed fails: what is broken on purpose is noticed. Where `WHEELWORK_COUNT` is set, all seeds
/// are tried, and those that fail are counted.
pub fn demand_noticed(
    name: &str,
    seeds: Range<u64>,
    fault: Fault,
    simulate: impl Fn(u64) -> Result<Report, String> + Sync,
) {
    let is_counted = number("WHEELWORK_COUNT").is_some();
    let failures = try_all(seeds, fault, !is_counted, simulate).failures;
    let (seed, story) = failures
        .first()
        .unwrap_or_else(|| panic!("{name} is not noticed"));
    let wrong = story.lines().find(|line| line.starts_with("WRONG"));
    let wrong = wrong.unwrap_or_default();
    match is_counted {
        true => println!("{name}: {} seeds, first {seed}: {wrong}", failures.len()),
        false => println!("{name}: seed {seed}: {wrong}"),
    }
}

/// A seed is lived through twice, and both stories are one.
pub fn demand_one_story(seed: u64, simulate: impl Fn(u64) -> Result<Report, String>) {
    let [first, second] = [(); 2].map(|()| simulate(seed).unwrap().story);
    assert!(first.lines().count() > 20, "{first}");
    assert_eq!(first, second);
}
