//! Promise: an attempt may have a time limit. A future is dropped when it is over, and others may
//! have its place; every other handler is told, and its answer counts.
//!
//! `../durable_in_transaction.rs` has this for handlers in a transaction of the database.

use std::future::{pending, ready};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::ManualClock;
use wheelwork_durable::{
    Delivery, Durable, DurableBuilder, Memory, OpenError, RetryPolicy, SpawnedFuture,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Runs futures when the test says so.
#[derive(Clone, Default)]
struct Executor(Arc<Tasks>);

#[derive(Default)]
struct Tasks {
    futures: Mutex<Vec<SpawnedFuture>>,
    is_woken: AtomicBool,
}

impl Wake for Tasks {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, SeqCst);
    }
}

impl Executor {
    /// Whether a task was woken since the last poll.
    fn is_woken(&self) -> bool {
        self.0.is_woken.swap(false, SeqCst)
    }

    /// Polls all futures once. Returns how many go on.
    fn poll(&self) -> usize {
        let waker = Waker::from(self.0.clone());
        let mut context = Context::from_waker(&waker);
        let mut futures = std::mem::take(&mut *self.0.futures.lock().unwrap());
        futures.retain_mut(|future| future.as_mut().poll(&mut context).is_pending());
        let mut all = self.0.futures.lock().unwrap();
        all.splice(0..0, futures);
        all.len()
    }
}

/// A program whose futures run when the test says so.
fn spawning(clock: &ManualClock) -> (DurableBuilder<Memory>, Executor) {
    let executor = Executor::default();
    let spawned = executor.clone();
    let builder = Durable::builder(Memory::new())
        .clock(clock.clone())
        .spawner(move |future| spawned.0.futures.lock().unwrap().push(future));
    (builder, executor)
}

/// Notes that it was dropped, and may panic then.
struct Noted(Arc<AtomicU32>, bool);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        assert!(!self.1, "it panics in its drop");
    }
}

type Told = Arc<Mutex<Vec<String>>>;

/// A builder whose kind `work` has a future that never ends, except with the payload `short`.
fn hanging(clock: &ManualClock) -> (DurableBuilder<Memory>, Executor, Arc<AtomicU32>, Told) {
    let (builder, executor) = spawning(clock);
    let (drops, told) = (Arc::new(AtomicU32::new(0)), Told::default());
    let (dropped, log) = (Arc::clone(&drops), told.clone());
    let builder = builder
        .on_async("work", move |work: Delivery| {
            let noted = Noted(dropped.clone(), work.payload() == b"panics");
            async move {
                match work.payload() {
                    b"short" => ready(()).await,
                    _ => pending().await,
                }
                drop(noted);
                Ok(())
            }
        })
        .on_failed(move |_, why| log.lock().unwrap().push(why.to_owned()))
        .retry_policy(RetryPolicy::new().first(HOUR).cap(HOUR));
    (builder, executor, drops, told)
}

#[test]
fn a_future_is_dropped_in_its_own_poll_when_its_limit_is_over() {
    let clock = ManualClock::new();
    let (builder, executor, drops, told) = hanging(&clock);
    let timers = builder.time_limit("work", 5 * SECOND).start().unwrap();
    let id = timers.schedule("work", SECOND, "").unwrap();
    clock.advance(SECOND);
    // (The wait for the executor does not count.)
    clock.advance(HOUR);
    assert_eq!(executor.poll(), 1);
    clock.advance(5 * SECOND - MS);
    assert!(!executor.is_woken());
    assert_eq!(executor.poll(), 1);
    clock.advance(MS);
    assert!(executor.is_woken(), "nothing else wakes it");
    assert_eq!(drops.load(SeqCst), 0, "it is dropped in its own poll");
    assert_eq!((executor.poll(), drops.load(SeqCst)), (0, 1));
    clock.advance(MS);
    assert_eq!(*told.lock().unwrap(), ["it took longer than 5s"]);
    assert_eq!(timers.get(id).unwrap().unwrap().attempts, 1);
    let stats = timers.stats();
    assert_eq!((stats.over_time, stats.failed, stats.done), (1, 1, 0));
    // It has as much time in its next attempt.
    clock.advance(HOUR);
    assert_eq!(executor.poll(), 1);
    clock.advance(5 * SECOND);
    assert_eq!((executor.poll(), timers.stats().over_time), (0, 2));
}

#[test]
fn a_future_that_takes_too_long_in_its_last_poll_is_counted() {
    let clock = ManualClock::new();
    let slow = clock.clone();
    let (builder, executor) = spawning(&clock);
    let timers = builder
        .on_async("work", move |_| {
            let slow = slow.clone();
            async move {
                slow.advance(5 * SECOND);
                Ok(())
            }
        })
        .time_limit("work", 5 * SECOND)
        .start()
        .unwrap();
    timers.schedule("work", SECOND, "").unwrap();
    clock.advance(SECOND);
    assert_eq!(executor.poll(), 0);
    clock.advance(MS);
    let stats = timers.stats();
    assert_eq!((stats.over_time, stats.failed, stats.done), (1, 0, 1));
}

#[test]
fn a_future_that_is_dropped_or_panics_after_its_limit_is_counted() {
    let clock = ManualClock::new();
    let slow = clock.clone();
    let (builder, executor) = spawning(&clock);
    let timers = builder
        .on_async("dropped", |_| pending())
        .on_async("panics", move |_| -> std::future::Ready<_> {
            slow.advance(5 * SECOND);
            panic!("too late")
        })
        .time_limit("dropped", 5 * SECOND)
        .time_limit("panics", 5 * SECOND)
        .start()
        .unwrap();
    let over_time = || (timers.stats().over_time, timers.stats().failed);
    timers.schedule("dropped", SECOND, "").unwrap();
    clock.advance(SECOND);
    assert_eq!(executor.poll(), 1);
    clock.advance(6 * SECOND);
    executor.0.futures.lock().unwrap().clear();
    clock.advance(MS);
    assert_eq!(over_time(), (1, 1));
    timers.schedule("panics", MS, "").unwrap();
    clock.advance(MS);
    executor.poll();
    clock.advance(MS);
    assert_eq!(over_time(), (2, 2));
}

#[test]
fn a_stop_does_not_wait_for_a_future_longer_than_its_limit() {
    let clock = ManualClock::new();
    let (builder, executor, drops, told) = hanging(&clock);
    let timers = builder.time_limit("work", 5 * SECOND).start().unwrap();
    timers.schedule("work", SECOND, "").unwrap();
    clock.advance(SECOND);
    assert_eq!(executor.poll(), 1);
    thread::scope(|scope| {
        let stop = scope.spawn(|| timers.stop());
        // (Its alarm has gone with the service.)
        while !executor.is_woken() {
            thread::yield_now();
        }
        clock.advance(5 * SECOND - MS);
        assert_eq!(executor.poll(), 1);
        assert!(!stop.is_finished());
        clock.advance(MS);
        while !executor.is_woken() {
            thread::yield_now();
        }
        assert_eq!((executor.poll(), drops.load(SeqCst)), (0, 1));
        stop.join().unwrap().unwrap();
    });
    assert_eq!(*told.lock().unwrap(), ["it took longer than 5s"]);
    assert_eq!((timers.stats().over_time, timers.stats().failed), (1, 1));
}

#[test]
fn so_it_is_by_the_system_clock() {
    let [begun, done] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let (executor, begins, dropped) = (Executor::default(), begun.clone(), done.clone());
    let spawner = executor.clone();
    let timers = Durable::builder(Memory::new())
        .spawner(move |future| spawner.0.futures.lock().unwrap().push(future))
        .on_async("work", move |_: Delivery| {
            let noted = Noted(dropped.clone(), false);
            begins.fetch_add(1, SeqCst);
            async move {
                pending::<()>().await;
                drop(noted);
                Ok(())
            }
        })
        .time_limit("work", SECOND / 2)
        .start()
        .unwrap();
    timers.schedule("work", Duration::ZERO, "").unwrap();
    while executor.poll() == 0 {
        thread::yield_now();
    }
    thread::scope(|scope| {
        let stop = scope.spawn(|| timers.stop());
        while !stop.is_finished() {
            if executor.is_woken() {
                executor.poll();
            }
            thread::yield_now();
        }
        stop.join().unwrap().unwrap();
    });
    // (There are more attempts if this thread was held up before it first polled.)
    assert_eq!(done.load(SeqCst), begun.load(SeqCst));
}

#[test]
fn a_timers_own_limit_comes_first() {
    let clock = ManualClock::new();
    let (builder, executor, ..) = hanging(&clock);
    let timers = builder.time_limit("work", 5 * SECOND).start().unwrap();
    for limit in [SECOND, HOUR, Duration::ZERO, Duration::MAX] {
        let timer = timers.timer("work", SECOND, "").time_limit(limit);
        timer.schedule().unwrap();
    }
    timers.schedule("work", SECOND, "").unwrap();
    clock.advance(SECOND);
    let mut left = vec![executor.poll()];
    for passed in [MS, SECOND, 5 * SECOND, HOUR, 24 * HOUR] {
        clock.advance(passed);
        left.push(executor.poll());
        // (Those that have failed are not tried again.)
        timers.cancel_kind("work").unwrap();
    }
    assert_eq!(left, [5, 4, 3, 2, 1, 1]);
}

#[test]
fn what_ends_in_time_is_done_and_sets_no_alarm_off() {
    let clock = ManualClock::new();
    let (builder, executor, ..) = hanging(&clock);
    let timers = builder.time_limit("work", SECOND).start().unwrap();
    timers.schedule("work", SECOND, "short").unwrap();
    clock.advance(SECOND);
    assert_eq!(executor.poll(), 0);
    clock.advance(HOUR);
    assert!(!executor.is_woken());
    let stats = timers.stats();
    assert_eq!((stats.done, stats.over_time), (1, 0));
}

#[test]
fn its_place_is_free_then_and_a_drop_may_panic() {
    let clock = ManualClock::new();
    let (builder, executor, drops, told) = hanging(&clock);
    let timers = builder
        .time_limit("work", SECOND)
        .max_calls("work", NonZeroUsize::MIN)
        .start()
        .unwrap();
    let all = ["panics", "short"].map(|payload| ("work", SECOND, payload));
    timers.schedule_many(all).unwrap();
    clock.advance(SECOND);
    assert_eq!(executor.poll(), 1);
    clock.advance(SECOND);
    // The next one was spawned in this poll.
    assert_eq!((executor.poll(), drops.load(SeqCst)), (1, 1));
    assert_eq!((executor.poll(), drops.load(SeqCst)), (0, 2));
    clock.advance(MS);
    assert_eq!((timers.stats().done, timers.stats().failed), (1, 1));
    let told = told.lock().unwrap();
    assert_eq!(*told, ["it panicked: it panics in its drop"]);
}

#[test]
fn a_task_that_nothing_else_wakes_ends_in_real_time() {
    let timers = Durable::builder(Memory::new())
        .spawner(|future| drop(thread::spawn(|| futures_lite::future::block_on(future))))
        .on_async("work", |_| pending())
        .time_limit("work", 50 * MS)
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    timers.schedule("work", MS, "").unwrap();
    let begun = Instant::now();
    while timers.stats().died == 0 {
        assert!(begun.elapsed() < 60 * SECOND, "it is woken");
        thread::sleep(MS);
    }
    assert!(begun.elapsed() >= 50 * MS);
    timers.stop().unwrap();
}

#[test]
fn other_handlers_are_told_and_their_answers_count() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let handler = |log: &Arc<Mutex<Vec<_>>>| {
        let log = log.clone();
        move |work: &Delivery| {
            let (left, was_over) = (work.time_left(), work.is_over_time());
            if work.payload() == b"7" {
                thread::sleep(30 * MS);
            }
            let now = (left, was_over, work.is_over_time());
            log.lock().unwrap().push((work.kind().to_owned(), now));
            Ok(())
        }
    };
    let (one, typed, batch, free) = (handler(&log), handler(&log), handler(&log), handler(&log));
    let timers = Durable::builder(Memory::new())
        .on("one", one)
        .on_typed("typed", move |work, _: u32| typed(work))
        .on_batch("batch", move |all| all.iter().map(&batch).collect())
        .on("free", free)
        .time_limit("one", 20 * MS)
        .time_limit("typed", 20 * MS)
        .time_limit("batch", 20 * MS)
        .start()
        .unwrap();
    let kinds = ["one", "typed", "batch", "free"];
    timers
        .schedule_many(kinds.map(|kind| (kind, MS, "7")))
        .unwrap();
    let begun = Instant::now();
    while timers.stats().done < 4 {
        assert!(begun.elapsed() < 60 * SECOND);
        thread::sleep(MS);
    }
    let stats = timers.stats();
    assert_eq!((stats.over_time, stats.failed), (3, 0));
    for (kind, (left, was_over, is_over)) in log.lock().unwrap().iter() {
        match &**kind {
            "free" => assert_eq!((*left, *was_over, *is_over), (None, false, false)),
            _ => {
                assert!(left.unwrap() <= 20 * MS, "{kind}: {left:?}");
                assert!(is_over, "{kind}");
            }
        }
    }
    timers.stop().unwrap();
}

#[test]
fn a_limit_needs_a_handler() {
    let builder = Durable::builder(Memory::new()).time_limit("work", SECOND);
    assert!(matches!(builder.start(), Err(OpenError::Setting(_))));
}
