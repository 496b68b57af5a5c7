//! What users of `setTimeout` and `setInterval` rely on, in browsers and in Node.

use super::MS;
use crate::apart::apart;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use wheelwork::{after, global};

const HOUR: Duration = Duration::from_secs(3_600);

/// A difference: a callback runs on another thread, so it may run beside its caller.
#[test]
fn a_callback_runs_though_its_caller_is_busy() {
    let (send, receive) = mpsc::channel();
    after(Duration::ZERO, move || {
        send.send(thread::current().id()).unwrap();
    })
    .unwrap();
    assert_ne!(receive.recv().unwrap(), thread::current().id());
}

/// And clearing it again, or when it has run, does nothing.
#[test]
fn a_timeout_that_is_cleared_does_not_run() {
    let (send, receive) = mpsc::channel();
    let run = send.clone();
    let id = after(MS, move || run.send("run").unwrap()).unwrap();
    assert_eq!(receive.recv(), Ok("run"));
    assert!(!global().unwrap().cancel(id));
    let id = after(HOUR, move || send.send("cleared").unwrap()).unwrap();
    assert!(global().unwrap().cancel(id) && !global().unwrap().cancel(id));
    assert!(receive.recv().is_err(), "its callback is dropped");
}

#[test]
fn an_interval_runs_until_it_is_cleared() {
    let (send, receive) = mpsc::channel();
    let run = move || _ = send.send(());
    let id = global().unwrap().every(MS).start(run).unwrap();
    (0..3).for_each(|_| receive.recv().unwrap());
    assert!(global().unwrap().cancel(id));
    // It ends: the callback is dropped, after a run that had begun.
    receive.iter().for_each(drop);
    assert!(!global().unwrap().is_pending(id));
}

/// A difference: there a pending timeout keeps the process alive unless it is `unref`ed. Here the
/// process ends, and what has not run does not run.
#[test]
fn a_pending_timeout_keeps_no_process_alive() {
    apart(
        "peers::javascript::a_pending_timeout_keeps_no_process_alive",
        || {
            let id = after(HOUR, || unreachable!("it waits")).unwrap();
            let every = global().unwrap().every(HOUR).start(|| ()).unwrap();
            assert!([id, every].map(|id| global().unwrap().is_pending(id)) == [true; 2]);
        },
    );
}
