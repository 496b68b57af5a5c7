//! The manual clock on two threads: src/time/manual.rs. One of them drives for both.

use loom::thread;
use std::time::Duration;
use wheelwork::ManualClock;
use wheelwork_loom_tests::explore;

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
