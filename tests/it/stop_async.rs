//! Promise: `stop_async` is `stop` without blocking its caller: under any runtime, from anywhere,
//! beside other stops, and though its future is dropped.

use crate::quiet::panic_on_purpose;
use futures_lite::future::{block_on, poll_once};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, Dispatch, ManualClock, ScheduleError, StopFuture, StopPolicy};
use wheelwork::{Task, TimerService, Unfired};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// A task that says that it runs, and runs until it is let go.
struct Held {
    begun: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
    done: Arc<AtomicBool>,
}

impl Held {
    fn task() -> (impl FnOnce() + Send + 'static, Self) {
        let ((began, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let done = Arc::new(AtomicBool::new(false));
        let finished = done.clone();
        let task = move || {
            began.send(()).unwrap();
            released.recv_timeout(HANGS).unwrap();
            finished.store(true, Ordering::SeqCst);
        };
        let held = Self {
            begun,
            release,
            done,
        };
        (task, held)
    }

    /// One that runs in a service.
    fn running(service: &TimerService) -> Self {
        let (task, held) = Self::task();
        service.schedule(MS, task).unwrap();
        held.begun.recv_timeout(HANGS).unwrap();
        held
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }
}

fn service(dispatch: Dispatch) -> TimerService {
    TimerService::builder().dispatch(dispatch).start().unwrap()
}

/// A service of numbers on a manual clock, with timers after 1, 2, ... 10 ms; and what has fired.
fn ten(clock: &ManualClock) -> (TimerService<u64>, mpsc::Receiver<u64>) {
    let (send, fired) = mpsc::channel();
    let service = TimerService::builder().clock(clock.clone()).on_expire(
        move |batch: &mut Batch<'_, u64>| {
            batch.for_each(|payload| send.send(payload).unwrap());
        },
    );
    let service = service.start().unwrap();
    (1..=10).for_each(|delay| _ = service.schedule(MS * delay as u32, delay).unwrap());
    (service, fired)
}

fn payloads(unfired: Vec<Unfired<u64>>) -> Vec<u64> {
    let mut payloads: Vec<_> = unfired.into_iter().map(|unfired| unfired.payload).collect();
    payloads.sort_unstable();
    payloads
}

/// Waits for something that another thread does.
fn until(is_so: impl Fn() -> bool) {
    let mut tries = HANGS.as_millis();
    while !is_so() {
        tries = tries.checked_sub(1).expect("it does not come");
        thread::sleep(MS);
    }
}

#[test]
fn it_yields_what_stop_returns_under_any_runtime() {
    type Run = fn(StopFuture<u64>) -> Vec<Unfired<u64>>;
    let runtimes: [Run; 3] = [
        |stop| block_on(stop),
        |stop| smol::block_on(smol::spawn(stop)),
        |stop| {
            let tokio = tokio::runtime::Builder::new_multi_thread();
            let tokio = { tokio }.worker_threads(1).build().unwrap();
            tokio.block_on(async { tokio.spawn(stop).await.unwrap() })
        },
    ];
    for run in runtimes {
        let clock = ManualClock::new();
        let (service, fired) = ten(&clock);
        clock.advance(MS * 4);
        let stop = service.stop_async();
        assert!(service.is_stopped());
        assert!(matches!(
            service.schedule(MS, 77),
            Err(ScheduleError::Stopped(77))
        ));
        assert_eq!(payloads(run(stop)), [5, 6, 7, 8, 9, 10]);
        clock.advance(MS * 100);
        assert_eq!(fired.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(service.stop().is_empty(), "once");
    }
}

#[test]
fn it_waits_for_the_tasks_and_does_not_block_its_caller() {
    for dispatch in [Dispatch::Inline, Dispatch::RayonThreads(1)] {
        let service = service(dispatch.clone());
        let held = Held::running(&service);
        let unfired = Arc::new(());
        let payload = unfired.clone();
        service.schedule(HANGS, move || drop(payload)).unwrap();
        // Both come back while the task runs.
        let mut stop = service.stop_async();
        assert!(block_on(poll_once(&mut stop)).is_none(), "{dispatch:?}");
        assert!(!held.is_done() && service.is_stopped());
        held.release.send(()).unwrap();
        assert_eq!(block_on(&mut stop).len(), 1);
        assert!(held.is_done(), "{dispatch:?}: a task was still running");
        assert_eq!(Arc::strong_count(&unfired), 1);
        // Polled once more.
        assert!(block_on(stop).is_empty());
    }
}

#[test]
fn a_stop_whose_future_is_dropped_goes_on() {
    struct Bomb(Arc<()>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            // The first one.
            if Arc::strong_count(&self.0) == 11 {
                panic_on_purpose();
            }
        }
    }
    // Dropped before the stop is over, and after.
    for early in [true, false] {
        let service = service(Dispatch::RayonThreads(1));
        let held = Held::running(&service);
        let alive = Arc::new(());
        for _ in 0..10 {
            let payload = alive.clone();
            service.schedule(HANGS, move || drop(payload)).unwrap();
        }
        let (stop, other) = (service.stop_async(), service.stop_async());
        if early {
            drop(stop);
            held.release.send(()).unwrap();
            assert!(block_on(other).is_empty(), "the first one hands back");
        } else {
            held.release.send(()).unwrap();
            assert!(block_on(other).is_empty());
            drop(stop);
        }
        until(|| Arc::strong_count(&alive) == 1);
        assert_eq!(service.stats().timers.handed_back, 10);
    }
    // A payload whose drop panics costs no other its drop.
    let service = service(Dispatch::RayonThreads(1));
    let held = Held::running(&service);
    let alive = Arc::new(());
    for _ in 0..10 {
        let bomb = Bomb(alive.clone());
        service.schedule(HANGS, move || drop(bomb)).unwrap();
    }
    drop(service.stop_async());
    held.release.send(()).unwrap();
    until(|| Arc::strong_count(&alive) == 1 && service.stats().hook_panics == 1);
}

/// Beside each other, beside `stop`, and beside the drop of the service: each timer comes back
/// once, and each of them waits for the tasks.
#[test]
fn several_stops_hand_back_once_and_each_waits() {
    for round in 0..3 {
        let service = Arc::new(service(Dispatch::RayonThreads(2)));
        let held = Held::running(&service);
        (0..100).for_each(|_| _ = service.schedule(HANGS, || ()).unwrap());
        let first = (round != 0).then(|| service.stop_async());
        let (blocking, done) = (service.clone(), held.done.clone());
        let blocking = thread::spawn(move || {
            let unfired = blocking.stop();
            assert!(done.load(Ordering::SeqCst), "a task was still running");
            drop(blocking);
            unfired.len()
        });
        until(|| service.is_stopped());
        let last = service.stop_async();
        let drops = (round == 2).then(|| {
            let service = service.clone();
            thread::spawn(move || drop(service))
        });
        held.release.send(()).unwrap();
        let mut all = blocking.join().unwrap();
        for stop in first.into_iter().chain([last]) {
            all += block_on(stop).len();
            assert!(held.is_done());
        }
        assert_eq!(all, 100, "round {round}");
        drops.into_iter().for_each(|drops| drops.join().unwrap());
        assert_eq!(service.stats().timers.handed_back, 100);
    }
}

#[test]
fn the_drop_of_the_service_waits_for_it_and_the_future_lives_on() {
    let service = service(Dispatch::RayonThreads(1));
    let held = Held::running(&service);
    service.schedule(HANGS, || ()).unwrap();
    let stop = service.stop_async();
    let done = held.done.clone();
    let drops = thread::spawn(move || {
        drop(service);
        assert!(done.load(Ordering::SeqCst), "a task was still running");
    });
    held.release.send(()).unwrap();
    drops.join().unwrap();
    assert_eq!(block_on(stop).len(), 1);
}

#[test]
fn a_stop_ends_the_drain_of_another_one() {
    let clock = ManualClock::new();
    let (service, fired) = ten(&clock);
    let mut drain = service.stop_async_with(StopPolicy::Drain(MS * 1_000));
    clock.advance(MS * 3);
    assert!(service.is_stopped() && service.schedule(MS, 77).is_err());
    assert!(block_on(poll_once(&mut drain)).is_none());
    // The time stands still, so the drain would never end.
    let mut all = payloads(service.stop());
    assert!(block_on(drain).is_empty());
    all.extend(fired.try_iter());
    all.sort_unstable();
    assert_eq!(all, (1..=10).collect::<Vec<_>>());
}

/// A timer for a time of day is what the first stop fires, and no drain that comes later ends it.
#[test]
fn a_drain_ends_nothing_that_another_stop_fires() {
    let service = Arc::new(service(Dispatch::Inline));
    let (task, held) = Held::task();
    service.schedule(MS, task).unwrap();
    let (ran, has_run) = mpsc::channel();
    let run = move || ran.send(()).unwrap();
    let at = service.system_time() + HANGS;
    let id = service.schedule_at_system_time(at, run).unwrap();
    held.begun.recv_timeout(HANGS).unwrap();
    // It waits for the shard's thread, which has the task.
    let first = service.stop_async_with(StopPolicy::FireAll);
    let other = service.clone();
    let drain = thread::spawn(move || other.stop_with(StopPolicy::Drain(Duration::ZERO)));
    // Time for the drain to do what it must not.
    for _ in 0..50 {
        thread::sleep(MS);
        assert!(service.is_pending(id), "the drain has ended it");
    }
    held.release.send(()).unwrap();
    assert!(block_on(first).is_empty() && drain.join().unwrap().is_empty());
    assert_eq!(has_run.try_recv(), Ok(()));
}

#[test]
fn each_policy_does_what_it_does_in_stop_with() {
    let clock = ManualClock::new();
    let (service, fired) = ten(&clock);
    assert!(block_on(service.stop_async_with(StopPolicy::FireAll)).is_empty());
    let mut all: Vec<_> = fired.try_iter().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=10).collect::<Vec<_>>());
    for policy in [
        StopPolicy::Drain(MS * 6),
        StopPolicy::DrainWithPeriodic(MS * 6),
    ] {
        let clock = ManualClock::new();
        let (service, fired) = ten(&clock);
        let drain = service.stop_async_with(policy);
        // Nobody waits for the thread that moves the time.
        let over = Arc::new(AtomicBool::new(false));
        let time = thread::spawn({
            let over = over.clone();
            move || {
                while !over.load(Ordering::SeqCst) {
                    clock.advance(MS);
                    thread::sleep(MS);
                }
            }
        });
        let mut all = payloads(block_on(drain));
        over.store(true, Ordering::SeqCst);
        time.join().unwrap();
        let first: Vec<_> = fired.try_iter().collect();
        assert!(first.starts_with(&[1, 2, 3, 4, 5, 6]), "{first:?}");
        all.extend(first);
        all.sort_unstable();
        assert_eq!(all, (1..=10).collect::<Vec<_>>());
    }
}

/// The future is ready when the task has ended that called for it, wherever that runs.
#[test]
fn a_task_may_call_it() {
    for dispatch in [
        Dispatch::Inline,
        Dispatch::RayonThreads(1),
        Dispatch::RayonThreads(2),
    ] {
        for policy in [
            StopPolicy::HandBack,
            StopPolicy::Drain(Duration::ZERO),
            StopPolicy::FireAll,
        ] {
            let service = Arc::new(service(dispatch.clone()));
            let (send, stops) = mpsc::channel();
            let (rest, held) = Held::task();
            let weak = Arc::downgrade(&service);
            let task = move || {
                let service = weak.upgrade().expect("the test has it");
                send.send(service.stop_async_with(policy)).unwrap();
                drop(service);
                rest();
            };
            let fired = Arc::new(AtomicU64::new(0));
            for _ in 0..10 {
                let fired = fired.clone();
                let payload = move || _ = fired.fetch_add(1, Ordering::SeqCst);
                service.schedule(HANGS, payload).unwrap();
            }
            service.schedule(MS, task).unwrap();
            let mut stop = stops.recv_timeout(HANGS).unwrap();
            held.begun.recv_timeout(HANGS).unwrap();
            assert!(block_on(poll_once(&mut stop)).is_none());
            held.release.send(()).unwrap();
            let unfired = block_on(stop).len() as u64;
            assert!(held.is_done(), "{dispatch:?} {policy:?}");
            let all = (unfired, fired.load(Ordering::SeqCst));
            let fires_all = policy == StopPolicy::FireAll;
            assert_eq!(all, if fires_all { (0, 10) } else { (10, 0) });
        }
    }
}

/// Counts how often it is woken.
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_last_waker_is_woken_once() {
    let service = service(Dispatch::RayonThreads(1));
    let held = Held::running(&service);
    let mut stop = pin!(service.stop_async());
    let wakes = [(); 2].map(|()| Arc::new(Count(AtomicU64::new(0))));
    for count in &wakes {
        let waker = Waker::from(count.clone());
        assert!(
            stop.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    assert_eq!(Arc::strong_count(&wakes[0]), 1, "the first one is let go");
    held.release.send(()).unwrap();
    until(|| wakes[1].0.load(Ordering::SeqCst) > 0);
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(stop.as_mut().poll(&mut context), Poll::Ready(unfired) if unfired.is_empty()));
    assert_eq!(wakes[0].0.load(Ordering::SeqCst), 0);
    assert_eq!(wakes[1].0.load(Ordering::SeqCst), 1);
}

/// A waker is the user's, and may panic.
#[test]
fn a_waker_that_panics_is_counted() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic_on_purpose();
        }
    }
    let service = service(Dispatch::RayonThreads(1));
    let held = Held::running(&service);
    let mut stop = service.stop_async();
    let waker = Waker::from(Arc::new(Bomb));
    let mut context = Context::from_waker(&waker);
    assert!(
        std::pin::Pin::new(&mut stop)
            .poll(&mut context)
            .is_pending()
    );
    held.release.send(()).unwrap();
    until(|| service.stats().hook_panics == 1);
    assert!(block_on(stop).is_empty());
}

/// What users hold: a field, an `Arc`, a reference. The future goes where it likes.
#[test]
fn the_future_borrows_nothing() {
    fn goes_anywhere<F: Future + Send + Unpin + 'static>(future: F) -> F {
        future
    }
    struct App {
        timers: Option<TimerService<Task>>,
    }
    let mut app = App {
        timers: Some(service(Dispatch::RayonThreads(1))),
    };
    let stop = goes_anywhere(app.timers.as_ref().unwrap().stop_async());
    app.timers = None;
    assert!(block_on(stop).is_empty());
}

/// `stop` on the thread that would have to run the jobs: what has not begun is not waited for.
#[test]
fn a_stop_on_the_only_thread_of_an_executor_does_not_hang() {
    let (send, ended) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let unfired = runtime.block_on(async {
            let handle = tokio::runtime::Handle::current();
            let (given, is_given) = mpsc::channel();
            let execute = move |job: Box<dyn FnOnce() + Send>| {
                drop(handle.spawn(async move { job() }));
                let _ = given.send(());
            };
            let service = service(Dispatch::executor(execute));
            service.schedule(MS, || unreachable!()).unwrap();
            // The thread is blocked here, so the runtime has not run the job.
            is_given.recv().unwrap();
            service.stop().len()
        });
        send.send(unfired).unwrap();
    });
    assert_eq!(ended.recv_timeout(HANGS), Ok(1));
}
