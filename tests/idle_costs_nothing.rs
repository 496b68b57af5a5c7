//! Promise: idle costs nothing. Once nothing happens any more a shard sleeps for good, whatever
//! happened before.
//!
//! Nothing is gated on how long it takes: a test waits until two looks, six seconds apart, find the
//! same number of wake-ups.

use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, ShardStats, TimerService};

const HOUR: Duration = Duration::from_secs(3600);

/// Long enough to mean that it never comes.
const NEVER: Duration = Duration::from_secs(60);

fn service(shards: usize) -> TimerService<u64> {
    TimerService::builder()
        .shards(shards)
        .on_expire(|batch: &mut Batch<'_, u64>| batch.for_each(drop))
        .start()
        .unwrap()
}

fn wakeups(service: &TimerService<u64>) -> u64 {
    service.stats().sum(|shard| shard.machinery.wakeups())
}

/// Waits until all shards sleep for good.
fn sleeps_for_good(service: &TimerService<u64>) {
    let start = Instant::now();
    loop {
        let before = wakeups(service);
        thread::sleep(Duration::from_secs(6));
        if wakeups(service) == before {
            return;
        }
        assert!(start.elapsed() < NEVER, "a shard still wakes up");
    }
}

#[test]
fn after_all_was_cancelled() {
    let service = service(1);
    let ids: Vec<_> = (0..300_000)
        .map(|timer| service.schedule(HOUR, timer).unwrap())
        .collect();
    assert!(ids.into_iter().all(|id| service.cancel(id)));
    sleeps_for_good(&service);
}

/// One timer in each page of cells lives on: there is much to gather, and no page to give back.
#[test]
fn after_all_but_a_few_were_cancelled() {
    const PAGE: u64 = 4096;
    let service = service(1);
    let ids: Vec<_> = (0..400_000)
        .map(|timer| (timer, service.schedule(10 * HOUR, timer).unwrap()))
        .collect();
    let cancelled = ids
        .iter()
        .filter(|(timer, id)| timer % PAGE != 7 && service.cancel(*id))
        .count();
    sleeps_for_good(&service);
    assert_eq!(service.stop().len(), ids.len() - cancelled);
}

#[test]
fn after_a_million_have_fired() {
    let service = service(1);
    (0..1_000_000).for_each(|timer| {
        _ = service
            .schedule(Duration::from_millis(timer % 300), timer)
            .unwrap()
    });
    while service.stats().timers.fired < 1_000_000 {
        thread::sleep(Duration::from_millis(10));
    }
    sleeps_for_good(&service);
}

/// Each shard asks for upkeep of the memory that all shards have. One of them sees to it.
#[test]
fn where_there_are_many_shards() {
    let service = service(300);
    let arm = |timer| {
        service
            .schedule_on(timer as usize % 300, HOUR, timer)
            .unwrap()
    };
    let ids: Vec<_> = (0..3_000).map(arm).collect();
    assert!(ids.into_iter().all(|id| service.cancel(id)));
    (0..3_000).for_each(|timer| _ = arm(timer));
    sleeps_for_good(&service);
}

/// Messages that come to a shard that sleeps until its only deadline, an hour away, and that are
/// due after it. The shard takes them in all the same, but for some thousand of them, so that what
/// was cancelled does not keep its memory for the hour.
#[test]
fn what_is_cancelled_while_a_shard_sleeps_for_long() {
    const SOME: u64 = 1_024 + 2 * 256;
    const TIMERS: u64 = 30_000;
    let in_lanes = |service: &TimerService<u64>| {
        let depth = |shard: &ShardStats| shard.machinery.lane_depth();
        service.stats().sum(depth)
    };
    let service = service(1);
    service.schedule(HOUR, 0).unwrap();
    sleeps_for_good(&service);
    let ids: Vec<_> = (0..TIMERS)
        .map(|timer| service.schedule(2 * HOUR, timer).unwrap())
        .collect();
    sleeps_for_good(&service);
    assert!(in_lanes(&service) <= SOME, "{} inserts", in_lanes(&service));
    // (By another thread: its cancels are messages.)
    thread::scope(|scope| {
        scope.spawn(|| assert!(ids.into_iter().all(|id| service.cancel(id))));
    });
    sleeps_for_good(&service);
    assert!(in_lanes(&service) <= SOME, "{} cancels", in_lanes(&service));
    let entries = service.stats().sum(|shard| shard.machinery.entries());
    assert!(entries <= SOME, "{entries} entries");
}
