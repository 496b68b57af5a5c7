//! Calls: threads that call for a run of a closure, against the owner that runs it and leaves. What
//! a timer does in a service, the owner's thread does here at once.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{DueRun, Fault};
use wheelwork_loom_tests::{explore, must_fail};

const CALLERS: usize = 2;

struct Closure {
    due: DueRun,
    /// What callers have written before they call.
    written: [AtomicBool; CALLERS],
    /// What the last run has read. Runs are never in progress at once: loom would complain.
    read: UnsafeCell<[bool; CALLERS]>,
}

// SAFETY: `read` is the owner's. loom checks that nobody else is at it.
unsafe impl Sync for Closure {}

impl Closure {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            due: DueRun::new(),
            written: std::array::from_fn(|_| AtomicBool::new(false)),
            read: UnsafeCell::new([false; CALLERS]),
        })
    }

    /// Calls for a run. The caller that becomes the owner runs what is called for.
    fn call(&self, caller: usize, due_ns: u64) {
        self.written[caller].store(true, Relaxed);
        if self.due.call(due_ns) {
            self.own();
        }
    }

    fn own(&self) {
        loop {
            if let Some(due_ns) = self.due.due_ns() {
                if !self.due.take(due_ns) {
                    continue;
                }
                let written = [0, 1].map(|caller| self.written[caller].load(Relaxed));
                // SAFETY: the owner's. loom checks that nobody else is at it.
                self.read.with_mut(|read| unsafe { *read = written });
            }
            if self.due.leave().is_none() {
                return;
            }
        }
    }

    fn read(&self) -> [bool; CALLERS] {
        // SAFETY: all threads have been joined.
        self.read.with(|read| unsafe { *read })
    }
}

/// Two calls, for one time or for two.
fn two_call(times: [u64; CALLERS]) {
    let closure = Closure::new();
    let second = closure.clone();
    let other = thread::spawn(move || second.call(1, times[1]));
    closure.call(0, times[0]);
    other.join().unwrap();
    assert_eq!(closure.read(), [true; CALLERS], "a call is lost");
    assert_eq!(closure.due.due_ns(), None);
}

/// A call, and a thread that calls off what is called for. A call after both is not lost.
fn one_calls_off() {
    let closure = Closure::new();
    let second = closure.clone();
    let other = thread::spawn(move || second.due.call_off());
    closure.call(0, 5);
    let is_called_off = other.join().unwrap();
    assert_ne!(closure.read()[0], is_called_off, "run or called off");
    closure.call(1, 6);
    assert_eq!(closure.read(), [true; CALLERS], "a call is lost");
}

#[test]
fn each_call_is_followed_by_a_run() {
    explore(None, || two_call([5, 5]));
}

#[test]
fn and_so_is_one_for_another_time() {
    explore(None, || two_call([5, 7]));
}

#[test]
fn a_run_that_is_called_off_hides_no_later_call() {
    explore(None, one_calls_off);
}

#[test]
fn broken_leave() {
    must_fail(Fault::RunLeavesBlindly, "a call is lost", None, || {
        two_call([5, 5])
    });
}

#[test]
fn broken_order_of_the_mark() {
    must_fail(Fault::CallMarkRelaxed, "a call is lost", None, || {
        two_call([5, 5])
    });
}

#[test]
fn broken_order_of_the_owner() {
    must_fail(Fault::CallOwnRelaxed, "Causality violation", None, || {
        two_call([5, 7])
    });
}

#[test]
fn broken_order_of_the_leave() {
    must_fail(Fault::RunLeaveRelaxed, "Causality violation", None, || {
        two_call([5, 7])
    });
}
