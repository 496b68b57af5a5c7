//! Fire: from claimed entries to tasks that have run.
//!
//! A leaf of due entries is claimed by one worker, under one pin; the payloads lie in a [`Leaf`] from which this worker takes one after the other, and
//! idle workers that help. So a slow task holds up nobody while a worker is idle, and no user code runs pinned.

use super::inner::Inner;
use crate::dispatch::Fire;
use crate::dispatch::leaf::Leaf;
use crate::entry::Entry;
use crate::sync::{Fault, Ordering, broken, ordering};
use crate::time::TickLength;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Payloads of timers that fired, for the handler to take: an iterator.
///
/// What is in it has fired: it can be cancelled no more. The handler should take all; what it leaves is dropped. Another worker may
/// take from the same batch at the same time, so [`left`](Self::left) is at most what comes.
pub struct Batch<'a, T> {
    leaf: &'a Leaf<'a, T>,
}

impl<T> Batch<'_, T> {
    /// How many payloads are left now.
    #[must_use]
    pub fn left(&self) -> usize {
        self.leaf.left()
    }
}

impl<T> Iterator for Batch<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.leaf.take()
    }
}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("left", &self.left()).finish()
    }
}

/// How late the timers of a leaf are, as they are claimed: each against its own deadline, all by one reading of the clock.
struct Late {
    tick: TickLength,
    now_ns: u64,
    above_ns: u64,
    /// The greatest lateness above that, and how many there are.
    lateness_ns_max: u64,
    timers: u64,
}

impl Late {
    #[inline]
    fn add(&mut self, deadline: u64) {
        let lateness_ns = self.now_ns.saturating_sub(self.tick.start(deadline));
        if lateness_ns > self.above_ns {
            self.lateness_ns_max = self.lateness_ns_max.max(lateness_ns);
            self.timers += 1;
        }
    }
}

impl<T: Send + 'static> Fire for Inner<T> {
    type Payload = T;

    fn begin(&self) {
        // Ordering: AcqRel (F1). Before the claims of F2, whose Release carries it to X4; see X5 in `stop`.
        if !broken(Fault::JobNotCounted) {
            self.running.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn claim(&self, entries: &[Entry], mut add: impl FnMut(T)) {
        let mut fired = 0;
        let mut late = Late { tick: self.tick, now_ns: 0, above_ns: self.hooks.late_above_ns(), lateness_ns_max: 0, timers: 0 };
        self.cells.with_local(|local| {
            late.now_ns = self.clock.arming_now_ns(&mut local.anchor);
            self.cells.claim_due(local, entries, |entry, payload| {
                late.add(entry.deadline());
                add(payload);
                fired += 1;
            });
        });
        if fired > 0 {
            self.count_fired(fired);
        }
        if late.timers > 0 {
            self.hooks.late(late.lateness_ns_max, late.timers);
        }
    }

    /// Runs the handler until the leaf is empty, whatever panics.
    fn run(&self, leaf: &Leaf<'_, T>) {
        loop {
            let left = leaf.left();
            if left == 0 {
                break;
            }
            let handled = catch_unwind(AssertUnwindSafe(|| {
                (self.handler)(&mut Batch { leaf });
                // What the handler did not take.
                while leaf.take().is_some() {}
            }));
            if let Err(panic) = handled {
                self.panicked(panic);
                // A handler that panics before it takes anything costs a payload each time, so that it comes to an end.
                if leaf.left() == left
                    && let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(leaf.take())))
                {
                    self.panicked(panic);
                }
            }
        }
    }

    fn end(&self) {
        // Ordering: Release (F3). Pairs with the Acquire of X5: who sees zero sees what the tasks did.
        if !broken(Fault::JobNotCounted) {
            self.running.fetch_sub(1, ordering(Ordering::AcqRel, Fault::JobEndRelaxed));
        }
    }
}
