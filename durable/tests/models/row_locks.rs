//! Promise: users' transactions that end or move timers, and nodes that hand them out, agree on
//! each row in every order of their steps: the model in `common/row_locks/`.
//!
//! - A promise's model is explored whole, within its bounds: two nodes, two timers, and one or two
//!   users' transactions. The number of its states shows that nothing was cut off. Who changes the
//!   model counts anew.
//! - `spare_*`: a guard is left out or put elsewhere, and no promise is broken.
//! - `broken_*`: a step is broken, and the checker finds the promise that this breaks.

#[path = "../common/row_locks/mod.rs"]
mod model;

use model::{Bounds, Event, Kind, LockFault, Promise, RowLocks};
use stateright::{Checker, HasDiscoveries, Model};

/// One transaction that cancels, and the lease stays where it is.
const CANCEL: Bounds = Bounds {
    clients: [Some(Kind::Cancels), None],
    calls: 1,
    ends: 0,
    renewals: 0,
    give_backs: 0,
};

const SNAPSHOT: Bounds = Bounds {
    clients: [Some(Kind::CancelsInSnapshot), None],
    ..CANCEL
};

const MOVE: Bounds = Bounds {
    clients: [Some(Kind::Moves), None],
    ..CANCEL
};

/// Transactions of two calls each meet.
const CANCEL_AND_SNAPSHOT: Bounds = Bounds {
    clients: [Some(Kind::Cancels), Some(Kind::CancelsInSnapshot)],
    calls: 2,
    ..CANCEL
};

const CANCEL_AND_MOVE: Bounds = Bounds {
    clients: [Some(Kind::Cancels), Some(Kind::Moves)],
    calls: 2,
    ..CANCEL
};

const SNAPSHOT_AND_MOVE: Bounds = Bounds {
    clients: [Some(Kind::CancelsInSnapshot), Some(Kind::Moves)],
    calls: 2,
    ..CANCEL
};

/// The lease of a dead node is taken.
const TAKE: Bounds = Bounds {
    ends: 1,
    renewals: 1,
    ..CANCEL
};

const TAKE_SNAPSHOT: Bounds = Bounds {
    ends: 1,
    ..SNAPSHOT
};

const TAKE_MOVE: Bounds = Bounds { ends: 1, ..MOVE };

/// The lease is given back, and taken.
const GIVE: Bounds = Bounds {
    give_backs: 2,
    ..CANCEL
};

const GIVE_SNAPSHOT: Bounds = Bounds {
    give_backs: 1,
    ..SNAPSHOT
};

/// Explores a model whole: no promise is broken, and these events happen.
fn explore(bounds: Bounds, fault: Option<LockFault>, events: &[Event], states: usize) {
    let checker = RowLocks { bounds, fault }.checker().spawn_bfs().join();
    assert!(checker.is_done());
    for promise in Promise::ALL {
        checker.assert_no_discovery(promise.name());
    }
    for event in events {
        checker.assert_any_discovery(event.name());
    }
    assert_eq!(checker.unique_state_count(), states);
}

/// A broken step breaks a promise.
fn breaks(bounds: Bounds, fault: LockFault, promise: Promise) {
    let first = HasDiscoveries::AllOf([promise.name()].into());
    let fault = Some(fault);
    let model = RowLocks { bounds, fault }.checker().finish_when(first);
    model
        .spawn_bfs()
        .join()
        .assert_any_discovery(promise.name());
}

#[test]
fn a_cancel_and_one_in_a_snapshot() {
    let events = [
        Event::Cancelled,
        Event::CancelledInSnapshot,
        Event::FailedInSnapshot,
        Event::SaidFalse,
        Event::SkippedAndFound,
    ];
    explore(CANCEL_AND_SNAPSHOT, None, &events, 368_487);
}

#[test]
fn a_cancel_and_a_move() {
    let events = [Event::Cancelled, Event::Moved, Event::SaidFalse];
    explore(CANCEL_AND_MOVE, None, &events, 120_279);
}

#[test]
fn a_snapshot_and_a_move() {
    let events = [Event::CancelledInSnapshot, Event::Moved];
    explore(SNAPSHOT_AND_MOVE, None, &events, 435_303);
}

#[test]
fn a_cancel_and_a_take_over() {
    let events = [Event::Cancelled, Event::DeadTaken, Event::TakenOver];
    explore(TAKE, None, &events, 598_655);
}

#[test]
fn a_snapshot_and_a_take_over() {
    let events = [Event::CancelledInSnapshot, Event::DeadTaken];
    explore(TAKE_SNAPSHOT, None, &events, 291_648);
}

#[test]
fn a_move_and_a_take_over() {
    let events = [Event::Moved, Event::DeadTaken, Event::SkippedAndFound];
    explore(TAKE_MOVE, None, &events, 105_315);
}

#[test]
fn a_cancel_and_leases_that_are_given_back() {
    let events = [Event::Cancelled, Event::TakenOver];
    explore(GIVE, None, &events, 120_023);
}

#[test]
fn a_snapshot_and_a_lease_that_is_given_back() {
    let events = [Event::CancelledInSnapshot, Event::TakenOver];
    explore(GIVE_SNAPSHOT, None, &events, 175_280);
}

/// Both locks come before the look, in any order.
#[test]
fn spare_order_of_the_locks() {
    explore(
        CANCEL_AND_SNAPSHOT,
        Some(LockFault::GateAfterRow),
        &[],
        304_515,
    );
}

/// After `false` no row is left that the gate would guard. What an earlier call has locked stays
/// locked.
#[test]
fn spare_gate_after_false() {
    explore(
        CANCEL_AND_SNAPSHOT,
        Some(LockFault::GateLetGo),
        &[],
        412_914,
    );
}

/// If nobody has declared the node dead, nobody has taken its leases.
#[test]
fn spare_time_of_a_renewal() {
    explore(TAKE, Some(LockFault::RenewsLate), &[], 596_108);
}

#[test]
fn broken_gate_that_is_left_out() {
    breaks(CANCEL, LockFault::GateLeftOut, Promise::TrueIsTrue);
}

#[test]
fn broken_gate_of_a_move() {
    breaks(MOVE, LockFault::GateLeftOut, Promise::TrueIsTrue);
}

#[test]
fn broken_gate_after_the_look() {
    breaks(CANCEL, LockFault::GateLast, Promise::TrueIsTrue);
}

#[test]
fn broken_lock_of_a_move() {
    breaks(MOVE, LockFault::MovedWithoutForUpdate, Promise::TrueIsTrue);
}

#[test]
fn broken_look_before_the_locks() {
    breaks(CANCEL, LockFault::LooksBeforeLocks, Promise::TrueIsTrue);
}

#[test]
fn broken_look_in_the_statement_of_the_lock() {
    breaks(
        CANCEL,
        LockFault::LooksInStatementOfLock,
        Promise::TrueIsTrue,
    );
}

#[test]
fn broken_look_in_an_old_snapshot() {
    breaks(SNAPSHOT, LockFault::LooksInOldSnapshot, Promise::TrueIsTrue);
}

#[test]
fn broken_look_in_two_statements() {
    breaks(TAKE, LockFault::LooksTwice, Promise::TrueIsTrue);
}

#[test]
fn broken_look_at_all_nodes() {
    breaks(CANCEL, LockFault::LooksAtAllNodes, Promise::FalseHasAReason);
}

#[test]
fn broken_release_after_false() {
    breaks(CANCEL, LockFault::FalseKeepsLock, Promise::HoldsUpItsOwn);
}

#[test]
fn broken_watermark_that_has_no_row_at_first() {
    breaks(SNAPSHOT, LockFault::WatermarkRowLate, Promise::TrueIsTrue);
}

#[test]
fn broken_watermark_in_a_row_that_no_snapshot_has() {
    breaks(SNAPSHOT, LockFault::NextRowAlone, Promise::TrueIsTrue);
}

#[test]
fn broken_probe_before_the_watermark() {
    breaks(CANCEL, LockFault::ProbedBeforeCommit, Promise::TrueIsTrue);
}

#[test]
fn broken_probe_before_the_take_over() {
    breaks(GIVE, LockFault::ProbedBeforeTake, Promise::TrueIsTrue);
}

#[test]
fn broken_probe_in_the_statement_of_the_read() {
    breaks(
        CANCEL,
        LockFault::ProbedInStatementOfRead,
        Promise::TrueIsTrue,
    );
}

#[test]
fn broken_plain_read_at_a_locked_gate() {
    breaks(CANCEL, LockFault::PlainAtLockedGate, Promise::TrueIsTrue);
}

#[test]
fn broken_scan() {
    breaks(CANCEL, LockFault::NeverScanned, Promise::NothingIsForgotten);
}

#[test]
fn broken_take_over_that_writes_no_watermark() {
    breaks(TAKE, LockFault::TakenUnwritten, Promise::TrueIsTrue);
}

#[test]
fn broken_take_over_in_an_old_snapshot() {
    breaks(TAKE, LockFault::TakenInOldSnapshot, Promise::TrueIsTrue);
}

#[test]
fn broken_take_over_from_a_node_that_is_not_dead() {
    breaks(TAKE, LockFault::TakenUnmarked, Promise::OneHasTheRight);
}

#[test]
fn broken_give_back_that_writes_no_watermark() {
    breaks(GIVE, LockFault::GivenUnwritten, Promise::TrueIsTrue);
}

#[test]
fn broken_give_back_before_the_node_stops() {
    breaks(GIVE, LockFault::GivenBeforeStop, Promise::TrueIsTrue);
}

#[test]
fn broken_renewal_of_a_dead_node() {
    breaks(TAKE, LockFault::RenewsDead, Promise::OneHasTheRight);
}
