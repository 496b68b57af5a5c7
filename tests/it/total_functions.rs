//! Promise: total functions. No stale id, no delay, no point in time, no stopped service panics:
//! each gets its documented answer, and the payload comes back in the error.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wheelwork::{Batch, Dispatch, ManualClock, ScheduleError, StartError, TimerId, TimerService};

/// Two hundred and ninety-two years: the longest time there is.
const END: Duration = Duration::from_nanos(i64::MAX as u64);
const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

type Strings = TimerService<String>;

/// A service on a manual clock that sends what fires, and when.
fn manual() -> (ManualClock, Strings, mpsc::Receiver<(Duration, String)>) {
    let (clock, (send, receive)) = (ManualClock::new(), mpsc::channel());
    let time = clock.clone();
    let handler = move |batch: &mut Batch<'_, String>| {
        batch.for_each(|payload| drop(send.send((time.elapsed(), payload))))
    };
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(handler)
        .start()
        .unwrap();
    (clock, service, receive)
}

fn is_stale(service: &Strings, id: TimerId) -> bool {
    !service.is_pending(id) && !service.cancel(id) && service.take(id).is_none()
}

#[test]
fn a_stale_id_is_false_for_every_call() {
    let (clock, service, fired) = manual();
    let cancelled = service.schedule(MS, "cancelled".to_string()).unwrap();
    assert!(service.cancel(cancelled));
    let taken = service.schedule(MS, "taken".to_string()).unwrap();
    assert_eq!(service.take(taken).as_deref(), Some("taken"));
    let ran = service.schedule(MS, "ran".to_string()).unwrap();
    clock.advance(MS);
    assert_eq!(fired.try_recv().unwrap().1, "ran");
    // The cells are used again by others.
    let others: Vec<_> = (0..10_000)
        .map(|_| service.schedule(HOUR, String::new()).unwrap())
        .collect();
    for id in [cancelled, taken, ran] {
        assert!(is_stale(&service, id));
    }
    assert!(others.iter().all(|&id| service.is_pending(id)));
    assert_eq!(service.stop().len(), others.len());
    assert!(
        others.iter().all(|&id| is_stale(&service, id)),
        "handed back"
    );
}

#[test]
fn an_id_of_another_service_is_false_for_every_call() {
    let ((_, one, _), (_, other, _)) = (manual(), manual());
    let id = one.schedule(HOUR, "one".to_string()).unwrap();
    let id_of_other = other.schedule(HOUR, "other".to_string()).unwrap();
    assert_ne!(id, id_of_other);
    assert!(is_stale(&other, id) && is_stale(&one, id_of_other));
    assert!(one.is_pending(id) && other.is_pending(id_of_other));
    drop(other);
    assert!(is_stale(&one, id_of_other), "the other is gone");
}

#[test]
fn a_delay_of_zero_and_a_past_instant_fire_at_the_next_tick() {
    let (clock, service, fired) = manual();
    clock.advance(HOUR + Duration::from_micros(300));
    service
        .schedule(Duration::ZERO, "zero".to_string())
        .unwrap();
    service
        .schedule_at(clock.now() - HOUR, "past".to_string())
        .unwrap();
    service.schedule_at(clock.now(), "now".to_string()).unwrap();
    if let Some(before) = clock.now().checked_sub(HOUR * 2) {
        service
            .schedule_at(before, "before the service".to_string())
            .unwrap();
    }
    clock.advance(MS);
    let mut names: Vec<_> = fired.try_iter().map(|(_, name)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["before the service", "now", "past", "zero"]);
    assert!(service.stop().is_empty());
}

#[test]
fn a_delay_beyond_the_end_of_time_is_the_end_of_time() {
    let (clock, service, fired) = manual();
    clock.advance(HOUR);
    let ids = [Duration::MAX, END, END - HOUR]
        .map(|delay| service.schedule(delay, format!("{delay:?}")).unwrap());
    if let Some(far) = clock.now().checked_add(END * 2) {
        service.schedule_at(far, "an instant".to_string()).unwrap();
    }
    clock.advance(END - HOUR - Duration::from_secs(1));
    assert_eq!(fired.try_iter().count(), 0);
    assert!(ids.iter().all(|&id| service.is_pending(id)));
    clock.advance(Duration::MAX);
    assert_eq!(clock.elapsed(), END);
    assert_eq!(fired.try_iter().count(), 4);
    clock.advance(Duration::MAX);
    assert_eq!(
        (clock.elapsed(), clock.advance_to_next()),
        (END, None),
        "time has ended"
    );
    service.schedule(HOUR, "after the end".to_string()).unwrap();
    clock.advance(Duration::ZERO);
    assert_eq!(fired.try_iter().count(), 1);
}

/// The last time that the system counts.
fn last_time() -> SystemTime {
    let longer = |time: SystemTime, by| time.checked_add(by).unwrap_or(time);
    let last_second = (0..u64::BITS)
        .rev()
        .map(|bit| Duration::from_secs(1 << bit))
        .fold(UNIX_EPOCH, longer);
    (0..30)
        .rev()
        .map(|bit| Duration::from_nanos(1 << bit))
        .fold(last_second, longer)
}

#[test]
fn the_wall_clock_stands_still_at_the_end_of_time() {
    let (clock, service, _) = manual();
    let last = last_time();
    clock.set_system_time(last - HOUR);
    clock.advance(HOUR - MS);
    assert_eq!(clock.system_time(), last - MS);
    let runs = Arc::new(AtomicUsize::new(0));
    let at = |time: SystemTime| {
        let runs = runs.clone();
        service
            .schedule_at_system_time(time, move || _ = runs.fetch_add(1, Ordering::Relaxed))
            .unwrap()
    };
    let ids = [UNIX_EPOCH, last - HOUR, last - MS, last].map(at);
    clock.advance(MS);
    assert_eq!(
        (clock.system_time(), runs.load(Ordering::Relaxed)),
        (last, 4)
    );
    for by in [Duration::from_nanos(1), HOUR, END] {
        clock.advance(by);
        assert_eq!(clock.system_time(), last, "after {by:?}");
    }
    assert!(!ids.iter().any(|&id| service.is_pending(id)));
    at(last);
    // Set back, it goes on.
    clock.set_system_time(UNIX_EPOCH);
    assert_eq!(
        (clock.elapsed(), clock.system_time()),
        (END, UNIX_EPOCH),
        "the other clock has ended"
    );
}

#[test]
fn a_time_of_day_far_from_the_clock_is_as_good_as_another() {
    let last = last_time();
    for now in [UNIX_EPOCH - END, UNIX_EPOCH, last - END, last] {
        for at in [UNIX_EPOCH - END, UNIX_EPOCH, last] {
            let (clock, service, _) = manual();
            clock.set_system_time(now);
            let id = service.schedule_at_system_time(at, || ()).unwrap();
            clock.advance(MS);
            assert_eq!(
                service.is_pending(id),
                at > now + MS.min(last.duration_since(now).unwrap()),
                "{at:?}, now {now:?}"
            );
        }
    }
}

#[test]
fn far_timers_on_the_real_clock_are_handed_back_with_what_was_left() {
    let service = TimerService::builder()
        .on_expire(|_: &mut Batch<'_, u32>| unreachable!("an hour has not passed"))
        .start()
        .unwrap();
    service.schedule(Duration::MAX, 0u32).unwrap();
    service.schedule(HOUR, 1u32).unwrap();
    service
        .schedule_at(Instant::now() + HOUR * 2, 2u32)
        .unwrap();
    let mut unfired = service.stop();
    unfired.sort_unstable_by_key(|unfired| unfired.remaining);
    let payloads: Vec<_> = unfired.iter().map(|unfired| unfired.payload).collect();
    assert_eq!(payloads, [1, 2, 0]);
    // How much of it passed is up to the machine; not more was left than was asked for, rounded up
    // to a tick.
    assert!(
        unfired[0].remaining <= HOUR + MS
            && unfired[1].remaining <= HOUR * 2 + MS
            && unfired[2].remaining <= END
    );
}

#[test]
fn a_stopped_service_answers_every_call() {
    for real in [false, true] {
        let service: Strings = if real {
            TimerService::builder()
                .on_expire(|_: &mut Batch<'_, String>| {})
                .start()
                .unwrap()
        } else {
            manual().1
        };
        let handle = service.handle();
        let id = handle.schedule(HOUR, "armed".to_string()).unwrap();
        let unfired = service.stop();
        assert_eq!(unfired.len(), 1);
        assert_eq!(unfired[0].payload, "armed");
        match handle.schedule(MS, "late".to_string()) {
            Err(error @ ScheduleError::Stopped(_)) => assert_eq!(error.into_payload(), "late"),
            other => panic!("{other:?}"),
        }
        match handle.schedule_at(Instant::now(), "late".to_string()) {
            Err(ScheduleError::Stopped(payload)) => assert_eq!(payload, "late"),
            other => panic!("{other:?}"),
        }
        assert!(is_stale(&service, id));
        assert!(service.stop().is_empty(), "a second stop");
        assert_eq!(
            (handle.shards(), handle.stats().timers.fired),
            (service.shards(), 0)
        );
        assert!(format!("{service:?} {handle:?}").contains("stopped: true"));
        drop(service);
        assert!(handle.schedule(MS, "later still".to_string()).is_err());
        assert!(!handle.cancel(id));
    }
}

#[test]
fn a_closure_comes_back_from_a_stopped_service() {
    let service = TimerService::builder().start().unwrap();
    service.stop();
    let (send, receive) = mpsc::channel();
    let task = service
        .schedule(MS, move || send.send("run by hand").unwrap())
        .unwrap_err()
        .into_payload();
    assert!(receive.try_recv().is_err());
    task.run();
    assert_eq!(receive.recv(), Ok("run by hand"));
}

#[test]
fn of_two_stops_at_once_one_hands_back() {
    for _ in 0..50 {
        let service = TimerService::builder()
            .shards(2)
            .dispatch(Dispatch::Inline)
            .on_expire(|_: &mut Batch<'_, u32>| {})
            .start()
            .unwrap();
        (0..100u32).for_each(|payload| _ = service.schedule(HOUR, payload).unwrap());
        let handed = thread::scope(|scope| {
            let stops: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| service.stop().len()))
                .collect();
            stops
                .into_iter()
                .map(|stop| stop.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert_eq!(
            handed.iter().filter(|&&handed| handed == 0).count(),
            2,
            "{handed:?}"
        );
        assert_eq!(handed.iter().sum::<usize>(), 100);
    }
}

fn dispatches() -> [Dispatch; 3] {
    [Dispatch::Inline, Dispatch::RayonThreads(1), Dispatch::Rayon]
}

#[test]
fn stop_from_inside_a_task_hands_back_the_rest() {
    for dispatch in dispatches() {
        for shards in [1, 3] {
            let service = TimerService::builder()
                .shards(shards)
                .pinning(wheelwork::Pinning::Off)
                .dispatch(dispatch.clone())
                .start()
                .unwrap();
            let service = Arc::new(service);
            let (send, receive) = mpsc::channel();
            (0..10).for_each(|_| _ = service.schedule(HOUR, || unreachable!()).unwrap());
            let inner = service.clone();
            service
                .schedule(MS, move || {
                    send.send((inner.stop().len(), inner.stop().len())).unwrap()
                })
                .unwrap();
            assert_eq!(
                receive.recv_timeout(HANGS),
                Ok((10, 0)),
                "{dispatch:?}, {shards} shards"
            );
            assert!(service.schedule(MS, || ()).is_err());
        }
    }
}

#[test]
fn stop_from_inside_a_handler_hands_back_the_rest() {
    for dispatch in dispatches() {
        let slot: Arc<Mutex<Option<TimerService<u32>>>> = Arc::default();
        let (send, receive) = mpsc::channel();
        let inner = slot.clone();
        let handler = move |batch: &mut Batch<'_, u32>| {
            assert_eq!(batch.next(), Some(1));
            let service = inner.lock().unwrap().take().unwrap();
            let rest: Vec<_> = service
                .stop()
                .into_iter()
                .map(|unfired| unfired.payload)
                .collect();
            drop(service);
            send.send(rest).unwrap();
        };
        let service = TimerService::builder()
            .dispatch(dispatch)
            .on_expire(handler)
            .start()
            .unwrap();
        let handle = service.handle();
        *slot.lock().unwrap() = Some(service);
        handle.schedule(HOUR, 2u32).unwrap();
        handle.schedule(MS, 1u32).unwrap();
        assert_eq!(receive.recv_timeout(HANGS), Ok(vec![2]));
        assert!(handle.schedule(MS, 3u32).is_err());
    }
}

#[test]
fn the_service_may_be_dropped_inside_its_own_task() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for dispatch in dispatches() {
        let service = TimerService::builder()
            .shards(2)
            .dispatch(dispatch)
            .start()
            .unwrap();
        let handle = service.handle();
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let payload = Dropped(dropped.clone());
            handle
                .schedule(HOUR, move || {
                    unreachable!("{}", payload.0.load(Ordering::Relaxed))
                })
                .unwrap();
        }
        let (send, receive) = mpsc::channel();
        let count = dropped.clone();
        handle
            .schedule(MS, move || {
                drop(service);
                send.send(count.load(Ordering::Relaxed)).unwrap();
            })
            .unwrap();
        assert_eq!(
            receive.recv_timeout(HANGS),
            Ok(10),
            "dropping the service drops what had not fired"
        );
        assert!(handle.schedule(MS, || ()).is_err());
    }
}

#[test]
fn the_service_may_be_dropped_inside_an_advance() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let handle = service.handle();
    handle.schedule(MS, move || drop(service)).unwrap();
    let never = handle
        .schedule(MS * 2, || unreachable!("the service is gone"))
        .unwrap();
    clock.advance(HOUR);
    assert!(!handle.is_pending(never));
    assert_eq!((clock.elapsed(), clock.advance_to_next()), (HOUR, None));
}

/// The worker that stops the service has just run one of its tasks. It waits for the other task,
/// and for nothing of its own.
#[test]
fn the_service_may_be_dropped_by_another_job_of_a_shared_pool() {
    let pool = Arc::new(
        rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap(),
    );
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::Pool(pool.clone()))
        .start()
        .unwrap();
    let ((begun, has_begun), (ended, has_ended), (release, released)) =
        (mpsc::channel(), mpsc::channel(), mpsc::channel::<()>());
    let is_over = Arc::new(AtomicUsize::new(0));
    let over = is_over.clone();
    service
        .schedule(MS, move || ended.send(()).unwrap())
        .unwrap();
    service
        .schedule(MS, move || {
            begun.send(()).unwrap();
            released.recv_timeout(HANGS).unwrap();
            over.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    clock.advance(MS);
    has_begun.recv_timeout(HANGS).unwrap();
    has_ended.recv_timeout(HANGS).unwrap();
    let (dropped, is_dropped) = mpsc::channel();
    pool.spawn(move || {
        drop(service);
        dropped.send(is_over.load(Ordering::SeqCst)).unwrap();
    });
    assert!(
        is_dropped.recv_timeout(MS * 20).is_err(),
        "the drop waits for the task"
    );
    release.send(()).unwrap();
    assert_eq!(
        is_dropped.recv_timeout(HANGS),
        Ok(1),
        "the drop waits for itself"
    );
}

/// The one worker of the pool moves the clock: what falls due waits until it is done, however much
/// it is.
#[test]
fn the_clock_may_be_moved_by_the_only_worker() {
    const TIMERS: usize = 100;
    let (clock, ran) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::RayonThreads(1))
        .start()
        .unwrap();
    let (send, receive) = mpsc::channel();
    for timer in 0..TIMERS {
        let (ran, send) = (ran.clone(), send.clone());
        let task = move || {
            ran.fetch_add(1, Ordering::Relaxed);
            send.send(()).unwrap();
        };
        service.schedule(MS * (timer as u32 + 2), task).unwrap();
    }
    let (begun, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let time = clock.clone();
    let task = move || {
        begun.send(()).unwrap();
        released.recv().unwrap();
        time.advance(HOUR);
    };
    service.schedule(MS, task).unwrap();
    clock.advance(MS);
    has_begun.recv().unwrap();
    release.send(()).unwrap();
    (0..TIMERS).for_each(|_| {
        receive
            .recv_timeout(HANGS)
            .expect("the worker waits for itself")
    });
    assert_eq!(ran.load(Ordering::Relaxed), TIMERS);
}

#[test]
fn a_service_outlives_its_clock_handle_and_a_clock_its_services() {
    let (clock, service, _) = manual();
    drop(clock);
    service.schedule(MS, "never".to_string()).unwrap();
    assert_eq!(service.stop().len(), 1);
    let (clock, service, _) = manual();
    drop(service);
    clock.advance(HOUR);
}

#[test]
fn the_builder_refuses_what_cannot_work() {
    let start = |builder: wheelwork::Builder| builder.start().map(drop).unwrap_err();
    for tick in [
        Duration::ZERO,
        Duration::from_nanos(999),
        Duration::from_secs(24 * 3600 + 1),
        Duration::MAX,
    ] {
        assert!(
            matches!(start(TimerService::builder().tick(tick)), StartError::Tick(refused) if refused == tick)
        );
    }
    for shards in [0, 4097, 5000, usize::MAX] {
        assert!(
            matches!(start(TimerService::builder().shards(shards)), StartError::Shards(refused) if refused == shards)
        );
    }
    let error = start(TimerService::builder().name("a\0b"));
    assert!(
        matches!(&error, StartError::Name(name) if name == "a\0b"),
        "{error}"
    );
    for threads in [0, 4097, usize::MAX] {
        let error = start(TimerService::builder().dispatch(Dispatch::RayonThreads(threads)));
        let why = format!("a pool has 1 to 4096 threads, not {threads}");
        assert!(
            matches!(&error, StartError::Pool(reason) if *reason == why),
            "{error}"
        );
    }
}

#[test]
fn the_builder_takes_the_ends_of_its_ranges() {
    for tick in [Duration::from_micros(1), Duration::from_secs(24 * 3600)] {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .tick(tick)
            .clock(clock.clone())
            .start()
            .unwrap();
        let (send, receive) = mpsc::channel();
        service
            .schedule(tick * 2, move || send.send(()).unwrap())
            .unwrap();
        clock.advance(tick * 2 - Duration::from_nanos(1));
        assert!(receive.try_recv().is_err());
        clock.advance(Duration::from_nanos(1));
        receive.try_recv().unwrap();
    }
    let service = TimerService::builder()
        .shards(4096)
        .clock(ManualClock::new())
        .start()
        .unwrap();
    assert_eq!(service.shards(), 4096);
}

/// A shard that cannot be pinned runs unpinned.
#[test]
fn a_core_that_does_not_exist_is_counted_and_the_shard_runs() {
    for core in [1_000, 1_023, 1_024, 5_000, usize::MAX] {
        let service = TimerService::builder()
            .shards(2)
            .pinning(wheelwork::Pinning::Cores(vec![core]))
            .start()
            .unwrap();
        let (send, receive) = mpsc::channel();
        // From three threads, so that each shard has something to do.
        for _ in 0..3 {
            let send = send.clone();
            thread::scope(|scope| {
                drop(scope.spawn(|| {
                    service
                        .schedule(MS, move || send.send(()).unwrap())
                        .unwrap()
                }))
            });
        }
        (0..3).for_each(|_| {
            receive
                .recv_timeout(HANGS)
                .unwrap_or_else(|_| panic!("with core {core} a shard does not run"))
        });
        assert_eq!(service.stats().unpinned_shards, 2, "core {core}");
    }
    let service = TimerService::builder()
        .pinning(wheelwork::Pinning::Off)
        .start()
        .unwrap();
    let (send, receive) = mpsc::channel();
    service
        .schedule(MS, move || send.send(()).unwrap())
        .unwrap();
    receive.recv_timeout(HANGS).unwrap();
    assert_eq!(
        service.stats().unpinned_shards,
        0,
        "nobody asked for a core"
    );
}
