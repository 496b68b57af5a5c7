//! Promise: the service that all futures share is set once, by the program, before its first use;
//! of several who set or use it first, one decides.
//!
//! A process has one such service. So each test runs as a process of its own: this program, called
//! with the name of a part.

use crate::apart::apart;
use futures_lite::future::block_on;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;
use wheelwork::future::{
    DelayQueue, SetGlobalError, Timers, interval, sleep, sleep_until, timeout,
};
use wheelwork::{ManualClock, StartError, TimerService};

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_functions_run_on_the_service_that_was_set() {
    apart(
        "set_global::the_functions_run_on_the_service_that_was_set",
        || {
            // One that cannot start leaves the next one the choice.
            let error =
                Timers::set_global(TimerService::builder().tick(Duration::ZERO)).unwrap_err();
            assert!(matches!(error, SetGlobalError::Start(StartError::Tick(_))));
            assert_eq!(
                error.to_string(),
                "a tick of 0ns is not between 1us and 24h"
            );

            let clock = ManualClock::new();
            let builder = || TimerService::builder().tick(7 * MS).clock(clock.clone());
            let timers = Timers::set_global(builder()).unwrap();
            assert!(std::ptr::eq(timers, Timers::global().unwrap()));
            let mut context = Context::from_waker(Waker::noop());
            let mut futures = (
                pin!(sleep(10 * MS)),
                pin!(sleep_until(clock.now() + 10 * MS)),
                pin!(timeout(10 * MS, std::future::pending::<()>())),
                interval(7 * MS),
                DelayQueue::new(),
            );
            futures.4.insert((), 10 * MS);
            assert!(futures.3.poll_tick(&mut context).is_ready());
            let mut poll = || {
                [
                    futures.0.as_mut().poll(&mut context).is_ready(),
                    futures.1.as_mut().poll(&mut context).is_ready(),
                    futures.2.as_mut().poll(&mut context).is_ready(),
                    futures.3.poll_tick(&mut context).is_ready(),
                    futures.4.poll_expired(&mut context).is_ready(),
                ]
            };
            assert_eq!(poll(), [false; 5]);
            clock.advance(10 * MS);
            assert_eq!(poll(), [false, false, false, true, false]);
            clock.advance(4 * MS);
            assert_eq!(poll(), [true; 5]);

            // Other threads have it, too.
            let before = clock.elapsed();
            thread::scope(|scope| {
                let far = scope.spawn(|| sleep(70 * MS)).join().unwrap();
                clock.advance(70 * MS);
                block_on(far);
            });
            assert_eq!(clock.elapsed() - before, 70 * MS);

            let again = Timers::set_global(builder()).unwrap_err();
            assert!(matches!(again, SetGlobalError::TooLate));
        },
    );
}

#[test]
fn after_the_first_use_it_is_too_late() {
    apart("set_global::after_the_first_use_it_is_too_late", || {
        block_on(sleep(MS));
        let clock = ManualClock::new();
        let error = Timers::set_global(TimerService::builder().clock(clock)).unwrap_err();
        assert!(matches!(error, SetGlobalError::TooLate));
        assert_eq!(
            error.to_string(),
            "the shared service has been started or set already"
        );
        block_on(sleep(MS));
    });
}

/// A test's own service is not the first use, and leaves the shared one alone.
#[test]
fn one_that_is_entered_is_another_one() {
    apart("set_global::one_that_is_entered_is_another_one", || {
        wheelwork::testing::block_on(async { sleep(24 * 3_600_000 * MS).await });
        let clock = ManualClock::new();
        assert!(Timers::set_global(TimerService::builder().clock(clock.clone())).is_ok());
        wheelwork::testing::block_on(async { sleep(24 * 3_600_000 * MS).await });
        assert_eq!(clock.elapsed(), Duration::ZERO);
    });
}

/// Threads that set it and threads that use it, all at once.
fn race() {
    const SET: usize = 3;
    let barrier = Barrier::new(2 * SET);
    let tokens: Vec<_> = (0..SET).map(|_| Arc::new(())).collect();
    let addresses = thread::scope(|scope| {
        let sets: Vec<_> = tokens
            .iter()
            .map(|token| {
                let (barrier, token) = (&barrier, token.clone());
                scope.spawn(move || {
                    // It lives as long as its service.
                    let builder = TimerService::builder().on_panic(move |_| drop(token.clone()));
                    barrier.wait();
                    match Timers::set_global(builder) {
                        Ok(timers) => Some(std::ptr::from_ref(timers).addr()),
                        Err(error) => {
                            assert!(matches!(error, SetGlobalError::TooLate));
                            None
                        }
                    }
                })
            })
            .collect();
        let uses: Vec<_> = (0..SET)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    std::ptr::from_ref(Timers::global().unwrap()).addr()
                })
            })
            .collect();
        let mut addresses: Vec<_> = uses
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        let set: Vec<_> = sets
            .into_iter()
            .filter_map(|thread| thread.join().unwrap())
            .collect();
        assert!(set.len() <= 1, "one decides");
        let kept = tokens.iter().filter(|token| Arc::strong_count(token) > 1);
        assert_eq!(kept.count(), set.len(), "the others are gone");
        addresses.extend(set);
        addresses
    });
    assert!(addresses.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn of_those_who_come_first_one_decides() {
    (0..10).for_each(|_| apart("set_global::of_those_who_come_first_one_decides", race));
}
