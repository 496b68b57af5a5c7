//! Running: how many threads are at work at jobs, so that one can wait for them.
//!
//! They are counted in two halves, all threads of a job in the same. Who waits for the jobs of the moment sends new ones to the other half and waits until this one is
//! empty, and then the same the other way round (twice, because a job may have chosen its half long before it counts itself): so it is not held up by jobs that
//! come later, however many there are.
//!
//! Ground rule: **a thread is counted before it claims or takes, until what it took has ended**. So from the first claim of a job to the end of its last task its
//! half is not empty at any instant: who takes the job's last payload has been counted before those see that nothing is left, and go. Both waits lean on that:
//! they look at the halves one after the other, at different instants, and that is enough since a job is in one of them.

use crate::dispatch::Half;
use crate::sync::{AtomicUsize, Fault, Mutex, Ordering, broken, ordering, pause};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

#[derive(Debug, Default)]
pub(crate) struct Running {
    halves: [CachePadded<AtomicUsize>; 2],
    /// New jobs go to this half, modulo two.
    turn: AtomicUsize,
    /// One waits after the other.
    waiting: Mutex<()>,
}

impl Running {
    /// F1. A job begins.
    pub(crate) fn begin(&self) -> Half {
        // Ordering: Relaxed. Either half will do.
        let half = Half(self.turn.load(Ordering::Relaxed) % 2);
        self.begin_in(half);
        half
    }

    /// F1 of a further thread of a job.
    pub(crate) fn begin_in(&self, half: Half) {
        if !broken(Fault::JobNotCounted) {
            // Ordering: AcqRel (F1). Before the claims of F2, whose Release carries it to X4 and W1; see there. And after the F3 of those who took the rest:
            // who joins too late finds nothing left.
            self.halves[half.0].fetch_add(1, Ordering::AcqRel);
        }
    }

    /// F3. A thread has ended with its job.
    pub(crate) fn end(&self, half: Half) {
        if !broken(Fault::JobNotCounted) {
            // Ordering: Release (F3). Pairs with the Acquire of `is_empty`: who sees zero sees what the tasks did.
            self.halves[half.0].fetch_sub(1, ordering(Ordering::AcqRel, Fault::JobEndRelaxed));
        }
    }

    fn is_empty(&self, half: usize) -> bool {
        // Ordering: Acquire (X5, W2). Pairs with F3; F1 of a job that claimed before X4 or W1 is visible through the claim.
        self.halves[half].load(Ordering::Acquire) == 0
    }

    fn wait_for(&self, half: usize) {
        while !self.is_empty(half) {
            pause();
        }
    }

    /// X5. Waits until no job runs, when none can claim anything any more.
    pub(crate) fn wait_for_all(&self) {
        (0..2).for_each(|half| self.wait_for(half));
    }

    /// W2. Waits for the jobs that run now.
    pub(crate) fn wait_for_present(&self) {
        let _one = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..if broken(Fault::WaitForOneHalf) { 1 } else { 2 } {
            self.wait_for(self.turn_over());
        }
    }

    /// Sends new jobs to the other half. Returns the one that they went to.
    pub(crate) fn turn_over(&self) -> usize {
        // Ordering: Relaxed. A hint for jobs that begin.
        self.turn.fetch_add(1, Ordering::Relaxed) % 2
    }
}
