//! Promise: a periodic timer runs when its rhythm says, without drift, never twice at a time, as
//! often as was asked for; and no more once it was cancelled.

use crate::quiet::panic_on_purpose;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::{Dispatch, ManualClock, Missed, ScheduleError, TimerService};

const MS: Duration = Duration::from_millis(1);

/// A service on a manual clock, and a log of times.
fn service() -> (ManualClock, TimerService, Arc<Mutex<Vec<Duration>>>) {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(MS)
        .start()
        .unwrap();
    (clock, service, Arc::default())
}

/// A closure that notes when it runs.
fn note(clock: &ManualClock, log: &Arc<Mutex<Vec<Duration>>>) -> impl FnMut() + Send + 'static {
    let (clock, log) = (clock.clone(), log.clone());
    move || log.lock().unwrap().push(clock.elapsed())
}

#[test]
fn a_fixed_rate_does_not_drift_over_a_million_periods() {
    const PERIODS: u64 = 1_000_000;
    let (clock, service, _) = service();
    let (runs, last_ns) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, seen_ns, time) = (runs.clone(), last_ns.clone(), clock.clone());
    // A period that is no multiple of the tick: rounding each run up to a tick must not add up.
    let period = Duration::from_nanos(1_333_333);
    let run = move || {
        let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
        let (now_ns, due_ns) = (time.elapsed().as_nanos() as u64, number * 1_333_333);
        assert!(
            now_ns >= due_ns && now_ns < due_ns + 1_000_000,
            "run {number} at {now_ns}"
        );
        seen_ns.store(now_ns, Ordering::Relaxed);
    };
    service.every(period).start(run).unwrap();
    for _ in 0..100 {
        clock.advance(period * (PERIODS / 100) as u32);
    }
    clock.advance(MS);
    assert_eq!(
        (runs.load(Ordering::Relaxed), service.stats().panics),
        (PERIODS, 0)
    );
    assert_eq!(
        last_ns.load(Ordering::Relaxed),
        (PERIODS * 1_333_333u64).next_multiple_of(1_000_000)
    );
}

#[test]
fn the_first_run_and_the_number_of_runs_are_as_asked_for() {
    let (clock, service, log) = service();
    let id = service
        .every(MS * 10)
        .first(MS * 3)
        .times(4)
        .start(note(&clock, &log))
        .unwrap();
    assert!(service.is_pending(id));
    clock.advance(MS * 100);
    assert_eq!(
        *log.lock().unwrap(),
        [3, 13, 23, 33].map(Duration::from_millis)
    );
    assert!(
        !service.is_pending(id) && !service.cancel(id),
        "it has ended"
    );
    // Now, and once.
    service
        .every_after(MS)
        .first(Duration::ZERO)
        .times(1)
        .start(note(&clock, &log))
        .unwrap();
    clock.advance(MS * 10);
    assert_eq!(log.lock().unwrap()[4..], [MS * 101]);
}

#[test]
fn no_runs_are_rejected() {
    let (clock, service, log) = service();
    for periodic in [
        service.every(MS),
        service.every_after(MS),
        service.every_by(|last| Some(last + MS)),
    ] {
        let refused = periodic
            .first(Duration::ZERO)
            .times(0)
            .start(note(&clock, &log))
            .unwrap_err();
        assert!(matches!(refused, ScheduleError::NoRuns(())));
        assert_eq!(
            (
                refused.to_string().as_str(),
                format!("{refused:?}").as_str()
            ),
            (
                "times(0): a periodic timer runs once at least",
                "NoRuns(..)"
            )
        );
    }
    assert_eq!(
        (Arc::strong_count(&log), service.len()),
        (1, 0),
        "the closure is dropped"
    );
    clock.advance(MS * 100);
    assert!(log.lock().unwrap().is_empty());
    service.stop();
    assert!(matches!(
        service.every(MS).times(0).start(|| ()),
        Err(ScheduleError::NoRuns(()))
    ));
}

#[test]
fn a_period_of_nothing_is_as_good_as_a_tick() {
    for period in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(999),
    ] {
        for missed in [Missed::Skip, Missed::Delay, Missed::Burst(u32::MAX)] {
            let (clock, service, log) = service();
            let id = service
                .every(period)
                .missed(missed)
                .start(note(&clock, &log))
                .unwrap();
            clock.advance(MS * 100);
            assert_eq!(
                *log.lock().unwrap(),
                (1..=100).map(|tick| MS * tick).collect::<Vec<_>>(),
                "{period:?}, {missed:?}"
            );
            assert!(service.cancel(id));
        }
    }
}

/// When a timer of a period of 10 ms runs whose first run takes 35 ms, up to 75 ms.
fn held_up(missed: Missed) -> Vec<u64> {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(MS)
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    let (began, runs) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    let (time, busy) = (clock.clone(), AtomicBool::new(false));
    let run = move || {
        assert!(!busy.swap(true, Ordering::SeqCst), "two runs at a time");
        began.send(time.elapsed()).unwrap();
        may_end.recv().unwrap();
        busy.store(false, Ordering::SeqCst);
    };
    service.every(MS * 10).missed(missed).start(run).unwrap();
    clock.advance(MS * 10);
    let mut times = vec![runs.recv().unwrap()];
    clock.advance(MS * 35);
    assert!(runs.try_recv().is_err(), "it runs");
    end.send(()).unwrap();
    loop {
        // The run's end comes when the pool's thread gets to it; then there is a next event.
        while clock.advance_to_next().is_none() {
            thread::yield_now();
        }
        times.push(runs.recv().unwrap());
        if clock.elapsed() > MS * 65 {
            break;
        }
        end.send(()).unwrap();
    }
    drop(end);
    times
        .into_iter()
        .map(|time| time.as_millis() as u64)
        .collect()
}

#[test]
fn missed_runs_are_skipped_delayed_or_made_up_for() {
    assert_eq!(held_up(Missed::Skip), [10, 50, 60, 70], "aligned");
    assert_eq!(held_up(Missed::Delay), [10, 55, 65, 75]);
    // 20, 30 and 40 were missed: the last two of them are made up for, one a tick.
    assert_eq!(held_up(Missed::Burst(2)), [10, 46, 47, 50, 60, 70]);
    assert_eq!(held_up(Missed::Burst(9)), [10, 46, 47, 48, 50, 60, 70]);
}

/// When the first runs of a fixed rate begin that is started at this time, each of them so late.
/// In nanoseconds; a tick is a millisecond.
fn late_runs(start_ns: u64, period_ns: u64, late_ns: u64, missed: Missed) -> Vec<u64> {
    let (clock, log) = (ManualClock::new(), Arc::default());
    let (jobs, waiting) = mpsc::channel();
    let dispatch = Dispatch::executor(move |job| jobs.send(job).unwrap());
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(MS)
        .dispatch(dispatch)
        .start()
        .unwrap();
    clock.advance(Duration::from_nanos(start_ns));
    service
        .every(Duration::from_nanos(period_ns))
        .missed(missed)
        .start(note(&clock, &log))
        .unwrap();
    while log.lock().unwrap().len() < 40 {
        clock.advance_to_next();
        clock.advance(Duration::from_nanos(late_ns));
        waiting.try_iter().for_each(|job| job());
    }
    let log = log.lock().unwrap();
    log.iter().map(|time| time.as_nanos() as u64).collect()
}

/// A run is not missed whose tick is still to come when the one before it ends, whatever the phase.
#[test]
fn a_run_that_is_late_by_less_than_a_period_costs_no_other() {
    const TICK_NS: u64 = 1_000_000;
    for missed in [Missed::Skip, Missed::Delay, Missed::Burst(2)] {
        for start_ns in [0, 1, 100_000, 499_999, 500_000, 500_001, 900_000, 999_999] {
            for period_ns in [
                TICK_NS,
                TICK_NS + 1,
                1_333_333,
                1_500_000,
                2 * TICK_NS,
                2_500_000,
                7 * TICK_NS,
            ] {
                // Up to the next run's tick.
                for late_ns in [
                    0,
                    1,
                    300_000,
                    999_998,
                    999_999,
                    period_ns / TICK_NS * TICK_NS - 1,
                ] {
                    let due =
                        |run: u64| (start_ns + run * period_ns).next_multiple_of(TICK_NS) + late_ns;
                    let runs = late_runs(start_ns, period_ns, late_ns, missed);
                    assert!(
                        runs.iter().copied().eq((1..=40).map(due)),
                        "every {period_ns} ns from {start_ns}, {late_ns} ns late, {missed:?}: {runs:?}"
                    );
                }
            }
            // As good as a tick.
            for (period_ns, late_ns) in [1, 300_000, 500_000, 999_999]
                .into_iter()
                .flat_map(|period_ns| [(period_ns, 0), (period_ns, 900_000)])
            {
                let runs = late_runs(start_ns, period_ns, late_ns, missed);
                assert!(
                    runs.windows(2).all(|two| two[1] - two[0] == TICK_NS),
                    "every {period_ns} ns, {late_ns} ns late, {missed:?}: {runs:?}"
                );
            }
        }
    }
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_a_run() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(MS)
        .dispatch(Dispatch::RayonThreads(1))
        .start()
        .unwrap();
    let (began, runs) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    let time = clock.clone();
    let run = move || {
        began.send(time.elapsed()).unwrap();
        may_end.recv().unwrap();
    };
    service
        .every_after(MS * 10)
        .first(MS * 5)
        .start(run)
        .unwrap();
    clock.advance(MS * 5);
    assert_eq!(runs.recv().unwrap(), MS * 5);
    clock.advance(MS * 7);
    end.send(()).unwrap();
    while clock.advance_to_next().is_none() {
        thread::yield_now();
    }
    assert_eq!(runs.recv().unwrap(), MS * (5 + 7 + 10));
    drop(end);
}

#[test]
fn a_function_says_when_the_next_run_comes() {
    let (clock, service, log) = service();
    let mut delay = MS / 2;
    let next = move |last| {
        delay *= 2;
        (delay < MS * 16).then(|| last + delay)
    };
    let id = service.every_by(next).start(note(&clock, &log)).unwrap();
    clock.advance(MS * 100);
    assert_eq!(
        *log.lock().unwrap(),
        [1, 2, 4, 8, 16].map(Duration::from_millis),
        "the first at the next tick, meant for 1 ns"
    );
    assert!(!service.cancel(id), "it has ended");
}

#[test]
fn cancel_from_the_run_itself_is_true_and_ends_it() {
    let (clock, service, log) = service();
    let (own, answers) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Vec::new())));
    let (mut run, handle, id, said) = (
        note(&clock, &log),
        service.handle(),
        own.clone(),
        answers.clone(),
    );
    let run = move || {
        run();
        let id = *id.get().unwrap();
        let pending = handle.is_pending(id);
        said.lock().unwrap().extend([
            pending,
            handle.reschedule(id, MS),
            handle.cancel(id),
            handle.cancel(id),
            handle.is_pending(id),
        ]);
    };
    own.set(service.every(MS).start(run).unwrap()).unwrap();
    clock.advance(MS * 10);
    assert_eq!(
        *answers.lock().unwrap(),
        [true, false, true, false, false],
        "pending, moved, cancelled, again, pending"
    );
    assert_eq!(*log.lock().unwrap(), [MS]);
    assert_eq!(Arc::strong_count(&log), 1, "the closure is gone");
}

#[test]
fn a_run_that_panics_is_counted_and_the_next_one_comes() {
    let (clock, service, log) = service();
    let mut run = note(&clock, &log);
    let run = move || {
        run();
        panic_on_purpose();
    };
    service.every(MS).times(3).start(run).unwrap();
    let next = |_| panic_on_purpose();
    let ended = service.every_by(next).start(|| ()).unwrap();
    clock.advance(MS * 10);
    assert_eq!(*log.lock().unwrap(), [MS, MS * 2, MS * 3]);
    assert_eq!(service.stats().panics, 4);
    assert!(
        !service.is_pending(ended),
        "who cannot say when the next run comes has none"
    );
}

#[test]
fn a_periodic_timer_is_moved_with_its_later_runs() {
    let (clock, service, log) = service();
    let id = service.every(MS * 10).start(note(&clock, &log)).unwrap();
    clock.advance(MS * 12);
    assert!(service.reschedule(id, MS * 3));
    clock.advance(MS * 14);
    assert_eq!(
        *log.lock().unwrap(),
        [10, 15, 25].map(Duration::from_millis)
    );
    // Later, and much later.
    assert!(service.reschedule(id, MS * 50) && service.reschedule(id, MS * 100_000));
    clock.advance(MS * 100_010);
    assert_eq!(
        log.lock().unwrap()[3..],
        [100_026, 100_036].map(Duration::from_millis)
    );
}

#[test]
fn stop_and_cancel_drop_the_closure_once_and_hand_nothing_back() {
    let (clock, service, log) = service();
    let periodic = service.every(MS * 10).start(note(&clock, &log)).unwrap();
    assert!(
        service.take(periodic).is_none() && service.is_pending(periodic),
        "there is no payload to take"
    );
    let second = service.every(MS * 10).start(note(&clock, &log)).unwrap();
    assert!(service.cancel(second) && !service.cancel(second));
    assert_eq!(Arc::strong_count(&log), 2);
    service.schedule(MS * 5, || ()).unwrap();
    assert_eq!(service.stop().len(), 1);
    assert_eq!(Arc::strong_count(&log), 1);
    assert!(!service.is_pending(periodic) && !service.cancel(periodic));
    assert!(matches!(
        service.every(MS).start(note(&clock, &log)),
        Err(ScheduleError::Stopped(()))
    ));
    assert_eq!(Arc::strong_count(&log), 1);
    clock.advance(MS * 100);
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn a_stop_during_a_run_waits_for_it_and_there_is_no_other() {
    let service = TimerService::builder()
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    let (began, runs) = mpsc::channel();
    let done = Arc::new(AtomicBool::new(false));
    let finished = done.clone();
    let run = move || {
        began.send(()).unwrap();
        thread::sleep(MS * 20);
        finished.store(true, Ordering::SeqCst);
    };
    let id = service.every(MS).start(run).unwrap();
    runs.recv().unwrap();
    service.stop();
    assert!(
        done.load(Ordering::SeqCst),
        "stop came back before the run had ended"
    );
    assert!(runs.recv().is_err(), "the closure is gone");
    assert!(!service.cancel(id));
}

/// Runs, cancels and moves from several threads: whatever comes first, every closure is dropped
/// once.
#[test]
fn every_closure_is_dropped_once_whoever_races() {
    for round in 0..20u64 {
        let service = TimerService::builder()
            .tick(MS / 10)
            .dispatch(Dispatch::RayonThreads(2))
            .start()
            .unwrap();
        let alive = Arc::new(());
        thread::scope(|scope| {
            for thread in 0..2 {
                let (service, alive) = (&service, &alive);
                scope.spawn(move || {
                    for timer in 0..50u64 {
                        let guard = alive.clone();
                        let run = move || _ = &guard;
                        let id = service.every(MS / 10).start(run).unwrap();
                        if (timer + thread + round) % 3 == 0 {
                            service.reschedule(id, MS / 5);
                        }
                        if timer % 2 == 0 {
                            thread::sleep(MS / 5);
                        }
                        assert!(service.cancel(id), "a periodic timer without end");
                        assert!(
                            !service.cancel(id) && !service.reschedule(id, MS),
                            "only once"
                        );
                    }
                });
            }
        });
        service.stop();
        assert_eq!(service.stats().panics, 0);
        assert_eq!(Arc::strong_count(&alive), 1, "every closure is dropped");
    }
}

#[test]
fn a_rate_ends_with_time() {
    let (clock, service, log) = service();
    let id = service
        .every(Duration::MAX)
        .start(note(&clock, &log))
        .unwrap();
    clock.advance(Duration::MAX);
    assert_eq!(log.lock().unwrap().len(), 1);
    assert!(!service.is_pending(id));
}
