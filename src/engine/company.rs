//! Company: on which cores the threads run that send a shard much.
//!
//! A thread notes its core when more than a thousand of its messages wait for the shard
//! (`Cells::ease`). The shard's thread looks at these cores, and forgets them, when it reviews its
//! own core (`start/tenure.rs`). A hint: an old one costs a move of the shard.

use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// The cores that threads have noted: a bit for each. Cores whose numbers are 64 apart share one.
pub(super) struct Company(CachePadded<AtomicU64>);

/// The cores that were noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores(u64);

impl Company {
    pub(super) fn new() -> Self {
        Self(CachePadded::new(AtomicU64::new(0)))
    }

    /// The calling thread runs on this core.
    pub(super) fn note(&self, core: usize) {
        // Ordering: Relaxed. Only the bits matter. The line is written once a review for each core,
        // and else read.
        if !Cores(self.0.load(Ordering::Relaxed)).has(core) {
            // Ordering: Relaxed, as above.
            self.0.fetch_or(bit(core), Ordering::Relaxed);
        }
    }

    /// The cores that were noted since the last call.
    pub(super) fn take(&self) -> Cores {
        // Ordering: Relaxed, as in `note`. Mostly there are none, and then nothing is written.
        if self.0.load(Ordering::Relaxed) == 0 {
            return Cores(0);
        }
        // Ordering: Relaxed, as in `note`.
        Cores(self.0.swap(0, Ordering::Relaxed))
    }
}

impl Cores {
    /// Whether this core was noted, or one that has the same bit.
    pub(super) fn has(self, core: usize) -> bool {
        self.0 & bit(core) != 0
    }
}

fn bit(core: usize) -> u64 {
    1 << (core % 64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn cores_are_noted_until_they_are_looked_at() {
        let company = Company::new();
        assert_eq!(company.take(), Cores(0));
        [3, 0, 3, 66]
            .into_iter()
            .for_each(|core| company.note(core));
        let noted = company.take();
        let found: Vec<_> = (0..6).filter(|&core| noted.has(core)).collect();
        assert_eq!(found, [0, 2, 3]);
        assert_eq!(company.take(), Cores(0));
    }
}
