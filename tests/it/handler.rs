//! Promise: a handler has its service at hand: it arms, moves and cancels timers from inside,
//! wherever it runs, and keeps nothing alive by that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use wheelwork::{Batch, Dispatch, InsideTaskError, ManualClock, ScheduleError, StopPolicy};
use wheelwork::{TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

#[test]
fn a_handler_arms_anew() {
    for dispatch in [Dispatch::Inline, Dispatch::RayonThreads(2)] {
        let (send, done) = mpsc::channel();
        // Each payload comes as often as its number says.
        let service = TimerService::builder()
            .dispatch(dispatch)
            .on_expire(move |batch: &mut Batch<'_, u32>| {
                let service = batch.service();
                assert!(!service.is_stopped());
                for left in batch {
                    if left > 1 {
                        service.schedule(MS, left - 1).unwrap();
                    } else {
                        send.send(()).unwrap();
                    }
                }
            })
            .start()
            .unwrap();
        (1..=100).for_each(|times| _ = service.schedule(MS, times).unwrap());
        (0..100).for_each(|_| done.recv_timeout(HANGS).unwrap());
        service.stop();
        let stats = service.stats();
        assert_eq!((stats.timers.fired, stats.panics), (5_050, 0));
    }
}

/// All its calls, and it is the service of the timers, of several.
#[test]
fn it_is_the_service_of_the_timers() {
    let clock = ManualClock::new();
    let said = Arc::new(Mutex::new(Vec::new()));
    let services: [_; 2] = std::array::from_fn(|_| {
        let said = said.clone();
        let handler = move |batch: &mut Batch<'_, Option<TimerId>>| {
            let service = batch.service();
            for other in batch {
                let Some(other) = other else { continue };
                said.lock().unwrap().extend([
                    service.is_pending(other),
                    service.reschedule(other, MS),
                    service.cancel_and_wait(other) == Err(InsideTaskError),
                    service.cancel(other),
                    service.is_pending(other),
                ]);
            }
        };
        let builder = TimerService::builder().clock(clock.clone());
        builder.on_expire(handler).start().unwrap()
    });
    let others = services
        .each_ref()
        .map(|service| service.schedule(MS * 50, None).unwrap());
    services[0].schedule(MS, Some(others[0])).unwrap();
    // An id of another service names nothing here.
    services[1].schedule(MS * 2, Some(others[0])).unwrap();
    clock.advance(MS * 3);
    assert_eq!(
        *said.lock().unwrap(),
        [
            [true, true, true, true, false],
            [false, false, true, false, false]
        ]
        .concat()
    );
    assert!(!services[0].is_pending(others[0]) && services[1].is_pending(others[1]));
}

/// Of a stop that fires all too. What is armed then is refused.
#[test]
fn a_handler_of_a_service_that_stops_is_refused() {
    let refused = Arc::new(AtomicU64::new(0));
    let count = refused.clone();
    let handler = move |batch: &mut Batch<'_, u8>| {
        let service = batch.service();
        assert!(service.is_stopped());
        for payload in batch {
            let result = service.schedule(MS, payload);
            assert!(matches!(result, Err(ScheduleError::Stopped(_))));
            count.fetch_add(1, Ordering::SeqCst);
        }
    };
    let builder = TimerService::builder().clock(ManualClock::new());
    let service = builder.on_expire(handler).start().unwrap();
    (0..200).for_each(|payload| _ = service.schedule(MS, payload).unwrap());
    assert!(service.stop_with(StopPolicy::FireAll).is_empty());
    assert_eq!(
        (refused.load(Ordering::SeqCst), service.stats().panics),
        (200, 0)
    );
}

/// What the handler captured is dropped with the service: it needs no handle of its own.
#[test]
fn a_handler_keeps_nothing_alive() {
    let (clock, alive) = (ManualClock::new(), Arc::new(()));
    let held = alive.clone();
    let builder = TimerService::builder().clock(clock.clone());
    let handler = move |batch: &mut Batch<'_, u8>| {
        let _held = &held;
        let service = batch.service();
        batch.for_each(|payload| _ = service.schedule(MS, payload).unwrap());
    };
    let service = builder.on_expire(handler).start().unwrap();
    service.schedule(MS, 1).unwrap();
    clock.advance(MS * 10);
    assert_eq!(service.stats().timers.fired, 10);
    drop(service);
    assert_eq!(Arc::strong_count(&alive), 1);
}
