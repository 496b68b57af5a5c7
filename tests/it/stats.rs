//! Promise: every timer is counted, once for each thing that happens to it, whichever threads do it
//! and whether they are still there.

use crate::blocked::block_a_worker;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, Dispatch, ManualClock, ShardStats, Stats, TimerService};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn figure(shard: &ShardStats, name: &str) -> u64 {
    shard.machinery.figure(name).unwrap()
}

/// The entries in each level of the wheel.
fn levels(shard: &ShardStats) -> [u64; 7] {
    std::array::from_fn(|level| figure(shard, &format!("level_{level}")))
}

fn manual(shards: usize) -> (TimerService<u32>, ManualClock) {
    let clock = ManualClock::new();
    let builder = TimerService::builder()
        .clock(clock.clone())
        .tick(MS)
        .shards(shards);
    (
        builder
            .on_expire(|batch: &mut Batch<'_, u32>| batch.for_each(drop))
            .start()
            .unwrap(),
        clock,
    )
}

/// Armed, fired, cancelled, handed back, pending.
fn outcomes(stats: &Stats) -> [u64; 5] {
    assert_eq!(stats.sum(|shard| shard.timers.fired), stats.timers.fired);
    assert_eq!(stats.sum(|shard| shard.timers.armed), stats.timers.armed);
    assert_eq!(stats.lateness.count(), stats.timers.fired);
    [
        stats.timers.armed,
        stats.timers.fired,
        stats.timers.cancelled,
        stats.timers.handed_back,
        stats.timers.pending,
    ]
}

#[test]
fn every_outcome_is_counted() {
    let (service, clock) = manual(1);
    assert!(service.is_empty());
    let ids: Vec<_> = (0..1_000u32)
        .map(|timer| service.schedule(MS * (1 + timer % 10), timer).unwrap())
        .collect();
    assert_eq!(service.len(), 1_000);
    assert!(ids.iter().skip(5).step_by(10).all(|&id| service.cancel(id)));
    assert!(
        ids.iter()
            .skip(5)
            .step_by(10)
            .all(|&id| !service.cancel(id)),
        "which counts nothing"
    );
    assert!(service.take(ids[7]).is_some());
    assert_eq!(outcomes(&service.stats()), [1_000, 0, 101, 0, 899]);
    clock.advance(MS * 4);
    assert_eq!(outcomes(&service.stats()), [1_000, 400, 101, 0, 499]);
    assert_eq!(service.stop().len(), 499);
    assert!(service.schedule(MS, 1).is_err());
    assert_eq!(outcomes(&service.stats()), [1_000, 400, 101, 499, 0]);
    assert!(service.is_empty());
}

#[test]
fn threads_that_have_ended_are_counted() {
    let service = TimerService::builder()
        .shards(3)
        .on_expire(|batch: &mut Batch<'_, u32>| batch.for_each(drop))
        .start()
        .unwrap();
    for _ in 0..10 {
        thread::scope(|scope| {
            for _ in 0..4 {
                let (send, receive) = mpsc::channel();
                let (arming, cancelling) = (service.handle(), service.handle());
                scope.spawn(move || {
                    (0..500u32)
                        .for_each(|timer| send.send(arming.schedule(HOUR, timer).unwrap()).unwrap())
                });
                scope.spawn(move || {
                    receive
                        .iter()
                        .step_by(2)
                        .for_each(|id| assert!(cancelling.cancel(id)))
                });
            }
        });
    }
    let stats = service.stats();
    assert_eq!(outcomes(&stats), [20_000, 0, 10_000, 0, 10_000]);
    // Each thread's timers go to one shard, and threads are spread evenly.
    assert!(
        stats.shards.iter().all(|shard| shard.timers.armed > 0
            && shard.timers.armed == shard.timers.cancelled + shard.timers.pending),
        "{stats:?}"
    );
    assert_eq!(service.stop().len(), 10_000);
    assert_eq!(outcomes(&service.stats()), [20_000, 0, 10_000, 10_000, 0]);
}

#[test]
fn messages_that_wait_and_holes_are_counted() {
    let (service, clock) = manual(1);
    let shard = || service.stats().shards[0];
    let ids: Vec<_> = (0..100)
        .map(|timer| service.schedule(HOUR, timer).unwrap())
        .collect();
    assert_eq!(
        (
            shard().machinery.lane_depth(),
            shard().machinery.drained(),
            figure(&shard(), "holes")
        ),
        (100, 0, 0)
    );
    clock.advance(Duration::ZERO);
    assert_eq!(
        (
            shard().machinery.lane_depth(),
            shard().machinery.drained(),
            figure(&shard(), "holes")
        ),
        (0, 100, 0)
    );
    assert!(ids.iter().take(20).all(|&id| service.cancel(id)));
    assert_eq!(
        (shard().machinery.lane_depth(), figure(&shard(), "holes")),
        (20, 0)
    );
    clock.advance(Duration::ZERO);
    // A turn, and the look for the next event, which compacts.
    assert_eq!(
        (
            shard().machinery.lane_depth(),
            shard().machinery.drained(),
            figure(&shard(), "holes"),
            figure(&shard(), "compactions")
        ),
        (0, 120, 0, 1)
    );
    // Behind a slot that is all alive dead entries are left alone.
    service.schedule(MS, 0).unwrap();
    clock.advance(Duration::ZERO);
    assert!(ids.iter().skip(20).take(10).all(|&id| service.cancel(id)));
    clock.advance(Duration::ZERO);
    assert_eq!(
        (figure(&shard(), "holes"), figure(&shard(), "compactions")),
        (10, 1)
    );
    clock.advance(HOUR);
    assert_eq!(
        (
            figure(&shard(), "holes"),
            shard().timers.pending,
            service.stats().timers.fired
        ),
        (0, 0, 71)
    );
}

/// From the lanes to their levels, down a level at a time, and out; cancelled ones as long as they
/// are there.
#[test]
fn the_entries_of_each_level_are_counted() {
    let (service, clock) = manual(1);
    let shard = || service.stats().shards[0];
    let far = [
        (MS * 100, 10),
        (MS * 10_000, 40),
        (HOUR, 30),
        (HOUR * 24 * 40, 20),
        (HOUR * 24 * 365, 1),
    ];
    let armed: Vec<Vec<_>> = far
        .iter()
        .map(|&(delay, timers)| {
            (0..timers)
                .map(|timer| service.schedule(delay, timer).unwrap())
                .collect()
        })
        .collect();
    assert_eq!(
        (shard().machinery.lane_depth(), levels(&shard())),
        (101, [0; 7])
    );
    clock.advance(Duration::ZERO);
    assert_eq!(
        (shard().machinery.lane_depth(), levels(&shard())),
        (0, [10, 40, 30, 20, 1, 0, 0])
    );
    // The dead ones of a slot that comes later stay as long as they are few.
    assert!(armed[1].iter().take(15).all(|&id| service.cancel(id)));
    clock.advance(Duration::ZERO);
    assert_eq!(
        (
            shard().timers.pending,
            figure(&shard(), "holes"),
            levels(&shard())
        ),
        (86, 15, [10, 40, 30, 20, 1, 0, 0])
    );
    clock.advance(MS * 9_990);
    // (A shard without an event takes no turn.)
    clock.advance(Duration::ZERO);
    assert_eq!(
        (service.stats().timers.fired, levels(&shard())),
        (10, [25, 0, 30, 20, 1, 0, 0])
    );
    clock.advance(HOUR - MS * 10_000);
    clock.advance(Duration::ZERO);
    assert_eq!(
        (service.stats().timers.fired, levels(&shard())),
        (35, [30, 0, 0, 20, 1, 0, 0])
    );
    assert!(armed[2].iter().all(|&id| service.cancel(id)));
    clock.advance(Duration::ZERO);
    // The first ones of all are dead, and are cleared away before the shard looks when to wake up.
    assert_eq!(
        (
            shard().timers.pending,
            figure(&shard(), "holes"),
            levels(&shard())
        ),
        (21, 0, [0, 0, 0, 20, 1, 0, 0])
    );
    clock.advance(HOUR * 24 * 365);
    assert_eq!(
        (
            shard().timers.pending,
            shard().machinery.due(),
            levels(&shard())
        ),
        (0, 0, [0; 7])
    );
}

#[test]
fn what_is_due_and_has_to_wait_is_counted() {
    let clock = ManualClock::new();
    let (builder, receiver) = TimerService::builder()
        .shards(1)
        .clock(clock.clone())
        .on_expire_channel(Some(1));
    let service = builder.start().unwrap();
    (0..500u32).for_each(|timer| _ = service.schedule(MS, timer).unwrap());
    clock.advance(MS * 2);
    let mut received = 0;
    while received < 500 {
        let shard = service.stats().shards[0];
        assert_eq!(
            (
                shard.machinery.dispatched() + shard.machinery.due(),
                levels(&shard)
            ),
            (500, [0; 7])
        );
        assert!(
            shard.machinery.due() > 0 || shard.timers.pending < 64,
            "{shard:?}"
        );
        received += receiver.try_iter().map(|batch| batch.len()).sum::<usize>();
        clock.advance(Duration::ZERO);
    }
    assert_eq!(service.stats().shards[0].machinery.due(), 0);
}

/// A service on a manual clock whose only worker is held up, and what lets it go on.
#[test]
fn lateness_and_the_backlog_of_a_blocked_worker_are_seen() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::RayonThreads(1))
        .start()
        .unwrap();
    let release = block_a_worker(&service, &clock);
    // Due 100 ms and 10 ms before the worker is there.
    (0..90).for_each(|_| _ = service.schedule(MS, || ()).unwrap());
    (0..10).for_each(|_| _ = service.schedule(MS * 91, || ()).unwrap());
    clock.advance(MS * 101);
    assert_eq!(
        (
            service.stats().shards[0].machinery.pool_backlog(),
            service.len()
        ),
        (2, 100)
    );
    release.send(()).unwrap();
    while service.stats().timers.fired < 101 {
        thread::sleep(MS);
    }
    let stats = service.stats();
    let lateness = &stats.lateness;
    assert_eq!(
        (
            stats.shards[0].machinery.pool_backlog(),
            lateness.count(),
            lateness.max()
        ),
        (0, 101, MS * 100)
    );
    assert_eq!(
        lateness
            .buckets()
            .map(|(_, timers)| timers)
            .collect::<Vec<_>>(),
        [1, 10, 90]
    );
    assert!(
        lateness
            .buckets()
            .skip(1)
            .zip([MS * 10, MS * 100])
            .all(|((range, _), late)| range.contains(&late))
    );
    let a_quarter_more = |late: Duration| late..=late + late / 4;
    assert!(
        a_quarter_more(MS * 10).contains(&lateness.quantile(0.1)),
        "{lateness:?}"
    );
    assert_eq!(
        (lateness.quantile(0.0), lateness.quantile(0.5)),
        (Duration::from_nanos(1_024).min(lateness.max()), MS * 100)
    );
}
