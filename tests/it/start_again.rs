//! Promise: a service that all share is started by a later call if its start has failed.
//!
//! A process has one such service. So each test runs as a process of its own: this program, called
//! with the name of a part. The start fails because the system allows no further thread.
#![cfg(target_os = "linux")]

use crate::apart::apart;
use futures_lite::future::block_on;
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::time::Duration;
use wheelwork::future::{SetGlobalError, Timers, sleep};
use wheelwork::{ScheduleError, StartError, TimerService, after, global};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Calls `f` while the system allows this process no further thread. `None` if that cannot be had:
/// in some containers the limit does not hold.
fn without_threads<R>(f: impl FnOnce() -> R) -> Option<R> {
    // The limit does not hold for root.
    // SAFETY: changes the user of this process, which is the test's own.
    unsafe { libc::setresuid(65_534, 65_534, 65_534) };
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a local variable of the type that the call fills.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) };
    assert_eq!(read, 0);
    let set = |limit: libc::rlimit| {
        // SAFETY: the pointer is to a local variable of the type that the call reads.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) };
        assert_eq!(set, 0);
    };
    set(libc::rlimit {
        rlim_cur: 0,
        ..limit
    });
    let holds = std::thread::Builder::new().spawn(|| ()).is_err();
    let outcome = holds.then(f);
    set(limit);
    if !holds {
        eprintln!("the system has no limit on threads here");
    }
    outcome
}

#[test]
fn the_service_for_callbacks() {
    apart("start_again::the_service_for_callbacks", || {
        let (send, receive) = mpsc::channel();
        let refused = without_threads(|| {
            assert!(matches!(global(), Err(StartError::Pool(_))));
            let run = move || send.send("run").unwrap();
            after(MS, run).unwrap_err()
        });
        let Some(refused) = refused else { return };
        assert!(matches!(refused, ScheduleError::NotStarted(_)));
        // The task that came back is given to it again.
        let task = refused.into_payload();
        after(MS, move || task.run()).unwrap();
        assert_eq!(receive.recv_timeout(HANGS), Ok("run"));
        assert!(std::ptr::eq(global().unwrap(), global().unwrap()));
    });
}

#[test]
fn the_service_for_futures() {
    apart("start_again::the_service_for_futures", || {
        let failed = without_threads(|| {
            assert!(matches!(Timers::global(), Err(StartError::Thread(_))));
            assert!(catch_unwind(|| drop(sleep(MS))).is_err(), "it panics");
        });
        if failed.is_some() {
            block_on(sleep(MS));
            let late = Timers::set_global(TimerService::builder()).unwrap_err();
            assert!(matches!(late, SetGlobalError::TooLate));
        }
    });
}

#[test]
fn a_service_that_is_set_after_its_start_has_failed() {
    apart(
        "start_again::a_service_that_is_set_after_its_start_has_failed",
        || {
            let failed = without_threads(|| {
                assert!(matches!(Timers::global(), Err(StartError::Thread(_))));
                let failed = Timers::set_global(TimerService::builder()).unwrap_err();
                assert!(matches!(failed, SetGlobalError::Start(_)));
            });
            if failed.is_some() {
                let set = Timers::set_global(TimerService::builder().tick(7 * MS)).unwrap();
                assert!(std::ptr::eq(set, Timers::global().unwrap()));
                block_on(sleep(MS));
            }
        },
    );
}
