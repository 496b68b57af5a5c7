//! Running: how many jobs are at work, so that one can wait for those that are.
//!
//! Jobs are counted in two halves. Who waits sends new jobs to the other half and waits until this one is empty, and then the same the other way round (twice,
//! because a job may have chosen its half long before it counts itself): so it is not held up by jobs that come later, however many there are.

use crate::sync::{AtomicUsize, Fault, Mutex, Ordering, broken, ordering, pause};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

#[derive(Debug, Default)]
pub(super) struct Running {
    halves: [CachePadded<AtomicUsize>; 2],
    /// New jobs go to this half, modulo two.
    turn: AtomicUsize,
    /// One waits after the other.
    waiting: Mutex<()>,
}

/// The half in which a job is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half(usize);

impl Running {
    /// F1. A job begins.
    pub(super) fn begin(&self) -> Half {
        // Ordering: Relaxed. Either half will do.
        let half = self.turn.load(Ordering::Relaxed) % 2;
        if !broken(Fault::JobNotCounted) {
            // Ordering: AcqRel (F1). Before the claims of F2, whose Release carries it to X4 and W1; see there.
            self.halves[half].fetch_add(1, Ordering::AcqRel);
        }
        Half(half)
    }

    /// F3. It has ended.
    pub(super) fn end(&self, half: Half) {
        if !broken(Fault::JobNotCounted) {
            // Ordering: Release (F3). Pairs with the Acquire of `is_empty`: who sees zero sees what the tasks did.
            self.halves[half.0].fetch_sub(1, ordering(Ordering::AcqRel, Fault::JobEndRelaxed));
        }
    }

    fn is_empty(&self, half: usize) -> bool {
        // Ordering: Acquire (X5, W2). Pairs with F3; F1 of a job that claimed before X4 or W1 is visible through the claim.
        self.halves[half].load(Ordering::Acquire) == 0
    }

    /// X5. Waits until no job runs, when none can claim anything any more.
    pub(super) fn wait_for_all(&self) {
        (0..2).for_each(|half| {
            while !self.is_empty(half) {
                pause();
            }
        });
    }

    /// W2. Waits for the jobs that run now.
    pub(super) fn wait_for_present(&self) {
        let _one = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..if broken(Fault::WaitForOneHalf) { 1 } else { 2 } {
            // Ordering: Relaxed. A hint for jobs that begin.
            let half = self.turn.fetch_add(1, Ordering::Relaxed) % 2;
            while !self.is_empty(half) {
                pause();
            }
        }
    }
}
