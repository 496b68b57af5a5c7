//! The ledger of what has fired: how many, and how late.

use crate::random::now_ns;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use wheelwork_kit::lateness::{self, Lateness, Stripe};
use wheelwork_kit::line::Figures;
use wheelwork_kit::lock::lock;

/// More threads than this share a stripe.
const STRIPES: usize = 4;

/// What handlers write down.
#[derive(Default)]
pub(crate) struct Ledger {
    stripes: [Stripe; STRIPES],
}

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The calling thread's stripe.
fn own() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    OWN.with(|own| {
        if own.get() == usize::MAX {
            // Ordering: Relaxed. Only the number counts.
            own.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        own.get()
    })
}

impl Ledger {
    /// A timer has fired that was due then, in milliseconds since the epoch.
    pub(crate) fn fired(&self, due_ms: u64) {
        let stripe = &self.stripes[own()];
        lock(&stripe.lateness).fired(due_ms * 1_000_000, now_ns());
        // Ordering: Relaxed. A count to look at; the figures behind the lock are read under it.
        stripe.fired.fetch_add(1, Relaxed);
    }

    pub(crate) fn fired_so_far(&self) -> u64 {
        lateness::fired_so_far(self.stripes.iter())
    }

    pub(crate) fn lateness(&self) -> Lateness {
        lateness::sum(self.stripes.iter())
    }

    /// Of a number of timers that should have fired.
    pub(crate) fn figures(&self, armed: u64) -> Figures {
        let lateness = self.lateness();
        let mut figures = lateness.figures();
        figures.extend([
            ("lost", armed.saturating_sub(lateness.count()) as f64),
            ("again", lateness.count().saturating_sub(armed) as f64),
        ]);
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fired_is_counted_and_what_did_not_is_lost() {
        let ledger = Ledger::default();
        ledger.fired(now_ns() / 1_000_000 - 5);
        ledger.fired(now_ns() / 1_000_000 + 60_000);
        let figures = ledger.figures(3);
        assert_eq!(ledger.fired_so_far(), 2);
        assert_eq!((figures.0["early"], figures.0["lost"]), (1.0, 1.0));
        assert!(figures.0["late_ms_max"] >= 5.0, "{figures:?}");
    }
}
