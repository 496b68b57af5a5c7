//! Fire: from claimed entries to tasks that have run.
//!
//! A leaf of due entries is claimed by one worker, under one pin; the payloads lie in a [`Leaf`] from which this worker takes one after the other, and
//! idle workers that help. So a slow task holds up nobody while a worker is idle, and no user code runs pinned.

use super::cells::Run;
use super::inner::Inner;
use super::running::Half;
use crate::dispatch::leaf::{Leaf, Leaves};
use crate::dispatch::{Fire, LEAF};
use crate::entry::Entry;
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

/// Drops something that may panic when it is dropped; a panic's own payload may, too. Whether it did not.
pub(super) fn discard(value: impl Sized) -> bool {
    match catch_unwind(AssertUnwindSafe(|| drop(value))) {
        Ok(()) => true,
        Err(panic) => {
            std::mem::forget(panic);
            false
        }
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Fires payloads on the calling thread.
    pub(super) fn fire_here(&self, mut payloads: impl Iterator<Item = T>) {
        let mut leaves = Leaves::new(LEAF);
        while let Some(first) = payloads.next() {
            leaves.clear();
            let Some(leaf) = leaves.leaf(0) else { return };
            let mut fired = 0;
            let some = std::iter::once(first).chain(payloads.by_ref().take(LEAF - 1)).inspect(|_| fired += 1);
            // SAFETY: once since it was cleared.
            unsafe { leaf.fill(|filling| some.for_each(|payload| filling.add(payload))) };
            self.count_fired(fired);
            self.run(&leaf);
        }
    }
}

impl<T: Send + 'static> Fire for Inner<T> {
    type Payload = T;
    type Run = Run;
    type Begun = Half;

    fn begin(&self) -> Half {
        self.running.begin() // F1
    }

    fn claim(&self, entries: &[Entry], mut add: impl FnMut(T), run: impl FnMut(Run)) {
        let mut fired = 0;
        self.cells.with_local(|local| {
            let fire = |payload| {
                add(payload);
                fired += 1;
            };
            self.cells.claim_due(local, entries, fire, run);
        });
        if fired > 0 {
            self.count_fired(fired);
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
                self.count_panic();
                discard(panic);
                // A handler that panics before it takes anything costs a payload each time, so that it comes to an end.
                if leaf.left() == left && !discard(leaf.take()) {
                    self.count_panic();
                }
            }
        }
    }

    fn repeat(&self, run: Run) {
        self.run_periodic(run);
    }

    fn give_up(&self, run: Run) {
        self.end_periodic(run);
    }

    fn end(&self, begun: Half) {
        self.running.end(begun); // F3
    }
}
