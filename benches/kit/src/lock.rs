//! Locks of the harness: who panicked with one has told of it already.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whoever has panicked meanwhile.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
