//! Due: the protocol of a closure that many calls run once.
//!
//! Callers are on any thread. At one instant at most one thread, or one timer, owns the closure: it
//! alone arms a timer for it, and runs it. So two runs are never in progress at once.
//!
//! Call:
//!
//!  - `CallMark`: raise the time for which a run is called for.
//!  - `CallOwn`: try to become the owner. If there is none, the caller arms a timer, which is the
//!    owner from then on. If there is one, it sees the mark.
//!
//! The owner:
//!
//!  - `RunTake`: before a run, take the mark away, if it is still the one that is due. All calls
//!    that raised it came before the run.
//!  - `RunLeave`: after the run, give the closure up.
//!  - `RunLook`: look for a mark again. If there is one, try to become the owner anew, and arm a
//!    timer for it.
//!
//! No call is lost: `CallOwn` and `RunLeave` are exchanges of one word, so they come one after the
//! other. If `CallOwn` comes first, `RunLeave` acquires what the caller has published, and
//! `RunLook` sees its mark. If `RunLeave` comes first, the caller becomes the owner, or another
//! caller or `RunLook` has become it before and has not left: the same holds for that one.

use crate::sync::{AtomicBool, AtomicU64, Fault, Ordering, broken, ordering};

/// No run is called for.
const NONE: u64 = 0;

/// The run that is called for, and whether it has an owner.
#[derive(Debug)]
pub(crate) struct DueRun {
    /// The time for which it is called for: nanoseconds since the clock's origin.
    due_ns: AtomicU64,
    is_owned: AtomicBool,
}

impl DueRun {
    pub(crate) fn new() -> Self {
        Self {
            due_ns: AtomicU64::new(NONE),
            is_owned: AtomicBool::new(false),
        }
    }

    /// Calls for a run. `true`: the caller is the owner now.
    pub(crate) fn call(&self, due_ns: u64) -> bool {
        // Ordering: Release (CallMark). Pairs with the Acquire of RunTake: the run sees what the
        // caller did before. The exchange below publishes the mark.
        let order = ordering(Ordering::Release, Fault::CallMarkRelaxed);
        self.due_ns.fetch_max(due_ns.max(NONE + 1), order);
        self.own() // CallOwn
    }

    fn own(&self) -> bool {
        // Ordering: AcqRel. Release pairs with the Acquire of RunLeave, and publishes the mark.
        // Acquire pairs with its Release, which publishes what is the owner's.
        let order = ordering(Ordering::AcqRel, Fault::CallOwnRelaxed);
        !self.is_owned.swap(true, order)
    }

    /// The time for which a run is called for. The owner's.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        // Ordering: Relaxed. A look: RunTake and RunLook decide.
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        (due_ns != NONE).then_some(due_ns)
    }

    /// Takes the mark before a run. `false`: another call has raised it, or it was called off. The
    /// owner's.
    pub(crate) fn take(&self, due_ns: u64) -> bool {
        // Ordering: Acquire. Pairs with CallMark of all callers whose mark this takes. Relaxed: a
        // mark that is not taken is read again.
        self.due_ns
            .compare_exchange(due_ns, NONE, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Calls the run off. Returns whether there was one.
    pub(crate) fn call_off(&self) -> bool {
        // Ordering: Relaxed. It publishes nothing.
        self.due_ns.swap(NONE, Ordering::Relaxed) != NONE
    }

    /// Gives the closure up. If a run is called for, and nobody else owns it by now, the caller
    /// owns it again, and gets the time.
    pub(crate) fn leave(&self) -> Option<u64> {
        self.give_up(); // RunLeave
        if broken(Fault::RunLeavesBlindly) {
            return None;
        }
        let due_ns = self.due_ns()?; // RunLook
        self.own().then_some(due_ns)
    }

    /// Gives the closure up, whatever is called for: the next call is its owner. For an owner that
    /// cannot arm a timer.
    pub(crate) fn give_up(&self) {
        // Ordering: AcqRel. See `own`.
        let order = ordering(Ordering::AcqRel, Fault::RunLeaveRelaxed);
        self.is_owned.swap(false, order);
    }
}
