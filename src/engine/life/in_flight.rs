//! In flight: how many threads run jobs, so that others can wait for them.
//!
//! Owned by the engine. Threads that run jobs count themselves; `stop` and `cancel_and_wait` wait.
//! README.md of this room has the protocol (FireBegin to AwaitJobs) and its proof.
//!
//! Ground rule: **a thread is counted before it claims or takes, until its tasks have ended**, and
//! all threads of a job in one half. So from a job's first claim to the end of its last task its
//! half is not 0 at any instant. Both waits look at the halves one after the other, at different
//! instants. That is enough, because a job stays in one half.
//!
//! # How it works
//!
//! AwaitJobs waits until the half is 0 to which no new jobs go. Then it sends new jobs there, and
//! waits until the other half is 0. So later jobs do not hold it up, however many there are, unless
//! they have chosen their half before. Both halves are waited for, because a job may have chosen
//! its half long before it adds itself there.

use crate::dispatch::Half;
use crate::sync::{AtomicUsize, Fault, Mutex, Ordering, broken, ordering, pause};
use crossbeam_utils::CachePadded;
use std::sync::PoisonError;

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    halves: [CachePadded<AtomicUsize>; 2],
    /// New jobs go to the half of this number, modulo 2.
    turn: AtomicUsize,
    /// Held by whoever waits in AwaitJobs.
    waiting: Mutex<()>,
}

impl InFlight {
    /// FireBegin of the first thread of a job. Returns the half that it chose.
    #[inline]
    pub(crate) fn begin(&self) -> Half {
        // Ordering: Relaxed. Either half will do.
        let half = Half(self.turn.load(Ordering::Relaxed) % 2);
        self.begin_in(half);
        half
    }

    /// FireBegin of a further thread of a job.
    #[inline]
    pub(crate) fn begin_in(&self, half: Half) {
        if !broken(Fault::JobNotCounted) {
            // Ordering: AcqRel (FireBegin). Release: the claims of FireClaim come later, and carry
            // it to StopClaim and AwaitCancel. Acquire: pairs with FireEnd; a thread that joins too
            // late finds nothing left.
            self.halves[half.0].fetch_add(1, Ordering::AcqRel);
        }
    }

    /// FireEnd. A thread leaves its job.
    #[inline]
    pub(crate) fn end(&self, half: Half) {
        if !broken(Fault::JobNotCounted) {
            // Ordering: AcqRel (FireEnd). Pairs with the Acquire of `is_empty`: whoever sees 0 sees
            // what the tasks did.
            self.halves[half.0].fetch_sub(1, ordering(Ordering::AcqRel, Fault::JobEndRelaxed));
        }
    }

    fn is_empty(&self, half: usize) -> bool {
        // Ordering: Acquire (StopWait, AwaitJobs). Pairs with FireEnd. The claim makes the
        // FireBegin of a job visible that claimed before StopClaim or AwaitCancel.
        self.halves[half].load(Ordering::Acquire) == 0
    }

    fn wait_for(&self, half: usize) {
        while !self.is_empty(half) {
            pause();
        }
    }

    /// StopWait. Waits until no job runs. Called when no job can claim any more.
    pub(crate) fn wait_for_all(&self) {
        (0..2).for_each(|half| self.wait_for(half));
    }

    /// AwaitJobs. Waits for the jobs that run now.
    pub(crate) fn wait_for_present(&self) {
        let _one = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed. It changes under the lock.
        let present = self.turn.load(Ordering::Relaxed) % 2;
        if !broken(Fault::WaitForOneHalf) {
            self.wait_for(1 - present);
        }
        self.wait_for(self.turn_over());
    }

    /// Sends new jobs to the other half. Returns the half to which they went before.
    pub(crate) fn turn_over(&self) -> usize {
        // Ordering: Relaxed. A hint for jobs that begin.
        self.turn.fetch_add(1, Ordering::Relaxed) % 2
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::ThreadBuilder;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    /// Long enough to mean that something hangs.
    const HANGS: Duration = Duration::from_secs(60);

    #[test]
    fn a_wait_ends_while_a_later_job_runs() {
        let running = Arc::new(InFlight::default());
        let before = running.begin();
        let (send, ended) = mpsc::channel();
        let waits = running.clone();
        let wait = move || {
            waits.wait_for_present();
            send.send(()).unwrap();
        };
        let waiter = ThreadBuilder::new().spawn(wait).unwrap();
        // The first job that goes to the other half is a later one.
        let later = loop {
            let job = running.begin();
            if job != before {
                break job;
            }
            running.end(job);
        };
        running.end(before);
        assert_eq!(
            ended.recv_timeout(HANGS),
            Ok(()),
            "it waits for the later job"
        );
        waiter.join().unwrap();
        running.end(later);
    }
}
