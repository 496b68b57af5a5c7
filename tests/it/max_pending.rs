//! Promise: `max_pending` is exact. At the limit the payload comes back, and there is room again as
//! soon as a timer has ended, however it ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use wheelwork::{Batch, ManualClock, ScheduleError, TimerService};

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_limit_is_exact_and_every_end_makes_room() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .max_pending(3)
        .start()
        .unwrap();
    let ids: Vec<_> = (1..=3)
        .map(|delay| service.schedule(MS * delay, || ()).unwrap())
        .collect();
    let is_full = || matches!(service.schedule(MS * 9, || ()), Err(ScheduleError::Full(_)));
    assert!(is_full() && is_full());
    assert!(matches!(
        service.every(MS).start(|| ()),
        Err(ScheduleError::Full(()))
    ));
    // A cancel, a fire, a take.
    assert!(service.cancel(ids[2]));
    let fourth = service.schedule(MS * 4, || ()).unwrap();
    assert!(is_full());
    clock.advance(MS);
    service.schedule(MS * 5, || ()).unwrap();
    assert!(is_full());
    assert!(service.take(fourth).is_some());
    // A periodic timer, for all its runs: until it has ended, or was cancelled.
    service.every(MS).times(2).start(|| ()).unwrap();
    assert!(is_full());
    clock.advance(MS * 2);
    let periodic = service.every(MS).start(|| ()).unwrap();
    clock.advance(MS);
    assert!(service.reschedule(periodic, MS * 2) && service.cancel(periodic));
    assert_eq!(
        (0..9)
            .filter(|_| service.schedule(MS * 9, || ()).is_ok())
            .count(),
        2,
        "one is pending still"
    );
    let refused = service.schedule(MS, || ()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the timer service is full: as many timers are pending as it allows"
    );
}

#[test]
fn no_limit_is_none_and_a_limit_of_zero_is_one() {
    let service = TimerService::builder().max_pending(0).start().unwrap();
    assert!(matches!(
        service.schedule(MS, || ()),
        Err(ScheduleError::Full(_))
    ));
}

#[test]
fn threads_share_the_limit() {
    const LIMIT: usize = 7;
    let service = TimerService::builder()
        .max_pending(LIMIT)
        .on_expire(|batch: &mut Batch<'_, u32>| batch.for_each(drop))
        .start()
        .unwrap();
    let (pending, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut own = Vec::new();
                for step in 0..20_000 {
                    match service.schedule(MS * 100_000, 1u32) {
                        Ok(id) => {
                            assert!(
                                pending.fetch_add(1, Ordering::SeqCst) < LIMIT,
                                "one too many"
                            );
                            own.push(id);
                        }
                        Err(ScheduleError::Full(1)) => _ = refused.fetch_add(1, Ordering::SeqCst),
                        Err(other) => panic!("{other:?}"),
                    }
                    if step % 3 != 0
                        && let Some(id) = own.pop()
                    {
                        pending.fetch_sub(1, Ordering::SeqCst);
                        assert!(service.cancel(id));
                    }
                }
                own.into_iter().for_each(|id| {
                    pending.fetch_sub(1, Ordering::SeqCst);
                    assert!(service.cancel(id));
                });
            });
        }
    });
    assert!(refused.load(Ordering::SeqCst) > 0);
    let armed = (0..20)
        .filter(|_| service.schedule(MS * 100_000, 1u32).is_ok())
        .count();
    assert_eq!((armed, service.stop().len()), (LIMIT, LIMIT));
}
