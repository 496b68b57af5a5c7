//! Promise: a manual clock loses no time and fires in `advance`, whoever calls it and from
//! wherever: other threads, and tasks that run in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};
use wheelwork::{Batch, Dispatch, ManualClock, ServiceHandle, TimerService};

const MS: Duration = Duration::from_millis(1);

#[test]
fn every_advance_counts_when_threads_advance_at_once() {
    const THREADS: u32 = 3;
    const ROUNDS: u32 = 3_000;
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let fired = Arc::new(AtomicU64::new(0));
    for after in 1..=THREADS * ROUNDS {
        let fired = fired.clone();
        service
            .schedule(MS * after, move || {
                _ = fired.fetch_add(1, Ordering::Relaxed)
            })
            .unwrap();
    }
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    barrier.wait();
                    clock.advance(MS);
                    barrier.wait();
                    assert_eq!(clock.elapsed(), MS * (THREADS * round), "all have advanced");
                    assert_eq!(fired.load(Ordering::Relaxed), u64::from(THREADS * round));
                }
            });
        }
    });
}

#[test]
fn an_advance_from_a_task_extends_the_one_that_runs_it() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let (log, clock) = (log.clone(), clock.clone());
        move || log.lock().unwrap().push((name, clock.elapsed()))
    };
    let (first, inner) = (note("first"), clock.clone());
    service
        .schedule(MS, move || {
            first();
            inner.advance(MS * 10);
            assert_eq!(inner.elapsed(), MS, "it returns at once");
        })
        .unwrap();
    service.schedule(MS * 5, note("second")).unwrap();
    service.schedule(MS * 12, note("third")).unwrap();
    clock.advance(MS);
    assert_eq!(clock.elapsed(), MS * 11);
    assert_eq!(*log.lock().unwrap(), [("first", MS), ("second", MS * 5)]);
    assert_eq!(clock.advance_to_next(), Some(MS));
    assert_eq!(log.lock().unwrap()[2], ("third", MS * 12));
    assert_eq!(clock.advance_to_next(), None);
}

#[test]
fn a_task_that_arms_itself_for_now_runs_once_a_tick() {
    fn again(service: ServiceHandle, clock: ManualClock, runs: Arc<AtomicU64>) {
        runs.fetch_add(1, Ordering::Relaxed);
        let (handle, at) = (service.clone(), clock.now());
        let task = move || again(handle, clock, runs);
        // In turn by a delay of zero, on the edge of a tick, and by a point in time that has come.
        if service.stats().timers.fired.is_multiple_of(2) {
            service.schedule(Duration::ZERO, task)
        } else {
            service.schedule_at(at, task)
        }
        .unwrap();
    }
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(Duration::from_millis(1))
        .start()
        .unwrap();
    let runs = Arc::new(AtomicU64::new(0));
    again(service.handle(), clock.clone(), runs.clone());
    clock.advance(MS * 10);
    assert_eq!(runs.load(Ordering::Relaxed), 11);
    assert_eq!(service.stop().len(), 1);
}

#[test]
fn advance_to_next_from_a_task_moves_nothing() {
    let (done, end) = mpsc::channel();
    // On a thread of its own: a deadlock shall fail, not hang.
    thread::spawn(move || {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .start()
            .unwrap();
        let inner = clock.clone();
        let answer = done.clone();
        service
            .schedule(MS, move || answer.send(inner.advance_to_next()).unwrap())
            .unwrap();
        service.schedule(MS * 2, || ()).unwrap();
        clock.advance(MS);
        assert_eq!(clock.elapsed(), MS);
    });
    assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(None));
}

#[test]
fn a_task_may_arm_cancel_and_stop_in_an_advance() {
    let clock = ManualClock::new();
    let service = Arc::new(
        TimerService::builder()
            .clock(clock.clone())
            .shards(2)
            .start()
            .unwrap(),
    );
    let fired = Arc::new(AtomicU64::new(0));
    let count = || {
        let fired = fired.clone();
        move || _ = fired.fetch_add(1, Ordering::Relaxed)
    };
    let never = service
        .schedule(MS * 2, || unreachable!("cancelled by the first"))
        .unwrap();
    let (inner, counts) = (Arc::downgrade(&service), count());
    service
        .schedule(MS, move || {
            let service = inner.upgrade().unwrap();
            assert!(service.cancel(never));
            service.schedule(MS * 3, counts).unwrap();
        })
        .unwrap();
    let inner = Arc::downgrade(&service);
    service
        .schedule(MS * 6, move || {
            assert_eq!(inner.upgrade().unwrap().stop().len(), 1)
        })
        .unwrap();
    service.schedule(MS * 7, count()).unwrap();
    clock.advance(MS * 10);
    assert_eq!(fired.load(Ordering::Relaxed), 1);
    assert_eq!(service.stats().timers.fired, 3);
}

#[test]
fn services_that_share_a_clock_fire_in_order_of_time() {
    let clock = ManualClock::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let service = |tick: Duration| {
        let (sink, time) = (log.clone(), clock.clone());
        let handler = move |batch: &mut Batch<'_, u64>| {
            batch.for_each(|payload| sink.lock().unwrap().push((time.elapsed(), payload)))
        };
        TimerService::builder()
            .tick(tick)
            .clock(clock.clone())
            .on_expire(handler)
            .start()
            .unwrap()
    };
    let (fine, coarse) = (service(MS), service(MS * 10));
    for delay_ms in [25u64, 1, 11, 30, 9] {
        fine.schedule(MS * delay_ms as u32, delay_ms).unwrap();
        coarse
            .schedule(MS * delay_ms as u32, 100 + delay_ms)
            .unwrap();
    }
    clock.advance(MS * 40);
    let log: Vec<_> = log
        .lock()
        .unwrap()
        .iter()
        .map(|&(at, payload)| (at.as_millis(), payload))
        .collect();
    assert!(log.is_sorted_by_key(|&(at_ms, _)| at_ms), "{log:?}");
    let mut sorted = log;
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            (1, 1),
            (9, 9),
            (10, 101),
            (10, 109),
            (11, 11),
            (20, 111),
            (25, 25),
            (30, 30),
            (30, 125),
            (30, 130)
        ],
        "each at its own tick"
    );
}

#[test]
fn on_a_pool_tasks_run_too() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    let (send, receive) = mpsc::channel();
    for number in 0..1_000 {
        let send = send.clone();
        service
            .schedule(MS * (number % 10), move || send.send(number).unwrap())
            .unwrap();
    }
    clock.advance(MS * 10);
    let mut ran: Vec<_> = receive.iter().take(1_000).collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..1_000).collect::<Vec<_>>());
    assert!(service.stop().is_empty());
}

/// Asked by another thread, for which a task waits.
#[test]
fn advance_to_next_waits_for_no_task() {
    for _ in 0..200 {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .start()
            .unwrap();
        let (over, rounds, barrier) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
            Arc::new(Barrier::new(2)),
        );
        let seen = rounds.clone();
        let task = move || {
            let until = seen.load(Ordering::SeqCst) + 2;
            // The other thread may be the one that runs it.
            while thread::current().name() != Some("asks") && seen.load(Ordering::SeqCst) < until {
                thread::yield_now();
            }
        };
        service.schedule(MS, task).unwrap();
        let (its_clock, its_over, its_barrier) = (clock.clone(), over.clone(), barrier.clone());
        let asks = move || {
            its_barrier.wait();
            while !its_over.load(Ordering::SeqCst) {
                its_clock.advance_to_next();
                rounds.fetch_add(1, Ordering::SeqCst);
            }
        };
        let asks = thread::Builder::new()
            .name("asks".to_string())
            .spawn(asks)
            .unwrap();
        barrier.wait();
        clock.advance(MS);
        over.store(true, Ordering::SeqCst);
        asks.join().unwrap();
    }
}

/// One that a task starts on the clock that runs it.
#[test]
fn a_service_that_a_task_starts_fires_at_its_time() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let (fired, own) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None)));
    let (log, kept, inner_clock) = (fired.clone(), own.clone(), clock.clone());
    service
        .schedule(MS, move || {
            let started = TimerService::builder()
                .clock(inner_clock.clone())
                .start()
                .unwrap();
            started
                .schedule(MS * 2, move || {
                    log.lock().unwrap().push(inner_clock.elapsed())
                })
                .unwrap();
            *kept.lock().unwrap() = Some(started);
        })
        .unwrap();
    clock.advance(MS * 10);
    assert_eq!(*fired.lock().unwrap(), [MS * 3]);
}

/// Whichever of two services was started first, and whichever shard has had its turn.
#[test]
fn what_a_task_arms_and_moves_in_another_service_fires_at_its_time() {
    for from in [0, 1] {
        let clock = ManualClock::new();
        let services = [(); 2].map(|()| {
            let builder = TimerService::builder().shards(3).clock(clock.clone());
            builder.start().unwrap()
        });
        let log = Arc::new(Mutex::new(Vec::new()));
        let note = |name| {
            let (log, clock) = (log.clone(), clock.clone());
            move || log.lock().unwrap().push((clock.elapsed(), name))
        };
        let other = services[1 - from].handle();
        let moved = other.schedule(MS * 50, note("moved")).unwrap();
        let ended = other.schedule(MS * 10, note("cancelled")).unwrap();
        let [soon, later, last] = ["soon", "later", "last"].map(note);
        let task = move || {
            other.schedule(MS, soon).unwrap();
            other.schedule(MS * 2, later).unwrap();
            other.schedule(MS * 7, last).unwrap();
            assert!(other.reschedule(moved, MS * 4) && other.cancel(ended));
        };
        services[from].schedule(MS * 3, task).unwrap();
        clock.advance(MS * 10);
        let times = [(4, "soon"), (5, "later"), (7, "moved"), (10, "last")];
        let expected = times.map(|(at_ms, name)| (MS * at_ms, name));
        assert_eq!(*log.lock().unwrap(), expected);
    }
}

/// Who simulates a long time in small steps pays for what happens.
#[test]
fn a_step_without_a_due_timer_costs_one_turn() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .shards(1)
        .clock(clock.clone())
        .start()
        .unwrap();
    let turns = || service.stats().shards[0].machinery.turns();
    let step = || {
        let before = turns();
        clock.advance(MS);
        turns() - before
    };
    for at_ms in [3, 100] {
        service
            .schedule_at(clock.now() + MS * at_ms, || ())
            .unwrap();
        let steps = Vec::from_iter((0..at_ms).map(|_| step()));
        let expected = [vec![1; at_ms as usize - 1], vec![2]].concat();
        assert_eq!(steps, expected);
    }
}

/// Entries that wait for room in a channel fire once a task has made some, whichever of the two
/// services was started first.
#[test]
fn room_that_a_task_makes_is_used_at_once() {
    for is_first in [true, false] {
        let clock = ManualClock::new();
        let start = || {
            let (builder, receiver) = TimerService::builder().on_expire_channel::<u64>(Some(1));
            let service = builder.shards(1).clock(clock.clone()).start().unwrap();
            (service, receiver)
        };
        let early = is_first.then(start);
        let other = TimerService::builder()
            .shards(1)
            .clock(clock.clone())
            .start()
            .unwrap();
        let (service, receiver) = early.unwrap_or_else(start);
        for after in [1, 2, 3, 4, 8] {
            service.schedule(MS * after, u64::from(after)).unwrap();
        }
        let taken = move || while receiver.try_recv().is_ok() {};
        other.schedule(MS * 5, taken).unwrap();
        clock.advance(MS * 5);
        assert!(
            service.stats().timers.fired > 1,
            "started first: {is_first}"
        );
    }
}

/// The panic comes out of the call that moves the clock. The clock has moved by then, and all that
/// go by the time of day were told.
#[test]
fn a_watch_that_panics_stops_neither_the_clock_nor_its_services() {
    let clock = ManualClock::new();
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(12 * 3_600);
    clock.set_system_time(noon - Duration::from_secs(3_600));
    clock.advance(Duration::ZERO);
    let _panics = clock.watch_time_of_day(|| panic!("the watch"));
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let fired = Arc::new(AtomicU64::new(0));
    let counted = || {
        let fired = fired.clone();
        move || _ = fired.fetch_add(1, Ordering::Relaxed)
    };
    service.schedule_at_system_time(noon, counted()).unwrap();
    let told = counted();
    let _watch = clock.watch_time_of_day(told);
    clock.set_system_time(noon - MS);
    let advanced = catch_unwind(AssertUnwindSafe(|| clock.advance(MS)));
    let panic = advanced.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the watch"));
    assert_eq!(clock.elapsed(), MS);
    assert_eq!(
        fired.load(Ordering::Relaxed),
        2,
        "the timer and the other watch"
    );
    service.schedule(MS, counted()).unwrap();
    clock.advance(MS);
    assert_eq!(
        (clock.elapsed(), fired.load(Ordering::Relaxed)),
        (2 * MS, 3)
    );
}

/// What it has fired is gone with it.
#[test]
fn advance_to_next_stops_at_a_task_that_drops_a_service() {
    let clock = ManualClock::new();
    let start = || {
        let builder = TimerService::builder().clock(clock.clone());
        builder.start().unwrap()
    };
    let (service, dropped) = (start(), start());
    dropped.schedule(MS, || ()).unwrap();
    let dropped = Mutex::new(Some(dropped));
    service
        .schedule(MS * 10, move || drop(dropped.lock().unwrap().take()))
        .unwrap();
    service.schedule(MS * 20, || ()).unwrap();
    let times: [_; 4] = std::array::from_fn(|_| clock.advance_to_next());
    assert_eq!(times, [Some(MS), Some(MS * 9), Some(MS * 10), None]);
}

#[test]
fn a_watch_that_a_task_drops_is_not_called_any_more() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let called = calls.clone();
    let watch = clock.watch_time_of_day(move || _ = called.fetch_add(1, Ordering::Relaxed));
    let (watch, its_clock) = (Mutex::new(Some(watch)), clock.clone());
    let ends_watch = move || {
        its_clock.set_system_time(SystemTime::UNIX_EPOCH + MS);
        drop(watch.lock().unwrap().take());
    };
    service.schedule(MS, ends_watch).unwrap();
    clock.advance(MS);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

/// Its closure is dropped by the thread that moves the clock.
#[test]
fn a_watch_whose_drop_panics_does_not_stop_the_clock() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("the drop");
        }
    }
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    // Two of them: each panics by itself.
    let watches = [Panics, Panics].map(|panics| clock.watch_time_of_day(move || _ = &panics));
    let watches = Mutex::new(Some(watches));
    let drops = move || drop(watches.lock().unwrap().take());
    service.schedule(MS, drops).unwrap();
    let advanced = catch_unwind(AssertUnwindSafe(|| clock.advance(MS)));
    assert_eq!(advanced.unwrap_err().downcast_ref(), Some(&"the drop"));
    clock.advance(MS);
    assert_eq!(clock.elapsed(), MS * 2);
}
