//! What users of tokio's paused clock rely on: `#[tokio::test(start_paused = true)]`, `pause`,
//! `advance`. And the service that the functions of a program share.

use super::{Log, MS, timers};
use crate::apart::apart;
use futures_lite::future::yield_now;
use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::thread;
use std::time::Duration;
use wheelwork::future::{DelayQueue, Timers, interval, sleep, sleep_until, timeout};
use wheelwork::testing::{self, Paused, block_on, spawn};
use wheelwork::{ManualClock, TimerService};

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn elapsed() -> Duration {
    testing::clock().elapsed()
}

#[test]
fn a_clock_that_is_paused_stands_still_while_there_is_work() {
    block_on(async {
        let alarm = spawn(sleep(MS));
        for _ in 0..1_000 {
            yield_now().await;
        }
        assert!(elapsed().is_zero() && !alarm.is_finished());
        alarm.await;
        assert_eq!(elapsed(), MS);
    });
}

/// Auto-advance: with nothing else to do time moves to the next deadline, and no further.
#[test]
fn a_clock_that_is_paused_moves_to_the_next_deadline() {
    block_on(async {
        let start = testing::clock().now();
        sleep(365 * DAY).await;
        assert_eq!(elapsed(), 365 * DAY);
        sleep_until(start + 366 * DAY).await;
        assert_eq!(testing::clock().now(), start + 366 * DAY);
        assert!(timeout(DAY, pending::<()>()).await.is_err());
        assert_eq!(elapsed(), 367 * DAY);
        let mut daily = interval(DAY);
        for day in 367..370 {
            daily.tick().await;
            assert_eq!(elapsed(), day * DAY);
        }
        let mut queue = DelayQueue::new();
        queue.insert("value", DAY);
        assert_eq!(queue.next().await.unwrap().into_inner(), "value");
        assert_eq!(elapsed(), 370 * DAY);
    });
}

#[test]
fn tasks_wake_in_the_order_of_their_deadlines_each_at_its_own() {
    let log = Log::new();
    block_on(async {
        let tasks = [30, 10, 20, 10].map(|ms| {
            let log = log.clone();
            spawn(async move {
                sleep(MS * ms).await;
                log.note((ms, elapsed()));
            })
        });
        for task in tasks {
            task.await;
        }
    });
    assert_eq!(log.take(), [10, 10, 20, 30].map(|ms| (ms, MS * ms)));
}

/// `advance(d)` moves past several deadlines at once. Those tasks run afterwards, in the order of
/// their deadlines, and others sleep on.
#[test]
fn an_advance_wakes_what_is_due_by_then() {
    let log = Log::new();
    block_on(async {
        for ms in [30, 10, 20] {
            let log = log.clone();
            drop(spawn(async move {
                sleep(MS * ms).await;
                log.note((ms, elapsed()));
            }));
        }
        yield_now().await; // They make their sleeps.
        testing::clock().advance(9 * MS);
        yield_now().await;
        assert_eq!(log.take(), []);
        testing::clock().advance(16 * MS);
        yield_now().await;
        assert_eq!(log.take(), [(10, 25 * MS), (20, 25 * MS)]);
        assert_eq!(elapsed(), 25 * MS, "it has not moved by itself");
        sleep(100 * MS).await;
        assert_eq!(log.take(), [(30, 30 * MS)]);
    });
}

/// tokio's `Instant::now()`, for code that computes with instants.
#[test]
fn the_time_of_the_paused_clock_can_be_read() {
    block_on(async {
        let start = testing::clock().now();
        sleep(DAY).await;
        let now = Timers::current().handle().now();
        assert_eq!((now - start, testing::clock().now()), (DAY, now));
    });
}

/// A difference: in tokio a test that starts paused has a runtime; here tasks run on the thread
/// that calls, so they need not be `Send`, and those that still run are dropped at the end.
#[test]
fn tasks_of_a_paused_clock_need_not_be_send() {
    let ran = Rc::new(Cell::new(0));
    let counted = ran.clone();
    block_on(async {
        let own = counted.clone();
        spawn(async move { own.set(own.get() + 1) }).await;
        drop(spawn(async move {
            sleep(DAY).await;
            counted.set(10);
        }));
    });
    assert_eq!((ran.get(), Rc::strong_count(&ran)), (1, 1));
}

#[test]
fn each_paused_clock_is_its_own() {
    let threads = [1, 2, 3].map(|days| {
        thread::spawn(move || {
            block_on(async {
                sleep(days * DAY).await;
                assert_eq!(elapsed(), days * DAY);
            });
        })
    });
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Code that calls `sleep` runs on the clock of the test that has entered its service, under
/// tokio's own runtime too.
#[tokio::test]
async fn a_test_of_tokio_enters_its_own_service() {
    let (timers, clock) = timers();
    let _entered = timers.enter();
    let session = tokio::spawn(async { sleep(DAY).await });
    tokio::task::yield_now().await; // It makes its sleep.
    clock.advance(DAY - MS);
    tokio::task::yield_now().await;
    assert!(!session.is_finished());
    clock.advance(MS);
    session.await.unwrap();
}

#[test]
fn a_runtime_of_tokio_moves_the_clock_when_it_has_nothing_to_do() {
    let paused = Paused::new();
    let _entered = paused.timers().enter();
    let clock = paused.clock().clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || _ = clock.advance_to_next())
        .build()
        .unwrap();
    runtime.block_on(async {
        for _ in 0..30 {
            tokio::spawn(sleep(DAY)).await.unwrap();
        }
    });
    assert_eq!(paused.clock().elapsed(), 30 * DAY);
}

/// A future keeps the service with which it was made, wherever it is polled.
#[test]
fn a_service_is_entered_until_its_guard_is_dropped() {
    let ((outer, outer_clock), (inner, inner_clock)) = (timers(), timers());
    let outer_entered = outer.enter();
    let inner_entered = inner.enter();
    let of_inner = sleep(MS);
    drop(inner_entered);
    let of_outer = sleep(MS);
    drop(outer_entered);
    inner_clock.advance(MS);
    assert!(of_inner.is_elapsed() && !of_outer.is_elapsed());
    outer_clock.advance(MS);
    assert!(of_outer.is_elapsed());
}

/// What tokio has no counterpart for: the whole program on one manual clock. (A process of its own,
/// since the service is set once.)
#[test]
fn a_program_may_run_on_one_manual_clock() {
    apart(
        "peers::tokio_paused::a_program_may_run_on_one_manual_clock",
        || {
            let clock = ManualClock::new();
            let builder = || TimerService::builder().clock(clock.clone());
            let timers = Timers::set_global(builder()).unwrap();
            let sleeps = [1, 2].map(|days| thread::spawn(move || sleep(days * DAY)));
            let [one, two] = sleeps.map(|thread| thread.join().unwrap());
            clock.advance(DAY);
            assert!(one.is_elapsed() && !two.is_elapsed());
            assert!(Timers::set_global(builder()).is_err(), "once");
            assert_eq!(timers.handle().now(), Timers::current().handle().now());
            // One that is entered goes before it.
            block_on(async { sleep(10 * DAY).await });
            assert!(clock.elapsed() == DAY && !two.is_elapsed());
        },
    );
}
