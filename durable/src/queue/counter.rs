//! Counter: a number with one writer. Any thread may read it.
//!
//! To count costs a load and a store.

use crate::sync::{CountU64, Ordering};

/// A number. Only its owner writes it.
#[derive(Debug, Default)]
pub(crate) struct Counter(CountU64);

impl Counter {
    /// Adds to the number. The owner only.
    pub(crate) fn add(&self, by: u64) {
        self.set(self.get().wrapping_add(by));
    }

    /// Sets the number. The owner only.
    pub(crate) fn set(&self, to: u64) {
        // Ordering: Relaxed. A counter with one writer.
        self.0.store(to, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Ordering: Relaxed. As above.
        self.0.load(Ordering::Relaxed)
    }
}
