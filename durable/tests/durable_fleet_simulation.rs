//! Promise: durable timers of many nodes keep their promises when nodes die, stand still, and have
//! wrong clocks, and their store is slow.
//!
//! - An acknowledged timer is handled, or dead and listed.
//! - It is handled never early by the store's clock, and twice only if a lease or a node ended
//!   between.
//! - A `cancel` that says `true` is true on every node.
//! - What is handed in under a lease that has ended is refused.
//! - What a user's transaction was told holds if it commits, and is nothing if it does not. It
//!   holds up the timers that it has touched, and no others.
//! - After an end of a node another one takes over.
//!
//! `WHEELWORK_SEEDS` seeds are tried, from `WHEELWORK_SEED` on. A seed that fails prints its story.
//! With the feature `__faults` each step of a fleet that can be broken is, and some seed has to
//! fail. So it is with stores that are broken.

#[path = "common/fleet_simulation/mod.rs"]
mod fleet_simulation;
#[path = "common/shared_memory/mod.rs"]
mod shared_memory;
#[path = "common/simulated/mod.rs"]
mod simulated;

use fleet_simulation::simulate;
use shared_memory::STORE_BREAKS;
use simulated::seeds;

/// Seeds of a run of all tests.
const SEEDS: u64 = 500;

/// The last lines of a story are printed.
const LINES_MAX: usize = 400;

/// How many seeds each broken variant may take.
const BROKEN_SEEDS: u64 = 600;

#[test]
fn all_promises_are_kept() {
    let seeds = seeds::asked_for(SEEDS);
    seeds::demand_all_kept(seeds, LINES_MAX, |seed| simulate(seed, None));
}

#[test]
fn a_seed_is_one_story() {
    for seed in (0..20).chain([1 << 40]) {
        seeds::demand_one_story(seed, |seed| simulate(seed, None));
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_breaks_a_promise() {
    use wheelwork_durable::DurableFault;
    for fault in [
        DurableFault::LeaseIgnored,
        DurableFault::LeaseFromAnswer,
        DurableFault::LeaseGivenEarly,
        DurableFault::LoadBeyondClaim,
        DurableFault::BelowNotScanned,
        DurableFault::AsideForgotten,
        DurableFault::AsideOvertaken,
        DurableFault::AsideHandedOut,
        DurableFault::TrialUnstored,
        DurableFault::TrialsTogether,
    ] {
        let (name, seeds) = (format!("{fault:?}"), 0..BROKEN_SEEDS);
        seeds::demand_noticed(&name, seeds, Some(fault), |seed| simulate(seed, None));
    }
}

#[test]
fn a_broken_store_breaks_a_promise() {
    for broken in STORE_BREAKS {
        let (name, seeds) = (format!("{broken:?}"), 0..BROKEN_SEEDS);
        seeds::demand_noticed(&name, seeds, None, |seed| simulate(seed, Some(broken)));
    }
}
