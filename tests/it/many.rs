//! Promise: the batch calls do what the single ones do, for each timer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wheelwork::{Batch, ManualClock, ScheduleError, TimerService};

const MS: Duration = Duration::from_millis(1);

fn service(
    clock: &ManualClock,
    shards: usize,
    max_pending: usize,
) -> (TimerService<u64>, Arc<Mutex<Vec<u64>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let sink = log.clone();
    let builder = TimerService::builder()
        .clock(clock.clone())
        .shards(shards)
        .max_pending(max_pending);
    (
        builder
            .on_expire(move |batch: &mut Batch<'_, u64>| sink.lock().unwrap().extend(batch))
            .start()
            .unwrap(),
        log,
    )
}

#[test]
fn many_are_armed_cancelled_and_moved_as_one_by_one() {
    for timers in [0, 1, 63, 64, 65, 5_000u64] {
        let clock = ManualClock::new();
        let (service, log) = service(&clock, 1, usize::MAX);
        let ids: Vec<_> = service
            .schedule_many((0..timers).map(|timer| (MS * (timer + 1) as u32, timer)))
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(ids.len() as u64, timers);
        // Every third is cancelled, every third of the rest moved: some sooner, some later.
        let (mut cancelled, mut moved, mut rest) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (timer, &id) in ids.iter().enumerate() {
            match timer % 3 {
                0 => cancelled.push(id),
                1 => moved.push(id),
                _ => _ = rest.insert(timer as u64),
            }
        }
        assert_eq!(
            service.cancel_many(cancelled.iter().copied()),
            cancelled.len()
        );
        assert_eq!(
            service.cancel_many(cancelled.iter().chain(&moved[..0]).copied()),
            0,
            "only once"
        );
        assert_eq!(
            service.reschedule_many(moved.iter().chain(&cancelled).copied(), MS * 2_000),
            moved.len()
        );
        clock.advance(MS * 1_999);
        assert!(
            log.lock().unwrap().iter().all(|timer| rest.contains(timer)),
            "too early, or cancelled"
        );
        clock.advance(MS);
        let at_2_000 = log.lock().unwrap().len();
        assert_eq!(
            at_2_000,
            moved.len() + rest.iter().filter(|&&timer| timer < 2_000).count()
        );
        clock.advance(MS * 10_000);
        let fired: BTreeSet<_> = log.lock().unwrap().iter().copied().collect();
        assert_eq!(fired, (0..timers).filter(|timer| timer % 3 != 0).collect());
        assert_eq!(log.lock().unwrap().len(), fired.len(), "one fired twice");
    }
}

#[test]
fn what_is_refused_comes_back_in_its_place() {
    let clock = ManualClock::new();
    let (service, _) = service(&clock, 1, 5);
    let armed = service.schedule_many((0..8).map(|timer| (MS, timer)));
    let refused = armed
        .into_iter()
        .map(|result| result.map_err(ScheduleError::into_payload).err())
        .collect::<Vec<_>>();
    assert_eq!(
        refused,
        [None, None, None, None, None, Some(5), Some(6), Some(7)]
    );
    service.stop();
    assert!(
        service
            .schedule_many([(MS, 1)])
            .into_iter()
            .all(|result| matches!(result, Err(ScheduleError::Stopped(1))))
    );
}

/// The iterators are the caller's code: they may call the service themselves, and panic.
#[test]
fn iterators_may_use_the_service_and_panic() {
    let clock = ManualClock::new();
    let (service, log) = service(&clock, 1, usize::MAX);
    let inner = |timer: u64| {
        service.schedule(MS, 1_000 + timer).unwrap();
        (MS * 2, timer)
    };
    let ids: Vec<_> = service
        .schedule_many((0..100).map(inner))
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let cancelled = service.cancel_many(ids.iter().map(|&id| {
        service.reschedule(id, MS * 3);
        id
    }));
    assert_eq!(cancelled, 100);
    let panics = std::panic::AssertUnwindSafe(|| {
        service.schedule_many((0..100u64).map(|timer| {
            if timer < 70 {
                (MS, timer)
            } else {
                panic!("deliberate")
            }
        }))
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    clock.advance(MS * 10);
    let fired = log.lock().unwrap().len();
    assert!(fired == 100 + 64, "the first chunk was armed: {fired}");
}

#[test]
fn a_timer_goes_to_the_shard_that_was_named() {
    let clock = ManualClock::new();
    let (service, log) = service(&clock, 3, usize::MAX);
    let ids: Vec<_> = (0..9)
        .map(|timer| service.schedule_on(timer, MS, timer as u64).unwrap())
        .collect();
    for shard in 0..3 {
        let seen: BTreeSet<_> = service
            .pending(shard)
            .map(|(id, _)| format!("{id:?}"))
            .collect();
        assert_eq!(
            seen,
            (0..3)
                .map(|third| format!("{:?}", ids[shard + 3 * third]))
                .collect()
        );
    }
    assert!(service.cancel(ids[5]) && service.reschedule(ids[4], MS * 2));
    clock.advance(MS * 2);
    log.lock().unwrap().sort_unstable();
    assert_eq!(*log.lock().unwrap(), [0, 1, 2, 3, 4, 6, 7, 8]);
}
