//! Promise: durable timers of many nodes keep their promises when nodes die, stand still, and have
//! wrong clocks, and their store is slow.
//!
//! - An acknowledged timer is handled, or dead and listed.
//! - It is handled never early by the store's clock, and twice only if a lease or a node ended
//!   between.
//! - A `cancel` that says `true` is true on every node.
//! - What is handed in under a lease that has ended is refused.
//! - After an end of a node another one takes over.
//!
//! `WHEELWORK_SEEDS` seeds are tried, from `WHEELWORK_SEED` on. A seed that fails prints its story.
//! With the feature `__faults` each step of a fleet that can be broken is, and some seed has to
//! fail. So it is with stores that are broken.

#[path = "common/fleet_simulation/mod.rs"]
mod fleet_simulation;
#[path = "common/shared_memory.rs"]
mod shared_memory;

use fleet_simulation::{Report, simulate};
use shared_memory::{STORE_BREAKS, StoreBreak};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::{env, thread};

/// Seeds of a run of all tests.
const SEEDS: u64 = 500;

/// The last lines of a story are printed.
const LINES_MAX: usize = 400;

/// A step of a node that is broken on purpose.
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

/// Lives through seeds, on all cores, until one fails, or through all. Returns what they came to
/// together, and the seeds that failed with their stories.
fn try_all(
    seeds: Range<u64>,
    fault: Fault,
    broken: Option<StoreBreak>,
    is_first_enough: bool,
) -> (Report, Vec<(u64, String)>) {
    let (next, is_over) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (sum, failures) = (Mutex::new(Report::default()), Mutex::new(Vec::new()));
    let work = || {
        set(fault);
        while !is_over.load(SeqCst) {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds.end {
                return;
            }
            match simulate(seed, broken) {
                Ok(report) => {
                    let mut sum = sum.lock().unwrap();
                    sum.armed += report.armed;
                    sum.handled += report.handled;
                    sum.repeated += report.repeated;
                    sum.cancelled += report.cancelled;
                    sum.dead += report.dead;
                    sum.stale += report.stale;
                    sum.nodes += report.nodes;
                    sum.leases += report.leases;
                }
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
    (sum.into_inner().unwrap(), failures)
}

/// The end of a story.
fn end_of(story: &str) -> String {
    let lines: Vec<_> = story.lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}

fn wrong_of(story: &str) -> &str {
    let wrong = story.lines().find(|line| line.starts_with("WRONG"));
    wrong.unwrap_or_default()
}

#[test]
fn all_promises_are_kept() {
    let first = number("WHEELWORK_SEED").unwrap_or(0);
    let count = number("WHEELWORK_SEEDS").unwrap_or(SEEDS);
    if count == 1
        && let Ok(report) = simulate(first, None)
    {
        println!("{}", report.story);
    }
    let (sum, failures) = try_all(first..first + count, None, None, count < 100_000);
    let Some((seed, story)) = failures.first() else {
        println!("{count} seeds: {sum:?}");
        return;
    };
    panic!(
        "{}\nseed {seed} fails; again: WHEELWORK_SEED={seed} WHEELWORK_SEEDS=1",
        end_of(story)
    );
}

#[test]
fn a_seed_is_one_story() {
    for seed in (0..20).chain([1 << 40]) {
        let [first, second] = [(); 2].map(|()| simulate(seed, None).unwrap().story);
        assert!(first.lines().count() > 20, "{first}");
        assert_eq!(first, second);
    }
}

/// How many seeds each broken variant may take.
const BROKEN_SEEDS: u64 = 300;

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_breaks_a_promise() {
    use wheelwork::durable::DurableFault;
    let is_counted = number("WHEELWORK_COUNT").is_some();
    for fault in [
        DurableFault::LeaseIgnored,
        DurableFault::LeaseFromAnswer,
        DurableFault::LeaseGivenEarly,
        DurableFault::LoadBeyondClaim,
        DurableFault::BelowNotScanned,
    ] {
        let (_, failures) = try_all(0..BROKEN_SEEDS, Some(fault), None, !is_counted);
        let (seed, story) = failures
            .first()
            .unwrap_or_else(|| panic!("{fault:?} is not noticed"));
        println!(
            "{fault:?}: {} seeds, {seed}: {}",
            failures.len(),
            wrong_of(story)
        );
    }
}

#[test]
fn a_broken_store_breaks_a_promise() {
    let is_counted = number("WHEELWORK_COUNT").is_some();
    for broken in STORE_BREAKS {
        let (_, failures) = try_all(0..BROKEN_SEEDS, None, Some(broken), !is_counted);
        let (seed, story) = failures
            .first()
            .unwrap_or_else(|| panic!("{broken:?} is not noticed"));
        println!(
            "{broken:?}: {} seeds, {seed}: {}",
            failures.len(),
            wrong_of(story)
        );
    }
}
