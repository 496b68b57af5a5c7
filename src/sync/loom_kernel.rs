//! Loom kernel: a stand-in for a kernel with a `membarrier`, in the models that ask for one.
//!
//! Compiled under `--cfg loom` only; `membarrier.rs` calls it as it calls the real one. The
//! stand-in interrupts one thread, and the interrupt is a full fence.

use super::imp::{AtomicU32, AtomicUsize, Mutex, Ordering, full_fence};
use super::{ABSENT, Fault, PRESENT, broken};
use std::cell::Cell;

/// The light fence where the kernel offers `membarrier`: no fence, only a point for an interrupt.
pub(super) fn compiler_fence() {
    interrupt();
}

/// Waits for the effect for which the real one waits 10 ms: the other thread passes a fence.
pub(super) fn wait_out() {
    KERNEL.ask();
}

/// Stand-in for the kernel, in the models that ask for one (`set_kernel`). In others there is no
/// `membarrier`. It interrupts one thread.
struct Kernel {
    state: AtomicU32,
    /// How many interrupts were asked for.
    asked: AtomicUsize,
    /// How many of them the thread has had.
    had: Mutex<usize>,
    changed: loom::sync::Condvar,
}

loom::lazy_static! {
    static ref KERNEL: Kernel = Kernel {
        state: AtomicU32::new(PRESENT.into()),
        asked: AtomicUsize::new(0),
        had: Mutex::new(0),
        changed: loom::sync::Condvar::new(),
    };
}

loom::thread_local! {
    static FORBIDDEN: Cell<bool> = Cell::new(false);
}

impl Kernel {
    /// Interrupts the other thread, and waits until it has passed a fence or ended.
    fn ask(&self) {
        // Ordering: AcqRel. Pairs with the Acquire in `interrupt`: an interrupt comes after the
        // accesses that led to it.
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut had = self.had.lock().unwrap();
        while *had < number {
            had = self.changed.wait(had).unwrap();
        }
    }

    /// The thread has passed a fence, or ends behind one.
    fn pass(&self, number: usize) {
        full_fence();
        *self.had.lock().unwrap() = number;
        self.changed.notify_all();
    }
}

/// A point at which the kernel may interrupt the thread and make it pass a fence.
pub fn interrupt() {
    // Ordering: Acquire. Pairs with the Release in `ask`.
    let asked = KERNEL.asked.load(Ordering::Acquire);
    if asked > 0 {
        KERNEL.pass(asked);
    }
}

/// The thread that may be interrupted ends. From now on no interrupt waits for it.
pub fn switch_out() {
    KERNEL.pass(usize::MAX);
}

/// From now on the kernel refuses `membarrier` to the calling thread.
pub fn forbid_membarrier() {
    FORBIDDEN.with(|forbidden| forbidden.set(true));
}

/// The stand-in's `membarrier`, with the interface of the real one in `membarrier.rs`.
pub(super) mod kernel {
    use super::{ABSENT, FORBIDDEN, Fault, KERNEL, KERNELS, Ordering, broken};

    pub(in super::super) fn state() -> u8 {
        // Ordering: Relaxed. As in the real one.
        if KERNELS.get() {
            KERNEL.state.load(Ordering::Relaxed) as u8
        } else {
            ABSENT
        }
    }

    pub(in super::super) fn set(state: u8) {
        // Ordering: Relaxed. As in the real one.
        KERNEL.state.store(state.into(), Ordering::Relaxed);
    }

    pub(in super::super) fn run() -> bool {
        if FORBIDDEN.with(|forbidden| forbidden.get()) {
            return false;
        }
        if !broken(Fault::BarrierSkipped) {
            KERNEL.ask();
        }
        true
    }
}

std::thread_local! {
    /// Whether this thread's models have a kernel with a `membarrier`.
    static KERNELS: Cell<bool> = const { Cell::new(false) };
}

/// Gives this thread's models a kernel with a `membarrier`, or none.
pub fn set_kernel(on: bool) {
    KERNELS.set(on);
}
