//! Promise: hooks are told of what they were set for, each time; and a hook that panics harms
//! nothing.

use crate::blocked::block_a_worker;
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, OnceLock, mpsc};
use std::time::Duration;
use wheelwork::{
    Batch, Builder, Dispatch, ManualClock, ServiceHandle, StopPolicy, TimerId, TimerService,
};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// What these tests panic with; it is not printed.
#[derive(Debug, PartialEq, Eq, Clone, Copy, PartialOrd, Ord)]
struct Expected(u32);

fn panic_as_expected(number: u32) -> ! {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Expected>() {
                hook(info);
            }
        }));
    });
    panic_any(Expected(number))
}

/// What a hook has been told.
type Told<T> = Arc<Mutex<Vec<T>>>;

fn everywhere(test: impl Fn(Builder)) {
    for dispatch in [
        Dispatch::Inline,
        Dispatch::RayonThreads(1),
        Dispatch::RayonThreads(3),
    ] {
        test(TimerService::builder().dispatch(dispatch));
    }
}

#[test]
fn each_panic_of_a_task_is_told_with_its_payload() {
    everywhere(|builder| {
        let told: Told<Expected> = Arc::default();
        let sink = told.clone();
        let (send, receive) = mpsc::channel();
        let builder = builder
            .on_panic(move |panic| sink.lock().unwrap().push(*panic.downcast_ref().unwrap()));
        let service = builder.start().unwrap();
        for number in 0..300 {
            let send = send.clone();
            let task = move || {
                send.send(()).unwrap();
                if number % 3 == 0 {
                    panic_as_expected(number);
                }
            };
            service.schedule(MS * (number % 4), task).unwrap();
        }
        (0..300).for_each(|_| receive.recv_timeout(HANGS).unwrap());
        // Stop waits for the tasks, and so for their panics.
        assert!(service.stop().is_empty());
        let mut told = told.lock().unwrap();
        told.sort_unstable();
        assert!(told.iter().copied().eq((0..300).step_by(3).map(Expected)));
        assert_eq!(
            (service.stats().panics, service.stats().hook_panics),
            (100, 0)
        );
    });
}

/// A payload that panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic_as_expected(1);
    }
}

#[test]
fn the_panic_of_a_payload_that_is_dropped_for_a_handler_is_told_too() {
    let told: Told<Expected> = Arc::default();
    let (clock, sink) = (ManualClock::new(), told.clone());
    let builder = TimerService::builder()
        .clock(clock.clone())
        .on_panic(move |panic| sink.lock().unwrap().push(*panic.downcast_ref().unwrap()));
    let service = builder
        .on_expire(|_: &mut Batch<'_, Grenade>| panic_as_expected(0))
        .start()
        .unwrap();
    service.schedule(MS, Grenade).unwrap();
    clock.advance(MS);
    assert_eq!(*told.lock().unwrap(), [Expected(0), Expected(1)]);
    assert_eq!(
        (service.stats().timers.fired, service.stats().panics),
        (1, 2)
    );
}

#[test]
fn a_hook_that_panics_is_counted_and_harms_nothing() {
    let clock = ManualClock::new();
    let builder = TimerService::builder()
        .clock(clock.clone())
        .on_panic(|_| panic_as_expected(0))
        .on_late(Duration::ZERO, |_| panic_as_expected(0));
    let fired: Told<u32> = Arc::default();
    let sink = fired.clone();
    let service = builder
        .on_expire(move |batch: &mut Batch<'_, u32>| {
            for payload in batch {
                sink.lock().unwrap().push(payload);
                if payload % 2 == 0 {
                    panic_as_expected(payload);
                }
            }
        })
        .start()
        .unwrap();
    (0..100).for_each(|payload| _ = service.schedule(MS, payload).unwrap());
    clock.advance(MS * 2);
    assert_eq!(fired.lock().unwrap().len(), 100);
    assert_eq!(
        (
            service.stats().timers.fired,
            service.stats().panics,
            service.stats().hook_panics
        ),
        (100, 50, 50)
    );
    assert!(service.stop().is_empty());
}

/// A service on a manual clock whose one worker is blocked until the second channel says so.
fn with_a_blocked_worker(builder: Builder) -> (TimerService, ManualClock, mpsc::Sender<()>) {
    let clock = ManualClock::new();
    let service = builder
        .clock(clock.clone())
        .dispatch(Dispatch::RayonThreads(1))
        .start()
        .unwrap();
    let release = block_a_worker(&service, &clock);
    (service, clock, release)
}

#[test]
fn timers_later_than_the_threshold_are_told() {
    let told: Told<(Duration, u64)> = Arc::default();
    let sink = told.clone();
    let builder = TimerService::builder().on_late(MS * 20, move |late| {
        sink.lock().unwrap().push((late.max_lateness, late.timers))
    });
    let (service, clock, release) = with_a_blocked_worker(builder);
    // Due 30, 20 and 10 ms before a worker is there: the first are late, the second just not.
    for (delay, timers) in [(MS, 7), (MS * 11, 5), (MS * 21, 3)] {
        (0..timers).for_each(|_| _ = service.schedule(delay, || ()).unwrap());
    }
    clock.advance(MS * 31);
    release.send(()).unwrap();
    while service.stats().timers.fired < 16 {
        std::thread::sleep(MS);
    }
    assert!(service.stop().is_empty());
    assert_eq!(*told.lock().unwrap(), [(MS * 30, 7)]);
}

#[test]
fn a_timer_that_fires_at_its_tick_is_not_late() {
    let told: Told<(Duration, u64)> = Arc::default();
    let (clock, sink) = (ManualClock::new(), told.clone());
    let builder = TimerService::builder()
        .clock(clock.clone())
        .on_late(Duration::ZERO, move |late| {
            sink.lock().unwrap().push((late.max_lateness, late.timers))
        });
    let service = builder.start().unwrap();
    for delay in 0..1_000u32 {
        service
            .schedule(Duration::from_micros(37) * delay, || ())
            .unwrap();
    }
    clock.advance(MS * 40);
    assert_eq!(
        (service.stats().timers.fired, told.lock().unwrap().len()),
        (1_000, 0)
    );
}

/// Each round blocks the shard in a task that runs inline, until the hook has been told.
#[test]
fn a_shard_that_stalls_is_told_once_for_each_stall() {
    const ROUNDS: u64 = 2;
    // So long that no machine stalls by itself.
    const THRESHOLD: Duration = Duration::from_millis(200);
    let (send, stalled) = mpsc::channel();
    let builder = TimerService::builder()
        .shards(1)
        .dispatch(Dispatch::Inline)
        .pinning(wheelwork::Pinning::Off);
    let service = builder
        .on_stall(THRESHOLD, move |stall| {
            send.send((stall.shard, stall.overdue)).unwrap()
        })
        .start()
        .unwrap();
    for round in 1..=ROUNDS {
        let (release, released) = mpsc::channel::<()>();
        let (send, done) = mpsc::channel();
        let task = move || {
            released.recv_timeout(HANGS).unwrap();
            send.send(()).unwrap();
        };
        service.schedule(MS, task).unwrap();
        let (shard, overdue) = stalled.recv_timeout(HANGS).unwrap();
        assert!(shard == 0 && overdue > THRESHOLD, "{overdue:?}");
        // In twice the threshold there are further looks, which tell nothing.
        assert!(stalled.recv_timeout(THRESHOLD * 2).is_err());
        assert_eq!(service.stats().sum(|shard| shard.machinery.stalls()), round);
        release.send(()).unwrap();
        done.recv_timeout(HANGS).unwrap();
    }
    assert!(service.stop().is_empty());
}

#[test]
fn a_service_that_is_watched_stops_at_once() {
    for threshold in [MS * 20, Duration::MAX] {
        let (send, stopped) = mpsc::channel();
        std::thread::spawn(move || {
            let service = TimerService::builder()
                .shards(2)
                .on_stall(threshold, |_| ())
                .start()
                .unwrap();
            service.schedule(Duration::from_secs(3600), || ()).unwrap();
            // Shards linger for two seconds and sleep: nothing of it is a stall, unless the machine
            // stalls.
            std::thread::sleep(if threshold < Duration::MAX {
                MS * 100
            } else {
                MS
            });
            let unfired = service.stop().len();
            send.send((
                unfired,
                service.stats().sum(|shard| shard.machinery.stalls()),
            ))
            .unwrap();
        });
        let (unfired, stalls) = stopped.recv_timeout(HANGS).unwrap();
        assert_eq!(unfired, 1);
        assert!(threshold < Duration::MAX || stalls == 0);
    }
}

#[test]
fn a_hook_for_stalls_that_panics_harms_nothing() {
    let builder = TimerService::builder().shards(1).dispatch(Dispatch::Inline);
    let service = builder
        .on_stall(Duration::ZERO, |_| panic_as_expected(0))
        .start()
        .unwrap();
    let turns = || service.stats().sum(|shard| shard.machinery.turns());
    for stalls in 1..=2 {
        let (release, released) = mpsc::channel::<()>();
        service
            .schedule(MS, move || released.recv_timeout(HANGS).unwrap())
            .unwrap();
        while service.stats().hook_panics < stalls {
            std::thread::sleep(MS);
        }
        let before = turns();
        release.send(()).unwrap();
        // The stall ends with the turn. On a busy machine the shard may have been told of before it
        // took its first turn, and the next task must not come in that one: it would be the same
        // stall.
        while turns() == before {
            std::thread::sleep(MS);
        }
    }
    assert!(service.stop().is_empty());
    assert_eq!(
        (service.stats().timers.fired, service.stats().panics),
        (2, 0)
    );
}

/// The same on a manual clock (one batch), inline and in a pool.
#[test]
fn what_a_handler_leaves_is_counted_and_told() {
    type Handler = fn(&mut Batch<'_, u32>);
    let handlers: [(u64, Handler); 4] = [
        (9, |batch| _ = batch.next()),
        (10, |_| ()),
        (0, |batch| batch.for_each(drop)),
        (10, |_| panic_as_expected(0)),
    ];
    for (expected, handler) in handlers {
        let (clock, told) = (ManualClock::new(), Arc::new(Mutex::new(0)));
        let sum = told.clone();
        let builder = TimerService::builder()
            .clock(clock.clone())
            .on_dropped(move |dropped| *sum.lock().unwrap() += dropped.timers);
        let service = builder.on_expire(handler).start().unwrap();
        (0..10).for_each(|number| _ = service.schedule(MS, number).unwrap());
        clock.advance(MS);
        let stats = service.stats();
        assert_eq!(
            (
                stats.timers.fired,
                stats.timers.dropped,
                *told.lock().unwrap()
            ),
            (10, expected, expected)
        );
    }
}

#[test]
fn what_is_dropped_otherwise_is_told_too() {
    // By an executor that drops its jobs; by a channel without receivers, when the timers fire and
    // when the service fires all of them.
    for way in 0..3 {
        let (clock, told) = (ManualClock::new(), Arc::new(Mutex::new(0)));
        let sum = told.clone();
        let builder = TimerService::builder()
            .clock(clock.clone())
            .on_dropped(move |dropped| *sum.lock().unwrap() += dropped.timers);
        let service = if way == 0 {
            let builder = builder.dispatch(Dispatch::executor(drop));
            builder
                .on_expire(|_: &mut Batch<'_, u32>| unreachable!("the job is dropped"))
                .start()
                .unwrap()
        } else {
            builder.on_expire_channel::<u32>(None).0.start().unwrap()
        };
        (0..100).for_each(|number| _ = service.schedule(MS, number).unwrap());
        if way == 2 {
            assert!(service.stop_with(StopPolicy::FireAll).is_empty());
        } else {
            clock.advance(MS);
        }
        let stats = service.stats();
        assert_eq!(
            (
                stats.timers.fired,
                stats.timers.dropped,
                *told.lock().unwrap()
            ),
            (100, 100, 100),
            "way {way}"
        );
    }
}

/// The hook comes before the closure. What it ends or pauses does not run any more.
#[test]
fn a_late_run_that_the_hook_ends_or_pauses_does_not_begin() {
    everywhere(|builder| {
        let timer: Arc<OnceLock<(ServiceHandle, TimerId)>> = Arc::default();
        // Whether the hook pauses the timer, or cancels it; and whether it has done so.
        let (pauses, done) = (AtomicBool::new(true), AtomicBool::new(false));
        let state = Arc::new((pauses, done));
        let (send, receive) = mpsc::channel();
        let (told, its_timer, hooks) = (send.clone(), timer.clone(), state.clone());
        let service = builder
            .on_late(Duration::ZERO, move |_| {
                let Some((service, id)) = its_timer.get() else {
                    return;
                };
                let is_done = if hooks.0.load(SeqCst) {
                    service.pause(*id)
                } else {
                    service.cancel(*id)
                };
                if is_done {
                    hooks.1.store(true, SeqCst);
                    told.send("done").unwrap();
                }
            })
            .start()
            .unwrap();
        let closures = state.clone();
        let run = move || {
            let what = if closures.1.load(SeqCst) {
                "ran all the same"
            } else {
                "ran"
            };
            send.send(what).unwrap();
        };
        let id = service.every(MS).start(run).unwrap();
        let next = || receive.recv_timeout(HANGS).unwrap();
        let until_done = || {
            while let what = next()
                && what != "done"
            {
                assert_eq!(what, "ran");
            }
        };
        timer.set((service.handle(), id)).unwrap();
        until_done();
        state.0.store(false, SeqCst);
        state.1.store(false, SeqCst);
        while !service.resume(id) {}
        until_done();
        assert!(service.stop().is_empty());
        assert_eq!(receive.try_iter().collect::<Vec<_>>(), [""; 0]);
    });
}
