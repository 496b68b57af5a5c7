//! Promise: durable timers keep their promises when processes die, disks fill and clocks are set.
//!
//! - An acknowledged timer is handled, or dead and listed.
//! - It is handled never early, and twice only if a process ended between.
//! - A `cancel` that says `true` is true.
//! - Nothing is dropped in silence: what is counted adds up.
//!
//! `WHEELWORK_SEEDS` seeds are tried, from `WHEELWORK_SEED` on. A seed that fails prints its story.
//! With the feature `__faults` each step that can be broken is, and some seed has to fail.

#[path = "common/simulated/mod.rs"]
mod simulated;
#[path = "common/simulation/mod.rs"]
mod simulation;

use simulated::seeds;
use simulation::{Open, simulate, simulate_on};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::{env, fs, process};
use wheelwork_durable::Redb;

/// Seeds of a run of all tests.
const SEEDS: u64 = 2_000;

/// The last lines of a story are printed.
const LINES_MAX: usize = 200;

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

#[test]
fn all_promises_are_kept() {
    seeds::demand_all_kept(seeds::asked_for(SEEDS), LINES_MAX, simulate);
}

#[test]
fn they_are_kept_on_a_file() {
    let seeds = seeds::asked_for(SEEDS);
    let count = (seeds.end - seeds.start) / 200;
    for seed in seeds.start..seeds.start + count.max(1) {
        if let Err(story) = simulate_on(in_a_file(), seed) {
            let end = seeds::end_of(&story, LINES_MAX);
            panic!("{end}\nseed {seed} fails on a file");
        }
    }
}

#[test]
fn a_seed_is_one_story() {
    for seed in (0..40).chain([1 << 40]) {
        seeds::demand_one_story(seed, simulate);
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_breaks_a_promise() {
    for fault in wheelwork_durable::DURABLE_FAULTS {
        seeds::demand_noticed(&format!("{fault:?}"), 0..2_000, Some(fault), simulate);
    }
}
