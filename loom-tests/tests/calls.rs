//! Calls: threads that call for a run of a closure, against the owner that runs it and leaves. What
//! a timer does in a service, the owner's thread does here at once.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use std::sync::Arc;
use wheelwork::internals::loom::{DueRun, Fault};
use wheelwork_loom_tests::{explore, must_fail};

const CALLERS: usize = 2;
/// From a call to the run that it calls for.
const QUIET_NS: u64 = 3;

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
        let called = self.note(caller, due_ns);
        if called.expect("no run is the last") {
            self.own();
        }
    }

    /// Calls for a run, which the caller does not do itself.
    fn note(&self, caller: usize, due_ns: u64) -> Option<bool> {
        self.written[caller].store(true, Relaxed);
        self.due.call(due_ns - QUIET_NS, due_ns)
    }

    /// The owner runs what is called for, for the last time, and leaves.
    fn run_last(&self) {
        self.due.begin_last();
        if self.due.take_any() {
            self.note_read();
        }
        self.due.give_up();
    }

    fn note_read(&self) {
        let written = [0, 1].map(|caller| self.written[caller].load(Relaxed));
        // SAFETY: the owner's. loom checks that nobody else is at it.
        self.read.with_mut(|read| unsafe { *read = written });
    }

    fn own(&self) {
        loop {
            if let Some(due_ns) = self.due.due_ns() {
                if !self.due.take(due_ns) {
                    continue;
                }
                self.note_read();
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

/// A call against an owner that cannot arm a timer: it is run, or it is refused, or its caller is
/// the owner.
fn one_calls_at_the_last_run() {
    let closure = Closure::new();
    assert_eq!(closure.note(0, 5), Some(true));
    let second = closure.clone();
    let other = thread::spawn(move || second.note(1, 6));
    closure.run_last();
    let read = closure.read();
    assert!(read[0], "a call is lost");
    // An owner arms a timer. If it was refused, the next call leads to a run for it too.
    let waits = other.join().unwrap() != Some(false) && closure.due.due_ns() == Some(6);
    assert!(read[1] || waits, "a call is lost");
}

/// A call is called off, and another one comes: its wait begins with itself.
fn one_calls_again() {
    let closure = Closure::new();
    assert_eq!(closure.note(0, 5), Some(true));
    assert!(closure.due.call_off());
    let second = closure.clone();
    let other = thread::spawn(move || second.note(1, 16));
    if let Some(due_ns) = closure.due.due_ns() {
        let begun_ns = closure.due.since_ns();
        assert_eq!(begun_ns, due_ns - QUIET_NS, "an older call's time");
    }
    assert_eq!(other.join().unwrap(), Some(false));
}

#[test]
fn each_call_is_followed_by_a_run() {
    explore(Some(4), || two_call([5, 5]));
}

#[test]
fn and_so_is_one_for_another_time() {
    explore(Some(4), || two_call([5, 7]));
}

#[test]
fn a_run_that_is_called_off_hides_no_later_call() {
    explore(None, one_calls_off);
}

#[test]
fn a_call_at_the_last_run_is_run_or_refused() {
    explore(None, one_calls_at_the_last_run);
}

#[test]
fn a_wait_begins_with_its_first_call() {
    explore(None, one_calls_again);
}

#[test]
fn broken_last_run() {
    must_fail(
        Fault::RunLastUnmarked,
        "a call is lost",
        None,
        one_calls_at_the_last_run,
    );
}

#[test]
fn broken_beginning_of_a_wait() {
    must_fail(
        Fault::CallMarkRelaxed,
        "an older call's time",
        None,
        one_calls_again,
    );
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
