//! Jobs that are counted in two halves, by themselves: FireBegin to FireEnd, StopWait, AwaitCancel
//! and AwaitJobs of src/engine/README.md, over src/engine/life/in_flight.rs.
//!
//! A job here has two payloads, which its own thread and a helper take by a counter. Whoever ends
//! timers takes the job's away (the claim) or waits.

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use wheelwork::internals::loom::{Fault, InFlight};
use wheelwork_loom_tests::{Ledger, explore, must_fail, spawn};

struct Job {
    running: InFlight,
    /// Whether nobody has claimed the timers: `stop` or `cancel` may come first.
    armed: AtomicBool,
    half: AtomicUsize,
    next: AtomicUsize,
    done: Ledger<2>,
}

/// How a helper is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    InItsJobsHalf,
    InThePresentHalf,
}

impl Job {
    fn new() -> Arc<Self> {
        let [half, next] = [0, 0].map(AtomicUsize::new);
        Arc::new(Self {
            running: InFlight::default(),
            armed: AtomicBool::new(true),
            half,
            next,
            done: Ledger::new(),
        })
    }

    /// FireBegin to FireEnd of the job's own thread, which calls a helper when there is something
    /// to take.
    fn begin(self: &Arc<Self>, counted: Counted) {
        let half = self.running.begin();
        if self.claim() {
            self.half.store(half, Ordering::Relaxed);
            let job = self.clone();
            drop(spawn(move || job.help(counted)));
            self.take_all();
        }
        self.running.end(half);
    }

    fn help(&self, counted: Counted) {
        if self.next.load(Ordering::Acquire) >= 2 {
            return;
        }
        let half = match counted {
            Counted::InItsJobsHalf => {
                let half = self.half.load(Ordering::Relaxed);
                self.running.begin_in(half);
                half
            }
            Counted::InThePresentHalf => self.running.begin(),
        };
        self.take_all();
        self.running.end(half);
    }

    fn take_all(&self) {
        loop {
            let payload = self.next.fetch_add(1, Ordering::AcqRel);
            if payload >= 2 {
                return;
            }
            self.done.add(payload);
        }
    }

    fn claim(&self) -> bool {
        self.armed
            .compare_exchange(true, false, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// No task runs, and none will: a causality violation, if one may still.
    fn is_over(&self, cancelled: bool) {
        let count = u32::from(!cancelled);
        assert_eq!(
            self.done.counts(),
            [count; 2],
            "every payload has one outcome"
        );
    }
}

/// A stop, while new jobs are sent to the other half and back. (By nobody who waits: loom gets lost
/// among two who spin. So there are more orders here than in a service.)
fn stop_against_a_wait(counted: Counted) {
    let job = Job::new();
    let (worker, waiter) = (job.clone(), job.clone());
    let worker = spawn(move || worker.begin(counted));
    let waiter = spawn(move || (0..2).for_each(|_| waiter.running.turn_over()));
    let cancelled = job.claim();
    job.running.wait_for_all();
    job.is_over(cancelled);
    worker.join().unwrap();
    waiter.join().unwrap();
    job.is_over(cancelled);
}

/// Two that wait for the jobs of the moment, one of them for its own timer.
fn wait_against_a_wait(counted: Counted) {
    let job = Job::new();
    let (worker, waiter) = (job.clone(), job.clone());
    let worker = spawn(move || worker.begin(counted));
    let waiter = spawn(move || waiter.running.wait_for_present());
    let cancelled = job.claim();
    if !cancelled {
        job.running.wait_for_present();
    }
    job.is_over(cancelled);
    worker.join().unwrap();
    waiter.join().unwrap();
}

#[test]
fn stop_waits_for_helpers_while_others_wait() {
    explore(Some(3), || stop_against_a_wait(Counted::InItsJobsHalf));
}

#[test]
fn a_wait_waits_for_helpers_while_others_wait() {
    explore(Some(3), || wait_against_a_wait(Counted::InItsJobsHalf));
}

#[test]
fn broken_half_of_a_helper_at_a_stop() {
    must_fail(
        Fault::HelperInPresentHalf,
        "Causality violation",
        Some(3),
        || stop_against_a_wait(Counted::InThePresentHalf),
    );
}

#[test]
fn broken_half_of_a_helper_at_a_wait() {
    must_fail(
        Fault::HelperInPresentHalf,
        "Causality violation",
        Some(3),
        || wait_against_a_wait(Counted::InThePresentHalf),
    );
}

#[test]
fn broken_second_wait() {
    must_fail(
        Fault::WaitForOneHalf,
        "Causality violation",
        Some(3),
        || wait_against_a_wait(Counted::InItsJobsHalf),
    );
}

#[test]
fn broken_count() {
    must_fail(Fault::JobNotCounted, "Causality violation", Some(3), || {
        stop_against_a_wait(Counted::InItsJobsHalf)
    });
}

#[test]
fn broken_end() {
    must_fail(Fault::JobEndRelaxed, "Causality violation", Some(3), || {
        stop_against_a_wait(Counted::InItsJobsHalf)
    });
}
