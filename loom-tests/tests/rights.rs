//! Rights: the leases of a node that other nodes share a store with, as the writer sets them and a
//! thread that is about to call a handler sees them.

use loom::thread::spawn;
use std::sync::Arc;
use wheelwork_durable::internals::{Fault, LeaseRights};
use wheelwork_loom_tests::{explore, must_fail};

/// A lease that was lost: RightsWithdraw and RightsExtend against RightsLook, after its end.
fn lost() {
    let rights = Arc::new(LeaseRights::new());
    rights.set(1);
    rights.extend(10);
    let writer = rights.clone();
    let writer = spawn(move || {
        // The partition is another node's; the other leases last on.
        writer.set(0);
        writer.extend(20);
    });
    assert!(!rights.allow(1, 15), "it ended at 10");
    writer.join().unwrap();
    assert!(!rights.allow(1, 15));
}

/// A lease that was lost and taken again, under another epoch.
fn taken_again() {
    let rights = Arc::new(LeaseRights::new());
    rights.set(1);
    rights.extend(10);
    let writer = rights.clone();
    let writer = spawn(move || {
        writer.set(0);
        writer.set(2);
        writer.extend(20);
    });
    assert!(!rights.allow(1, 15), "it ended at 10");
    writer.join().unwrap();
    assert!(rights.allow(2, 15));
    assert!(!rights.allow(2, 20));
}

#[test]
fn nothing_is_handed_out_under_a_lease_that_is_lost() {
    explore(None, lost);
}

#[test]
fn nor_under_one_that_was_taken_again() {
    explore(None, taken_again);
}

#[test]
fn broken_end_of_a_lost_lease() {
    must_fail(Fault::RightsExtendRelaxed, "it ended at 10", None, lost);
}

#[test]
fn broken_end_of_a_lease_that_was_taken_again() {
    must_fail(
        Fault::RightsExtendRelaxed,
        "it ended at 10",
        None,
        taken_again,
    );
}
