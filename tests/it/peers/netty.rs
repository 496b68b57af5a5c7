//! What users of Netty's `HashedWheelTimer` rely on.

use super::{Log, MS, service};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, Dispatch, ManualClock, ScheduleError, TimerId, TimerService};

#[test]
fn a_timeout_runs_once_at_or_after_its_delay() {
    let (service, clock) = service();
    let log = Log::new();
    service.schedule(10 * MS, log.task(())).unwrap();
    clock.advance(9 * MS);
    assert_eq!(log.take().len(), 0);
    clock.advance(MS);
    assert_eq!(log.take().len(), 1);
    clock.advance(100 * MS);
    assert_eq!(log.take().len(), 0);
}

/// In Netty the ticks need not be aligned with the delay: a timeout comes with the tick after it.
#[test]
fn a_delay_is_rounded_up_to_a_tick() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().clock(clock.clone()).shards(1);
    let service = builder.tick(10 * MS).start().unwrap();
    let log = Log::new();
    service.schedule(11 * MS, log.task(())).unwrap();
    clock.advance(19 * MS);
    assert_eq!(log.take().len(), 0);
    clock.advance(MS);
    assert_eq!(log.take().len(), 1);
}

#[test]
fn a_delay_of_zero_is_due_at_the_next_tick() {
    let (service, clock) = service();
    let log = Log::new();
    service.schedule(Duration::ZERO, log.task(())).unwrap();
    assert_eq!(log.take().len(), 0, "not inside the call");
    clock.advance(MS);
    assert_eq!(log.take().len(), 1);
}

#[test]
fn the_greatest_delay_does_not_overflow() {
    let (service, clock) = service();
    let log = Log::new();
    service.schedule(Duration::MAX, log.task(())).unwrap();
    service
        .schedule(Duration::from_nanos(i64::MAX as u64), log.task(()))
        .unwrap();
    clock.advance(Duration::from_secs(365 * 24 * 3_600));
    assert_eq!((log.take().len(), service.len()), (0, 2));
}

#[test]
fn a_cancel_says_whether_it_came_in_time() {
    let (service, clock) = service();
    let log = Log::new();
    let (in_time, late) = (
        service.schedule(10 * MS, log.task("cancelled")).unwrap(),
        service.schedule(5 * MS, log.task("fired")).unwrap(),
    );
    assert!(service.cancel(in_time) && !service.cancel(in_time));
    clock.advance(20 * MS);
    assert!(!service.cancel(late));
    assert_eq!(log.take(), ["fired"]);
}

/// `isExpired` and `isCancelled` are one question here: neither is pending.
#[test]
fn a_timeout_is_pending_until_it_fires_or_is_cancelled() {
    let (service, clock) = service();
    let ids = [5, 5, 50].map(|ms| service.schedule(MS * ms, || ()).unwrap());
    assert!(service.cancel(ids[1]));
    clock.advance(10 * MS);
    assert_eq!(ids.map(|id| service.is_pending(id)), [false, false, true]);
}

#[test]
fn the_number_of_pending_timeouts_follows_each_end() {
    let (service, clock) = service();
    let ids = [5, 10, 20].map(|ms| service.schedule(MS * ms, || ()).unwrap());
    assert_eq!(service.len(), 3);
    assert!(service.cancel(ids[2]));
    assert_eq!(service.len(), 2);
    clock.advance(5 * MS);
    assert_eq!(service.len(), 1);
    clock.advance(5 * MS);
    assert!(service.is_empty());
}

/// Netty throws `RejectedExecutionException`; here the task comes back.
#[test]
fn more_than_the_limit_are_rejected_until_one_ends() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().clock(clock.clone()).max_pending(2);
    let service = builder.start().unwrap();
    let ids = [10, 20].map(|ms| service.schedule(MS * ms, || ()).unwrap());
    let rejected = service.schedule(MS, || ());
    assert!(matches!(rejected, Err(ScheduleError::Full(_))));
    assert!(service.cancel(ids[0]));
    service.schedule(MS, || ()).unwrap();
    clock.advance(MS);
    service.schedule(MS, || ()).unwrap();
}

#[test]
fn a_stop_gives_the_unprocessed_timeouts() {
    let (service, clock) = service();
    let log = Log::new();
    let ids = [5, 10, 20, 30].map(|ms| service.schedule(MS * ms, log.task(ms)).unwrap());
    clock.advance(5 * MS);
    assert!(service.cancel(ids[1]));
    let unfired = service.stop();
    assert_eq!(
        (log.take(), unfired.len()),
        (vec![5], 2),
        "neither fired nor cancelled ones"
    );
    assert!(service.stop().is_empty());
    unfired
        .into_iter()
        .for_each(|unfired| unfired.payload.run());
    let mut run = log.take();
    run.sort_unstable();
    assert_eq!(run, [20, 30], "they may still be run");
}

/// Netty throws `IllegalStateException`; here the task comes back.
#[test]
fn nothing_is_accepted_after_a_stop() {
    let (service, clock) = service();
    let log = Log::new();
    service.stop();
    let Err(ScheduleError::Stopped(task)) = service.schedule(MS, log.task(())) else {
        panic!("it was accepted");
    };
    clock.advance(10 * MS);
    assert_eq!(log.take().len(), 0);
    task.run();
    assert_eq!(log.take().len(), 1);
}

/// A difference: Netty throws, since the worker would wait for itself.
#[test]
fn a_task_may_stop_its_service() {
    let (service, clock) = service();
    let service = Arc::new(service);
    let (log, stopper) = (Log::new(), service.clone());
    let noted = log.clone();
    service
        .schedule(MS, move || noted.note(stopper.stop().len()))
        .unwrap();
    service.schedule(MS * 100, || ()).unwrap();
    clock.advance(MS);
    assert_eq!(log.take(), [1]);
}

#[test]
fn a_task_may_arm_another_timeout() {
    let (service, clock) = service();
    let log = Log::new();
    let (handle, next) = (service.handle(), log.task("second"));
    let task = move || _ = handle.schedule(10 * MS, next).unwrap();
    service.schedule(5 * MS, task).unwrap();
    clock.advance(14 * MS);
    assert!(log.take().is_empty());
    clock.advance(MS);
    assert_eq!(log.take(), ["second"]);
}

/// `isExpired` is true inside the task. So nothing is pending there, and it is too late to cancel.
#[test]
fn a_timeout_has_expired_when_its_task_runs() {
    let (service, clock) = service();
    let log = Log::new();
    let (noted, own) = (log.clone(), Arc::new(Mutex::new(None::<TimerId>)));
    let (handle, id) = (service.handle(), own.clone());
    let task = move || {
        let id = id.lock().unwrap().unwrap();
        noted.note((handle.is_pending(id), handle.cancel(id)));
    };
    *own.lock().unwrap() = Some(service.schedule(5 * MS, task).unwrap());
    clock.advance(5 * MS);
    assert_eq!(log.take(), [(false, false)]);
}

/// A difference: a timeout remembers in Netty how it has ended, for as long as somebody has it.
/// Here each end is told once, where it is decided: by the answer of `cancel`, or by the task.
#[test]
fn how_a_timeout_has_ended_is_told_once() {
    let (service, clock) = service();
    let log = Log::new();
    let ids = [5, 5, 50].map(|ms| service.schedule(MS * ms, log.task(ms)).unwrap());
    let is_cancelled = |id| service.cancel(id);
    assert!(is_cancelled(ids[1]));
    clock.advance(10 * MS);
    assert_eq!(log.take(), [5], "the first one, as its task says");
    assert_eq!(ids.map(is_cancelled), [false, false, true]);
    assert_eq!(ids.map(|id| service.is_pending(id)), [false; 3]);
    let timers = service.stats().timers;
    assert_eq!((timers.fired, timers.cancelled), (1, 2));
}

/// `timeout.timer().newTimeout(..)` inside the task: a handler has its service at hand.
#[test]
fn a_handler_may_arm_its_timeout_anew() {
    let (clock, log) = (ManualClock::new(), Log::new());
    let (noted, at) = (log.clone(), clock.clone());
    let builder = TimerService::builder().clock(clock.clone()).shards(1);
    let handler = move |tries: &mut Batch<'_, u32>| {
        let timer = tries.service();
        for left in tries {
            noted.note((at.elapsed(), left));
            if left > 0 {
                timer.schedule(10 * MS, left - 1).unwrap();
            }
        }
    };
    let service = builder.on_expire(handler).start().unwrap();
    service.schedule(5 * MS, 2).unwrap();
    clock.advance(100 * MS);
    assert_eq!(log.take(), [(5 * MS, 2), (15 * MS, 1), (25 * MS, 0)]);
    assert!(service.is_empty());
}

/// Netty runs tasks on the wheel's own thread; here a pool does unless the builder says otherwise.
/// (On the real clock: a manual one has no thread.)
#[test]
fn tasks_run_on_the_wheels_thread_if_told_to() {
    for dispatch in [None, Some(Dispatch::Inline)] {
        let builder = TimerService::builder().shards(1).name("wheel");
        let builder = match dispatch.clone() {
            Some(dispatch) => builder.dispatch(dispatch),
            None => builder,
        };
        let service = builder.start().unwrap();
        let (send, receive) = mpsc::channel();
        let task = move || {
            let name = thread::current().name().map(str::to_string);
            send.send((name, rayon::current_thread_index().is_some()))
                .unwrap();
        };
        service.schedule(MS, task).unwrap();
        let (name, is_in_pool) = receive.recv().unwrap();
        let is_wheels = name.as_deref() == Some("wheel-shard-0");
        let on_wheel = dispatch.is_some();
        assert_eq!((is_wheels, is_in_pool), (on_wheel, !on_wheel));
    }
}

/// Netty logs the exception; here it is counted, and a hook is told.
#[test]
fn a_task_that_panics_ends_no_other() {
    let (clock, told) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    let hook = told.clone();
    let builder = TimerService::builder().clock(clock.clone()).shards(1);
    let service = builder
        .on_panic(move |_| _ = hook.fetch_add(1, Ordering::Relaxed))
        .start()
        .unwrap();
    let log = Log::new();
    let panics = || std::panic::resume_unwind(Box::new("on purpose"));
    service.schedule(MS, panics).unwrap();
    service.schedule(MS, log.task(1)).unwrap();
    service.schedule(2 * MS, log.task(2)).unwrap();
    clock.advance(5 * MS);
    assert_eq!(log.take(), [1, 2]);
    assert_eq!(
        (service.stats().panics, told.load(Ordering::Relaxed)),
        (1, 1)
    );
}

#[test]
fn a_cancelled_task_is_dropped_at_once() {
    let (service, _clock) = service();
    let held = Arc::new(());
    let task = held.clone();
    let id = service.schedule(MS, move || drop(task)).unwrap();
    assert_eq!(Arc::strong_count(&held), 2);
    assert!(service.cancel(id));
    assert_eq!(Arc::strong_count(&held), 1);
}
