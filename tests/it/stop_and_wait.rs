//! Promise: when `stop` or `cancel_and_wait` returns outside a task, no task runs; inside a task
//! neither waits for itself, whoever stops whom.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, Dispatch, InsideTaskError, ManualClock, StopPolicy, TimerService};

const MS: Duration = Duration::from_millis(1);

#[test]
fn cancel_and_wait_returns_when_the_run_has_ended() {
    let service = TimerService::builder()
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    let (began, begin) = mpsc::channel();
    let done = Arc::new(AtomicBool::new(false));
    let finished = done.clone();
    let id = service
        .schedule(MS, move || {
            began.send(()).unwrap();
            thread::sleep(MS * 20);
            finished.store(true, Ordering::SeqCst);
        })
        .unwrap();
    begin.recv().unwrap();
    assert_eq!(service.cancel_and_wait(id), Ok(false));
    assert!(done.load(Ordering::SeqCst), "it came back too soon");
    // One that waits, and one that is gone.
    let waits = service.schedule(MS * 100_000, || ()).unwrap();
    assert_eq!(
        [
            service.cancel_and_wait(waits),
            service.cancel_and_wait(waits)
        ],
        [Ok(true), Ok(false)]
    );
}

#[test]
fn no_run_of_a_periodic_timer_is_in_progress_after_cancel_and_wait() {
    let service = TimerService::builder()
        .tick(MS / 10)
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    for round in 0..100u32 {
        let gone = Arc::new(AtomicBool::new(false));
        let flag = gone.clone();
        let run = move || {
            assert!(!flag.load(Ordering::SeqCst), "a run begins after the wait");
            thread::sleep(MS / 20);
            assert!(
                !flag.load(Ordering::SeqCst),
                "a run is in progress after the wait"
            );
        };
        let id = service.every(MS / 10).start(run).unwrap();
        thread::sleep(MS / 10 * (round % 5));
        assert_eq!(service.cancel_and_wait(id), Ok(true));
        gone.store(true, Ordering::SeqCst);
    }
    service.stop();
    assert_eq!(service.stats().panics, 0);
}

#[test]
fn cancel_and_wait_from_a_task_is_an_error_and_does_nothing() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let (handle, own, answer) = (
        service.handle(),
        Arc::new(OnceLock::new()),
        Arc::new(Mutex::new(None)),
    );
    let (id, said) = (own.clone(), answer.clone());
    let run = move || *said.lock().unwrap() = Some(handle.cancel_and_wait(*id.get().unwrap()));
    own.set(service.every(MS).start(run).unwrap()).unwrap();
    clock.advance(MS);
    assert_eq!(answer.lock().unwrap().take(), Some(Err(InsideTaskError)));
    assert!(
        service.is_pending(*own.get().unwrap()),
        "nothing was cancelled"
    );
}

/// Each policy, called from a task: inline and in a pool.
#[test]
fn a_task_may_stop_its_service_with_any_policy() {
    for dispatch in [
        Dispatch::Inline,
        Dispatch::RayonThreads(1),
        Dispatch::RayonThreads(2),
    ] {
        for policy in [
            StopPolicy::HandBack,
            StopPolicy::Drain(MS * 100_000),
            StopPolicy::FireAll,
        ] {
            let service = Arc::new(
                TimerService::builder()
                    .dispatch(dispatch.clone())
                    .start()
                    .unwrap(),
            );
            let (fired, stopped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let (done, end) = mpsc::channel();
            let (weak, taken) = (Arc::downgrade(&service), stopped.clone());
            service
                .schedule(MS * 2, move || {
                    // The test has a reference too, and drops it after the message.
                    let service = weak.upgrade().unwrap();
                    taken.fetch_add(service.stop_with(policy).len() as u64, Ordering::SeqCst);
                    assert_eq!(service.stop_with(policy).len(), 0, "once");
                    done.send(()).unwrap();
                })
                .unwrap();
            for _ in 0..100 {
                let fired = fired.clone();
                service
                    .schedule(MS * 100_000, move || {
                        _ = fired.fetch_add(1, Ordering::SeqCst)
                    })
                    .unwrap();
            }
            end.recv_timeout(Duration::from_secs(60))
                .expect("a deadlock");
            service.stop();
            let (fired, stopped) = (fired.load(Ordering::SeqCst), stopped.load(Ordering::SeqCst));
            let all = if policy == StopPolicy::FireAll {
                (fired, stopped) == (100, 0)
            } else {
                (fired, stopped) == (0, 100)
            };
            assert!(
                all,
                "{dispatch:?} {policy:?}: {fired} fired, {stopped} handed back"
            );
        }
    }
}

#[test]
fn what_fire_all_fires_is_inside_a_task() {
    let clock = ManualClock::new();
    let service = TimerService::builder().clock(clock).start().unwrap();
    let (handle, (send, receive)) = (service.handle(), mpsc::channel());
    let id = service.schedule(Duration::from_secs(9), || ()).unwrap();
    service
        .schedule(Duration::from_secs(9), move || {
            send.send(handle.cancel_and_wait(id)).unwrap()
        })
        .unwrap();
    assert!(service.stop_with(StopPolicy::FireAll).is_empty());
    assert_eq!(receive.recv().unwrap(), Err(InsideTaskError));
}

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Runs a test on a thread of its own, and fails if it hangs.
fn in_time<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, done) = mpsc::channel();
    thread::spawn(move || send.send(test()));
    done.recv_timeout(HANGS).expect("a deadlock, or a panic")
}

/// A task that says that it runs, and runs until it is let go.
fn held_task() -> (
    impl FnOnce() + Send + 'static,
    mpsc::Receiver<()>,
    mpsc::Sender<()>,
    Arc<AtomicBool>,
) {
    let ((began, begin), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let done = Arc::new(AtomicBool::new(false));
    let finished = done.clone();
    let task = move || {
        began.send(()).unwrap();
        released.recv_timeout(HANGS).unwrap();
        finished.store(true, Ordering::SeqCst);
    };
    (task, begin, release, done)
}

/// Helpers of a job, others who wait, and a stop: when it returns, no task runs.
#[test]
fn no_task_runs_after_a_stop_while_others_wait() {
    for _ in 0..50 {
        let (running, ran) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (now, all) = (running.clone(), ran.clone());
        let service = TimerService::builder()
            .dispatch(Dispatch::RayonThreads(6))
            .on_expire(move |batch: &mut Batch<'_, u32>| {
                for _ in batch {
                    now.fetch_add(1, Ordering::SeqCst);
                    (0..2_000).for_each(|_| std::hint::spin_loop());
                    now.fetch_sub(1, Ordering::SeqCst);
                    all.fetch_add(1, Ordering::SeqCst);
                }
            });
        let service = service.tick(MS / 10).start().unwrap();
        let gone = service.schedule(HANGS, 0).unwrap();
        assert!(service.cancel(gone));
        (0..600).for_each(|number| _ = service.schedule(MS / 10 * (number / 60), number).unwrap());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        assert_eq!(service.cancel_and_wait(gone), Ok(false));
                    }
                });
            }
            while ran.load(Ordering::SeqCst) < 100 {
                thread::yield_now();
            }
            service.stop();
            let after = running.load(Ordering::SeqCst);
            over.store(true, Ordering::SeqCst);
            assert_eq!(after, 0, "a task runs after stop");
        });
    }
}

#[test]
fn each_stop_outside_a_task_waits_for_the_tasks() {
    let service = Arc::new(
        TimerService::builder()
            .dispatch(Dispatch::RayonThreads(1))
            .start()
            .unwrap(),
    );
    let (task, begin, release, done) = held_task();
    service.schedule(MS, task).unwrap();
    begin.recv_timeout(HANGS).unwrap();
    let stops: Vec<_> = (0..3)
        .map(|_| {
            let (service, done) = (service.clone(), done.clone());
            thread::spawn(move || {
                service.stop();
                assert!(done.load(Ordering::SeqCst), "a task was still running");
            })
        })
        .collect();
    while service.schedule(HANGS, || ()).is_ok() {
        thread::yield_now();
    }
    thread::sleep(MS * 20);
    release.send(()).unwrap();
    stops.into_iter().for_each(|stop| stop.join().unwrap());
}

#[test]
fn the_drop_of_a_service_that_a_task_has_stopped_waits_for_the_tasks() {
    for dispatch in [Dispatch::Inline, Dispatch::RayonThreads(2)] {
        let service = Arc::new(
            TimerService::builder()
                .dispatch(dispatch.clone())
                .start()
                .unwrap(),
        );
        let (rest, begin, release, done) = held_task();
        let weak = Arc::downgrade(&service);
        let task = move || {
            weak.upgrade().expect("the test has it").stop();
            rest();
        };
        service.schedule(MS, task).unwrap();
        begin.recv_timeout(HANGS).unwrap();
        let service = Arc::into_inner(service).expect("the task has let go of it");
        let drop_it = thread::spawn(move || {
            drop(service);
            assert!(
                done.load(Ordering::SeqCst),
                "{dispatch:?}: the task was still running"
            );
        });
        thread::sleep(MS * 20);
        release.send(()).unwrap();
        drop_it.join().unwrap();
    }
}

#[test]
fn tasks_may_stop_each_others_services() {
    in_time(|| {
        let services: [_; 2] = std::array::from_fn(|_| {
            Arc::new(
                TimerService::builder()
                    .dispatch(Dispatch::Inline)
                    .start()
                    .unwrap(),
            )
        });
        let barrier = Arc::new(Barrier::new(2));
        let (done, end) = mpsc::channel();
        for number in 0..2 {
            let (other, barrier, done) =
                (services[1 - number].clone(), barrier.clone(), done.clone());
            let task = move || {
                barrier.wait();
                other.stop();
                drop(other);
                done.send(()).unwrap();
            };
            services[number].schedule(MS, task).unwrap();
        }
        (0..2).for_each(|_| end.recv().unwrap());
    });
}

#[test]
fn a_task_may_stop_its_service_while_a_task_of_another_shard_waits_for_it() {
    in_time(|| {
        let service = Arc::new(
            TimerService::builder()
                .dispatch(Dispatch::Inline)
                .shards(2)
                .start()
                .unwrap(),
        );
        let (mutex, barrier) = (Arc::new(Mutex::new(())), Arc::new(Barrier::new(2)));
        let (done, end) = mpsc::channel();
        for stops in [true, false] {
            let (mutex, barrier, done, service) = (
                mutex.clone(),
                barrier.clone(),
                done.clone(),
                service.clone(),
            );
            // A thread for each, so that each has a shard.
            let arm = move || {
                let weak = Arc::downgrade(&service);
                let task = move || {
                    let guard = stops.then(|| mutex.lock().unwrap());
                    barrier.wait();
                    if stops {
                        weak.upgrade().expect("the test has it").stop();
                    } else {
                        drop(mutex.lock().unwrap());
                    }
                    drop(guard);
                    done.send(()).unwrap();
                };
                service.schedule(MS, task).unwrap();
            };
            thread::spawn(arm).join().unwrap();
        }
        (0..2).for_each(|_| end.recv().unwrap());
        service.stop();
    });
}

#[test]
fn a_users_executor_may_stop_a_service_on_a_manual_clock() {
    in_time(|| {
        let (clock, own) = (
            ManualClock::new(),
            Arc::new(OnceLock::<std::sync::Weak<TimerService>>::new()),
        );
        let service = own.clone();
        let execute = move |job: Box<dyn FnOnce() + Send>| {
            if let Some(service) = service.get().and_then(std::sync::Weak::upgrade) {
                service.stop();
            }
            job();
        };
        let service = Arc::new(
            TimerService::builder()
                .clock(clock.clone())
                .dispatch(Dispatch::executor(execute))
                .start()
                .unwrap(),
        );
        own.set(Arc::downgrade(&service)).unwrap();
        service
            .schedule(MS, || unreachable!("it was handed back"))
            .unwrap();
        clock.advance(MS);
        assert_eq!(service.stats().timers.handed_back, 1);
    });
}

/// The drop of what a timer holds may stop the service that it belongs to.
#[test]
fn the_drop_of_a_closure_may_stop_its_service() {
    struct Owner(Arc<TimerService>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    in_time(|| {
        for policy in [
            StopPolicy::HandBack,
            StopPolicy::Drain(Duration::ZERO),
            StopPolicy::FireAll,
        ] {
            let service = Arc::new(
                TimerService::builder()
                    .dispatch(Dispatch::RayonThreads(1))
                    .start()
                    .unwrap(),
            );
            let owner = Owner(service.clone());
            service.every(HANGS).start(move || _ = &owner).unwrap();
            let owner = Owner(service.clone());
            service.schedule(HANGS, move || drop(owner)).unwrap();
            drop(service.stop_with(policy));
            assert_eq!(Arc::strong_count(&service), 1, "{policy:?}");
        }
    });
}

thread_local! {
    static KEPT: std::cell::RefCell<Option<Stops>> = const { std::cell::RefCell::new(None) };
}

/// Stops its service when it is dropped.
struct Stops(Arc<TimerService>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[test]
fn a_thread_local_of_a_shards_thread_may_stop_its_service() {
    in_time(|| {
        let service = Arc::new(
            TimerService::builder()
                .dispatch(Dispatch::Inline)
                .shards(1)
                .start()
                .unwrap(),
        );
        let (again, (send, kept)) = (service.clone(), mpsc::channel());
        service
            .schedule(MS, move || {
                KEPT.set(Some(Stops(again)));
                send.send(()).unwrap();
            })
            .unwrap();
        kept.recv().unwrap();
        service.stop();
        assert_eq!(Arc::strong_count(&service), 1, "the thread has ended");
    });
}

#[test]
fn an_executor_may_wait_for_what_it_runs_elsewhere() {
    in_time(|| {
        let execute = |job: Box<dyn FnOnce() + Send>| thread::spawn(job).join().unwrap();
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .dispatch(Dispatch::executor(execute))
            .start()
            .unwrap();
        let ran = Arc::new(AtomicU64::new(0));
        for _ in 0..1_000 {
            let ran = ran.clone();
            service
                .schedule(MS, move || _ = ran.fetch_add(1, Ordering::SeqCst))
                .unwrap();
        }
        clock.advance(MS);
        assert_eq!(ran.load(Ordering::SeqCst), 1_000);
    });
}

/// Whatever it is called for: a job, an offer, the offer after that.
#[test]
fn an_executors_function_is_inside_a_task() {
    let (clock, own) = (
        ManualClock::new(),
        Arc::new(OnceLock::<wheelwork::ServiceHandle>::new()),
    );
    let (handle, outside, (jobs, run)) =
        (own.clone(), Arc::new(AtomicU64::new(0)), mpsc::channel());
    let count = outside.clone();
    let execute = move |job: Box<dyn FnOnce() + Send>| {
        if let Some(handle) = handle.get() {
            let gone = handle
                .schedule(HANGS, || ())
                .map(|id| handle.cancel_and_wait(id));
            count.fetch_add(
                u64::from(!matches!(gone, Ok(Err(InsideTaskError)))),
                Ordering::SeqCst,
            );
        }
        jobs.send(job).unwrap();
    };
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::executor(execute))
        .start()
        .unwrap();
    own.set(service.handle())
        .unwrap_or_else(|_| unreachable!("once"));
    let (began, begin) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    for _ in 0..4 {
        let (began, released) = (began.clone(), released.clone());
        service
            .schedule(MS, move || {
                began.send(()).unwrap();
                released.lock().unwrap().recv_timeout(HANGS).unwrap();
            })
            .unwrap();
    }
    clock.advance(MS);
    // The job, and two who help: each of them leaves an offer.
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let worker = thread::spawn({
                let job = run.recv_timeout(HANGS).unwrap();
                move || job()
            });
            begin.recv_timeout(HANGS).unwrap();
            worker
        })
        .collect();
    (0..4).for_each(|_| release.send(()).unwrap());
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    assert_eq!(outside.load(Ordering::SeqCst), 0);
}

/// Who stops a service, or drops it, waits for the tasks that were claimed, and for no more: not
/// for all that is due at the time.
#[test]
fn a_stop_does_not_wait_for_what_is_due_and_not_claimed() {
    const TIMERS: u32 = 5_000;
    /// What a worker claims at once.
    const GRAIN: u64 = 64;
    for dispatch in [Dispatch::Inline, Dispatch::RayonThreads(1)] {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .dispatch(dispatch.clone())
            .start()
            .unwrap();
        let handle = service.handle();
        let (task, begin, release, done) = held_task();
        let (ran, task) = (Arc::new(AtomicU64::new(0)), Mutex::new(Some(task)));
        let task = Arc::new(task);
        for _ in 0..TIMERS {
            let (ran, task) = (ran.clone(), task.clone());
            let first = move || {
                ran.fetch_add(1, Ordering::SeqCst);
                let task = task.lock().unwrap().take();
                task.into_iter().for_each(|task| task());
            };
            service.schedule(MS, first).unwrap();
        }
        let time = thread::spawn(move || clock.advance(MS));
        begin.recv_timeout(HANGS).unwrap();
        let drops = thread::spawn(move || drop(service));
        // In a pool the stop hands back at once. Inline it waits for the turn.
        let is_pool = matches!(dispatch, Dispatch::RayonThreads(_));
        let handed_back = if is_pool {
            u64::from(TIMERS) - GRAIN
        } else {
            0
        };
        while !handle.is_stopped() || handle.stats().timers.handed_back < handed_back {
            thread::yield_now();
        }
        release.send(()).unwrap();
        drops.join().unwrap();
        time.join().unwrap();
        assert!(done.load(Ordering::SeqCst));
        let (ran, timers) = (ran.load(Ordering::SeqCst), handle.stats().timers);
        assert_eq!(
            (ran, ran + timers.handed_back),
            (timers.fired, TIMERS.into())
        );
        assert!(ran <= GRAIN, "{dispatch:?}: {ran} tasks ran");
    }
}
