//! Loom: loom's atomics, cells and threads, and stand-ins of our own where loom has none.
//!
//! Compiled under `--cfg loom` only; the models in `loom-tests/` run on it. It has the interface of
//! `std.rs`. Our own stand-ins:
//!
//!  - [`Queue`]: a mutex around a `VecDeque`
//!  - [`Seen`]: an atomic whose loads loom does not forget
//!  - `loom_pins.rs`: whether pins count, in the models that ask for them
//!  - `loom_kernel.rs`: a kernel with a `membarrier`, in the models that ask for one

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::Mutex;
pub(crate) use loom::sync::atomic::Ordering;
pub(crate) use loom::thread::{Builder as ThreadBuilder, JoinHandle, Thread, current};

use super::{Fault, broken};
use loom::sync::atomic;
use std::collections::VecDeque;

/// Thread-locals of a model's threads, in the syntax of `std::thread_local`.
macro_rules! per_thread {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = const { $value:expr };) => {
        loom::thread_local! { $(#[$attribute])* static $name: $type = $value; }
    };
}
pub(crate) use per_thread;

/// One of loom's atomics whose loads conflict with each other.
///
/// loom explores orders of steps that conflict, and remembers only the last access to each atomic.
/// So a thread that loads and then stores hides its store from earlier loads of other threads, and
/// loom misses orders. For a loop around a compare-and-swap it misses nearly all of them. A Relaxed
/// read-modify-write of a second word makes each load known to the next one, and orders no memory.
#[derive(Debug, Default)]
pub(crate) struct Seen<A> {
    atomic: A,
    loads: atomic::AtomicUsize,
}

impl<A> std::ops::Deref for Seen<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.atomic
    }
}

macro_rules! seen {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        pub(crate) type $name$(<$t>)? = Seen<atomic::$name$(<$t>)?>;

        impl$(<$t>)? Seen<atomic::$name$(<$t>)?> {
            pub(crate) fn new(value: $value) -> Self {
                Self { atomic: atomic::$name::new(value), loads: atomic::AtomicUsize::new(0) }
            }

            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                // Ordering: Relaxed. Orders no memory: it is no part of the model.
                self.loads.fetch_add(1, Ordering::Relaxed);
                self.atomic.load(ordering)
            }
        }
    };
}

seen!(AtomicBool, bool);
seen!(AtomicPtr<T>, *mut T);
seen!(AtomicU32, u32);
seen!(AtomicU64, u64);
seen!(AtomicUsize, usize);

impl AtomicU64 {
    /// Sets it as its owner. loom notices a thread that looks at it without an order.
    pub(crate) fn set(&mut self, value: u64) {
        self.atomic.with_mut(|word| *word = value);
    }
}

/// Stand-in for a weak reference, which keeps its target alive. loom does not see when the last
/// owner goes, and would miss the orders in which it has not gone.
#[derive(Debug)]
pub(crate) struct Loose<T>(std::sync::Arc<T>);

impl<T> Loose<T> {
    pub(crate) fn of(owned: &std::sync::Arc<T>) -> Self {
        Self(owned.clone())
    }

    pub(crate) fn get(&self) -> Option<std::sync::Arc<T>> {
        Some(self.0.clone())
    }
}

/// Stand-in for `crossbeam_queue::SegQueue`: linearizable, and each push synchronizes with its pop.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    values: Mutex<VecDeque<T>>,
    /// The values in the broken variant: loom does not see this lock.
    unordered: std::sync::Mutex<VecDeque<T>>,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            values: Mutex::new(VecDeque::new()),
            unordered: std::sync::Mutex::new(VecDeque::new()),
        }
    }

    pub(crate) fn push(&self, value: T) {
        if broken(Fault::QueueRelaxed) {
            return self.unordered.lock().unwrap().push_back(value);
        }
        self.values.lock().unwrap().push_back(value);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        if broken(Fault::QueueRelaxed) {
            return self.unordered.lock().unwrap().pop_front();
        }
        self.values.lock().unwrap().pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        if broken(Fault::QueueRelaxed) {
            return self.unordered.lock().unwrap().len();
        }
        self.values.lock().unwrap().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Parks until unparked: a timeout would hide a lost wake-up. Does not park if the timeout is zero.
pub(crate) fn park(timeout: Option<std::time::Duration>) {
    if timeout != Some(std::time::Duration::ZERO) {
        loom::thread::park();
    }
}

/// There is no rayon in a model.
pub(crate) fn run_rayon_job() -> bool {
    false
}

/// One step of a spin loop: in a model it has to yield.
pub(crate) fn spin() {
    loom::thread::yield_now();
}

/// One step of a wait, as above.
pub(crate) fn pause() {
    loom::thread::yield_now();
}

/// Leaves the core to other threads.
pub(crate) fn give_way(_: u64) {
    loom::thread::yield_now();
}

pub(crate) fn full_fence() {
    // Ordering: SeqCst. Pairs with itself: both fences of a pair amount to it.
    loom::sync::atomic::fence(Ordering::SeqCst);
}
