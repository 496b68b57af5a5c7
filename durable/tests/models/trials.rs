//! Promise: a timer is charged with the end of a process only if it may have been the cause, and a
//! timer that is ends among the dead, in every order of the steps of trials: the model in
//! `common/trials_model/`.
//!
//! - A promise's model is explored whole, within its bounds: two nodes, one lease, two timers. The
//!   number of its states shows that nothing was cut off. Who changes the model counts anew.
//! - `spare_*`: a guard is left out, and no promise is broken without it.
//! - `broken_*`: a step is broken, and the checker finds the promise that this breaks.
//! - `limit_*`: what trials do not promise, and how that comes about.

#[path = "../common/trials_model/mod.rs"]
mod model;

use model::{Bounds, Event, Promise, TrialFault, Trials};
use stateright::{Checker, HasDiscoveries, Model};

/// Processes end, one after the other.
const CRASHES: Bounds = Bounds {
    crash_attempts: 1,
    crashes: 3,
    ends: 0,
    releases: 0,
    moves: 1,
    locks: 1,
    backs: 1,
    has_gap: false,
};

/// A timer may end the process twice alone.
const ATTEMPTS: Bounds = Bounds {
    crash_attempts: 2,
    crashes: 4,
    moves: 0,
    ..CRASHES
};

/// Leases run out while their nodes go on.
const LAPSES: Bounds = Bounds {
    crashes: 0,
    ends: 1,
    moves: 0,
    ..CRASHES
};

const TWO_LAPSES: Bounds = Bounds {
    ends: 2,
    locks: 0,
    backs: 0,
    ..LAPSES
};

const LAPSE_AND_CRASH: Bounds = Bounds {
    crashes: 1,
    moves: 1,
    locks: 0,
    backs: 0,
    ..LAPSES
};

/// Leases are given back.
const RELEASES: Bounds = Bounds {
    crashes: 1,
    releases: 2,
    moves: 0,
    ..CRASHES
};

/// A life ends before what it has charged was called.
const GAP: Bounds = Bounds {
    has_gap: true,
    ..CRASHES
};

const GAP_OF_LEASE: Bounds = Bounds {
    has_gap: true,
    ..LAPSE_AND_CRASH
};

/// Explores a model whole: no promise is broken, and these events happen.
fn explore(bounds: Bounds, fault: Option<TrialFault>, events: &[Event], states: usize) {
    let checker = Trials { bounds, fault }.checker().spawn_bfs().join();
    assert!(checker.is_done());
    for promise in Promise::ALL {
        checker.assert_no_discovery(promise.name());
    }
    for event in events {
        checker.assert_any_discovery(event.name());
    }
    assert_eq!(checker.unique_state_count(), states);
}

/// Explores a model until a promise is found broken.
fn find(bounds: Bounds, fault: Option<TrialFault>, promise: Promise) {
    let first = HasDiscoveries::AllOf([promise.name()].into());
    let model = Trials { bounds, fault }.checker().finish_when(first);
    let checker = model.spawn_bfs().join();
    checker.assert_any_discovery(promise.name());
}

/// A broken step breaks a promise.
fn breaks(bounds: Bounds, fault: TrialFault, promise: Promise) {
    find(bounds, Some(fault), promise);
}

#[test]
fn processes_that_end() {
    let events = [
        Event::CalledTogether,
        Event::CalledAlone,
        Event::Buried,
        Event::HeldUp,
        Event::TakenBackElsewhere,
    ];
    explore(CRASHES, None, &events, 230_322);
}

#[test]
fn processes_that_end_more_often() {
    let events = [Event::CalledAlone, Event::Buried, Event::HeldUp];
    explore(ATTEMPTS, None, &events, 162_302);
}

#[test]
fn two_leases_that_run_out() {
    let events = [Event::Buried, Event::FormerEpoch];
    explore(TWO_LAPSES, None, &events, 276_712);
}

#[test]
fn leases_that_run_out() {
    let events = [Event::CalledAlone, Event::HeldUp, Event::FormerEpoch];
    explore(LAPSES, None, &events, 257_989);
}

#[test]
fn a_lease_that_runs_out_and_a_process_that_ends() {
    let events = [Event::Buried, Event::CalledAlone, Event::FormerEpoch];
    explore(LAPSE_AND_CRASH, None, &events, 406_555);
}

#[test]
fn leases_that_are_given_back() {
    let events = [Event::CalledTogether, Event::CalledAlone, Event::HeldUp];
    explore(RELEASES, None, &events, 32_807);
}

#[test]
fn broken_charge_of_all() {
    breaks(CRASHES, TrialFault::AllCharged, Promise::ChargedForACall);
}

#[test]
fn broken_charge_of_all_buries() {
    breaks(CRASHES, TrialFault::AllCharged, Promise::BuriedAfterCalls);
}

#[test]
fn broken_begin_that_is_not_stored() {
    breaks(CRASHES, TrialFault::BegunUnstored, Promise::CallIsCharged);
}

#[test]
fn broken_trials_together() {
    breaks(CRASHES, TrialFault::Together, Promise::TrialsApart);
}

#[test]
fn broken_note_that_is_not_taken_back() {
    breaks(RELEASES, TrialFault::NoteKept, Promise::ChargedForALife);
}

#[test]
fn broken_begin_that_is_not_taken_back() {
    breaks(CRASHES, TrialFault::NoteKept, Promise::ChargedForACall);
}

#[test]
fn broken_fence_of_a_take_back() {
    breaks(
        LAPSES,
        TrialFault::TakenBackUnfenced,
        Promise::CallIsCharged,
    );
}

#[test]
fn broken_take_back_after_a_new_charge() {
    breaks(CRASHES, TrialFault::TakenBackLate, Promise::CallIsCharged);
}

#[test]
fn broken_take_back_that_is_held_up() {
    breaks(
        RELEASES,
        TrialFault::HeldUpForgotten,
        Promise::ChargedForALife,
    );
}

#[test]
fn broken_load_before_a_take_back() {
    breaks(CRASHES, TrialFault::LoadedCharged, Promise::ChargedForALife);
}

#[test]
fn broken_take_back_of_what_was_moved() {
    breaks(CRASHES, TrialFault::MovedCharged, Promise::ChargedForALife);
}

/// What is to be taken back follows each move, or is of an epoch that is over.
#[test]
fn spare_deadline_of_a_take_back() {
    explore(CRASHES, Some(TrialFault::TakenBackAnywhere), &[], 230_322);
}

/// The process ends between TrialBegin's commit and the call, or while somebody's transaction keeps
/// the charge from being taken back.
#[test]
fn limit_end_before_a_call() {
    find(GAP, None, Promise::ChargedForACall);
}

/// The lease runs out there, and another node takes it: what is taken back then is refused.
#[test]
fn limit_end_of_a_lease_before_a_call() {
    find(GAP_OF_LEASE, None, Promise::ChargedForACall);
}
