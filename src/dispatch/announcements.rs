//! Announcements: how many are on their way to a pool's threads. As many should be as pieces of
//! work wait that are not left to an attendant.
//!
//! Owned by the pool's queues. Whoever announces counts what it has announced, and the thread that
//! hears it counts that. README.md of this room has the steps, and why none is missing.

use crate::sync::{AtomicU64, Fault, Ordering, broken, full_fence_unless, ordering};

/// Both counts only rise. Their difference alone would not do: whoever counts work needs the one
/// from before its look at the queues, and the other from after it.
#[derive(Debug)]
pub(crate) struct Announcements {
    made: AtomicU64,
    heard: AtomicU64,
}

impl Announcements {
    pub(crate) fn new() -> Self {
        Self {
            made: AtomicU64::new(0),
            heard: AtomicU64::new(0),
        }
    }

    /// AnnounceNote. Called after the work was pushed, before the announcement is handed over.
    pub(crate) fn note(&self) {
        // Ordering: Release. Pairs with CountMade: whoever counts this finds the work.
        self.made
            .fetch_add(1, ordering(Ordering::Release, Fault::AnnouncedRelaxed));
    }

    /// HearNote to HearAgain. An announcement has arrived: `take` takes work, and says whether
    /// there was some. `waiting`: see [`missing`](Self::missing).
    pub(crate) fn hear(&self, take: impl Fn() -> bool, waiting: impl Fn() -> usize) {
        if broken(Fault::HeardLate) {
            take();
            // Ordering: Relaxed. The broken variant.
            self.heard.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // Ordering: Relaxed. Ordered by the fence, and the one of CountHeard: whoever finds that
        // the work is gone counts this.
        self.heard.fetch_add(1, Ordering::Relaxed);
        full_fence_unless(Fault::HeardUnfenced);
        // HearAgain. Something may have come where this thread had looked, while another thread,
        // which heard of that, took what was elsewhere.
        while !take() && !broken(Fault::HeardInVain) {
            // Pairs with the fence in the HearNote of whoever took the work that was elsewhere:
            // this thread sees that note, and the work for which that announcement was made.
            full_fence_unless(Fault::HeardInVainUnfenced);
            if self.missing(&waiting) == 0 {
                break;
            }
        }
    }

    /// CountMade to CountHeard. How many of the pieces of work in the queues have no announcement
    /// on its way. Never too few, but for work that is announced by whoever pushes it just now.
    pub(crate) fn missing(&self, waiting: impl FnOnce() -> usize) -> u64 {
        // Ordering: Acquire (CountMade). Pairs with AnnounceNote.
        let made = || self.made.load(Ordering::Acquire);
        // Ordering: Relaxed (CountHeard). Ordered by the fence, and the one of HearNote.
        let heard = || self.heard.load(Ordering::Relaxed);
        let made_early = (!broken(Fault::MadeCountedLate)).then(made);
        let heard_early = broken(Fault::HeardCountedEarly).then(heard);
        let waiting = waiting() as u64; // CountWork
        full_fence_unless(Fault::CountedUnfenced);
        let (made, heard) = (
            made_early.unwrap_or_else(made),
            heard_early.unwrap_or_else(heard),
        );
        waiting.saturating_sub(made.saturating_sub(heard))
    }
}
