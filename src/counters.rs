//! Counters with one writer each. Any thread may read them.
//!
//! To count costs a load and a store, in a cache line that no other thread writes.
//!
//! A [`Registry`] keeps sets of counters. Each thread owns one set. The registry outlives the
//! threads: a thread that ends leaves its set to the next thread, which counts on from there. So
//! the sum of all sets is all that was ever counted. There are never more sets than there were
//! threads at one time.
//!
//! Ground rule: only the owner of a set writes its counters.

use crate::sync::{CountLock, CountU64, Ordering, Process, pause};
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::Arc;

/// A number. Only its owner writes it.
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

/// The sets of counters of all threads, past ones included.
pub(crate) struct Registry<C> {
    /// A spin lock around `sets`. Held for some nanoseconds: at a thread's first call, at its end,
    /// and while the sets are read.
    taken: CountLock,
    sets: UnsafeCell<Sets<C>>,
    made_in: Process,
}

/// In a process that was forked off: waits for the lock, until a thread of the parent is taken to
/// have it. Some 10 ms.
const FORKED_WAITS_MAX: u32 = 200;

// SAFETY: `sets` is accessed only by the holder of `taken` (`with`).
unsafe impl<C: Send + Sync> Sync for Registry<C> {}

struct Sets<C> {
    all: Vec<Arc<C>>,
    /// Sets without an owner.
    free: Vec<Arc<C>>,
}

/// A set, and the right to write it. Dropping it leaves the set to the next thread.
pub(crate) struct Own<C> {
    set: Arc<C>,
    registry: Arc<Registry<C>>,
}

impl<C: Default> Registry<C> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            taken: CountLock::new(false),
            sets: UnsafeCell::new(Sets {
                all: Vec::new(),
                free: Vec::new(),
            }),
            made_in: Process::current(),
        })
    }

    /// Gives the caller a set to own. Takes the lock: once for each thread.
    pub(crate) fn attach(self: &Arc<Self>) -> Own<C> {
        let set = self.with(|sets| {
            sets.free.pop().unwrap_or_else(|| {
                let set = Arc::<C>::default();
                sets.all.push(set.clone());
                set
            })
        });
        Own {
            set: set.unwrap_or_default(),
            registry: self.clone(),
        }
    }
}

impl<C> Registry<C> {
    /// Gives `f` the sets. `f` must not panic, and must not call this again. `None`: this process
    /// was forked off, and a thread of its parent had them just then.
    fn with<R>(&self, f: impl FnOnce(&mut Sets<C>) -> R) -> Option<R> {
        let mut waits = 0;
        // Ordering: Acquire. Pairs with the Release below: sees what the last holder did to the
        // sets.
        while self.taken.swap(true, Ordering::Acquire) {
            if waits == FORKED_WAITS_MAX && self.made_in.is_forked() {
                return None;
            }
            waits = (waits + 1).min(FORKED_WAITS_MAX);
            pause();
        }
        // SAFETY: this thread holds `taken`, so no other thread accesses the sets.
        let result = f(unsafe { &mut *self.sets.get() });
        // Ordering: Release. Pairs with the Acquire above; publishes the sets.
        self.taken.store(false, Ordering::Release);
        Some(result)
    }

    /// Shows `f` every set; none in the case of `with`.
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

    /// A thread of the parent has the lock, and is not there.
    #[test]
    fn a_lock_of_another_process_is_not_waited_for() {
        let mut registry = Registry::<Counter>::new();
        registry.attach().add(1);
        Arc::get_mut(&mut registry).unwrap().made_in = Process::parent();
        registry.attach().add(1);
        let sum = |registry: &Registry<Counter>| {
            let mut sum = 0;
            registry.for_each(|set| sum += set.get());
            sum
        };
        assert_eq!(sum(&registry), 2, "nobody has it");
        registry.taken.store(true, Ordering::Relaxed);
        registry.attach().add(1);
        assert_eq!(sum(&registry), 0);
    }
}
