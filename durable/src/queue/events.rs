//! Events: what durable timers report to the crate `tracing`, beside their hooks. Feature `tracing`
//! only.
//!
//! Ground rule: a subscriber is user code. So no lock is held here, and a panic goes no further. On
//! the writer's thread only the failure of the store is reported, and that it works again. While
//! it does not, no call waits for the writer. `src/lib.rs` has the table of events.

use crate::handler::caught::caught;
use crate::handler::delivery::Delivery;
use crate::store::contract::StoreError;
use crate::store::row::DeadLetter;
use std::time::Duration;
use tracing::{error, info, warn};

fn report(event: impl FnOnce()) {
    caught(event);
}

/// A delivery has failed.
pub(crate) fn failed(delivery: &Delivery, why: &str) {
    report(|| {
        warn!(
            target: "wheelwork", kind = delivery.kind(), id = %delivery.id(),
            attempt = delivery.attempt(), why, "a durable timer has failed"
        );
    });
}

/// A handler has taken longer than it may.
pub(crate) fn over_time(delivery: &Delivery) {
    report(|| {
        warn!(
            target: "wheelwork", kind = delivery.kind(), id = %delivery.id(),
            attempt = delivery.attempt(), "a durable timer has taken longer than its limit"
        );
    });
}

/// A timer has become a dead letter.
pub(crate) fn dead(letter: &DeadLetter) {
    report(|| {
        error!(
            target: "wheelwork", kind = &*letter.row.kind, id = %letter.row.id,
            attempts = letter.row.attempts, cause = %letter.cause, "a durable timer is given up"
        );
    });
}

/// Timers of a kind wait for a handler.
pub(crate) fn unhandled(kind: &str, rows: u64) {
    report(|| {
        warn!(
            target: "wheelwork", kind, rows,
            "durable timers wait, as no handler has their kind"
        );
    });
}

/// The store has failed.
pub(crate) fn store_failed(failure: &StoreError) {
    report(|| {
        error!(
            target: "wheelwork", error = %failure,
            "the store of durable timers has failed: nothing fires until it is opened again"
        );
    });
}

/// The store works again.
pub(crate) fn store_back(lasted: Duration) {
    report(|| {
        info!(
            target: "wheelwork", outage_ms = lasted.as_millis() as u64,
            "the store of durable timers works again"
        );
    });
}
