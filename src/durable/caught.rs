//! Caught: runs what is the user's, and may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what is the user's. `None`: it has panicked.
pub(super) fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Some(result),
        Err(panic) => {
            // (What a panic carries may panic when it goes: nobody catches that for ever.)
            std::mem::forget(panic);
            None
        }
    }
}
