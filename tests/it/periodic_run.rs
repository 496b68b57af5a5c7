//! Promise: the closure of a periodic timer may see its run: it ends its timer, knows its id, when
//! it was meant and how late it is, and gives the timer a new period.

use crate::quiet::panic_on_purpose;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};
use wheelwork::{Batch, Dispatch, ManualClock, Missed, PeriodicRun, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);

type Log<T> = Arc<Mutex<Vec<T>>>;

fn service() -> (ManualClock, TimerService) {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(MS)
        .start();
    (clock, service.unwrap())
}

/// When runs come, in milliseconds.
fn times(clock: &ManualClock) -> (Log<u64>, impl Fn() + Clone + Send + 'static) {
    let log = Log::default();
    let (clock, sink) = (clock.clone(), log.clone());
    let note = move || {
        let at = clock.elapsed().as_millis() as u64;
        sink.lock().unwrap().push(at);
    };
    (log, note)
}

#[test]
fn break_ends_the_timer_as_its_last_run_does() {
    for dispatch in [Dispatch::Inline, Dispatch::RayonThreads(1)] {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .dispatch(dispatch);
        let service = service.max_pending(1).start().unwrap();
        let (send, runs) = mpsc::channel();
        let run = move |_: &mut PeriodicRun<'_>| {
            send.send(()).unwrap();
            // (It is the third run at the latest that says so.)
            Continue(())
        };
        let id = service.every(MS).times(2).start_while(run).unwrap();
        let (send, ended) = mpsc::channel();
        let mut left = 3;
        // One at a time may be pending: the second one waits for the end of the first one.
        let run = move |run: &mut PeriodicRun<'_>| {
            send.send(run.id()).unwrap();
            left -= 1;
            if left == 0 { Break(()) } else { Continue(()) }
        };
        let mut run = Some(run);
        while service.is_pending(id) {
            clock.advance(MS);
            std::thread::yield_now();
        }
        assert_eq!(runs.iter().count(), 2, "the closure is gone");
        let id = loop {
            // There is room as soon as the run has ended, which is a moment after `is_pending`.
            if service.is_empty() {
                break service.every(MS).start_while(run.take().unwrap()).unwrap();
            }
        };
        while service.is_pending(id) {
            clock.advance(MS);
            std::thread::yield_now();
        }
        assert_eq!(ended.iter().collect::<Vec<_>>(), [id; 3]);
        assert!(!service.cancel(id) && !service.reschedule(id, MS));
        service.stop();
        let timers = service.stats().timers;
        assert_eq!((timers.ended, timers.cancelled, timers.runs), (2, 0, 5));
    }
}

/// No further run, whatever the rhythm, and none of the function that says when it comes.
#[test]
fn break_ends_each_rhythm() {
    let (clock, service) = service();
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let next = move |last| {
        count.fetch_add(1, Ordering::SeqCst);
        Some(last + MS)
    };
    for periodic in [
        service.every(MS),
        service.every(MS).missed(Missed::BURST_ALL),
        service.every_after(MS),
        service.every_by(next),
    ] {
        let (log, note) = times(&clock);
        let alive = Arc::downgrade(&log);
        let run = move |_: &mut PeriodicRun<'_>| {
            note();
            Break(())
        };
        let id = periodic.start_while(run).unwrap();
        clock.advance(MS * 10);
        assert_eq!(log.lock().unwrap().len(), 1);
        assert!(!service.is_pending(id));
        drop(log);
        assert!(alive.upgrade().is_none(), "the closure is gone");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    assert_eq!(service.stats().timers.ended, 4);
}

/// A cancel that comes during the run is the outcome, though the run then says `Break`.
#[test]
fn a_cancel_before_the_break_counts() {
    let (clock, service) = service();
    let handle = service.handle();
    let id = service
        .every(MS)
        .start_while(move |run| {
            assert!(handle.cancel(run.id()) && !handle.cancel(run.id()));
            Break(())
        })
        .unwrap();
    clock.advance(MS * 5);
    assert!(!service.is_pending(id));
    let stats = service.stats();
    assert_eq!((stats.timers.cancelled, stats.timers.ended), (1, 0));
    assert_eq!((stats.panics, stats.timers.pending), (0, 0));
}

/// In a used cell too, after many runs, and after many moves.
#[test]
fn a_run_knows_its_id() {
    let (clock, service) = service();
    (0..100).for_each(|_| _ = service.cancel(service.schedule(MS, || ()).unwrap()));
    let ids: Vec<(TimerId, Log<TimerId>)> = (0..10)
        .map(|_| {
            let seen = Log::default();
            let sink = seen.clone();
            let run = move |run: &mut PeriodicRun<'_>| {
                sink.lock().unwrap().push(run.id());
                Continue(())
            };
            (service.every(MS).start_while(run).unwrap(), seen)
        })
        .collect();
    for round in 0..100u32 {
        clock.advance(MS);
        for (id, _) in ids.iter().step_by(2) {
            assert!(service.reschedule(*id, MS / (1 + round % 2)));
        }
    }
    for (id, seen) in &ids {
        let seen = seen.lock().unwrap();
        assert!(seen.len() >= 50 && seen.iter().all(|seen| seen == id));
        assert!(service.cancel(*id));
    }
}

#[test]
fn a_run_gives_its_timer_a_new_period() {
    // Doubles the period after each run.
    fn doubling(
        note: impl Fn() + Send + 'static,
    ) -> impl FnMut(&mut PeriodicRun<'_>) -> ControlFlow<()> {
        let mut period = MS;
        move |run| {
            note();
            period *= 2;
            run.set_period(period);
            Continue(())
        }
    }
    let (clock, service) = service();
    let ((rate, note_rate), (delay, note_delay)) = (times(&clock), times(&clock));
    let ((by, note_by), (limited, note_limited)) = (times(&clock), times(&clock));
    let by_function = service.every_by(|last| Some(last + MS * 10));
    service.every(MS).start_while(doubling(note_rate)).unwrap();
    service
        .every_after(MS)
        .start_while(doubling(note_delay))
        .unwrap();
    by_function.start_while(doubling(note_by)).unwrap();
    let periodic = service.every(MS).first(Duration::ZERO).times(3);
    periodic.start_while(doubling(note_limited)).unwrap();
    clock.advance(MS * 35);
    assert_eq!(*rate.lock().unwrap(), [1, 3, 7, 15, 31]);
    assert_eq!(*delay.lock().unwrap(), [1, 3, 7, 15, 31]);
    assert_eq!(*by.lock().unwrap(), [1, 11, 21, 31], "it has no period");
    assert_eq!(*limited.lock().unwrap(), [1, 3, 7]);
}

/// A shorter one counts from the time for which the run was meant, and what is missed by it goes by
/// the policy. Zero is as good as a tick.
#[test]
fn a_new_period_counts_from_the_time_of_the_run() {
    for (missed, all) in [
        (Missed::Skip, vec![10, 26, 28, 30]),
        (Missed::Delay, vec![10, 27, 29, 31]),
    ] {
        let (clock, jobs) = (ManualClock::new(), mpsc::channel());
        let (send, jobs) = jobs;
        let dispatch = Dispatch::executor(move |job| send.send(job).unwrap());
        let service = TimerService::builder()
            .clock(clock.clone())
            .dispatch(dispatch)
            .start()
            .unwrap();
        let (log, note) = times(&clock);
        let time = clock.clone();
        let run = move |run: &mut PeriodicRun<'_>| {
            note();
            if time.elapsed() == MS * 10 {
                // The run takes 15 ms.
                time.advance(MS * 15);
                run.set_period(MS * 2);
            }
            Continue(())
        };
        service
            .every(MS * 10)
            .missed(missed)
            .start_while(run)
            .unwrap();
        while clock.elapsed() < MS * 31 {
            clock.advance(MS);
            jobs.try_iter()
                .for_each(|job: Box<dyn FnOnce() + Send>| job());
        }
        assert_eq!(*log.lock().unwrap(), all, "{missed:?}");
    }
    let (clock, service) = service();
    let (log, note) = times(&clock);
    let run = move |run: &mut PeriodicRun<'_>| {
        note();
        run.set_period(Duration::ZERO);
        Continue(())
    };
    service.every(MS * 10).start_while(run).unwrap();
    clock.advance(MS * 15);
    assert_eq!(*log.lock().unwrap(), [10, 11, 12, 13, 14, 15]);
}

#[test]
fn a_new_period_stays_though_the_run_panics() {
    let (clock, service) = service();
    let (log, note) = times(&clock);
    let run = move |run: &mut PeriodicRun<'_>| -> ControlFlow<()> {
        note();
        run.set_period(MS * 3);
        panic_on_purpose();
    };
    service.every(MS).start_while(run).unwrap();
    clock.advance(MS * 10);
    assert_eq!(*log.lock().unwrap(), [1, 4, 7, 10]);
    assert_eq!(service.stats().panics, 4);
}

#[test]
fn a_run_knows_when_it_was_meant_and_how_late_it_is() {
    let (clock, (send, jobs)) = (ManualClock::new(), mpsc::channel());
    let dispatch = Dispatch::executor(move |job| send.send(job).unwrap());
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(dispatch)
        .start()
        .unwrap();
    let seen: Log<(Instant, Duration)> = Log::default();
    let (sink, origin) = (seen.clone(), clock.now());
    let run = move |run: &mut PeriodicRun<'_>| {
        sink.lock().unwrap().push((run.scheduled(), run.lateness()));
        Continue(())
    };
    // Meant for 2.5 ms, due at 3 ms; meant for 5 ms, due then.
    service.every(MS * 5 / 2).start_while(run).unwrap();
    for late in [MS / 4, Duration::ZERO, MS / 2] {
        clock.advance_to_next();
        clock.advance(late);
        while let Ok(job) = jobs.try_recv() {
            let job: Box<dyn FnOnce() + Send> = job;
            job();
        }
    }
    let at = |half_ms: u32| origin + MS / 2 * half_ms;
    let expected = [(at(5), MS / 4), (at(10), Duration::ZERO), (at(15), MS / 2)];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert!(format!("{:?}", service.every(MS)).starts_with("Periodic"));
}

/// Wherever in a tick the timer is started: after its first run there is one at each tick.
#[test]
fn a_period_of_one_tick_is_a_run_at_every_tick() {
    const TICKS: u64 = 1_000;
    for tick in [MS, MS / 10, MS * 7] {
        let tick_ns = tick.as_nanos() as u64;
        for start_ns in [0, 1, tick_ns / 3, tick_ns / 2, tick_ns - 1, 5 * tick_ns + 1] {
            for missed in [Missed::Skip, Missed::Delay, Missed::BURST_ALL] {
                let clock = ManualClock::new();
                let service = TimerService::builder()
                    .clock(clock.clone())
                    .tick(tick)
                    .start()
                    .unwrap();
                clock.advance(Duration::from_nanos(start_ns));
                let runs: [_; 2] = std::array::from_fn(|_| Log::default());
                let note = |log: &Log<u64>| {
                    let (log, clock) = (log.clone(), clock.clone());
                    move || log.lock().unwrap().push(clock.elapsed().as_nanos() as u64)
                };
                let (plain, seeing) = (note(&runs[0]), note(&runs[1]));
                service.every(tick).missed(missed).start(plain).unwrap();
                let seeing = move |_: &mut PeriodicRun<'_>| {
                    seeing();
                    Continue(())
                };
                service
                    .every(tick)
                    .missed(missed)
                    .start_while(seeing)
                    .unwrap();
                // One by one, in steps of less than a tick, and in one go.
                let first = (start_ns + tick_ns).next_multiple_of(tick_ns);
                (0..TICKS / 2).for_each(|_| clock.advance(tick));
                (0..TICKS / 2).for_each(|_| clock.advance(tick / 2));
                clock.advance(tick * (TICKS / 4) as u32);
                for runs in &runs {
                    let runs = runs.lock().unwrap();
                    let due = (0..).map(|run| first + run * tick_ns);
                    let end_ns = clock.elapsed().as_nanos() as u64;
                    let due: Vec<_> = due.take_while(|&due_ns| due_ns <= end_ns).collect();
                    assert!(due.len() as u64 >= TICKS - 1);
                    assert_eq!(
                        *runs, due,
                        "a tick of {tick:?}, from {start_ns}, {missed:?}"
                    );
                }
            }
        }
    }
}

/// Closures that never come back, or end in a macro, are closures without a result.
#[test]
fn start_takes_the_closures_that_it_took() {
    let (clock, service) = service();
    let (own, handle) = (Arc::new(OnceLock::<TimerId>::new()), service.handle());
    service.every(MS * 1_000).start(|| unreachable!()).unwrap();
    service.every(MS * 1_000).start(|| panic!("never")).unwrap();
    service
        .every(MS)
        .times(1)
        .start(|| println!("a run"))
        .unwrap();
    let id = own.clone();
    let cancel = move || _ = id.get().map(|&id| handle.cancel(id));
    own.set(service.every(MS).start(cancel).unwrap()).unwrap();
    // And one that sees its run may be inferred.
    service
        .every(MS)
        .start_while(|run| {
            if run.lateness() > MS {
                Continue(())
            } else {
                Break(())
            }
        })
        .unwrap();
    clock.advance(MS * 10);
    assert_eq!((service.len(), service.stats().panics), (2, 0));
}

/// Periodic timers take closures, whatever the payload is and wherever it goes.
#[test]
fn a_service_of_payloads_has_them_too() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().clock(clock.clone());
    let handled = builder
        .on_expire(|_: &mut Batch<'_, [u64; 40]>| ())
        .start()
        .unwrap();
    let builder = TimerService::builder().clock(clock.clone());
    let (builder, _batches) = builder.on_expire_channel::<String>(None);
    let sent = builder.start().unwrap();
    let (log, note) = times(&clock);
    let run = move || {
        let (note, mut left) = (note.clone(), 2);
        move |_: &mut PeriodicRun<'_>| {
            note();
            left -= 1;
            if left > 0 { Continue(()) } else { Break(()) }
        }
    };
    handled.every(MS).start_while(run()).unwrap();
    sent.every(MS * 3).start_while(run()).unwrap();
    clock.advance(MS * 20);
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 6]);
}
