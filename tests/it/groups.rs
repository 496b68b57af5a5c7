//! Promise: a group pauses, resumes and cancels its timers at once, ends them with it, and keeps no
//! memory of timers that are over.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, ManualClock, ScheduleError, TimerGroup, TimerService};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn manual() -> (ManualClock, TimerService) {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .tick(Duration::from_millis(1))
        .start();
    (clock, service.unwrap())
}

#[test]
fn a_group_is_paused_and_resumed_at_once() {
    let (clock, service) = manual();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let (ran, clock) = (ran.clone(), clock.clone());
        move || ran.lock().unwrap().push((name, clock.elapsed()))
    };
    let group = service.group();
    assert!(!group.is_paused() && group.pause() == 0 && group.is_paused());
    assert_eq!((group.resume(), group.is_paused()), (0, false));
    group.schedule(10 * MS, note("once")).unwrap();
    let periodic = service.every(4 * MS).start(note("periodic")).unwrap();
    assert!(group.add(periodic));
    service.schedule(20 * MS, note("no member")).unwrap();
    clock.advance(5 * MS);
    assert_eq!(group.pause(), 2);
    assert_eq!(group.pause(), 0, "they are paused");
    // What comes during the pause is paused, even if it is due at once.
    let late = group.schedule(Duration::ZERO, note("late")).unwrap();
    let added = service.schedule(MS, note("added")).unwrap();
    assert!(group.add(added));
    assert!(service.is_paused(late) && service.is_paused(added));
    assert_eq!(service.remaining(added), Some(MS));
    clock.advance(HOUR);
    let seen = std::mem::take(&mut *ran.lock().unwrap());
    assert_eq!(seen, [("periodic", 4 * MS), ("no member", 20 * MS)]);
    assert_eq!(group.resume(), 4);
    clock.advance(3 * MS);
    let at = |ms: u32| HOUR + 5 * MS + ms * MS;
    let seen = std::mem::take(&mut *ran.lock().unwrap());
    let (first, others) = seen.split_at(2);
    assert!(first.contains(&("late", at(1))) && first.contains(&("added", at(1))));
    assert_eq!(others, [("periodic", at(3))]);
    clock.advance(2 * MS);
    assert_eq!(*ran.lock().unwrap(), [("once", at(5))]);
    assert!(!group.add(late), "it is over");
}

#[test]
fn a_group_ends_its_timers_or_lets_them_go_on() {
    let (_clock, service) = manual();
    let alive = Arc::new(());
    let arm = |group: &TimerGroup<_>| {
        let alive = alive.clone();
        group.schedule(HOUR, move || drop(alive)).unwrap()
    };
    let (dropped, kept, cancelled) = (service.group(), service.group(), service.group());
    let ids = [&dropped, &kept, &cancelled].map(arm);
    kept.pause();
    let over = arm(&kept);
    service.cancel(over);
    drop(dropped);
    assert_eq!(kept.keep(), [ids[1]]);
    assert!(service.is_paused(ids[1]) && service.resume(ids[1]));
    assert_eq!((cancelled.cancel_all(), cancelled.cancel_all()), (1, 0));
    assert_eq!(ids.map(|id| service.is_pending(id)), [false, true, false]);
    assert_eq!(Arc::strong_count(&alive), 2, "payloads are dropped");
    arm(&cancelled);
    // The service may be gone.
    assert_eq!(service.stop().len(), 2);
    let refused = cancelled.schedule(HOUR, || ());
    assert!(matches!(refused, Err(ScheduleError::Stopped(_))));
    cancelled.pause();
    let refused = cancelled.schedule(HOUR, || ());
    assert!(matches!(refused, Err(ScheduleError::Stopped(_))));
    assert_eq!(cancelled.resume(), 0);
    drop(service);
    drop(cancelled);
}

#[test]
fn a_paused_member_counts_and_is_handed_back() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .max_pending(1)
        .on_expire(|batch: &mut Batch<'_, u64>| batch.for_each(drop))
        .start()
        .unwrap();
    let group = service.group();
    group.pause();
    let id = group.schedule(SECOND, 7_u64).unwrap();
    assert_eq!((service.len(), service.stats().timers.armed), (1, 1));
    assert!(matches!(
        group.schedule(SECOND, 8_u64),
        Err(ScheduleError::Full(8))
    ));
    assert_eq!(service.take(id), Some(7));
    group.schedule(SECOND, 9_u64).unwrap();
    clock.advance(HOUR);
    let unfired = service.stop();
    assert_eq!(unfired.len(), 1);
    assert_eq!((unfired[0].payload, unfired[0].remaining), (9, SECOND));
}

/// (`tests/heap_is_flat.rs` looks at the memory of a service.)
#[test]
fn a_group_forgets_timers_that_are_over() {
    let (clock, service) = manual();
    let group = service.group();
    let lasting = group.schedule(HOUR, || ()).unwrap();
    for _ in 0..10_000 {
        group.schedule(MS, || ()).unwrap();
        clock.advance(MS);
    }
    let ids = group.keep();
    assert_eq!(ids, [lasting]);
    assert!(ids.capacity() <= 128, "{} ids are kept", ids.capacity());
}

/// A run may take its own timer in each time.
#[test]
fn a_timer_that_is_taken_in_again_is_in_its_group_once() {
    let (_, service) = manual();
    let group = service.group();
    let id = service.schedule(HOUR, || ()).unwrap();
    for _ in 0..10_000 {
        assert!(group.add(id));
    }
    assert_eq!((group.pause(), group.resume()), (1, 1));
    let ids = group.keep();
    assert_eq!(ids, [id]);
    assert!(ids.capacity() <= 128, "{} ids are kept", ids.capacity());
}

#[test]
fn threads_share_a_group() {
    const TIMERS: u64 = 500;
    let service = TimerService::builder().start().unwrap();
    let group = service.group();
    let fired = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..TIMERS {
                    let fired = fired.clone();
                    let task = move || _ = fired.fetch_add(1, Relaxed);
                    group.schedule(MS, task).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                group.pause();
                group.resume();
            }
        });
    });
    group.resume();
    while !service.is_empty() {
        thread::yield_now();
    }
    drop(group);
    drop(service);
    assert_eq!(fired.load(Relaxed), 2 * TIMERS);
}
