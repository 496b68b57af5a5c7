//! Promise: a paused `block_on` loses no wake of another thread, and other threads may hold its
//! clock, move it, and arm timers on it.

use futures_lite::future::{yield_now, zip};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::TimerService;
use wheelwork::future::{sleep, timeout};
use wheelwork::testing::{self, Paused, block_on};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3_600);

fn elapsed() -> Duration {
    testing::clock().elapsed()
}

#[test]
fn a_wake_of_another_thread_ends_the_wait() {
    for _ in 0..200 {
        block_on(async {
            let (send, receive) = smol::channel::bounded(1);
            // No timer is pending, so nothing can happen but this.
            let thread = thread::spawn(move || send.send_blocking(7).unwrap());
            assert_eq!(receive.recv().await, Ok(7));
            assert_eq!(elapsed(), Duration::ZERO);
            thread.join().unwrap();
        });
    }
}

#[test]
fn a_held_clock_stands_still_until_the_thread_has_sent() {
    for round in 0..200u32 {
        block_on(async {
            let (send, receive) = smol::channel::bounded(1);
            let (go, wait) = mpsc::channel();
            let hold = testing::hold();
            let thread = thread::spawn(move || {
                wait.recv().unwrap();
                (0..round).for_each(|_| thread::yield_now());
                send.send_blocking(7).unwrap();
                drop(hold);
            });
            // The thread is let go when this task waits already, or soon will.
            let waits = zip(timeout(MS, receive.recv()), async {
                yield_now().await;
                go.send(()).unwrap();
            });
            assert_eq!(waits.await.0, Ok(Ok(7)));
            assert_eq!(elapsed(), Duration::ZERO);
            thread.join().unwrap();
            // It moves again.
            sleep(DAY).await;
            assert_eq!(elapsed(), DAY);
        });
    }
}

#[test]
fn all_holds_count() {
    block_on(async {
        let ended = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (hold, ended) = (testing::hold(), ended.clone());
                thread::spawn(move || {
                    ended.fetch_add(1, SeqCst);
                    drop(hold);
                })
            })
            .collect();
        sleep(MS).await;
        assert_eq!(ended.load(SeqCst), 4);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

/// It arms a timer, and has no waker.
#[test]
fn a_timer_that_another_thread_arms_fires() {
    let paused = Paused::new();
    let service = TimerService::builder()
        .clock(paused.clock().clone())
        .start()
        .unwrap();
    let (send, receive) = smol::channel::bounded(1);
    let (at_rest, waits) = mpsc::channel();
    thread::scope(|scope| {
        let service = &service;
        scope.spawn(move || {
            waits.recv().unwrap();
            service
                .schedule(DAY, move || send.try_send(()).unwrap())
                .unwrap();
        });
        paused.block_on(async {
            at_rest.send(()).unwrap();
            receive.recv().await.unwrap();
        });
    });
    assert_eq!(paused.clock().elapsed(), DAY);
}

#[test]
fn another_thread_may_move_the_clock() {
    let paused = Paused::new();
    let (clock, over) = (paused.clock().clone(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                clock.advance(MS);
            }
        });
        paused.block_on(async {
            for _ in 0..200 {
                let before = elapsed();
                sleep(10 * MS).await;
                assert!(elapsed() >= before + 10 * MS);
            }
        });
        over.store(true, SeqCst);
    });
}
