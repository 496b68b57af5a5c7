//! Promise: cancelled means gone. At every distance, whoever cancels and in whatever order entries
//! and tombstones come, the dead of the wheel do not outnumber the live, but for a few in each
//! slot.
//!
//! By counts alone: a hole is a tombstone that a slot has counted; each dead entry has one.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork::{Batch, ManualClock, ServiceHandle, TimerId, TimerService};

const US: Duration = Duration::from_micros(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Dead entries that are not worth a compaction, in each slot: 32, and the one that would be too
/// many.
const HOLES_OF_A_SLOT: u64 = 33;

/// Enough for many compactions; where there is time for it, for a slot that is large. A large slot
/// that starts within some milliseconds is no longer compacted: it is moved down.
fn timers(delay: Duration) -> u32 {
    if delay < Duration::from_secs(1) {
        2_000
    } else {
        6_000
    }
}

/// Each edge of each level of the wheel at a tick of 1 us, one before and one after it, and the end
/// of time.
fn delays() -> impl Iterator<Item = Duration> + Clone {
    let edges = (0..7).map(|level| 1u64 << (8 * level));
    let around = edges
        .flat_map(|edge| [edge - 1, edge, edge + 1, edge + edge / 2])
        .skip(1);
    around
        .map(Duration::from_micros)
        .chain([Duration::from_secs(30), DAY * 730, Duration::MAX])
}

/// A service at an age.
fn service(age: Duration) -> (TimerService<u32>, ManualClock) {
    let clock = ManualClock::new();
    let builder = TimerService::builder().clock(clock.clone()).tick(US);
    let service = builder
        .on_expire(|batch: &mut Batch<'_, u32>| batch.for_each(drop))
        .start()
        .unwrap();
    clock.advance(age);
    // What comes first is alive, so that no look for the next event tidies up behind it.
    service.schedule(US, 0).unwrap();
    (service, clock)
}

/// Lets the shards take in what was sent, and looks at their holes. (Slots may wait for a turn that
/// finds no cancels.)
fn check(service: &ServiceHandle<u32>, clock: &ManualClock, slots: u64, what: &str) {
    clock.advance(Duration::ZERO);
    clock.advance(Duration::ZERO);
    let stats = service.stats();
    let (holes, pending) = (
        stats.sum(|shard| shard.machinery.figure("holes").unwrap()),
        stats.timers.pending,
    );
    assert_eq!(stats.sum(|shard| shard.machinery.lane_depth()), 0);
    assert!(
        holes <= pending + slots * HOLES_OF_A_SLOT,
        "{what}: {holes} holes, {pending} pending"
    );
}

fn arm(service: &ServiceHandle<u32>, delay: Duration) -> Vec<TimerId> {
    (0..timers(delay))
        .map(|timer| service.schedule(delay, timer).unwrap())
        .collect()
}

fn cancel<'a>(service: &ServiceHandle<u32>, ids: impl Iterator<Item = &'a TimerId>) {
    ids.for_each(|&id| assert!(service.cancel(id)));
}

/// All but every so-many-th timer cancelled, in portions, each of which the wheel takes in; the
/// rest fires.
#[test]
fn a_storm_of_cancels_leaves_few_holes_at_every_distance() {
    for age in [
        Duration::ZERO,
        US * 255,
        US * 65_535,
        US * 262_143,
        DAY * 12,
    ] {
        for delay in delays() {
            for stays in [2, 10, usize::MAX] {
                let (service, clock) = service(age);
                let ids = arm(&service, delay);
                clock.advance(Duration::ZERO);
                let what = format!("age {age:?}, delay {delay:?}, one in {stays} stays");
                for portion in ids.chunks(1_000) {
                    cancel(
                        &service,
                        portion
                            .iter()
                            .enumerate()
                            .filter(|(timer, _)| (timer + 1) % stays != 0)
                            .map(|(_, id)| id),
                    );
                    check(&service, &clock, 1, &what);
                }
                let pending = service.len();
                clock.advance(delay.saturating_add(US));
                let stats = service.stats();
                assert_eq!(
                    (
                        stats.timers.fired,
                        stats.sum(|shard| shard.machinery.figure("holes").unwrap()),
                        service.len()
                    ),
                    (pending, 0, 0),
                    "{what}"
                );
            }
        }
    }
}

/// One arms and cancels again and again, never more than a few at a time.
#[test]
fn churn_leaves_few_holes_at_every_distance() {
    for delay in delays() {
        let (service, clock) = service(Duration::ZERO);
        for _ in 0..200 {
            let ids: Vec<_> = (0..50)
                .map(|timer| service.schedule(delay, timer).unwrap())
                .collect();
            clock.advance(Duration::ZERO);
            cancel(&service, ids.iter());
            check(&service, &clock, 1, &format!("delay {delay:?}"));
        }
    }
}

/// Timers at all distances at once, in as many slots as there are distances at the most.
#[test]
fn a_storm_at_all_distances_leaves_few_holes_in_each_slot() {
    let (service, clock) = service(DAY);
    let far = delays().filter(|&delay| delay > Duration::from_secs(1));
    let distances = delays().count() as u64;
    let mut ids: Vec<_> = delays()
        .chain(far.cycle())
        .take(200_000)
        .map(|delay| service.schedule(delay, 1).unwrap())
        .collect();
    check(&service, &clock, distances, "armed");
    for rest in [150_000, 50_000, 1_000, 0] {
        cancel(&service, ids.drain(rest..).collect::<Vec<_>>().iter());
        check(&service, &clock, distances, &format!("{rest} left"));
    }
}

/// The canceller's lane is taken in before the other's, so tombstones come before their entries.
#[test]
fn tombstones_that_come_before_their_entries_leave_few_holes() {
    for delay in delays() {
        for portion in [100, 1_000, 6_000] {
            for stays in [3, usize::MAX] {
                let (service, clock) = service(Duration::ZERO);
                let (send, ids) = mpsc::channel::<Vec<TimerId>>();
                let (ready, both) = (mpsc::channel(), mpsc::channel());
                thread::scope(|scope| {
                    let handle = service.handle();
                    scope.spawn(move || {
                        // A lane, before the other thread has one.
                        assert!(handle.cancel(handle.schedule(delay, 0).unwrap()));
                        ready.0.send(()).unwrap();
                        for ids in ids {
                            cancel(
                                &handle,
                                ids.iter()
                                    .enumerate()
                                    .filter(|(timer, _)| (timer + 1) % stays != 0)
                                    .map(|(_, id)| id),
                            );
                            both.0.send(()).unwrap();
                        }
                    });
                    ready.1.recv().unwrap();
                    for ids in arm(&service, delay).chunks(portion) {
                        send.send(ids.to_vec()).unwrap();
                        both.1.recv().unwrap();
                        check(
                            &service,
                            &clock,
                            1,
                            &format!("delay {delay:?}, {portion} at a time, one in {stays} stays"),
                        );
                    }
                    drop(send);
                });
            }
        }
    }
}

/// Several threads arm, cancel and move timers of each other, in several shards.
#[test]
fn storms_from_several_threads_leave_few_holes() {
    const THREADS: usize = 3;
    for delay in [US * 300, US * 70_000, DAY, DAY * 730] {
        let clock = ManualClock::new();
        let builder = TimerService::builder().clock(clock.clone()).shards(2);
        let service = builder
            .on_expire(|batch: &mut Batch<'_, u32>| batch.for_each(drop))
            .start()
            .unwrap();
        for round in 0..3 {
            let armed: Vec<Vec<_>> = thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|_| scope.spawn(|| arm(&service, delay)))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            });
            if round % 2 == 0 {
                clock.advance(Duration::ZERO);
            }
            thread::scope(|scope| {
                for ids in &armed {
                    scope.spawn(|| {
                        // Half of them to an earlier deadline first: a tombstone and an entry.
                        ids.iter()
                            .step_by(2)
                            .for_each(|&id| assert!(service.reschedule(id, delay - US * 100)));
                        cancel(&service, ids.iter());
                    });
                }
            });
            check(
                &service,
                &clock,
                4,
                &format!("delay {delay:?}, round {round}"),
            );
        }
    }
}

/// After a quiet of some seconds there are hardly any, in near slots and far ones, small ones and
/// large ones.
#[test]
fn a_quiet_service_tidies_up() {
    let service = TimerService::builder()
        .shards(1)
        .on_expire(|batch: &mut Batch<'_, u32>| batch.for_each(drop))
        .start()
        .unwrap();
    let (timers, cancelled) = (60_000, 9_000);
    let delay = |timer: u32| Duration::from_secs(100) * 300u32.pow(timer % 3);
    let ids: Vec<_> = (0..timers)
        .map(|timer| service.schedule(delay(timer), timer).unwrap())
        .collect();
    cancel(&service, ids[..cancelled].iter());
    let patience = Instant::now() + Duration::from_secs(60);
    while service
        .stats()
        .sum(|shard| shard.machinery.figure("holes").unwrap() + shard.machinery.lane_depth())
        > 0
    {
        assert!(
            Instant::now() < patience,
            "{} holes stay",
            service
                .stats()
                .sum(|shard| shard.machinery.figure("holes").unwrap())
        );
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(service.len(), u64::from(timers) - cancelled as u64);
}
