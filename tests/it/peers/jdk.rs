//! What users of the JDK's `ScheduledThreadPoolExecutor` rely on.

use super::{Log, MS, Task, service, timers};
use futures_lite::future::block_on;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use wheelwork::TimerService;
use wheelwork::{Dispatch, ManualClock, Missed, PeriodicRun, ScheduleError, StopPolicy};

#[test]
fn a_task_is_enabled_after_its_delay_and_no_sooner() {
    let (service, clock) = service();
    let log = Log::new();
    for ms in [30, 10, 20] {
        service.schedule(MS * ms, log.task(ms)).unwrap();
    }
    clock.advance(9 * MS);
    assert!(log.take().is_empty());
    clock.advance(21 * MS);
    assert_eq!(log.take(), [10, 20, 30]);
}

/// Zero and negative delays ask for an immediate run. Here that is the next tick.
#[test]
fn no_delay_is_as_soon_as_possible() {
    let (service, clock) = service();
    let log = Log::new();
    service.schedule(Duration::ZERO, log.task(())).unwrap();
    clock.advance(MS);
    assert_eq!(log.take().len(), 1);
}

#[test]
fn get_delay_is_what_is_left() {
    let (service, clock) = service();
    let id = service.schedule(30 * MS, || ()).unwrap();
    assert_eq!(service.remaining(id), Some(30 * MS));
    clock.advance(10 * MS);
    assert_eq!(service.remaining(id), Some(20 * MS));
    clock.advance(20 * MS);
    assert_eq!(service.remaining(id), None, "it is done");
}

/// What `setRemoveOnCancelPolicy(true)` gives: nothing of a cancelled task stays until its time.
#[test]
fn a_cancelled_task_is_removed_at_once() {
    let (service, clock) = service();
    let held = Arc::new(());
    let task = held.clone();
    let id = service
        .schedule(Duration::from_secs(3_600), move || drop(task))
        .unwrap();
    assert!(service.cancel(id) && service.is_empty());
    assert_eq!(Arc::strong_count(&held), 1);
    clock.advance(Duration::from_secs(7_200));
    assert_eq!(service.stats().timers.fired, 0);
}

#[test]
fn a_fixed_rate_begins_after_the_initial_delay_and_does_not_drift() {
    let (service, clock) = service();
    let log = Log::new();
    let (noted, at) = (log.clone(), clock.clone());
    let repeated = service.every(10 * MS).first(3 * MS);
    repeated.start(move || noted.note(at.elapsed())).unwrap();
    clock.advance(40 * MS);
    assert_eq!(log.take(), [3, 13, 23, 33].map(|ms| MS * ms));
}

/// Runs of one task never overlap: one that takes longer than its period makes later ones late. The
/// JDK makes up for those; here a policy says so.
#[test]
fn a_run_that_is_longer_than_its_period_delays_the_next() {
    for (missed, expected) in [
        (Missed::BURST_ALL, [10, 46, 47, 48, 50, 60]),
        (Missed::Skip, [10, 50, 60, 70, 80, 90]),
    ] {
        let clock = ManualClock::new();
        let builder = TimerService::builder()
            .clock(clock.clone())
            .tick(Duration::from_millis(1));
        let service = builder.dispatch(Dispatch::RayonThreads(1)).start().unwrap();
        let (begins, begun) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let at = clock.clone();
        let run = move || {
            begins.send(at.elapsed().as_millis()).unwrap();
            _ = ends.recv();
        };
        service.every(10 * MS).missed(missed).start(run).unwrap();
        clock.advance(10 * MS);
        let mut times = vec![begun.recv().unwrap()];
        clock.advance(35 * MS);
        assert!(begun.try_recv().is_err(), "the first run takes 35 ms");
        while times.len() < expected.len() {
            end.send(()).unwrap();
            // The next run is armed when the worker gets to the end of this one.
            while clock.advance_to_next().is_none() {
                thread::yield_now();
            }
            times.push(begun.recv().unwrap());
        }
        drop(end);
        assert_eq!(times, expected, "{missed:?}");
    }
}

#[test]
fn a_fixed_delay_is_counted_from_the_end_of_a_run() {
    let (service, clock) = service();
    let log = Log::new();
    let (noted, at) = (log.clone(), clock.clone());
    let repeated = service.every_after(10 * MS).first(5 * MS);
    repeated.start(move || noted.note(at.elapsed())).unwrap();
    clock.advance(40 * MS);
    assert_eq!(log.take(), [5, 15, 25, 35].map(|ms| MS * ms));
}

/// A difference: in the JDK an exception suppresses all later runs.
#[test]
fn a_run_that_panics_is_followed_by_the_next() {
    let (service, clock) = service();
    let log = Log::new();
    let noted = log.clone();
    let run = move || {
        noted.note(());
        std::panic::resume_unwind(Box::new("on purpose"));
    };
    service.every(10 * MS).start(run).unwrap();
    clock.advance(30 * MS);
    assert_eq!((log.take().len(), service.stats().panics), (3, 3));
}

/// A difference: a period of zero is an `IllegalArgumentException` there.
#[test]
fn a_period_of_zero_is_a_tick() {
    let (service, clock) = service();
    let log = Log::new();
    let noted = log.clone();
    service
        .every(Duration::ZERO)
        .start(move || noted.note(()))
        .unwrap();
    clock.advance(3 * MS);
    assert_eq!(log.take().len(), 3);
}

#[test]
fn a_cancelled_repetition_runs_no_more() {
    let (service, clock) = service();
    let log = Log::new();
    let noted = log.clone();
    let id = service
        .every(10 * MS)
        .start(move || noted.note(()))
        .unwrap();
    clock.advance(25 * MS);
    assert!(service.cancel(id) && !service.is_pending(id));
    clock.advance(100 * MS);
    assert_eq!(log.take().len(), 2);
}

/// In the JDK it throws, or holds its own future to cancel it.
#[test]
fn a_repetition_may_end_itself() {
    let (service, clock) = service();
    let log = Log::new();
    let (noted, held) = (log.clone(), Arc::new(()));
    let (mut runs, holds) = (0, held.clone());
    let run = move |_: &mut PeriodicRun<'_>| {
        let _held = &holds;
        runs += 1;
        noted.note(runs);
        if runs == 3 { Break(()) } else { Continue(()) }
    };
    let id = service.every(10 * MS).start_while(run).unwrap();
    clock.advance(29 * MS);
    assert!(service.is_pending(id));
    clock.advance(MS);
    assert!(!service.is_pending(id) && !service.cancel(id) && service.is_empty());
    assert_eq!(Arc::strong_count(&held), 1, "it is dropped at once");
    clock.advance(100 * MS);
    assert_eq!(log.take(), [1, 2, 3]);
    assert_eq!(service.stats().timers.ended, 1);
}

/// `future.cancel(false)` inside its own run: that run goes on to its end, and is the last one.
#[test]
fn a_repetition_may_cancel_itself_by_its_id() {
    let (service, clock) = service();
    let log = Log::new();
    let (noted, handle) = (log.clone(), service.handle());
    let run = move |run: &mut PeriodicRun<'_>| {
        noted.note(handle.cancel(run.id()));
        noted.note(handle.cancel(run.id()));
        Continue(())
    };
    let id = service.every(10 * MS).start_while(run).unwrap();
    clock.advance(100 * MS);
    assert_eq!(log.take(), [true, false]);
    assert!(!service.is_pending(id) && service.is_empty());
}

/// `shutdownNow` gives the tasks that never began, and repetitions end.
#[test]
fn a_stop_gives_the_tasks_that_never_began() {
    let (service, clock) = service();
    let log = Log::new();
    let noted = log.clone();
    service
        .every(10 * MS)
        .start(move || noted.note("again"))
        .unwrap();
    service.schedule(500 * MS, log.task("later")).unwrap();
    let unfired = service.stop();
    assert_eq!(unfired.len(), 1, "not the repetition");
    assert_eq!(unfired[0].remaining, 500 * MS);
    clock.advance(Duration::from_secs(1));
    assert!(log.take().is_empty());
}

/// `shutdown` with its default policies: what was delayed still runs, repetitions are cancelled,
/// nothing new is taken.
#[test]
fn a_drain_runs_what_was_delayed_and_ends_repetitions() {
    let (service, clock) = service();
    let service = Arc::new(service);
    let log = Log::new();
    let noted = log.clone();
    service
        .every(10 * MS)
        .start(move || noted.note("again"))
        .unwrap();
    service.schedule(20 * MS, log.task("delayed")).unwrap();
    service.schedule(500 * MS, log.task("too late")).unwrap();
    let draining = service.clone();
    let drain = thread::spawn(move || draining.stop_with(StopPolicy::Drain(100 * MS)));
    // Until the drain has begun.
    while !matches!(
        service.every(MS).start(|| ()),
        Err(ScheduleError::Stopped(()))
    ) {
        thread::yield_now();
    }
    // Past its limit, and no further: however late the draining thread sees that.
    (0..11).for_each(|_| clock.advance(10 * MS));
    assert_eq!(drain.join().unwrap().len(), 1);
    let run = log.take();
    assert!(run.contains(&"delayed") && !run.contains(&"too late"));
    clock.advance(Duration::from_secs(1));
    assert!(log.take().is_empty(), "nothing is repeated");
    assert!(matches!(
        service.schedule(MS, || ()),
        Err(ScheduleError::Stopped(_))
    ));
}

/// `setContinueExistingPeriodicTasksAfterShutdownPolicy(true)`. A difference: repetitions go on
/// there until `shutdownNow`; here until what was delayed has run.
#[test]
fn repetitions_may_go_on_in_a_drain() {
    let (service, clock) = service();
    let service = Arc::new(service);
    let log = Log::new();
    let noted = log.clone();
    let beat = move || noted.note("again");
    let id = service.every(10 * MS).start(beat).unwrap();
    service.schedule(35 * MS, log.task("delayed")).unwrap();
    let draining = service.clone();
    let policy = StopPolicy::DrainWithPeriodic(100 * MS);
    let drain = thread::spawn(move || draining.stop_with(policy));
    while !service.is_stopped() {
        thread::yield_now();
    }
    assert!(service.schedule(MS, || ()).is_err(), "nothing new is taken");
    for _ in 0..35 {
        assert!(service.is_pending(id));
        clock.advance(MS);
    }
    assert!(drain.join().unwrap().is_empty());
    assert_eq!(log.take(), ["again", "again", "again", "delayed"]);
    clock.advance(Duration::from_secs(1));
    assert!(log.take().is_empty() && !service.is_pending(id));
}

/// `shutdown`, and `awaitTermination` with a time limit. `isShutdown` is true from the call on,
/// `isTerminated` when what was delayed has run.
#[test]
fn a_shutdown_can_be_awaited_elsewhere() {
    let (service, clock) = service();
    let (limits, limits_clock) = timers();
    let (task, log) = (Task::new(), Log::new());
    service.schedule(20 * MS, log.task("delayed")).unwrap();
    service.schedule(500 * MS, log.task("too late")).unwrap();
    let handle = service.handle();
    assert!(!handle.is_stopped());
    let mut stop = service.stop_async_with(StopPolicy::Drain(100 * MS));
    assert!(handle.is_stopped(), "when the call has returned");
    assert!(matches!(
        handle.schedule(MS, || ()),
        Err(ScheduleError::Stopped(_))
    ));
    // `awaitTermination(10, MILLISECONDS)` is false: the timeout elapses before.
    let mut limit = limits.timeout(10 * MS, &mut stop);
    assert!(task.poll(&mut limit).is_pending());
    limits_clock.advance(10 * MS);
    assert!(matches!(task.poll(&mut limit), Poll::Ready(Err(_))));
    assert!(log.take().is_empty());
    // Past its limit, and no further: however late the draining thread sees that.
    (0..11).for_each(|_| clock.advance(10 * MS));
    let unfired = block_on(stop);
    assert_eq!((log.take(), unfired.len()), (vec!["delayed"], 1));
}

/// `shutdownNow` for those who must not block.
#[test]
fn a_stop_that_blocks_nobody_gives_the_tasks_that_never_began() {
    let (service, clock) = service();
    let log = Log::new();
    for ms in [5, 10, 20] {
        service.schedule(MS * ms, log.task(ms)).unwrap();
    }
    clock.advance(5 * MS);
    let unfired = block_on(service.stop_async());
    let mut left: Vec<_> = unfired
        .iter()
        .map(|left| left.remaining.as_millis())
        .collect();
    left.sort_unstable();
    assert_eq!((log.take(), left), (vec![5], vec![5, 15]));
    assert!(service.is_stopped() && service.stop().is_empty(), "once");
}

/// Every run sees what the run before it has written, though another thread ran it.
#[test]
fn a_repetition_has_its_own_state() {
    let (service, clock) = service();
    let log = Log::new();
    let noted = log.clone();
    let mut runs = 0;
    let run = move || {
        runs += 1;
        noted.note(runs);
    };
    service.every(MS).times(4).start(run).unwrap();
    clock.advance(10 * MS);
    assert_eq!(log.take(), [1, 2, 3, 4]);
    assert!(service.is_empty(), "it has ended by itself");
}

/// A difference: tasks of one tick run in no promised order. In the JDK those of the same time run
/// in the order of submission.
#[test]
fn all_tasks_of_one_tick_run_at_it() {
    let (service, clock) = service();
    let log = Log::new();
    for task in 0..100 {
        service.schedule(10 * MS, log.task(task)).unwrap();
    }
    clock.advance(9 * MS);
    assert!(log.take().is_empty());
    clock.advance(MS);
    let mut run = log.take();
    run.sort_unstable();
    assert!(run.into_iter().eq(0..100));
}
