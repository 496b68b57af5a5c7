//! Promise: nodes that share a database keep the promises of durable timers, in every order of
//! their steps: the model in `common/fleet_model/`.
//!
//! - A promise's model is explored whole, within its bounds: two nodes, one or two timers, times
//!   from 1 to 5, leases that last 1 or 2, and one or two crashes, releases and renewals each. The
//!   number of its states shows that nothing was cut off. Who changes the model counts anew.
//! - `spare_*`: a guard is left out, and no promise is broken without it.
//! - `broken_*`: a step is broken, and the checker finds the promise that this breaks.
//! - `limit_*`: what the protocol does not promise, and how that comes about.

#[path = "../common/fleet_model/mod.rs"]
mod model;

use model::{Bounds, Event, Fleet, LeaseFault, Promise};
use stateright::{Checker, HasDiscoveries, Model};

/// One timer, and one of each.
const ONE: Bounds = Bounds {
    end: 3,
    ttl: 1,
    margin: 0,
    ahead: 1,
    dues: [&[2], &[]],
    renewals: 1,
    releases: 1,
    crashes: 1,
    losses: 0,
    clock_steps: 0,
    has_cancels: true,
    has_retries: true,
    killer: None,
    measures_clock: false,
};

const TWO: Bounds = Bounds {
    end: 4,
    dues: [&[2], &[3]],
    ..ONE
};

/// Leases come and go.
const LEASES: Bounds = Bounds {
    end: 4,
    ahead: 0,
    dues: [&[1, 3], &[]],
    renewals: 2,
    releases: 2,
    crashes: 2,
    losses: 1,
    ..ONE
};

/// The first timer ends each process that hands it out.
const KILLER: Bounds = Bounds {
    end: 4,
    dues: [&[2], &[2]],
    crashes: 0,
    killer: Some(0),
    ..ONE
};

/// The nodes know the database's clock from answers alone.
const MEASURED: Bounds = Bounds {
    end: 5,
    measures_clock: true,
    ..ONE
};

/// The database's clock steps ahead of the nodes' clocks, by the margin.
const STEPPED: Bounds = Bounds {
    end: 5,
    ttl: 2,
    margin: 1,
    clock_steps: 1,
    measures_clock: true,
    ..ONE
};

/// For guards of the lease.
const GUARDS: Bounds = Bounds {
    end: 4,
    renewals: 2,
    ..ONE
};

/// Time for three leases.
const LATE: Bounds = Bounds { end: 5, ..ONE };

/// Explores a model whole: no promise is broken, and each event happens.
fn explore(bounds: Bounds, fault: Option<LeaseFault>, states: usize) {
    let checker = Fleet { bounds, fault }.checker().spawn_bfs().join();
    assert!(checker.is_done());
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states);
}

/// Explores a model until something of this name is found.
fn find(bounds: Bounds, fault: Option<LeaseFault>, name: &'static str) {
    let first = HasDiscoveries::AllOf([name].into());
    let model = Fleet { bounds, fault }.checker().finish_when(first);
    model.spawn_bfs().join().assert_any_discovery(name);
}

/// A broken step breaks a promise.
fn breaks(bounds: Bounds, fault: LeaseFault, promise: Promise) {
    find(bounds, Some(fault), promise.name());
}

#[test]
fn two_timers() {
    explore(TWO, None, 909_440);
}

#[test]
fn leases_that_come_and_go() {
    explore(LEASES, None, 2_198_186);
}

#[test]
fn a_timer_that_kills_its_node_is_buried() {
    explore(KILLER, None, 470_919);
}

#[test]
fn a_clock_that_is_known_from_answers() {
    explore(MEASURED, None, 524_833);
}

#[test]
fn a_clock_that_steps_by_the_margin() {
    explore(STEPPED, None, 1_110_711);
}

/// Where owners have names of their own, the name tells as much as the epoch.
#[test]
fn spare_epoch_of_a_renewal() {
    explore(GUARDS, Some(LeaseFault::RenewWithoutEpoch), 299_978);
}

/// If nobody has taken the lease, nothing has changed.
#[test]
fn spare_time_of_a_renewal() {
    explore(GUARDS, Some(LeaseFault::RenewLate), 395_938);
}

/// A watermark that is too late only makes cancels say `false`.
#[test]
fn spare_fence_of_a_claim() {
    explore(GUARDS, Some(LeaseFault::ClaimUnfenced), 493_350);
}

#[test]
fn broken_take_before_it_has_run_out() {
    breaks(ONE, LeaseFault::TakenEarly, Promise::OneHasTheRight);
}

#[test]
fn broken_watermark_that_begins_anew() {
    breaks(ONE, LeaseFault::WatermarkLowered, Promise::CancelIsTrue);
}

#[test]
fn broken_rows_of_an_earlier_epoch() {
    breaks(ONE, LeaseFault::FoundKept, Promise::CancelIsTrue);
}

#[test]
fn broken_lease_from_the_answer() {
    breaks(ONE, LeaseFault::LeaseFromAnswer, Promise::OneHasTheRight);
}

#[test]
fn broken_lease_from_an_old_transaction() {
    breaks(
        ONE,
        LeaseFault::LeaseFromOldTransaction,
        Promise::OneHasTheRight,
    );
}

#[test]
fn broken_clock_from_the_request() {
    breaks(MEASURED, LeaseFault::ClockFromRequest, Promise::NeverEarly);
}

#[test]
fn broken_margin() {
    breaks(STEPPED, LeaseFault::MarginLeftOut, Promise::OneHasTheRight);
}

#[test]
fn broken_fence_of_a_renewal() {
    breaks(ONE, LeaseFault::RenewUnfenced, Promise::OneHasTheRight);
}

#[test]
fn broken_release_before_all_is_settled() {
    breaks(
        ONE,
        LeaseFault::ReleasedUnsettled,
        Promise::OnceUnlessLapsed,
    );
}

#[test]
fn broken_release_before_attempts_are_raised() {
    breaks(ONE, LeaseFault::ReleasedUnraised, Promise::AttemptsAtMost);
}

#[test]
fn broken_fence_of_a_release() {
    breaks(ONE, LeaseFault::ReleaseUnfenced, Promise::OneHasTheRight);
}

#[test]
fn broken_release_before_the_node_stops() {
    breaks(
        ONE,
        LeaseFault::HandsOutAfterRelease,
        Promise::OneHasTheRight,
    );
}

#[test]
fn broken_attempts_that_are_not_raised() {
    breaks(
        KILLER,
        LeaseFault::AttemptsNotRaised,
        Promise::AttemptsAtMost,
    );
}

#[test]
fn broken_fence_of_a_raise() {
    breaks(LATE, LeaseFault::RaiseUnfenced, Promise::StaleIsRefused);
}

#[test]
fn broken_read_before_attempts_are_raised() {
    breaks(KILLER, LeaseFault::ReadBeforeRaise, Promise::AttemptsAtMost);
}

#[test]
fn broken_read_before_the_claim() {
    breaks(ONE, LeaseFault::ReadBeforeClaim, Promise::CancelIsTrue);
}

#[test]
fn broken_start_before_the_claim() {
    breaks(ONE, LeaseFault::HandedBeforeClaim, Promise::CancelIsTrue);
}

#[test]
fn broken_scan() {
    breaks(ONE, LeaseFault::NeverScanned, Promise::NothingIsForgotten);
}

#[test]
fn broken_scan_that_finds_what_is_settled() {
    breaks(
        ONE,
        LeaseFault::SettledStillFound,
        Promise::OnceUnlessLapsed,
    );
}

#[test]
fn broken_scan_that_finds_what_was_moved() {
    breaks(ONE, LeaseFault::SettledStillFound, Promise::NeverEarly);
}

#[test]
fn broken_start_of_what_is_in_flight() {
    breaks(ONE, LeaseFault::InFlightNotKept, Promise::OnceAnEpoch);
}

#[test]
fn broken_fence_of_an_ack() {
    breaks(ONE, LeaseFault::AckUnfenced, Promise::StaleIsRefused);
}

#[test]
fn broken_fence_of_an_ack_loses_a_row() {
    breaks(ONE, LeaseFault::AckUnfenced, Promise::NothingIsLost);
}

#[test]
fn broken_fence_of_a_retry() {
    breaks(ONE, LeaseFault::RetryUnfenced, Promise::StaleIsRefused);
}

#[test]
fn broken_guard_of_a_cancel() {
    breaks(ONE, LeaseFault::CancelUnguarded, Promise::CancelIsTrue);
}

#[test]
fn broken_lock_of_a_cancel() {
    breaks(ONE, LeaseFault::CancelUnlocked, Promise::CancelIsTrue);
}

/// A node looks at its clock, and is stopped before the handler's first instruction. Meanwhile
/// another node hands the timer out, a retry moves it, and a cancel says `true`.
#[test]
fn limit_pause_before_a_start() {
    breaks(ONE, LeaseFault::PausedBeforeStart, Promise::CancelIsTrue);
}

/// TakeOverSuspect charges each row due by the watermark at once, handed out or not. So a timer is
/// buried that only waited while leases ran out: what trials, which begin later, save it from.
#[test]
fn limit_buried_unseen() {
    find(KILLER, None, Event::BuriedUnseen.name());
}
