//! Faults: the steps that a model can break, to show that it notices. (Those that the simulation
//! breaks are in `src/store/fault.rs`.)
//!
//! A fault begins with the name of its step in the README of this crate's source. The tests
//! `broken_*` of loom-tests set a fault and assert that the model fails. Outside loom [`broken`] is
//! a constant `false`, and the broken branches do not exist.

use std::sync::atomic::Ordering;

/// A step of a protocol that loom-tests can break, to show that its models notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// TicketTell: the writer wakes whoever waits, and leaves the answer at a later instant.
    TicketToldTooEarly,
    /// RightsExtend: the end of the leases is published with Relaxed.
    RightsExtendRelaxed,
    /// ClaimPublish: the watermark is published with Relaxed.
    ClaimPublishRelaxed,
    /// StandingSet: those who wait for the store are woken before the word says that it works.
    StandingToldTooEarly,
    /// ThrottleGive: what a call has got is not given back.
    ThrottleKept,
    /// ThrottleGive: it is given back twice.
    ThrottleGivenTwice,
    /// ThrottleGive: the writer is not told, though timers wait.
    ThrottleUntold,
    /// ThrottleAsk: a newcomer overtakes those that wait.
    ThrottleOvertakes,
}

/// Whether a step is broken on purpose: never, outside loom.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn broken(_: Fault) -> bool {
    false
}

#[cfg(loom)]
std::thread_local! {
    /// The step that the running model breaks. loom runs all threads of a model on one OS thread.
    static FAULT: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Breaks one step of a protocol in the models that this thread runs from now on.
#[cfg(loom)]
pub fn set_fault(fault: Option<Fault>) {
    FAULT.set(fault);
}

/// Whether the running model breaks this step.
#[cfg(loom)]
pub(crate) fn broken(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

/// The ordering of an access: `normal`, or Relaxed in the model that breaks this step.
#[inline(always)]
pub(crate) fn ordering(normal: Ordering, fault: Fault) -> Ordering {
    if broken(fault) {
        Ordering::Relaxed
    } else {
        normal
    }
}
