//! Forks: in which process something was made.
//!
//! A process that was forked off has a copy of all memory, but of its parent's threads only the one
//! that has forked. What the other threads were about stays half done there for ever: a lock that
//! is held, a push that is not complete.
//!
//! Ground rule: what may wait for another thread of the process notes in which process it was made,
//! and in another one it waits for nobody.
//!
//! Limit: a fork that goes past the C library, by the system call itself, is not noticed.

/// A process, by the number of forks that lead to it from one that has loaded the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The process of the caller.
    #[inline]
    pub(crate) fn current() -> Self {
        Self(imp::current())
    }

    /// Whether the caller is in a process that was forked off this one.
    #[inline]
    pub(crate) fn is_forked(self) -> bool {
        self != Self::current()
    }

    /// One that is not the caller's.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn parent() -> Self {
        Self(imp::current().wrapping_sub(1))
    }
}

/// Has forks counted, and `in_child` called on the thread that has forked, in its new process.
/// Called before the first service starts.
pub(crate) fn prepare_forks(in_child: extern "C" fn()) {
    imp::prepare(in_child);
}

#[cfg(all(target_os = "linux", not(any(loom, miri, wheelwork_no_linux))))]
mod imp {
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering};

    static FORKS: AtomicU32 = AtomicU32::new(0);

    #[inline(always)]
    pub(super) fn current() -> u32 {
        // Ordering: Relaxed. Changed while the process has one thread, from which all others come.
        FORKS.load(Ordering::Relaxed)
    }

    extern "C" fn count() {
        // Ordering: Relaxed. As above.
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn prepare(in_child: extern "C" fn()) {
        static ONCE: Once = Once::new();
        // If there is no memory for it, forks go unnoticed.
        ONCE.call_once(|| [count, in_child].into_iter().for_each(register));
    }

    fn register(in_child: extern "C" fn()) {
        let in_child: unsafe extern "C" fn() = in_child;
        // SAFETY: both functions write one atomic, or one thread-local without a destructor. That
        // is allowed in a new process.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// Other systems: by the process's number, where there are processes.
#[cfg(not(all(target_os = "linux", not(any(loom, miri, wheelwork_no_linux)))))]
mod imp {
    pub(super) fn current() -> u32 {
        if cfg!(all(unix, not(loom))) {
            std::process::id()
        } else {
            0
        }
    }

    pub(super) fn prepare(_: extern "C" fn()) {}
}
