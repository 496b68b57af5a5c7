//! Membarrier: fences in pairs, a light one for the frequent side, a heavy one for the rare side.
//!
//! Any thread calls both. Where the kernel offers `membarrier(2)`, the light fence is only a
//! compiler fence. Elsewhere both are full fences. The kernel may withdraw the call while the
//! service runs (a new seccomp filter). Then both become full fences.

use super::imp::full_fence;
#[cfg(not(loom))]
use super::imp::{compiler_fence, wait_out};
#[cfg(loom)]
use super::loom_kernel::{compiler_fence, kernel, wait_out};
use super::{ABSENT, Fault, LEAVING, PRESENT, broken};

/// Chooses the fences. Called before the first service starts.
#[cfg(not(loom))]
pub(crate) fn prepare_fences() {
    kernel::register();
}

#[cfg(loom)]
pub(crate) fn prepare_fences() {}

/// The frequent side of a pair of fences. With [`heavy_fence`] on the other side, at least one of
/// the two sides sees what the other one stored before its fence.
///
/// Where the kernel offers `membarrier` this is only a compiler fence: the heavy side makes every
/// running thread of the process execute a full barrier. That barrier falls at some point of this
/// side's order, and acts as a fence at that point. Otherwise this is a full fence.
#[inline(always)]
pub(crate) fn light_fence() {
    if kernel::state() != PRESENT {
        full_fence();
    }
    compiler_fence();
}

/// The rare side of the pair: a system call of some microseconds. It takes 10 ms once, if the
/// kernel withdraws `membarrier`.
pub(crate) fn heavy_fence() {
    // The state is loaded before the fence. If it is ABSENT because another thread has waited, the
    // fence comes after the accesses for which that thread has waited.
    let mut state = kernel::state();
    full_fence();
    if broken(Fault::AbsentAskedLate) {
        state = kernel::state();
    }
    let is_done = match state {
        ABSENT => true,
        PRESENT => kernel::run(),
        _ => false,
    };
    if !is_done {
        // The kernel has withdrawn the call (a new seccomp filter, for example). From now on both
        // sides are full fences. A thread that has just passed a light fence without effect gets
        // time to go on. Every heavy side waits until one of them has waited to the end.
        kernel::set(if broken(Fault::LeavingSkipped) {
            ABSENT
        } else {
            LEAVING
        });
        if !broken(Fault::NotWaitedOut) {
            wait_out();
        }
        kernel::set(ABSENT);
        full_fence();
    }
}

/// `membarrier(2)`: a barrier in every running thread of this process.
#[cfg(all(target_os = "linux", not(any(loom, miri, wheelwork_no_linux))))]
mod kernel {
    use std::sync::Once;
    use std::sync::atomic::AtomicU8;
    use std::sync::atomic::Ordering;

    use super::super::{ABSENT, PRESENT};

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    static STATE: AtomicU8 = AtomicU8::new(ABSENT);

    #[inline(always)]
    pub(super) fn state() -> u8 {
        // Ordering: Relaxed. Set before the first service exists, which orders it. Later only
        // `heavy_fence` changes it.
        STATE.load(Ordering::Relaxed)
    }

    pub(super) fn set(state: u8) {
        // Ordering: Relaxed. A thread that does not see it yet gets time: see `heavy_fence`.
        STATE.store(state, Ordering::Relaxed);
    }

    pub(super) fn register() {
        static ONCE: Once = Once::new();
        // `Once` orders it for a second service.
        ONCE.call_once(|| {
            set(if call(REGISTER_PRIVATE_EXPEDITED) {
                PRESENT
            } else {
                ABSENT
            })
        });
    }

    /// Makes every running thread of this process pass a barrier. Whether the kernel did it.
    pub(super) fn run() -> bool {
        call(PRIVATE_EXPEDITED)
    }

    fn call(command: libc::c_int) -> bool {
        // SAFETY: the call takes two integers and touches no memory of this process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
    }
}

/// Other systems have no such call, or the library does not use it.
#[cfg(all(not(loom), any(not(target_os = "linux"), miri, wheelwork_no_linux)))]
mod kernel {
    pub(super) const fn state() -> u8 {
        super::super::ABSENT
    }

    pub(super) fn set(_: u8) {}

    pub(super) fn register() {}

    pub(super) fn run() -> bool {
        true
    }
}
