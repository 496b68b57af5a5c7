//! Promise: a slow task does not hold up others while a worker is idle, and a pool whose workers
//! are all blocked loses nothing.
//!
//! Nothing is measured: the slow task waits for the others, so that a task which waits behind it
//! hangs the test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;
use wheelwork::{Batch, Dispatch, ManualClock, TimerService};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Opens when something has happened so often.
struct Gate {
    left: Mutex<usize>,
    open: Condvar,
}

impl Gate {
    fn new(times: usize) -> Arc<Self> {
        Arc::new(Self {
            left: Mutex::new(times),
            open: Condvar::new(),
        })
    }

    fn count(&self) {
        let mut left = self.left.lock().unwrap();
        *left -= 1;
        if *left == 0 {
            self.open.notify_all();
        }
    }

    /// Whether it has opened; `false` means that it does not.
    fn wait(&self) -> bool {
        let left = self.left.lock().unwrap();
        let (_left, timeout) = self
            .open
            .wait_timeout_while(left, HANGS, |left| *left > 0)
            .unwrap();
        !timeout.timed_out()
    }
}

/// Timers due at one tick, some of which wait until all the others have run.
fn all_others_run(threads: usize, timers: usize, slow: impl Fn(usize) -> bool, manual: bool) {
    let slow_ones = (0..timers).filter(|&timer| slow(timer)).count();
    let others = Gate::new(timers - slow_ones);
    let (send, receive) = mpsc::channel();
    let clock = ManualClock::new();
    let builder = TimerService::builder().dispatch(Dispatch::RayonThreads(threads));
    let service = if manual {
        builder.clock(clock.clone())
    } else {
        builder
    }
    .start()
    .unwrap();
    for timer in 0..timers {
        let (others, send) = (others.clone(), send.clone());
        if slow(timer) {
            service
                .schedule(MS * 20, move || send.send(others.wait()).unwrap())
                .unwrap();
        } else {
            service.schedule(MS * 20, move || others.count()).unwrap();
        }
    }
    clock.advance(MS * 20);
    for _ in 0..slow_ones {
        assert_eq!(
            receive.recv(),
            Ok(true),
            "something waits behind a slow task ({threads} threads, {timers} timers)"
        );
    }
    assert!(service.stop().is_empty());
    assert_eq!(service.stats().timers.fired, timers as u64);
}

#[test]
fn one_slow_task_delays_nobody_on_two_workers() {
    for slow in [0, 1, 63, 64, 100, 127, 128, 199] {
        all_others_run(2, 200, |timer| timer == slow, true);
        all_others_run(2, 200, |timer| timer == slow, false);
    }
}

#[test]
fn one_slow_task_delays_nobody_in_a_burst() {
    for slow in [0, 1_023, 1_024, 5_000, 9_999] {
        all_others_run(2, 10_000, |timer| timer == slow, true);
    }
}

#[test]
fn one_slow_task_delays_nobody_in_a_small_batch() {
    for timers in [2, 3, 64, 65] {
        for slow in [0, 1, timers - 1] {
            all_others_run(2, timers, |timer| timer == slow, true);
        }
    }
}

#[test]
fn three_slow_tasks_delay_nobody_on_four_workers() {
    for slow in [[0, 1, 2], [0, 64, 128], [10, 11, 190], [197, 198, 199]] {
        all_others_run(4, 200, |timer| slow.contains(&timer), true);
        all_others_run(4, 200, |timer| slow.contains(&timer), false);
    }
    all_others_run(4, 5_000, |timer| timer % 2_000 == 77, true);
}

/// Runs of periodic timers due at one tick, some of which wait until all the others have run.
#[test]
fn a_slow_run_delays_no_other_run() {
    for (threads, timers) in [(2, 2), (2, 200), (2, 3_000), (4, 200)] {
        let slow = [0, timers / 2, timers - 1];
        let slow = &slow[..if threads == 2 { 1 } else { 3 }];
        for shift in [0, 1, 63, 64] {
            let is_slow = |timer: usize| slow.contains(&((timer + shift) % timers));
            let others = Gate::new(timers - slow.len());
            let (send, receive) = mpsc::channel();
            let clock = ManualClock::new();
            let service = TimerService::builder()
                .clock(clock.clone())
                .dispatch(Dispatch::RayonThreads(threads))
                .start()
                .unwrap();
            for timer in 0..timers {
                let (others, send) = (others.clone(), send.clone());
                let once = service.every(MS).times(1);
                let started = if is_slow(timer) {
                    once.start(move || send.send(others.wait()).unwrap())
                } else {
                    once.start(move || others.count())
                };
                started.unwrap();
            }
            clock.advance(MS);
            for _ in slow {
                assert_eq!(
                    receive.recv(),
                    Ok(true),
                    "a run waits behind a slow one ({threads} threads, {timers} timers)"
                );
            }
            assert!(service.stop().is_empty());
            assert_eq!(service.stats().timers.runs, timers as u64);
        }
    }
}

#[test]
fn a_slow_handler_delays_nobody() {
    for slow in [0u32, 17, 150] {
        let (others, (send, receive)) = (Gate::new(199), mpsc::channel());
        let clock = ManualClock::new();
        let gate = others.clone();
        let handler = move |batch: &mut Batch<'_, u32>| {
            for payload in batch {
                if payload == slow {
                    send.send(gate.wait()).unwrap();
                } else {
                    gate.count();
                }
            }
        };
        let builder = TimerService::builder()
            .clock(clock.clone())
            .dispatch(Dispatch::RayonThreads(2));
        let service = builder.on_expire(handler).start().unwrap();
        (0..200u32).for_each(|payload| _ = service.schedule(MS, payload).unwrap());
        clock.advance(MS);
        assert_eq!(
            receive.recv(),
            Ok(true),
            "something waits behind a slow handler"
        );
        assert!(service.stop().is_empty());
    }
}

/// What comes due later, while a task is slow, runs too.
#[test]
fn a_slow_task_delays_no_later_tick() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::RayonThreads(2))
        .start()
        .unwrap();
    let (others, (send, receive)) = (Gate::new(500), mpsc::channel());
    let gate = others.clone();
    service
        .schedule(MS, move || send.send(gate.wait()).unwrap())
        .unwrap();
    for timer in 0..500 {
        let others = others.clone();
        service
            .schedule(MS * (1 + timer / 10), move || others.count())
            .unwrap();
    }
    (0..60).for_each(|_| clock.advance(MS));
    assert_eq!(receive.recv(), Ok(true));
}

#[test]
fn a_blocked_pool_loses_nothing() {
    let service = TimerService::builder()
        .dispatch(Dispatch::RayonThreads(1))
        .start()
        .unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (send, blocked) = mpsc::channel();
    let task = move || {
        send.send(()).unwrap();
        released.recv().unwrap();
    };
    service.schedule(MS, task).unwrap();
    blocked.recv().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || {
        let ran = ran.clone();
        move || _ = ran.fetch_add(1, Ordering::Relaxed)
    };
    let ids: Vec<_> = (0..3_000)
        .map(|timer| service.schedule(MS * (timer % 5), count()).unwrap())
        .collect();
    // The shard does its part meanwhile: what is due waits for the pool, and can be cancelled
    // there.
    while service.stats().sum(|shard| shard.machinery.dispatched()) < 3_001 {
        std::thread::sleep(MS);
    }
    assert_eq!(
        (ran.load(Ordering::Relaxed), service.stats().timers.fired),
        (0, 1),
        "the only worker is blocked"
    );
    assert!(ids.iter().all(|&id| service.is_pending(id)));
    assert_eq!(
        ids.iter()
            .step_by(3)
            .filter(|&&id| service.cancel(id))
            .count(),
        1_000
    );
    let far = service
        .schedule(Duration::from_secs(3600), count())
        .unwrap();
    release.send(()).unwrap();
    while service.stats().timers.fired < 2_001 {
        std::thread::sleep(MS);
    }
    assert!(service.is_pending(far));
    // Stop waits for what runs.
    assert_eq!(service.stop().len(), 1);
    assert_eq!(
        (ran.load(Ordering::Relaxed), service.stats().timers.fired),
        (2_000, 2_001)
    );
}

#[test]
fn stop_hands_back_what_a_blocked_pool_has_not_begun() {
    let service = Arc::new(
        TimerService::builder()
            .dispatch(Dispatch::RayonThreads(1))
            .start()
            .unwrap(),
    );
    let (release, released) = mpsc::channel::<()>();
    let (send, blocked) = mpsc::channel();
    let task = move || {
        send.send(()).unwrap();
        released.recv().unwrap();
    };
    service.schedule(MS, task).unwrap();
    blocked.recv().unwrap();
    let ids: Vec<_> = (0..1_000)
        .map(|_| {
            service
                .schedule(MS, || unreachable!("handed back"))
                .unwrap()
        })
        .collect();
    while service.stats().sum(|shard| shard.machinery.dispatched()) < 1_001 {
        std::thread::sleep(MS);
    }
    let (stopping, (send, stopped)) = (service.clone(), mpsc::channel());
    let stop = std::thread::spawn(move || send.send(stopping.stop().len()).unwrap());
    while ids.iter().any(|&id| service.is_pending(id)) {
        std::thread::sleep(MS);
    }
    assert!(
        stopped.recv_timeout(MS * 50).is_err(),
        "stop waits for the task that runs"
    );
    release.send(()).unwrap();
    let handed_back = stopped.recv().unwrap();
    stop.join().unwrap();
    assert_eq!(handed_back, 1_000);
    assert_eq!(
        (service.stats().timers.fired, service.stats().panics),
        (1, 0)
    );
}

#[test]
fn what_a_blocked_pool_has_no_room_for_stays_in_the_wheel() {
    const TIMERS: u64 = 200_000;
    // 64 batches of 1,024 may wait; one has begun.
    const ROOM: u64 = 65 * 1024;
    let service = TimerService::builder()
        .dispatch(Dispatch::RayonThreads(1))
        .start()
        .unwrap();
    let (release, blocked) = mpsc::channel::<()>();
    let (begun, wait_until_begun) = mpsc::channel();
    service
        .schedule(Duration::ZERO, move || {
            begun.send(()).unwrap();
            blocked.recv_timeout(HANGS).unwrap();
        })
        .unwrap();
    wait_until_begun.recv_timeout(HANGS).unwrap();
    let ids: Vec<_> = (0..TIMERS)
        .map(|_| service.schedule(MS, || ()).unwrap())
        .collect();
    let dispatched = || service.stats().sum(|shard| shard.machinery.dispatched());
    // All that there is room for waits, and the shard has no room for more.
    let is_full = || {
        let stats = service.stats();
        stats.sum(|shard| shard.machinery.pool_backlog()) >= 64
            && stats.sum(|shard| shard.machinery.held()) > 0
    };
    while !is_full() {
        std::thread::sleep(MS);
    }
    assert!((1..=ROOM).contains(&dispatched()), "{}", dispatched());
    let stats = service.stats();
    // A batch may be a little less than 1,024.
    assert!(
        (64..70).contains(&stats.sum(|shard| shard.machinery.pool_backlog())),
        "{stats:?}"
    );
    assert!(stats.sum(|shard| shard.machinery.held()) > 0);
    assert_eq!((stats.timers.fired, service.len()), (1, TIMERS));
    // It takes in its messages meanwhile.
    let drained = stats.sum(|shard| shard.machinery.drained());
    // Due, not begun: all of it can be cancelled.
    assert!(ids.iter().step_by(2).all(|&id| service.cancel(id)));
    while service.stats().sum(|shard| shard.machinery.drained()) < drained + TIMERS / 2 {
        std::thread::sleep(MS);
    }
    // How late they are is asked for below.
    std::thread::sleep(MS * 50);
    release.send(()).unwrap();
    while service.stats().timers.fired < TIMERS / 2 + 1 {
        std::thread::sleep(MS);
    }
    assert!(service.stop().is_empty());
    let stats = service.stats();
    assert_eq!(
        (
            stats.timers.fired,
            stats.sum(|shard| shard.machinery.pool_backlog())
        ),
        (TIMERS / 2 + 1, 0)
    );
    // They were as late as the worker was blocked.
    assert!(stats.lateness.max() >= MS * 40, "{:?}", stats.lateness);
}

/// Workers that wait for each other run other jobs on top of their stacks meanwhile, as deep as the
/// pool is behind.
#[test]
fn a_pool_that_is_behind_needs_no_deep_stack() {
    const TIMERS: u64 = 200_000;
    // A handler is called at the same depth each time, but for a frame or two. With workers that
    // wait it was 15 KiB here, and megabytes in longer runs.
    const STACK: usize = 4 * 1024;
    thread_local! { static LOWEST_HIGHEST: std::cell::Cell<(usize, usize)> = const { std::cell::Cell::new((usize::MAX, 0)) }; }
    let deepest = Arc::new(AtomicUsize::new(0));
    let seen = deepest.clone();
    let handler = move |batch: &mut Batch<'_, u64>| {
        let marker = 0u8;
        let here = std::ptr::from_ref(std::hint::black_box(&marker)).addr();
        let (lowest, highest) = LOWEST_HIGHEST.get();
        let (lowest, highest) = (lowest.min(here), highest.max(here));
        LOWEST_HIGHEST.set((lowest, highest));
        seen.fetch_max(highest - lowest, Ordering::Relaxed);
        // Slower than the shard, so that jobs wait; and now and then so slow that another worker is
        // done long before.
        batch
            .filter(|payload| payload % 499 == 0)
            .for_each(|_| std::thread::sleep(MS * 2));
    };
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::RayonThreads(4))
        .on_expire(handler)
        .start()
        .unwrap();
    for round in 0..2 {
        (0..TIMERS).for_each(|timer| _ = service.schedule(MS, timer).unwrap());
        clock.advance(MS);
        while service.stats().timers.fired < TIMERS * (round + 1) {
            std::thread::sleep(MS);
        }
    }
    assert!(service.stop().is_empty());
    let deepest = deepest.load(Ordering::Relaxed);
    assert!(deepest < STACK, "{deepest} bytes of stack");
}
