//! Promise: looks tell what there is: `remaining`, `deadline` and `pending` of timers that wait,
//! were moved, run, or are gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, ManualClock, TimerService};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_timer_tells_its_deadline_wherever_it_was_moved() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .tick(Duration::from_millis(1))
        .clock(clock.clone())
        .start()
        .unwrap();
    let start = clock.now();
    let id = service.schedule(MS * 10 - MS / 3, || ()).unwrap();
    let looks = |left: Option<Duration>| {
        assert_eq!(service.remaining(id), left);
        assert_eq!(service.deadline(id), left.map(|left| clock.now() + left));
    };
    looks(Some(MS * 10));
    clock.advance(MS * 4);
    looks(Some(MS * 6));
    // Later, sooner, much later, and when the old entry has come and gone.
    for delay in [20, 3, 100_000, 100_020] {
        assert!(service.reschedule(id, MS * delay));
        looks(Some(MS * delay));
    }
    clock.advance(MS * 100_010);
    looks(Some(MS * 10));
    assert_eq!(service.deadline(id), Some(start + MS * 100_024));
    clock.advance(MS * 10);
    looks(None);
    let cancelled = service.schedule(MS, || ()).unwrap();
    service.cancel(cancelled);
    assert_eq!(
        (service.remaining(cancelled), service.deadline(cancelled)),
        (None, None)
    );
}

#[test]
fn a_timer_that_was_moved_often_keeps_its_id() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(|batch: &mut Batch<'_, u64>| batch.for_each(drop))
        .start()
        .unwrap();
    for moves in 0..40 {
        let id = service.schedule(MS * 100, moves).unwrap();
        for earlier in 1..=moves as u32 {
            assert!(service.reschedule(id, MS * (100 - earlier)));
            assert_eq!(service.remaining(id), Some(MS * (100 - earlier)));
        }
        assert_eq!(service.take(id), Some(moves), "after {moves} moves");
        let next = service.schedule(MS * 100, 0).unwrap();
        assert!(!service.cancel(id) && service.cancel(next));
    }
}

#[test]
fn a_shard_tells_its_next_deadline() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .shards(2)
        .start()
        .unwrap();
    let after = |shard| service.next_deadline(shard).map(|at| at - clock.now());
    assert_eq!([after(0), after(1), after(2)], [None; 3]);
    service.schedule_on(1, MS * 70_000, || ()).unwrap();
    let near = service.schedule_on(1, MS * 30, || ()).unwrap();
    clock.advance(MS);
    assert_eq!([after(0), after(1)], [None, Some(MS * 29)]);
    service.cancel(near);
    clock.advance(MS * 40);
    assert_eq!(after(1), Some(MS * 69_959));
    clock.advance(MS * 70_000);
    assert_eq!(after(1), None);
}

#[test]
fn a_periodic_timer_that_runs_has_nothing_left() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let (own, log) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Vec::new())));
    let (handle, id, seen) = (service.handle(), own.clone(), log.clone());
    let run = move || {
        seen.lock()
            .unwrap()
            .push(handle.remaining(*id.get().unwrap()))
    };
    own.set(service.every(MS * 10).start(run).unwrap()).unwrap();
    clock.advance(MS * 25);
    assert_eq!(
        *log.lock().unwrap(),
        [Some(Duration::ZERO), Some(Duration::ZERO)]
    );
    assert_eq!(service.remaining(*own.get().unwrap()), Some(MS * 5));
}

#[test]
fn all_timers_of_a_shard_are_seen_once() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .shards(2)
        .on_expire(|batch: &mut Batch<'_, u64>| batch.for_each(drop));
    let service = service.start().unwrap();
    let arm = || -> Vec<_> {
        (1..=5_000u64)
            .map(|delay| (service.schedule(MS * delay as u32, delay).unwrap(), delay))
            .collect()
    };
    // Threads' timers go to one shard each.
    let (mut mine, other) = (
        arm(),
        thread::scope(|scope| scope.spawn(arm).join().unwrap()),
    );
    clock.advance(MS * 100);
    mine.iter()
        .filter(|(_, delay)| delay.is_multiple_of(3))
        .for_each(|&(id, _)| _ = service.cancel(id));
    mine.retain(|(_, delay)| !delay.is_multiple_of(3));
    let expected = |armed: &[_]| -> BTreeMap<_, _> {
        let waits = armed.iter().filter(|&&(_, delay)| delay > 100);
        waits
            .map(|&(id, delay)| (format!("{id:?}"), MS * (delay - 100) as u32))
            .collect()
    };
    for (shard, armed) in [mine, other].iter().enumerate() {
        let seen: Vec<_> = service.pending(shard).collect();
        let by_id: BTreeMap<_, _> = seen
            .iter()
            .map(|(id, left)| (format!("{id:?}"), *left))
            .collect();
        assert_eq!(by_id.len(), seen.len(), "one came twice");
        assert_eq!(by_id, expected(armed));
    }
    assert_eq!(service.pending(2).count(), 0, "there is no such shard");
    service.stop();
    assert_eq!(service.pending(0).count(), 0);
}
