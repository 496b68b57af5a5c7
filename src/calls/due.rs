//! Due: the protocol of a closure that many calls run once.
//!
//! Callers are on any thread. At one instant at most one thread, or one timer, owns the closure: it
//! alone arms a timer for it, and runs it. So two runs are never in progress at once.
//!
//! Call:
//!
//!  - `CallSince`: if there is no mark, note the time of this call, from which the longest wait
//!    counts.
//!  - `CallMark`: raise the time for which a run is called for.
//!  - `CallOwn`: try to become the owner. If there is none, the caller arms a timer, which is the
//!    owner from then on. If there is one, it sees the mark; unless it is in its last run: then the
//!    call is refused.
//!
//! The owner:
//!
//!  - `RunTake`: before a run, take the mark away, if it is still the one that is due. All calls
//!    that raised it came before the run.
//!  - `RunLeave`: after the run, give the closure up.
//!  - `RunLook`: look for a mark again. If there is one, try to become the owner anew, and arm a
//!    timer for it.
//!  - `RunLast`: if no timer can be armed, say so before the run that comes at once. The owner does
//!    not look for a mark after that run.
//!
//! No call is lost: `CallOwn` and `RunLeave` are exchanges of one word, so they come one after the
//! other. If `CallOwn` comes first, `RunLeave` acquires what the caller has published, and
//! `RunLook` sees its mark. If `RunLeave` comes first, the caller becomes the owner, or another
//! caller or `RunLook` has become it before and has not left: the same holds for that one.
//! `RunLast` changes this word too. A `CallOwn` before it is seen by the last run, a later one is
//! refused.

use crate::sync::{AtomicU32, AtomicU64, Fault, Ordering, broken, ordering};

/// No run is called for.
const NONE: u64 = 0;

/// Bits of the owner's word: there is an owner; it is in its last run.
const OWNED: u32 = 1;
const LAST: u32 = 2;

/// What a call has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// No owner: the caller is it now.
    Own,
    /// An owner, which sees the call.
    Seen,
    /// An owner in its last run. No run follows the call, but the next one that makes its caller
    /// the owner leads to a run for both.
    Late,
}

/// The run that is called for, and whether it has an owner.
#[derive(Debug)]
pub(crate) struct DueRun {
    /// The time for which it is called for: nanoseconds since the clock's origin.
    due_ns: AtomicU64,
    /// When the first call came that no run has followed.
    since_ns: AtomicU64,
    /// [`OWNED`], [`LAST`].
    owner: AtomicU32,
}

impl DueRun {
    pub(crate) fn new() -> Self {
        Self {
            due_ns: AtomicU64::new(NONE),
            since_ns: AtomicU64::new(NONE),
            owner: AtomicU32::new(0),
        }
    }

    /// Calls for a run, at this time, for that one.
    pub(crate) fn call(&self, now_ns: u64, due_ns: u64) -> Called {
        // Ordering: Relaxed. A mark that is taken just now only makes the run come later.
        if self.due_ns.load(Ordering::Relaxed) == NONE {
            // Ordering: Relaxed (CallSince). CallMark publishes it.
            self.since_ns.store(now_ns, Ordering::Relaxed);
        }
        // Ordering: Release (CallMark). Pairs with the Acquire of RunTake: the run sees what the
        // caller did before. The exchange below publishes the mark.
        let order = ordering(Ordering::Release, Fault::CallMarkRelaxed);
        self.due_ns.fetch_max(due_ns.max(NONE + 1), order);
        let owner = self.add(OWNED); // CallOwn
        match owner {
            0 => Called::Own,
            OWNED => Called::Seen,
            _ => Called::Late,
        }
    }

    fn own(&self) -> bool {
        self.add(OWNED) == 0
    }

    /// Adds a bit to the owner's word. Returns what it was.
    fn add(&self, bit: u32) -> u32 {
        // Ordering: AcqRel. Release pairs with the Acquire of RunLeave, and publishes the mark.
        // Acquire pairs with its Release, which publishes what is the owner's.
        let order = ordering(Ordering::AcqRel, Fault::CallOwnRelaxed);
        self.owner.fetch_or(bit, order)
    }

    /// RunLast. The owner's.
    pub(crate) fn begin_last(&self) {
        if !broken(Fault::RunLastUnmarked) {
            self.add(LAST);
        }
    }

    /// A wait for a run begins now, whenever its first call came. The owner's.
    pub(crate) fn begin_wait(&self, now_ns: u64) {
        // Ordering: Relaxed. The owner's: what makes another one the owner publishes it.
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// When the first call came of those that the mark of `due_ns` stands for. The owner's.
    pub(crate) fn since_ns(&self) -> u64 {
        // Ordering: Relaxed. Read after `due_ns`, whose Acquire pairs with CallMark.
        self.since_ns.load(Ordering::Relaxed)
    }

    /// The time for which a run is called for. The owner's.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        // Ordering: Acquire. Pairs with CallMark, which publishes CallSince. (Of what is called for
        // it is only a look: RunTake and RunLook decide.)
        let due_ns = self.due_ns.load(Ordering::Acquire);
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

    /// Takes whatever mark there is, before a run. Returns whether there was one. The owner's.
    pub(crate) fn take_any(&self) -> bool {
        // Ordering: Acquire. As in `take`.
        self.due_ns.swap(NONE, Ordering::Acquire) != NONE
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
        self.owner.swap(0, order);
    }
}
