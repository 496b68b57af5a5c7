//! Caught: runs what is the user's, and may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what is the user's. `None`: it has panicked.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Some(result),
        Err(panic) => {
            // (What a panic carries may panic again when it is dropped. So it is leaked.)
            std::mem::forget(panic);
            None
        }
    }
}
