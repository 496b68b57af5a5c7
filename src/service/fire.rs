//! Fire: from claimed entries to tasks that have run.
//!
//! A leaf of due entries is claimed by one worker, under one pin; the payloads lie in a [`Leaf`] from which this worker takes one after the other, and
//! idle workers too. So a slow task holds up nobody while a worker is idle, and no user code runs pinned.

use super::inner::Inner;
use crate::dispatch::{Fire, Help};
use crate::entry::Entry;
use crate::sync::{AtomicUsize, Fault, Ordering, broken, ordering};
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Claimed payloads, to be taken once each by whichever thread comes.
struct Leaf<T> {
    payloads: Vec<ManuallyDrop<T>>,
    next: AtomicUsize,
}

// SAFETY: `take` hands each payload to one thread; nothing else is shared.
unsafe impl<T: Send> Sync for Leaf<T> {}

impl<T> Leaf<T> {
    fn take(&self) -> Option<T> {
        // Ordering: Relaxed. The payloads were written before the leaf was shared (rayon's join orders that); the counter only divides them.
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        let payload = self.payloads.get(position)?;
        // SAFETY: the counter gives each position to one taker, and the vector does not drop its payloads.
        Some(unsafe { std::ptr::read(&raw const **payload) })
    }

    fn left(&self) -> usize {
        // Ordering: Relaxed. As above; a stale answer costs one empty look.
        self.payloads.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

impl<T> Drop for Leaf<T> {
    fn drop(&mut self) {
        while self.take().is_some() {}
    }
}

/// Payloads of timers that fired, for the handler to take: an iterator.
///
/// What is in it has fired: it can be cancelled no more. The handler should take all; what it leaves is dropped. Another worker may
/// take from the same batch at the same time, so [`left`](Self::left) is at most what comes.
pub struct Batch<'a, T> {
    leaf: &'a Leaf<T>,
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

/// Drops something that may panic when it is dropped; a panic's own payload may, too. Whether it did not.
fn discard(value: impl Sized) -> bool {
    match catch_unwind(AssertUnwindSafe(|| drop(value))) {
        Ok(()) => true,
        Err(panic) => {
            std::mem::forget(panic);
            false
        }
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Runs the handler until the leaf is empty, whatever panics.
    fn handle(&self, leaf: &Leaf<T>) {
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
                self.count_panic();
                discard(panic);
                // A handler that panics before it takes anything costs a payload each time, so that it comes to an end.
                if leaf.left() == left && !discard(leaf.take()) {
                    self.count_panic();
                }
            }
        }
    }
}

impl<T: Send + 'static> Fire for Inner<T> {
    fn fire(&self, entries: &[Entry], help: &dyn Help) {
        let mut payloads = Vec::with_capacity(entries.len());
        self.cells.with_local(|local| {
            self.cells.claim_due(local, entries, |payload| payloads.push(ManuallyDrop::new(payload)));
        });
        if payloads.is_empty() {
            return;
        }
        self.count_fired(payloads.len() as u64);
        let leaf = Leaf { payloads, next: AtomicUsize::new(0) };
        help.share(&|| self.handle(&leaf), &|| leaf.left() > 0);
    }

    fn begin(&self) {
        // F1. Ordering: AcqRel. Before the claims of F2, whose Release carries it to X4; see X5 in `stop`.
        if !broken(Fault::JobNotCounted) {
            self.running.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn end(&self) {
        // F3. Ordering: Release. Pairs with the Acquire of X5: who sees zero sees what the tasks did.
        if !broken(Fault::JobNotCounted) {
            self.running.fetch_sub(1, ordering(Ordering::AcqRel, Fault::JobEndRelaxed));
        }
    }
}
