//! Atomics, cells, threads, queues and epochs: the real ones, or loom's stand-ins under `--cfg loom`.
//!
//! The one file that names `std::sync::atomic` or `std::thread` park and unpark; every other room takes them from
//! here, so that the loom models in `loom-tests/` run the same code as the release build.
//!
//! crossbeam-queue and crossbeam-epoch are invisible to loom. Under loom a queue is a mutex around a `VecDeque` (a
//! linearizable stand-in), and an epoch guard does nothing: what a model proves is our code around them, not theirs.

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::thread::{Thread, current};

    pub(crate) use crossbeam_epoch::{Collector, Guard, LocalHandle};
    pub(crate) use crossbeam_queue::SegQueue as Queue;

    /// `std::cell::UnsafeCell` with loom's interface.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// Parks for at most `timeout`; without one, until unparked.
    pub(crate) fn park(timeout: Option<std::time::Duration>) {
        match timeout {
            Some(timeout) => std::thread::park_timeout(timeout),
            None => std::thread::park(),
        }
    }

    /// Runs `drop_it` once no guard that is pinned now can still hold what it frees.
    ///
    /// # Safety
    /// The caller has made what `drop_it` frees unreachable for guards that are pinned later.
    pub(crate) unsafe fn retire(guard: &Guard, drop_it: impl FnOnce() + Send + 'static) {
        // SAFETY: the caller's promise; the closure owns what it frees, so it may run on any thread.
        unsafe { guard.defer_unchecked(drop_it) };
    }

    /// A full fence: stores before it are visible to others before loads after it read.
    #[inline(always)]
    pub(crate) fn full_fence() {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // `fence(SeqCst)` is an `mfence` here, which also holds up later loads that miss the cache. A locked
            // read-modify-write of a line that this core owns orders the same, and is cheaper (ARCHITECTURE.md).
            // SAFETY: adds zero to a word below the stack pointer; changes nothing but the flags, which are declared
            // clobbered by default. Without `nomem` the compiler moves no memory access across it.
            unsafe { std::arch::asm!("lock or dword ptr [rsp - 8], 0", options(nostack)) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            // Ordering: SeqCst. The store-buffer fence of the doorbell and of stop; partners are named by the callers.
            std::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    /// Whether a step is broken on purpose. Never, outside loom.
    #[inline(always)]
    pub(crate) const fn broken(_: super::Fault) -> bool {
        false
    }
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::thread::{Thread, current};

    use std::cell::Cell;
    use std::collections::VecDeque;

    /// Stand-in for `crossbeam_queue::SegQueue`: linearizable, every pop synchronizes with its push.
    #[derive(Debug)]
    pub(crate) struct Queue<T>(loom::sync::Mutex<VecDeque<T>>);

    impl<T> Queue<T> {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Mutex::new(VecDeque::new()))
        }

        pub(crate) fn push(&self, value: T) {
            self.0.lock().unwrap().push_back(value);
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.0.lock().unwrap().pop_front()
        }

        pub(crate) fn len(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    /// Stand-in for `crossbeam_epoch::Collector`: nothing is ever freed while a model runs.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Collector;

    #[derive(Debug)]
    pub(crate) struct LocalHandle;

    #[derive(Debug)]
    pub(crate) struct Guard;

    impl Collector {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn register(&self) -> LocalHandle {
            LocalHandle
        }
    }

    impl LocalHandle {
        pub(crate) fn pin(&self) -> Guard {
            Guard
        }
    }

    impl Guard {
        pub(crate) fn flush(&self) {}
    }

    /// Always until unparked: a timeout would hide a lost wake-up.
    pub(crate) fn park(_: Option<std::time::Duration>) {
        loom::thread::park();
    }

    /// Runs `drop_it` at once: a model that still looks would be told so by loom's cells.
    ///
    /// # Safety
    /// As in the real one.
    pub(crate) unsafe fn retire(_: &Guard, drop_it: impl FnOnce() + Send + 'static) {
        drop_it();
    }

    pub(crate) fn full_fence() {
        // Ordering: SeqCst. See the real one.
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    thread_local! {
        /// The step that the running model breaks. loom runs all threads of a model on one OS thread.
        static FAULT: Cell<Option<super::Fault>> = const { Cell::new(None) };
    }

    /// Breaks one step of a protocol in the models that this thread runs from now on.
    pub fn set_fault(fault: Option<super::Fault>) {
        FAULT.set(fault);
    }

    pub(crate) fn broken(fault: super::Fault) -> bool {
        FAULT.get() == Some(fault)
    }
}

pub(crate) use imp::*;

#[cfg(loom)]
pub use imp::set_fault;

/// A step of a protocol that loom-tests can break, to show that its models notice.
///
/// Outside loom [`broken`] is a constant `false` and the broken branches do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The lane publishes its tail with Relaxed.
    LanePublishRelaxed,
    /// The lane's consumer hands emptied segments back with Relaxed.
    LaneRecycleRelaxed,
    /// A ringer does not fence between its push and its look at `wake_at`.
    DoorbellNoRingFence,
    /// The shard does not look at the lanes again after it published `wake_at`.
    DoorbellNoSecondLook,
    /// The claim loads and stores the state word instead of one compare-and-swap.
    ClaimNotAtomic,
    /// The claim does not compare the generation.
    ClaimIgnoresGeneration,
    /// Arming publishes the payload with Relaxed.
    ArmRelaxed,
    /// A magazine given to the depot stays in use by its thread.
    MagazineKept,
    /// `schedule` does not look at `stopped` again after it armed the cell.
    StopNotSeenAfterArm,
    /// `stop` does not fence between its mark and its scan of the cells.
    StopNoFence,
}

/// The ordering of an access: `normal`, or Relaxed in the model that breaks this step.
#[inline(always)]
pub(crate) fn ordering(normal: Ordering, fault: Fault) -> Ordering {
    if broken(fault) { Ordering::Relaxed } else { normal }
}
