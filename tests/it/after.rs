//! Promise: `after` runs a callback without a service of one's own, on one that all share.

use crate::apart::apart;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{InsideTaskError, TimerId, after, global};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Delays of 0 to 4 ms.
fn delay(number: u32) -> Duration {
    MS * (number % 5)
}

/// In a process of its own, in which nobody else has started the service.
#[test]
fn the_first_calls_of_many_threads_start_one_service() {
    apart(
        "after::the_first_calls_of_many_threads_start_one_service",
        first_calls,
    );
}

fn first_calls() {
    const THREADS: u32 = 8;
    let (send, receive) = mpsc::channel();
    let barrier = Barrier::new(THREADS as usize);
    let service = |number: u32, send: mpsc::Sender<_>| {
        barrier.wait();
        for _ in 0..50 {
            let (send, armed) = (send.clone(), Instant::now());
            let run = move || send.send((number, armed.elapsed())).unwrap();
            after(delay(number), run).unwrap();
        }
        std::ptr::from_ref(global().unwrap()).addr()
    };
    let services: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let send = send.clone();
                scope.spawn(move || service(number, send))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(services.iter().all(|&service| service == services[0]));
    for _ in 0..THREADS * 50 {
        let (number, elapsed) = receive.recv_timeout(HANGS).expect("it runs");
        assert!(elapsed >= delay(number), "early: {elapsed:?}");
    }
    assert_eq!(global().unwrap().shards(), 1, "one thread");
}

#[test]
fn its_id_is_one_of_the_global_service() {
    let service = global().unwrap();
    let (send, receive) = mpsc::channel();
    let far = after(HANGS * 60, move || send.send("run").unwrap()).unwrap();
    assert!(service.is_pending(far));
    assert!(service.reschedule(far, MS));
    assert_eq!(receive.recv_timeout(HANGS), Ok("run"));
    assert!(!service.cancel(far), "it has run");

    let (send, receive) = mpsc::channel::<()>();
    let cancelled = after(HANGS * 60, move || send.send(()).unwrap()).unwrap();
    assert!(service.cancel(cancelled));
    assert!(receive.recv().is_err(), "its closure is dropped");

    let taken = after(HANGS * 60, || ()).unwrap();
    assert!(service.take(taken).is_some());
}

#[test]
fn a_callback_may_arm_the_next_one() {
    fn countdown(
        left: u32,
        done: mpsc::Sender<Result<bool, InsideTaskError>>,
        last: Option<TimerId>,
    ) {
        let run = move || match left {
            0 => {
                let waited = global()
                    .unwrap()
                    .cancel_and_wait(last.expect("there was one"));
                done.send(waited).unwrap();
            }
            _ => countdown(left - 1, done, last),
        };
        after(Duration::ZERO, run).unwrap();
    }
    let (send, receive) = mpsc::channel();
    let other = after(HANGS * 60, || ()).unwrap();
    countdown(20, send, Some(other));
    assert_eq!(receive.recv_timeout(HANGS), Ok(Err(InsideTaskError)));
    assert!(global().unwrap().cancel(other));
}

#[test]
fn a_panic_holds_up_no_later_callback() {
    let (send, receive) = mpsc::channel();
    after(Duration::ZERO, || panic!("on purpose")).unwrap();
    let runs = Arc::new(send);
    for number in 0..10 {
        let runs = runs.clone();
        after(delay(number), move || runs.send(number).unwrap()).unwrap();
    }
    let mut ran: Vec<_> = (0..10)
        .map(|_| receive.recv_timeout(HANGS).unwrap())
        .collect();
    ran.sort_unstable();
    assert!(ran.into_iter().eq(0..10));
    // The panic may be told by another worker, later than the rest has run.
    while global().unwrap().stats().panics == 0 {
        std::thread::yield_now();
    }
}
