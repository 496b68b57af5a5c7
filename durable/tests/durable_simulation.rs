//! Promise: durable timers keep their promises when processes die, disks fill and clocks are set;
//! and in a fleet, when nodes die, stand still, and have wrong clocks, and their store is slow.
//!
//! - An acknowledged timer is handled, or dead and listed.
//! - It is handled never early by the store's clock, and twice only if a process or a lease ended
//!   between.
//! - A `cancel` that says `true` is true, on every node.
//! - Nothing is dropped in silence: what is counted adds up.
//! - What is handed in under a lease that has ended is refused.
//! - What a user's transaction was told holds if it commits, and is nothing if it does not. It
//!   holds up the timers that it has touched, and no others.
//! - After an end of a node another one takes over.
//! - A process whose store fails goes on when the store is back, and so does a node of a fleet.
//!   What its handlers say meanwhile counts if its leases have not run out.
//! - What is paused is not handed out, and is handed out when the pause is over.
//! - A run that is done leaves exactly one record, if records are kept, and the record goes when
//!   its time is over, and not before.
//! - A timer whose kind has no handler waits for one, and becomes a dead letter only after a week.
//!
//! `WHEELWORK_SEEDS` seeds are tried, from `WHEELWORK_SEED` on. A seed that fails prints its story.
//! With the feature `__faults` each step that can be broken is, and some seed has to fail. So it is
//! with stores that are broken.

#[path = "common/shared_memory/mod.rs"]
mod shared_memory;
#[path = "common/simulation/mod.rs"]
mod simulation;

use shared_memory::{STORE_BREAKS, StoreBreak};
use simulation::{Kept, Report, seeds};
use wheelwork_durable::Memory;

/// How many seeds each broken variant of a fleet may take.
const BROKEN_SEEDS: u64 = 2_000;

/// A process, with its store in memory.
fn alone(seed: u64) -> Result<Report, String> {
    let memory = Memory::new();
    let kept = Kept::Alone(Box::new(move || Box::new(memory.clone())));
    simulation::simulate(kept, seed)
}

/// A process, with its store in a file that goes when the last of those who open it does.
/// (Ids in a file begin with a random number. So a seed is another story each time.)
#[cfg(feature = "redb")]
fn on_a_file(seed: u64) -> Result<Report, String> {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::{env, fs, path, process};
    use wheelwork_durable::Redb;

    struct Folder(path::PathBuf);
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
    let open = move || Box::new(Redb::open(folder.0.join("timers.redb")).unwrap()) as _;
    simulation::simulate(Kept::Alone(Box::new(open)), seed)
}

/// Nodes that share a store, which may be broken.
fn fleet(broken: Option<StoreBreak>) -> impl Fn(u64) -> Result<Report, String> {
    move |seed| simulation::simulate(Kept::Shared(broken), seed)
}

#[test]
fn all_promises_are_kept() {
    seeds::demand_all_kept("alone", seeds::asked_for(2_000), alone);
}

#[test]
fn all_promises_are_kept_in_a_fleet() {
    seeds::demand_all_kept("in a fleet", seeds::asked_for(500), fleet(None));
}

#[cfg(feature = "redb")]
#[test]
fn they_are_kept_on_a_file() {
    let mut seeds = seeds::asked_for(2_000);
    seeds.end = seeds.start + ((seeds.end - seeds.start) / 200).max(1);
    seeds::demand_all_kept("on a file", seeds, on_a_file);
}

#[test]
fn a_seed_is_one_story() {
    for seed in (0..40).chain([1 << 40]) {
        seeds::demand_one_story(seed, alone);
    }
    for seed in (0..20).chain([1 << 40]) {
        seeds::demand_one_story(seed, fleet(None));
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_breaks_a_promise() {
    for fault in wheelwork_durable::DURABLE_FAULTS {
        seeds::demand_noticed(&format!("{fault:?}"), 0..20_000, Some(fault), alone);
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_of_an_outage_breaks_a_promise() {
    use wheelwork_durable::DurableFault;
    for fault in [
        DurableFault::HealKeepsLoaded,
        DurableFault::HealKeepsClaim,
        DurableFault::HealForgetsAnswers,
        DurableFault::HealDeaf,
        DurableFault::HealToldUnstored,
        DurableFault::HealKeepsCharges,
        DurableFault::HealRaisesEpoch,
    ] {
        seeds::demand_noticed(&format!("{fault:?}"), 0..20_000, Some(fault), alone);
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_of_a_hold_breaks_a_promise() {
    use wheelwork_durable::DurableFault;
    for fault in [
        DurableFault::HoldForgotten,
        DurableFault::HeldReleasedNow,
        DurableFault::BuriedEarly,
        DurableFault::LooksBuries,
    ] {
        seeds::demand_noticed(&format!("{fault:?}"), 0..2_000, Some(fault), alone);
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_of_a_pause_breaks_a_promise() {
    use wheelwork_durable::DurableFault;
    for fault in [DurableFault::PauseIgnored, DurableFault::ResumeForgotten] {
        seeds::demand_noticed(&format!("{fault:?}"), 0..BROKEN_SEEDS, Some(fault), alone);
    }
    let ignored = DurableFault::PauseIgnored;
    seeds::demand_noticed("PauseIgnored", 0..BROKEN_SEEDS, Some(ignored), fleet(None));
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_of_records_breaks_a_promise() {
    use wheelwork_durable::DurableFault;
    for fault in [
        DurableFault::DoneLost,
        DurableFault::DoneUnfenced,
        DurableFault::DoneForgottenEarly,
    ] {
        seeds::demand_noticed(&format!("{fault:?}"), 0..2_000, Some(fault), alone);
    }
    for fault in [DurableFault::DoneLost, DurableFault::DoneForgottenEarly] {
        let (name, seeds) = (format!("{fault:?}"), 0..BROKEN_SEEDS);
        seeds::demand_noticed(&name, seeds, Some(fault), fleet(None));
    }
    let (broken, seeds) = (StoreBreak::DoneUnfenced, 0..BROKEN_SEEDS);
    seeds::demand_noticed(&format!("{broken:?}"), seeds, None, fleet(Some(broken)));
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_of_a_fleet_breaks_a_promise() {
    use wheelwork_durable::DurableFault;
    for fault in [
        DurableFault::HealForgetsAnswers,
        DurableFault::HealDeaf,
        DurableFault::HealToldUnstored,
        DurableFault::HealKeepsLeases,
        DurableFault::LeaseIgnored,
        DurableFault::LeaseFromAnswer,
        DurableFault::LeaseGivenEarly,
        DurableFault::LoadBeyondClaim,
        DurableFault::BelowNotScanned,
        DurableFault::LimitForgotten,
        DurableFault::AsideForgotten,
        DurableFault::AsideOvertaken,
        DurableFault::AsideHandedOut,
        DurableFault::TrialUnstored,
        DurableFault::TrialsTogether,
        DurableFault::SliceLast,
        DurableFault::CursorSkips,
    ] {
        let (name, seeds) = (format!("{fault:?}"), 0..BROKEN_SEEDS);
        seeds::demand_noticed(&name, seeds, Some(fault), fleet(None));
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_of_a_hold_in_a_fleet_breaks_a_promise() {
    use wheelwork_durable::DurableFault;
    for fault in [DurableFault::HoldForgotten, DurableFault::GiveAwayIgnored] {
        let (name, seeds) = (format!("{fault:?}"), 0..BROKEN_SEEDS);
        seeds::demand_noticed(&name, seeds, Some(fault), fleet(None));
    }
    let (broken, seeds) = (StoreBreak::WantsIgnored, 0..BROKEN_SEEDS);
    seeds::demand_noticed(&format!("{broken:?}"), seeds, None, fleet(Some(broken)));
}

#[test]
fn a_broken_store_breaks_a_promise() {
    for broken in STORE_BREAKS {
        let (name, seeds) = (format!("{broken:?}"), 0..BROKEN_SEEDS);
        seeds::demand_noticed(&name, seeds, None, fleet(Some(broken)));
    }
}

#[cfg(feature = "__faults")]
#[test]
fn each_broken_step_of_a_limit_breaks_a_promise() {
    use wheelwork_durable::DurableFault;
    for fault in [DurableFault::ThrottleIgnored, DurableFault::HoldForgotten] {
        seeds::demand_noticed(&format!("{fault:?}"), 0..2_000, Some(fault), alone);
    }
}
