//! What the models have in common: how one is explored, and how a broken one is shown to fail.
//!
//! A model is a function that loom runs once for each order of steps that it has to look at. The
//! models themselves are in `tests/`, one file for each protocol; the README says what each of them
//! shows.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread::JoinHandle;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use wheelwork::internals::loom as wheelwork_parts;
use wheelwork_durable::internals as durable_parts;

/// A step of a crate's protocols that a model can break.
pub trait Breakable: Copy + std::fmt::Debug {
    /// Breaks one step in the models that this thread runs from now on.
    fn set(fault: Option<Self>);
}

impl Breakable for wheelwork_parts::Fault {
    fn set(fault: Option<Self>) {
        wheelwork_parts::set_fault(fault);
    }
}

impl Breakable for durable_parts::Fault {
    fn set(fault: Option<Self>) {
        durable_parts::set_fault(fault);
    }
}

/// Preemptions that are looked at: `None` is all of them.
pub type Bound = Option<usize>;

/// Explores a model, and prints how many orders of steps there were.
///
/// # Panics
/// If one of them fails.
pub fn explore(bound: Bound, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 10_000;
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = bound;
    }
    let orders = Arc::new(AtomicU64::new(0));
    let counter = orders.clone();
    let start = Instant::now();
    builder.check(move || {
        // Ordering: Relaxed. A counter, and no part of the model.
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let name = std::thread::current().name().unwrap_or("?").to_string();
    // Ordering: Relaxed. As above.
    println!(
        "{name}: {} orders in {:.2?}",
        orders.load(Ordering::Relaxed),
        start.elapsed()
    );
}

/// Explores a model with one step broken: it must fail, with a message that contains `why`.
///
/// # Panics
/// If it does not.
pub fn must_fail<F: Breakable>(
    fault: F,
    why: &str,
    bound: Bound,
    model: impl Fn() + Send + Sync + 'static,
) {
    F::set(Some(fault));
    let outcome = catch_unwind(AssertUnwindSafe(|| explore(bound, model)));
    F::set(None);
    let Err(panic) = outcome else {
        panic!("the model does not notice {fault:?}")
    };
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied())
        .unwrap_or("?");
    assert!(
        text.contains(why),
        "{fault:?} was noticed, but not by {why:?}: {text}"
    );
    println!(
        "{fault:?}: noticed, {}",
        text.lines().next().unwrap_or_default()
    );
}

/// Explores a model of a whole service, whose stack is that of `spawn`.
///
/// # Panics
/// If one of its orders of steps fails.
pub fn explore_service(bound: Bound, model: fn()) {
    explore(bound, move || spawn(model).join().unwrap());
}

/// The same with one step broken, as by `must_fail`.
///
/// # Panics
/// If the model does not fail with a message that contains `why`.
pub fn service_must_fail(fault: impl Breakable, why: &str, bound: Bound, model: fn()) {
    must_fail(fault, why, bound, move || spawn(model).join().unwrap());
}

/// A thread with a stack for a whole service: loom's own are some pages.
///
/// # Panics
/// If there are too many threads.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    const WORDS: usize = 1 << 16;
    loom::thread::Builder::new()
        .stack_size(WORDS)
        .spawn(f)
        .expect("loom has a thread")
}

/// Drops what it holds, unless a model has failed: then loom is gone, and its types cannot be
/// dropped.
#[derive(Debug)]
pub struct Held<T>(ManuallyDrop<T>);

impl<T> Held<T> {
    /// Holds a value.
    pub fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }

    /// Gives the value out.
    pub fn into_inner(mut self) -> T {
        // SAFETY: `self` is forgotten, so it is not dropped.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        std::mem::forget(self);
        value
    }
}

impl<T: Clone> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self::new(T::clone(self))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped here only, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// Counts who has what, so that loom notices when two threads have it: cells, payloads, by number.
#[derive(Debug)]
pub struct Ledger<const N: usize>([UnsafeCell<u32>; N]);

// SAFETY: loom checks every access.
unsafe impl<const N: usize> Sync for Ledger<N> {}

impl<const N: usize> Ledger<N> {
    /// A ledger for the things `0..N`.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "made in models only")]
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| UnsafeCell::new(0)))
    }

    /// Adds one. Two threads that do it without an order between them are a causality violation.
    pub fn add(&self, thing: usize) -> u32 {
        self.0[thing].with_mut(|count| {
            // SAFETY: loom checks that no other thread is here.
            let count = unsafe { &mut *count };
            *count += 1;
            *count
        })
    }

    /// Takes one off again.
    pub fn remove(&self, thing: usize) {
        self.0[thing].with_mut(|count| {
            // SAFETY: as above.
            let count = unsafe { &mut *count };
            *count -= 1;
        });
    }

    /// The counts.
    pub fn counts(&self) -> [u32; N] {
        // SAFETY: as above.
        std::array::from_fn(|thing| self.0[thing].with(|count| unsafe { *count }))
    }
}
