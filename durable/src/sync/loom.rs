//! Loom: loom's atomics, locks and threads, with the interface of `std.rs`. Compiled under
//! `--cfg loom` only; the models in `loom-tests/` run on it.

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::{Builder as ThreadBuilder, JoinHandle, ThreadId, current};

/// (No model copies a file.)
#[cfg(feature = "redb")]
pub(crate) use std::thread::sleep;

/// Thread-locals of a model's threads, in the syntax of `std::thread_local`.
macro_rules! per_thread {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = const { $value:expr };) => {
        loom::thread_local! { $(#[$attribute])* static $name: $type = $value; }
    };
}
pub(crate) use per_thread;
