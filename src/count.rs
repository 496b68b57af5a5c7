//! Count: counters with one writer each, which anyone reads.
//!
//! A count on the way of a timer is a load and a store in a line that its thread has to itself. Sets of such counters are kept in a
//! [`Registry`], which outlives the threads: one that ends leaves its set to the next, which counts on from there, so that the sum of all sets is what was
//! ever counted, and there are as many sets as there were threads at once.
//!
//! Ground rule: a counter is written by the owner of its set alone.

use crate::sync::{CountLock, CountU64, Ordering, pause};
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::Arc;

/// A number that its owner writes.
#[derive(Debug, Default)]
pub(crate) struct Counter(CountU64);

impl Counter {
    /// Adds to the number. The owner only.
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        self.set(self.get().wrapping_add(by));
    }

    /// Sets the number. The owner only.
    #[inline]
    pub(crate) fn set(&self, to: u64) {
        // Ordering: Relaxed. A counter with one writer.
        self.0.store(to, Ordering::Relaxed);
    }

    /// Raises the number to one that is greater. The owner only.
    #[inline]
    pub(crate) fn raise(&self, to: u64) {
        if to > self.get() {
            self.set(to);
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Ordering: Relaxed. As above.
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets of counters, of threads that are and that were.
pub(crate) struct Registry<C> {
    /// Somebody is at the sets. Held for some nanoseconds, at a thread's first call, at its end, and by those who read.
    taken: CountLock,
    sets: UnsafeCell<Sets<C>>,
}

// SAFETY: the sets are behind `taken`.
unsafe impl<C: Send + Sync> Sync for Registry<C> {}

struct Sets<C> {
    all: Vec<Arc<C>>,
    /// Those without an owner.
    free: Vec<Arc<C>>,
}

/// A set, and the right to write it. Dropping it leaves the set to the next thread.
pub(crate) struct Own<C> {
    set: Arc<C>,
    registry: Arc<Registry<C>>,
}

impl<C: Default> Registry<C> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { taken: CountLock::new(false), sets: UnsafeCell::new(Sets { all: Vec::new(), free: Vec::new() }) })
    }

    /// A set for the caller to own. Takes a lock: once for each thread.
    pub(crate) fn attach(self: &Arc<Self>) -> Own<C> {
        let set = self.with(|sets| {
            sets.free.pop().unwrap_or_else(|| {
                let set = Arc::<C>::default();
                sets.all.push(set.clone());
                set
            })
        });
        Own { set, registry: self.clone() }
    }
}

impl<C> Registry<C> {
    /// Gives `f` the sets. `f` does not panic, and does not come here again.
    fn with<R>(&self, f: impl FnOnce(&mut Sets<C>) -> R) -> R {
        // Ordering: Acquire. Pairs with the Release below: one after the other.
        while self.taken.swap(true, Ordering::Acquire) {
            pause();
        }
        // SAFETY: `taken` is ours, so nobody else is at the sets.
        let result = f(unsafe { &mut *self.sets.get() });
        // Ordering: Release. Pairs with the Acquire above.
        self.taken.store(false, Ordering::Release);
        result
    }

    /// Shows `f` every set.
    pub(crate) fn for_each(&self, f: impl FnMut(&C)) {
        self.with(|sets| sets.all.iter().map(Arc::as_ref).for_each(f));
    }
}

impl<C> Deref for Own<C> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        &self.set
    }
}

impl<C> Drop for Own<C> {
    fn drop(&mut self) {
        self.registry.with(|sets| sets.free.push(self.set.clone()));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_leaves_its_set_to_the_next() {
        let registry = Registry::<Counter>::new();
        for round in 0..100 {
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| registry.attach().add(round));
                }
            });
        }
        let (mut sum, mut sets) = (0, 0);
        registry.for_each(|set| (sum, sets) = (sum + set.get(), sets + 1));
        assert_eq!(sum, 3 * (0..100).sum::<u64>());
        assert!(sets <= 3, "{sets} sets for three threads at once");
    }
}
