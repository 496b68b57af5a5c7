//! Payloads that their owner takes alone until somebody helps: src/dispatch/grain.rs. A grain has
//! three at most here.

use std::sync::Arc;
use wheelwork::internals::loom::{Fault, Grain, Grains};
use wheelwork_loom_tests::{Ledger, explore, must_fail, spawn};

/// Takes until nothing is left.
fn take_all<const N: usize>(grain: &Grain<'_, usize>, taken: &Ledger<N>) {
    while grain.left() > 0 {
        if let Some(payload) = grain.take() {
            assert_eq!(taken.add(payload), 1, "taken twice");
        }
    }
}

/// An owner and `helpers` helpers take `N` payloads. (That these are there before anybody helps is
/// the job's model.)
fn share<const N: usize>(helpers: usize) {
    let (grains, taken) = (Arc::new(Grains::new(N)), Arc::new(Ledger::<N>::new()));
    // SAFETY: once.
    let owned = unsafe { grains.fill(0..N) };
    let helpers: Vec<_> = (0..helpers)
        .map(|_| {
            let (grains, taken) = (grains.clone(), taken.clone());
            spawn(move || take_all(&grains.help(), &taken))
        })
        .collect();
    take_all(&owned, &taken);
    helpers
        .into_iter()
        .for_each(|helper| helper.join().unwrap());
    assert_eq!(taken.counts(), [1; N], "each is taken once");
}

/// Asks on when nothing is left.
fn take_on<const N: usize>(grain: &Grain<'_, usize>, taken: &Ledger<N>) {
    take_all(grain, taken);
    (0..8).for_each(|_| assert!(grain.take().is_none(), "taken twice"));
}

/// An owner and a helper, as before, who both ask on.
fn share_and_ask_on() {
    let (grains, taken) = (Arc::new(Grains::new(2)), Arc::new(Ledger::<2>::new()));
    // SAFETY: once.
    let owned = unsafe { grains.fill(0..2) };
    let helper = {
        let (grains, taken) = (grains.clone(), taken.clone());
        spawn(move || take_on(&grains.help(), &taken))
    };
    take_on(&owned, &taken);
    helper.join().unwrap();
    assert_eq!(taken.counts(), [1; 2], "each is taken once");
}

#[test]
fn an_owner_and_a_helper_take_each_payload_once() {
    explore(Some(3), || share::<2>(1));
}

#[test]
fn an_owner_and_a_helper_share_three() {
    explore(Some(3), || share::<3>(1));
}

#[test]
fn an_owner_and_two_helpers_take_each_payload_once() {
    explore(Some(1), || share::<2>(2));
}

#[test]
fn a_grain_that_is_polled_past_its_end() {
    explore(Some(2), share_and_ask_on);
}

#[test]
fn broken_look_before_a_step() {
    must_fail(
        Fault::GrainStepsPastEnd,
        "taken twice",
        Some(2),
        share_and_ask_on,
    );
}

#[test]
fn broken_take() {
    must_fail(
        Fault::GrainTakeNotAtomic,
        "Causality violation",
        Some(3),
        || share::<3>(1),
    );
}

#[test]
fn broken_help() {
    must_fail(
        Fault::GrainHelpNoFence,
        "Causality violation",
        Some(3),
        || share::<2>(1),
    );
}

#[test]
fn broken_share() {
    must_fail(
        Fault::GrainSharedTwice,
        "Causality violation",
        Some(3),
        || share::<2>(1),
    );
}
