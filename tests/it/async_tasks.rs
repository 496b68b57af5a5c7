//! Promise: async code that a timer starts runs on the runtime that its closure names, once. A
//! panic reaches the service and not the runtime. A shutdown of either leaves nothing behind. Runs
//! of a periodic timer do not overlap.

use crate::quiet::panic_on_purpose;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder as Tokio, Handle, Runtime};
use wheelwork::{Builder, ManualClock, ScheduleError, StopPolicy, TimerService};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

fn tokio() -> Runtime {
    Tokio::new_multi_thread().worker_threads(1).build().unwrap()
}

fn manual() -> (Builder, ManualClock) {
    let clock = ManualClock::new();
    (
        TimerService::builder().shards(1).clock(clock.clone()),
        clock,
    )
}

/// An executor that the test drives.
type Driven = Arc<smol::Executor<'static>>;

/// Runs what is ready.
fn drive(executor: &Driven) {
    while executor.try_tick() {}
}

#[test]
fn async_code_runs_on_tokio() {
    let service = TimerService::builder().start().unwrap();
    let runtimes = [tokio(), Tokio::new_current_thread().build().unwrap()];
    for runtime in runtimes {
        let (send, received) = tokio::sync::oneshot::channel();
        let code = async { send.send(Handle::current().id()).unwrap() };
        let handle = runtime.handle().clone();
        let spawn = move |task| drop(handle.spawn(task));
        service.schedule_async(MS, code, spawn).unwrap();
        assert_eq!(runtime.block_on(received), Ok(runtime.handle().id()));
    }
}

#[test]
fn async_code_runs_on_smol() {
    let service = TimerService::builder().start().unwrap();
    let (send, received) = smol::channel::bounded(1);
    let code = async move { send.send("done").await };
    let spawn = |task| smol::spawn(task).detach();
    service.schedule_async(MS, code, spawn).unwrap();
    assert_eq!(smol::block_on(received.recv()), Ok("done"));

    // An executor of the test's own.
    let (builder, clock) = manual();
    let service = builder.start().unwrap();
    let (executor, done) = (Driven::default(), Arc::new(AtomicU32::new(0)));
    let (spawner, count) = (executor.clone(), done.clone());
    let code = async move { count.fetch_add(1, SeqCst) };
    let spawn = move |task| spawner.spawn(task).detach();
    service.schedule_async(10 * MS, code, spawn).unwrap();
    clock.advance(9 * MS);
    drive(&executor);
    assert_eq!(done.load(SeqCst), 0);
    clock.advance(MS);
    assert_eq!(done.load(SeqCst), 0, "spawned, and not polled");
    drive(&executor);
    assert_eq!(done.load(SeqCst), 1);
    assert!(executor.is_empty());
}

#[test]
fn async_code_that_is_cancelled_in_time_does_not_begin() {
    let (builder, clock) = manual();
    let service = builder.start().unwrap();
    let (executor, held) = (Driven::default(), Arc::new(()));
    for is_in_time in [true, false] {
        let (spawner, captured) = (executor.clone(), held.clone());
        let code = async move {
            let _captured = captured;
            pending::<()>().await;
        };
        let spawn = move |task| spawner.spawn(task).detach();
        let id = service.schedule_async(10 * MS, code, spawn).unwrap();
        clock.advance(if is_in_time { 9 * MS } else { 10 * MS });
        drive(&executor);
        assert_eq!(service.cancel(id), is_in_time);
        assert_eq!(Arc::strong_count(&held), if is_in_time { 1 } else { 2 });
    }
    assert!(!executor.is_empty(), "it goes on");
}

#[test]
fn a_panic_is_told_to_the_service_and_not_to_the_runtime() {
    let told = Arc::new(AtomicU32::new(0));
    let counter = told.clone();
    let builder = TimerService::builder().on_panic(move |_| {
        counter.fetch_add(1, SeqCst);
    });
    let service = builder.start().unwrap();
    let runtime = tokio();
    // Before its first wait, and after it.
    for waits in [0, 1] {
        let (send, spawned) = mpsc::channel();
        let handle = runtime.handle().clone();
        let code = async move {
            for _ in 0..waits {
                tokio::task::yield_now().await;
            }
            panic_on_purpose()
        };
        let spawn = move |task| send.send(handle.spawn(task)).unwrap();
        service.schedule_async(MS, code, spawn).unwrap();
        let task = spawned.recv_timeout(HANGS).unwrap();
        assert!(runtime.block_on(task).is_ok(), "the runtime sees no panic");
    }
    assert_eq!((told.load(SeqCst), service.stats().panics), (2, 2));
}

/// A value that panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic_on_purpose();
    }
}

#[test]
fn drops_that_panic_are_told_to_the_service_too() {
    let (builder, clock) = manual();
    let service = builder.start().unwrap();
    let executor = Driven::default();
    let (first, second) = (executor.clone(), executor.clone());
    // The output, and what the future holds when it has ended.
    let spawn = move |task| first.spawn(task).detach();
    service.schedule_async(MS, ready(Grenade), spawn).unwrap();
    let held = Grenade;
    let code = poll_fn(move |_| {
        let _held = &held;
        Poll::Ready(())
    });
    let spawn = move |task| second.spawn(task).detach();
    service.schedule_async(MS, code, spawn).unwrap();
    clock.advance(MS);
    drive(&executor);
    assert_eq!(service.stats().panics, 2);
    assert!(executor.is_empty());
}

#[test]
fn a_spawn_that_panics_drops_the_code() {
    let (builder, clock) = manual();
    let service = builder.start().unwrap();
    let held = Arc::new(());
    let captured = held.clone();
    // No runtime is there: tokio's `spawn` panics.
    let code = async move { drop(captured) };
    let spawn = |task| {
        let outside = catch_unwind(AssertUnwindSafe(|| drop(tokio::spawn(task))));
        assert!(outside.is_err());
        panic_on_purpose()
    };
    service.schedule_async(MS, code, spawn).unwrap();
    clock.advance(MS);
    assert_eq!(service.stats().panics, 1);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_runtime_that_was_shut_down_drops_the_code() {
    let (builder, clock) = manual();
    let service = builder.start().unwrap();
    for is_before in [true, false] {
        let (runtime, held) = (tokio(), Arc::new(()));
        let (handle, captured) = (runtime.handle().clone(), held.clone());
        let code = async move {
            let _captured = captured;
            pending::<()>().await;
        };
        let spawn = move |task| drop(handle.spawn(task));
        service.schedule_async(MS, code, spawn).unwrap();
        if is_before {
            drop(runtime);
            assert_eq!(Arc::strong_count(&held), 2);
            clock.advance(MS);
        } else {
            clock.advance(MS);
            drop(runtime);
        }
        assert_eq!(Arc::strong_count(&held), 1, "{is_before}");
    }
    let stats = service.stats();
    assert_eq!((stats.panics, stats.timers.fired), (0, 2));
}

#[test]
fn a_service_that_stops_leaves_async_code_that_runs_alone() {
    let (builder, clock) = manual();
    let service = builder.start().unwrap();
    let (executor, done) = (Driven::default(), Arc::new(AtomicU32::new(0)));
    let (open, gate) = smol::channel::bounded::<()>(1);
    let code = |done: &Arc<AtomicU32>| {
        let (gate, done) = (gate.clone(), done.clone());
        async move {
            let _ = gate.recv().await;
            done.fetch_add(1, SeqCst);
            panic_on_purpose()
        }
    };
    let spawner = executor.clone();
    let spawn = move |task| spawner.spawn(task).detach();
    let begun = service.schedule_async(MS, code(&done), spawn.clone());
    let waits = service.schedule_async(1_000 * MS, code(&done), spawn.clone());
    begun.and(waits).unwrap();
    clock.advance(MS);
    drive(&executor);
    // One runs, and one is fired by the stop.
    service.stop_with(StopPolicy::FireAll);
    let refused = service.schedule_async(MS, code(&done), spawn);
    assert!(matches!(refused, Err(ScheduleError::Stopped(()))));
    drop(open);
    drive(&executor);
    assert_eq!(done.load(SeqCst), 2);
    assert_eq!(
        service.stats().panics,
        2,
        "they are counted after the stop, too"
    );
}

#[test]
fn code_of_a_service_that_is_dropped_does_not_begin() {
    let (builder, _clock) = manual();
    let service = builder.start().unwrap();
    let held = Arc::new(());
    let captured = held.clone();
    let code = async move { drop(captured) };
    service
        .schedule_async(MS, code, |_| unreachable!())
        .unwrap();
    drop(service);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn runs_of_a_periodic_timer_do_not_overlap() {
    let (builder, clock) = manual();
    let service = builder.start().unwrap();
    let executor = Driven::default();
    let (begun, gates) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (spawner, count, open) = (executor.clone(), begun.clone(), gates.clone());
    let run = move || {
        count.fetch_add(1, SeqCst);
        let (send, gate) = smol::channel::bounded::<()>(1);
        open.lock().unwrap().push(send);
        async move { gate.recv().await }
    };
    let spawn = move |task| spawner.spawn(task).detach();
    let id = service.every(10 * MS).start_async(run, spawn).unwrap();
    for round in 1..=3 {
        // The code of a run takes three periods: two runs are left out.
        for _ in 0..3 {
            clock.advance(10 * MS);
            drive(&executor);
            assert_eq!(begun.load(SeqCst), round);
        }
        gates.lock().unwrap().clear();
        drive(&executor);
        assert!(executor.is_empty());
    }
    assert!(service.cancel(id));
    clock.advance(100 * MS);
    assert_eq!(begun.load(SeqCst), 3);
}

#[test]
fn a_run_that_fails_is_followed_by_the_next_one() {
    let (builder, clock) = manual();
    // Whatever the payload is.
    let service = builder.on_expire(|_: &mut wheelwork::Batch<'_, u64>| ());
    let service = service.start().unwrap();
    let (executor, begun) = (Driven::default(), Arc::new(AtomicU32::new(0)));
    let (spawner, count) = (executor.clone(), begun.clone());
    let run = move || {
        let run = count.fetch_add(1, SeqCst);
        if run == 0 {
            panic_on_purpose();
        }
        async move {
            if run == 1 {
                panic_on_purpose();
            }
        }
    };
    // The third one's code is dropped, as by a runtime that has been shut down.
    let mut spawned = 0;
    let spawn = move |task| {
        spawned += 1;
        if spawned == 2 {
            drop(task);
        } else {
            spawner.spawn(task).detach();
        }
    };
    service.every(10 * MS).start_async(run, spawn).unwrap();
    for run in 1..=5 {
        clock.advance(10 * MS);
        drive(&executor);
        assert_eq!(begun.load(SeqCst), run);
    }
    assert_eq!(service.stats().panics, 2);
}
