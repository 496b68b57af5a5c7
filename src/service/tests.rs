//! Threads that end, and what they leave.

use super::{ServiceHandle, TimerService};
use crate::sync::{AtomicBool, Ordering};
use crate::time::ManualClock;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3_600);

/// Long enough to mean that something stays for ever.
const STAYS: Duration = Duration::from_secs(60);

/// Shards of the services, each with its spare lanes.
const SHARDS: usize = 2;
const LANES_MAX: usize = SHARDS * crate::lane::SPARE_LANES;

/// Timers that a thread arms. It cancels all of them but one.
const TIMERS: u64 = 10;

/// As many threads at one time. Returns how many lanes there were then.
fn threads_come_and_go(service: &ServiceHandle, threads: usize) -> usize {
    let all_are_there = Barrier::new(threads + 1);
    let all_may_go = Barrier::new(threads + 1);
    let stay_for_a_while = || {
        let ids: Vec<_> = (0..TIMERS)
            .map(|_| service.schedule(HOUR, || ()).unwrap())
            .collect();
        all_are_there.wait();
        assert!(ids[1..].iter().all(|&id| service.cancel(id)));
        all_may_go.wait();
    };
    thread::scope(|scope| {
        let spawn = |_| {
            let builder = thread::Builder::new().stack_size(64 << 10);
            builder.spawn_scoped(scope, stay_for_a_while).unwrap()
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        all_are_there.wait();
        let lanes = lanes(service);
        all_may_go.wait();
        // (The end of a scope does not wait for the ends of thread-locals.)
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        lanes
    })
}

fn lanes(service: &ServiceHandle) -> usize {
    let shared = &service.engine.cells.shared;
    (0..SHARDS)
        .map(|shard| shared.inbox(shard).lane_count())
        .sum()
}

fn wait_for_few_lanes(service: &ServiceHandle) {
    let start = Instant::now();
    while lanes(service) > LANES_MAX {
        assert!(start.elapsed() < STAYS, "{} lanes stay", lanes(service));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn lanes_of_threads_that_have_ended_go_with_time() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().shards(SHARDS);
    let service = builder.clock(clock.clone()).start().unwrap();
    for wave in 1..=3 {
        assert!(threads_come_and_go(&service, 1_000) >= 1_000);
        // The turns of an advance come before it moves the time, if nothing is due.
        (0..2).for_each(|_| clock.advance(Duration::from_millis(500)));
        assert_eq!(lanes(&service), LANES_MAX);
        let timers = service.stats().timers;
        assert_eq!(
            (timers.armed, timers.cancelled),
            (wave * 1_000 * TIMERS, wave * 1_000 * (TIMERS - 1))
        );
    }
    assert_eq!(service.len(), 3_000);
    clock.advance(HOUR);
    assert_eq!(service.stats().timers.fired, 3_000);
}

/// Its shards sleep until an hour has passed, unless somebody rings.
#[test]
fn threads_that_end_wake_a_shard_that_sleeps() {
    let service = TimerService::builder().shards(SHARDS).start().unwrap();
    for _ in 0..3 {
        threads_come_and_go(&service, 1_000);
        wait_for_few_lanes(&service);
    }
    assert_eq!(service.stop().len(), 3_000);
}

/// Some threads end while others come, one arms and cancels all the time, and one looks on.
#[test]
fn no_timer_is_lost_with_a_lane() {
    let service = TimerService::builder().shards(SHARDS).start().unwrap();
    let is_over = AtomicBool::new(false);
    // Ordering: Relaxed. The scope ends when all threads have seen it.
    let goes_on = || !is_over.load(Ordering::Relaxed);
    let cancelled = thread::scope(|scope| {
        let looks_on = scope.spawn(|| {
            while goes_on() {
                assert!(service.stats().timers.armed < u64::MAX);
            }
        });
        let busy = scope.spawn(|| {
            let mut cancelled = 0;
            while goes_on() {
                cancelled += u64::from(service.cancel(service.schedule(HOUR, || ()).unwrap()));
            }
            cancelled
        });
        let waves = [(); 2]
            .map(|()| scope.spawn(|| (0..10).for_each(|_| _ = threads_come_and_go(&service, 100))));
        waves.into_iter().for_each(|wave| wave.join().unwrap());
        // Ordering: Relaxed. As above.
        is_over.store(true, Ordering::Relaxed);
        looks_on.join().unwrap();
        busy.join().unwrap()
    });
    wait_for_few_lanes(&service);
    let timers = service.stats().timers;
    assert_eq!(timers.cancelled, cancelled + 2_000 * (TIMERS - 1));
    assert_eq!(timers.armed - timers.cancelled, 2_000);
    assert_eq!(service.stop().len(), 2_000);
}
