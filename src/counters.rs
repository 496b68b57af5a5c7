//! Counters with one writer each. Any thread may read them.
//!
//! Counting costs a load and a store, in a cache line that no other thread writes.
//!
//! A [`Registry`] keeps sets of counters. Each thread owns one set. The registry outlives the
//! threads: when a thread ends, its counts are added to those of past threads, and its set is
//! freed. So the sum is all that was ever counted. There is a set for each thread that lives, and
//! one for all past threads.
//!
//! Ground rule: only the owner of a set writes its counters. The holder of the lock owns the set of
//! past threads.

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

/// A set of counters.
pub(crate) trait CounterSet: Default {
    /// Adds the counts of another set. The owner only.
    fn add_all(&self, other: &Self);
}

/// The sets of counters of all threads, past ones included.
pub(crate) struct Registry<C> {
    /// A lock around `sets`. Held for some nanoseconds at a thread's first call and at its end
    /// (longer where the list of sets has to grow or to shrink), and for up to a microsecond for
    /// each set while the sets are read. Who finds it held sleeps.
    taken: CountLock,
    sets: UnsafeCell<Sets<C>>,
    made_in: Process,
}

/// How often a process that was forked off waits for the lock, for some 10 ms in all. After that it
/// assumes that a thread of its parent had the lock, and will never give it back here.
const FORKED_WAITS_MAX: u32 = 200;

// SAFETY: `sets` is accessed only by the holder of `taken` (`with`).
unsafe impl<C: Send + Sync> Sync for Registry<C> {}

struct Sets<C> {
    /// The sum of the sets whose owners have ended.
    past: C,
    all: Vec<Arc<OwnedSet<C>>>,
}

struct OwnedSet<C> {
    /// Where it lies among all. Only the holder of the lock uses it.
    place: CountU64,
    counters: C,
}

/// A set, and the right to write it.
pub(crate) struct Own<C: CounterSet> {
    set: Arc<OwnedSet<C>>,
    registry: Arc<Registry<C>>,
}

impl<C: CounterSet> Registry<C> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            taken: CountLock::new(false),
            sets: UnsafeCell::new(Sets {
                past: C::default(),
                all: Vec::new(),
            }),
            made_in: Process::current(),
        })
    }

    /// Gives the caller a set to own. Takes the lock: once for each thread.
    pub(crate) fn attach(self: &Arc<Self>) -> Own<C> {
        let set = Arc::new(OwnedSet {
            place: CountU64::new(u64::MAX),
            counters: C::default(),
        });
        self.with(|sets| {
            // Ordering: Relaxed. The lock orders it.
            set.place.store(sets.all.len() as u64, Ordering::Relaxed);
            sets.all.push(set.clone());
        });
        Own {
            set,
            registry: self.clone(),
        }
    }
}

impl<C: CounterSet> Sets<C> {
    /// Adds a set to the past ones.
    fn leave(&mut self, set: &Arc<OwnedSet<C>>) {
        self.past.add_all(&set.counters);
        // Ordering: Relaxed. The lock orders it.
        let place = set.place.load(Ordering::Relaxed) as usize;
        if self.all.get(place).is_none_or(|at| !Arc::ptr_eq(at, set)) {
            return;
        }
        self.all.swap_remove(place);
        if let Some(moved) = self.all.get(place) {
            // Ordering: Relaxed. As above.
            moved.place.store(place as u64, Ordering::Relaxed);
        }
        if self.all.len() < self.all.capacity() / 4 {
            self.all.shrink_to(2 * self.all.len());
        }
    }
}

impl<C> Registry<C> {
    /// Gives `f` the sets. `f` must not panic, and must not call this again. Returns `None` if this
    /// process was forked off while a thread of its parent had the lock.
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

    /// Shows `f` the sum of the past sets, and then every present set. Shows nothing if `with`
    /// returns `None`.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&C)) {
        self.with(|sets| {
            f(&sets.past);
            sets.all.iter().for_each(|set| f(&set.counters));
        });
    }
}

impl<C: CounterSet> Deref for Own<C> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        &self.set.counters
    }
}

impl<C: CounterSet> Drop for Own<C> {
    fn drop(&mut self) {
        self.registry.with(|sets| sets.leave(&self.set));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl CounterSet for Counter {
        fn add_all(&self, other: &Self) {
            self.add(other.get());
        }
    }

    #[test]
    fn the_counts_of_a_thread_that_ends_stay() {
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
        assert_eq!(sets, 1, "the one of past threads");
    }

    #[test]
    fn threads_may_end_in_any_order() {
        let registry = Registry::<Counter>::new();
        let mut owned: Vec<_> = (0..100).map(|_| registry.attach()).collect();
        owned.iter().for_each(|set| set.add(1));
        let mut left = 100;
        while !owned.is_empty() {
            drop(owned.swap_remove(left * 7 % owned.len()));
            left -= 1;
            let (mut sum, mut sets) = (0, 0);
            registry.for_each(|set| (sum, sets) = (sum + set.get(), sets + 1));
            assert_eq!((sum, sets), (100, left + 1));
        }
    }

    /// A thread of the parent has the lock. That thread is not in this process.
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
