//! The manual clock on two threads: src/time/manual.rs, of which one drives for both; and its time
//! of day, which one thread sets while another one goes by it: src/engine/manual.rs.

use loom::thread;
use std::sync::Arc;
use std::time::Duration;
use wheelwork::internals::loom::{Entry, Fault, pass_time, run_job, tell_wall};
use wheelwork::{ManualClock, TimerService};
use wheelwork_loom_tests::{Held, Ledger, explore, must_fail, spawn};

/// When both calls have returned, time has moved by the sum.
fn two_advance() {
    let clock = ManualClock::new();
    let other_clock = clock.clone();
    let other = thread::spawn(move || other_clock.advance(Duration::from_nanos(1)));
    clock.advance(Duration::from_nanos(2));
    other.join().unwrap();
    assert_eq!(clock.elapsed(), Duration::from_nanos(3));
}

#[test]
fn no_advance_is_lost() {
    explore(None, two_advance);
}

const TICK: Duration = Duration::from_micros(1);

/// Whether the timer of a time of day looks soon once that time has come, though its run files it
/// while the clock is set (SetStore, SetTell, SetRecheck).
fn set_against_run() {
    let (clock, ran) = (ManualClock::new(), Arc::new(Ledger::<1>::new()));
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(TICK)
        .shards(1)
        .start()
        .expect("a manual service starts");
    let service = Held::new(Arc::new(service));
    let (at, counted) = (clock.system_time() + TICK * 10, ran.clone());
    let id = service
        .schedule_at_system_time(at, move || _ = counted.add(0))
        .expect("not stopped");
    pass_time(&clock, TICK * 10);
    clock.set_system_time(at - TICK * 100);
    // It is due, and looks: the time is 100 ticks away, or has come.
    let handle = service.handle();
    let worker = spawn(move || run_job(&handle, Entry::of(id, 10)));
    clock.set_system_time(at);
    tell_wall(&service);
    worker.join().unwrap();
    let left = service.remaining(id);
    assert!(
        left.map_or(ran.counts() == [1], |left| left <= TICK * 2),
        "it sleeps on: {left:?}"
    );
    assert_eq!(service.stats().panics, 0, "loom complained inside the run");
}

#[test]
fn a_set_is_seen_by_a_run_that_files_its_timer() {
    explore(Some(2), || spawn(set_against_run).join().unwrap());
}

#[test]
fn broken_look_for_a_set() {
    must_fail(Fault::SetNotSeenAfterFile, "it sleeps on", Some(2), || {
        spawn(set_against_run).join().unwrap();
    });
}
