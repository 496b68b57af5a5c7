//! Promise: what ends many timers at once does what it says: guards, `cancel_all`, and the policies
//! of `stop_with`. What timers hold is dropped, although drops may panic.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, Dispatch, ManualClock, ScheduleError, StopPolicy, TimerService};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_guard_cancels_when_it_is_dropped_and_not_when_it_is_kept() {
    let service = TimerService::builder()
        .clock(ManualClock::new())
        .start()
        .unwrap();
    let arm = || service.guard(service.schedule(MS, || ()).unwrap());
    let (dropped, kept, forgotten) = (arm(), arm(), arm());
    let ids = [dropped.id(), kept.id(), forgotten.id()];
    drop(dropped);
    assert_eq!(kept.keep(), ids[1]);
    std::mem::forget(forgotten);
    assert_eq!(ids.map(|id| service.is_pending(id)), [false, true, true]);
    // Nor does it matter that the service is gone.
    let last = arm();
    drop(service.stop());
    drop(last);
}

#[test]
fn cancel_all_cancels_what_waits_and_drops_it() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .shards(2)
        .start()
        .unwrap();
    let alive = Arc::new(());
    let arm = |delay: Duration| {
        let alive = alive.clone();
        service.schedule(delay, move || drop(alive)).unwrap()
    };
    let mut ids: Vec<_> = (1..=10_000).map(|delay| arm(MS * delay)).collect();
    ids.extend(thread::scope(|scope| {
        scope
            .spawn(|| {
                (1..=10_000)
                    .map(|delay| arm(MS * delay))
                    .collect::<Vec<_>>()
            })
            .join()
            .unwrap()
    }));
    let guard = alive.clone();
    service.every(MS * 500).start(move || _ = &guard).unwrap();
    ids.iter()
        .step_by(2)
        .for_each(|&id| _ = service.reschedule(id, MS * 20_000));
    clock.advance(MS * 100);
    assert_eq!(service.cancel_all(), 20_000 - 100 + 1);
    assert_eq!((Arc::strong_count(&alive), service.cancel_all()), (1, 0));
    assert!(ids.iter().all(|&id| !service.cancel(id)));
    clock.advance(MS * 100_000);
    assert_eq!(
        service.stats().timers.fired,
        100,
        "the odd ones of the first 100 ms, of each thread"
    );
}

/// A service whose timers note their delays, with timers after 1, 2, ... 10 ms.
fn ten(clock: &ManualClock) -> (Arc<TimerService<u64>>, Arc<Mutex<Vec<u64>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let sink = log.clone();
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(move |batch: &mut Batch<'_, u64>| sink.lock().unwrap().extend(batch));
    let service = Arc::new(service.start().unwrap());
    (1..=10).for_each(|delay| _ = service.schedule(MS * delay as u32, delay).unwrap());
    (service, log)
}

fn payloads(unfired: Vec<wheelwork::Unfired<u64>>) -> Vec<u64> {
    let mut payloads: Vec<_> = unfired.into_iter().map(|unfired| unfired.payload).collect();
    payloads.sort_unstable();
    payloads
}

#[test]
fn a_drain_fires_what_is_due_in_time_and_hands_back_the_rest() {
    let clock = ManualClock::new();
    let (service, log) = ten(&clock);
    let periodic = service.every(MS).start(|| ()).unwrap();
    let stop = {
        let service = service.clone();
        thread::spawn(move || service.stop_with(StopPolicy::Drain(MS * 6)))
    };
    // It refuses new timers as soon as it has begun.
    while service.is_pending(periodic) {
        thread::yield_now();
    }
    assert!(matches!(
        service.schedule(MS, 77),
        Err(ScheduleError::Stopped(77))
    ));
    assert!(!stop.is_finished() && service.is_pending(service.pending(0).next().unwrap().0));
    for _ in 0..9 {
        clock.advance(MS);
        thread::sleep(MS);
    }
    let unfired = payloads(stop.join().unwrap());
    let mut fired = log.lock().unwrap().clone();
    // Time may have moved on before the drain was at its end.
    assert!(fired.starts_with(&[1, 2, 3, 4, 5, 6]), "{fired:?}");
    fired.extend(unfired);
    assert_eq!(fired, (1..=10).collect::<Vec<_>>());
    assert_eq!(service.stop().len(), 0, "once");
}

#[test]
fn a_drain_ends_at_its_limit_and_when_nothing_is_left() {
    let service = TimerService::builder().start().unwrap();
    service.schedule(MS * 5, || ()).unwrap();
    service.schedule(MS * 100_000, || ()).unwrap();
    assert_eq!(
        service.stop_with(StopPolicy::Drain(MS * 50_000)).len(),
        1,
        "it does not wait for what is later than the limit"
    );
    assert_eq!(service.stats().timers.fired, 1);
    let empty = TimerService::builder().start().unwrap();
    assert_eq!(empty.stop_with(StopPolicy::Drain(Duration::MAX)).len(), 0);
}

/// How often a periodic timer of 1 ms runs while a service drains whose last timer is due after
/// 6 ms; and the service, which has stopped.
fn runs_in_a_drain(policy: StopPolicy) -> (u64, Arc<TimerService<u64>>) {
    let clock = ManualClock::new();
    let (service, log) = ten(&clock);
    let (ids, runs) = (service.pending(0), Arc::new(AtomicU64::new(0)));
    let late: Vec<_> = ids.filter(|(_, left)| *left > MS * 6).collect();
    late.into_iter()
        .for_each(|(id, _)| assert!(service.cancel(id)));
    let count = runs.clone();
    let run = move || _ = count.fetch_add(1, Ordering::SeqCst);
    let id = service.every(MS).start(run).unwrap();
    let (day, count) = (clock.system_time() + MS * 2, runs.clone());
    let of_day = move || _ = count.fetch_add(1_000, Ordering::SeqCst);
    let of_day = service.schedule_at_system_time(day, of_day).unwrap();
    let stop = {
        let service = service.clone();
        thread::spawn(move || service.stop_with(policy))
    };
    let runs_on = matches!(policy, StopPolicy::DrainWithPeriodic(_));
    // (The stop ends them one after the other.)
    let is_any = || service.is_pending(of_day) || service.is_pending(id);
    while !service.is_stopped() || !runs_on && is_any() {
        thread::yield_now();
    }
    assert!(service.every(MS).start(|| ()).is_err(), "it is refused");
    for _ in 0..6 {
        assert_eq!(service.is_pending(id), runs_on, "no payload has come late");
        clock.advance(MS);
    }
    // (The time stands still: it does not wait for the next run.)
    assert!(stop.join().unwrap().is_empty());
    assert_eq!(log.lock().unwrap().len(), 6);
    let all = runs.load(Ordering::SeqCst);
    clock.advance(MS * 100);
    assert_eq!(runs.load(Ordering::SeqCst), all, "a run after the stop");
    assert_eq!(Arc::strong_count(&runs), 1, "the closures are dropped");
    assert!(!service.is_pending(id));
    (all, service)
}

#[test]
fn periodic_timers_run_on_through_a_drain_if_they_may() {
    let (runs, service) = runs_in_a_drain(StopPolicy::Drain(MS * 50));
    assert_eq!((runs, service.stats().timers.ended), (0, 2));
    let (runs, service) = runs_in_a_drain(StopPolicy::DrainWithPeriodic(MS * 50));
    // The drain may be over when the sixth run is due.
    assert!([1_005, 1_006].contains(&runs), "{runs}");
    assert_eq!(service.stats().timers.ended, 2);
}

/// Even if nobody moves the time, and the limit is far off.
#[test]
fn a_drain_does_not_wait_for_periodic_timers() {
    let service = TimerService::builder()
        .clock(ManualClock::new())
        .start()
        .unwrap();
    service.every(MS).start(|| ()).unwrap();
    service.every_after(MS * 1_000).start(|| ()).unwrap();
    let policy = StopPolicy::DrainWithPeriodic(Duration::MAX);
    assert!(service.stop_with(policy).is_empty());
    let timers = service.stats().timers;
    assert_eq!((timers.ended, timers.pending), (2, 0));
}

/// Of two drains the one that ends periodic timers decides, whichever is first; and `FireAll` ends
/// what a drain has left.
#[test]
fn a_second_stop_ends_what_runs_on() {
    for second in [
        StopPolicy::Drain(Duration::ZERO),
        StopPolicy::HandBack,
        StopPolicy::FireAll,
    ] {
        let clock = ManualClock::new();
        let (service, _log) = ten(&clock);
        let id = service.every(MS).start(|| ()).unwrap();
        let drain = {
            let service = service.clone();
            thread::spawn(move || service.stop_with(StopPolicy::DrainWithPeriodic(MS * 50)))
        };
        while !service.is_stopped() {
            thread::yield_now();
        }
        clock.advance(MS);
        assert!(service.is_pending(id));
        let unfired = service.stop_with(second).len() + drain.join().unwrap().len();
        assert!(!service.is_pending(id), "{second:?}");
        let fires_all = second == StopPolicy::FireAll;
        assert_eq!(unfired, if fires_all { 0 } else { 9 }, "{second:?}");
    }
}

#[test]
fn fire_all_fires_all_on_the_calling_thread() {
    let clock = ManualClock::new();
    let (service, log) = ten(&clock);
    service.every(MS).start(|| unreachable!("it ends")).unwrap();
    clock.advance(MS / 2);
    assert_eq!(service.stop_with(StopPolicy::FireAll).len(), 0);
    let mut fired = log.lock().unwrap().clone();
    fired.sort_unstable();
    assert_eq!(fired, (1..=10).collect::<Vec<_>>());
    assert_eq!(service.stats().timers.fired, 10);
}

/// The drop of a periodic closure is the user's code. If it panics, that is counted, and `stop` has
/// waited all the same.
#[test]
fn a_closure_that_panics_when_it_is_dropped_does_not_keep_stop_from_its_work() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any("deliberate");
        }
    }
    let service = TimerService::builder()
        .dispatch(Dispatch::RayonThreads(1))
        .start()
        .unwrap();
    let (began, begin) = mpsc::channel();
    let done = Arc::new(AtomicBool::new(false));
    let (finished, bomb) = (done.clone(), Bomb);
    service
        .every(MS * 100_000)
        .start(move || _ = &bomb)
        .unwrap();
    service
        .schedule(MS, move || {
            began.send(()).unwrap();
            thread::sleep(MS * 20);
            finished.store(true, Ordering::SeqCst);
        })
        .unwrap();
    begin.recv().unwrap();
    assert!(service.stop().is_empty());
    assert!(done.load(Ordering::SeqCst), "a task was still running");
    assert_eq!(service.stats().panics, 1);
}

#[test]
fn a_closure_whose_drop_panics_costs_nobody_his_payload() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a drop that panics");
        }
    }
    for policy in [StopPolicy::HandBack, StopPolicy::Drain(Duration::ZERO)] {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock)
            .on_expire(|_: &mut Batch<'_, u64>| {})
            .start()
            .unwrap();
        service.schedule(Duration::from_secs(9), 1).unwrap();
        let bomb = Bomb;
        service
            .every(Duration::from_secs(9))
            .start(move || _ = &bomb)
            .unwrap();
        let unfired = service.stop_with(policy);
        assert_eq!(
            unfired
                .iter()
                .map(|unfired| unfired.payload)
                .collect::<Vec<_>>(),
            [1],
            "{policy:?}"
        );
        assert_eq!(service.stats().panics, 1);
    }
}

#[test]
fn fire_all_fires_what_is_for_a_time_of_day() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let (send, receive) = mpsc::channel();
    service
        .schedule_at_system_time(
            clock.system_time() + Duration::from_secs(3_600),
            move || send.send(()).unwrap(),
        )
        .unwrap();
    assert!(service.stop_with(StopPolicy::FireAll).is_empty());
    assert_eq!(receive.try_recv(), Ok(()));
}

type Jobs = Arc<Mutex<Vec<Box<dyn FnOnce() + Send>>>>;

/// An executor that keeps the jobs.
fn keeping() -> (Dispatch, Jobs) {
    let jobs = Jobs::default();
    let kept = jobs.clone();
    (
        Dispatch::executor(move |job| kept.lock().unwrap().push(job)),
        jobs,
    )
}

fn run_one(jobs: &Jobs) {
    let job = jobs.lock().unwrap().remove(0);
    job();
}

/// A service whose worker is inside a task. The run of a periodic timer waits behind the task.
struct Behind {
    clock: ManualClock,
    service: TimerService,
    jobs: Jobs,
    began: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl Behind {
    fn new() -> Self {
        let (clock, (dispatch, jobs)) = (ManualClock::new(), keeping());
        let service = TimerService::builder()
            .clock(clock.clone())
            .dispatch(dispatch)
            .start()
            .unwrap();
        let ((begin, began), (go, goes)) = (mpsc::channel(), mpsc::channel());
        let task = move || {
            begin.send(()).unwrap();
            goes.recv().unwrap();
        };
        service.schedule(MS, task).unwrap();
        Self {
            clock,
            service,
            jobs,
            began,
            go,
        }
    }

    /// Has the worker begin the task, and gives `f` what is to happen meanwhile.
    fn meanwhile(&self, f: impl FnOnce()) {
        self.clock.advance(MS);
        let jobs = &self.jobs;
        thread::scope(|scope| {
            let worker = scope.spawn(|| run_one(jobs));
            self.began.recv().unwrap();
            f();
            self.go.send(()).unwrap();
            worker.join().unwrap();
        });
        // The offers to help.
        while !self.jobs.lock().unwrap().is_empty() {
            run_one(&self.jobs);
        }
    }
}

#[test]
fn what_a_periodic_timer_holds_is_gone_though_its_run_waits_for_a_worker() {
    type End = fn(&TimerService, wheelwork::TimerId);
    let ends: [End; 3] = [
        |service, id| assert_eq!(service.cancel_and_wait(id), Ok(true)),
        |service, id| assert!(service.cancel(id)),
        |service, _| assert_eq!(service.cancel_all(), 1),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let behind = Behind::new();
        let service = &behind.service;
        let (alive, runs) = (Arc::new(()), Arc::new(AtomicU64::new(0)));
        let (held, count) = (alive.clone(), runs.clone());
        let run = move || {
            let _held = &held;
            count.fetch_add(1, Ordering::SeqCst);
        };
        let id = service.every(MS).start(run).unwrap();
        behind.meanwhile(|| {
            assert!(service.is_pending(id) && service.remaining(id).is_some());
            end(service, id);
            assert_eq!(Arc::strong_count(&alive), 1, "end {number}");
            // Another one in the same cell is none of the waiting run's business.
            let next = || unreachable!("its time has not come");
            service.every(MS).start(next).unwrap();
        });
        assert_eq!(runs.load(Ordering::SeqCst), 0, "end {number}");
        let stats = service.stats();
        assert_eq!(
            (stats.panics, stats.timers.pending, stats.timers.fired),
            (0, 1, 1),
            "end {number}"
        );
    }
}

#[test]
fn a_stop_takes_periodic_timers_whose_runs_wait_for_a_worker() {
    for policy in [StopPolicy::HandBack, StopPolicy::Drain(MS)] {
        let behind = Behind::new();
        let service = &behind.service;
        let (alive, runs) = (Arc::new(()), Arc::new(AtomicU64::new(0)));
        let (held, count) = (alive.clone(), runs.clone());
        let run = move || {
            let _held = &held;
            count.fetch_add(1, Ordering::SeqCst);
        };
        let id = service.every(MS).start(run).unwrap();
        thread::scope(|scope| {
            behind.meanwhile(|| {
                // It waits for the task.
                scope.spawn(|| assert!(service.stop_with(policy).is_empty()));
                while service.is_pending(id) {
                    thread::yield_now();
                }
            });
        });
        assert_eq!(
            (Arc::strong_count(&alive), runs.load(Ordering::SeqCst)),
            (1, 0),
            "{policy:?}"
        );
        assert_eq!(service.stats().timers.ended, 1);
    }
}

#[test]
fn a_periodic_timer_is_moved_while_its_run_waits_for_a_worker() {
    for (delay, first) in [(MS / 2, 2), (MS * 7, 8)] {
        let behind = Behind::new();
        let runs = Arc::new(AtomicU64::new(0));
        let count = runs.clone();
        let run = move || _ = count.fetch_add(1, Ordering::SeqCst);
        let every = behind.service.every(MS * 5).first(MS);
        let id = every.start(run).unwrap();
        behind.meanwhile(|| assert!(behind.service.reschedule(id, delay)));
        // It goes on from its new deadline.
        for tick in 2..=14_usize {
            behind.clock.advance(MS);
            while !behind.jobs.lock().unwrap().is_empty() {
                run_one(&behind.jobs);
            }
            let due = (first..=tick).step_by(5).count() as u64;
            assert_eq!(runs.load(Ordering::SeqCst), due, "{delay:?}, tick {tick}");
        }
    }
}

#[test]
fn a_run_that_the_pool_drops_ends_its_timer() {
    let (clock, (dispatch, jobs)) = (ManualClock::new(), keeping());
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(dispatch)
        .start()
        .unwrap();
    let alive = Arc::new(());
    let held = alive.clone();
    let id = service.every(MS).start(move || _ = &held).unwrap();
    clock.advance(MS);
    jobs.lock().unwrap().clear();
    assert!(!service.is_pending(id));
    assert_eq!(
        (Arc::strong_count(&alive), service.stats().timers.ended),
        (1, 1)
    );
}

/// Those whose runs have only looked at the wall clock, too: that happens when the clock was set,
/// on the pool.
#[test]
fn fire_all_fires_what_looks_at_the_wall_clock_just_then() {
    const TIMERS: u64 = 20_000;
    for inside in [false, true, false, true] {
        let clock = ManualClock::new();
        let service = Arc::new(
            TimerService::builder()
                .clock(clock.clone())
                .dispatch(Dispatch::RayonThreads(2))
                .start()
                .unwrap(),
        );
        let ran = Arc::new(AtomicU64::new(0));
        for _ in 0..TIMERS {
            let ran = ran.clone();
            service
                .schedule_at_system_time(clock.system_time() + MS * 86_400_000, move || {
                    _ = ran.fetch_add(1, Ordering::SeqCst)
                })
                .unwrap();
        }
        if inside {
            let weak = Arc::downgrade(&service);
            let stop = move || {
                assert!(
                    weak.upgrade()
                        .expect("the test has it")
                        .stop_with(StopPolicy::FireAll)
                        .is_empty()
                )
            };
            service.schedule(MS, stop).unwrap();
        }
        clock.set_system_time(clock.system_time() - MS * 1_000);
        clock.advance(MS);
        assert!(service.stop_with(StopPolicy::FireAll).is_empty());
        assert_eq!(
            ran.load(Ordering::SeqCst),
            TIMERS,
            "inside a task: {inside}"
        );
    }
}
