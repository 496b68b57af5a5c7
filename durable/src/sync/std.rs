//! Std: the real atomics, locks and threads, with the interface of `loom.rs`.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "redb")]
pub(crate) use std::thread::sleep;
pub(crate) use std::thread::{Builder as ThreadBuilder, JoinHandle, ThreadId, current};
pub(crate) use std::thread_local as per_thread;
