//! Promise: a panic is counted, reaches nobody but its own task, and loses no timer. Not in tasks,
//! not in handlers, not in the `Drop` of payloads.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::time::Duration;
use wheelwork::{Batch, Builder, Dispatch, ManualClock, StopPolicy, TimerService};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// What these tests panic with; it is not printed.
struct Expected;

fn panic_as_expected() -> ! {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Expected>() {
                hook(info);
            }
        }));
    });
    panic_any(Expected)
}

/// A payload that counts how often it was dropped, and panics in it if it is told so.
struct Payload {
    dropped: Arc<AtomicUsize>,
    panics: bool,
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if self.panics {
            panic_as_expected();
        }
    }
}

struct Fixture {
    clock: ManualClock,
    service: TimerService<Payload>,
    dropped: Arc<AtomicUsize>,
}

impl Fixture {
    fn new(handler: impl Fn(&mut Batch<'_, Payload>) + Send + Sync + 'static) -> Self {
        let clock = ManualClock::new();
        let service = TimerService::builder()
            .clock(clock.clone())
            .on_expire(handler)
            .start()
            .unwrap();
        Self {
            clock,
            service,
            dropped: Arc::default(),
        }
    }

    fn payload(&self, panics: bool) -> Payload {
        Payload {
            dropped: self.dropped.clone(),
            panics,
        }
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The service still does what it should.
    fn is_sound(&self) {
        let (fired, dropped) = (self.service.stats().timers.fired, self.dropped());
        let ids: Vec<_> = (0..200)
            .map(|_| self.service.schedule(MS, self.payload(false)).unwrap())
            .collect();
        assert!(self.service.cancel(ids[7]));
        self.clock.advance(MS * 2);
        assert_eq!(
            (self.service.stats().timers.fired, self.dropped()),
            (fired + 199, dropped + 200)
        );
        self.service.schedule(HOUR, self.payload(false)).unwrap();
        assert_eq!(self.service.stop().len(), 1);
        assert_eq!(self.dropped(), dropped + 201);
    }
}

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
fn tasks_that_panic_are_counted_and_the_rest_runs() {
    everywhere(|builder| {
        let service = builder.start().unwrap();
        let (send, receive) = mpsc::channel();
        for number in 0..1_000u32 {
            let send = send.clone();
            let task = move || {
                send.send(number).unwrap();
                if number % 3 == 0 {
                    panic_as_expected();
                }
            };
            service.schedule(MS * (number % 4), task).unwrap();
        }
        let mut ran: Vec<_> = (0..1_000)
            .map(|_| receive.recv_timeout(HANGS).unwrap())
            .collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..1_000).collect::<Vec<_>>());
        // Stop waits for the tasks, and so for their panics.
        assert!(service.stop().is_empty());
        assert_eq!(
            (service.stats().timers.fired, service.stats().panics),
            (1_000, 334)
        );
    });
}

#[test]
fn a_handler_that_panics_in_a_batch_is_called_again_for_the_rest() {
    everywhere(|builder| {
        let (send, receive) = mpsc::channel();
        let handler = move |batch: &mut Batch<'_, u32>| {
            for number in batch {
                send.send(number).unwrap();
                if number % 10 == 0 {
                    panic_as_expected();
                }
            }
        };
        let service = builder.on_expire(handler).start().unwrap();
        (0..1_000).for_each(|number| _ = service.schedule(MS, number).unwrap());
        let mut handled: Vec<_> = (0..1_000)
            .map(|_| receive.recv_timeout(HANGS).unwrap())
            .collect();
        handled.sort_unstable();
        assert_eq!(handled, (0..1_000).collect::<Vec<_>>());
        assert!(service.stop().is_empty());
        assert_eq!(
            (service.stats().timers.fired, service.stats().panics),
            (1_000, 100)
        );
    });
}

#[test]
fn a_handler_that_always_panics_before_it_takes_anything_comes_to_an_end() {
    let (done, end) = mpsc::channel();
    // On a thread of its own: an endless loop shall fail, not hang.
    std::thread::spawn(move || {
        let fixture = Fixture::new(|_| panic_as_expected());
        (0..200).for_each(|_| {
            _ = fixture
                .service
                .schedule(MS, fixture.payload(false))
                .unwrap()
        });
        fixture.clock.advance(MS);
        let stats = fixture.service.stats();
        done.send((
            fixture.dropped(),
            stats.timers.fired,
            (1..=200).contains(&stats.panics),
        ))
        .unwrap();
    });
    assert_eq!(end.recv_timeout(HANGS), Ok((200, 200, true)));
}

#[test]
fn a_handler_that_panics_at_first_gets_what_is_left() {
    let (calls, taken) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let count = taken.clone();
    let fixture = Fixture::new(move |batch| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            panic_as_expected();
        }
        count.fetch_add(batch.count(), Ordering::Relaxed);
    });
    (0..200).for_each(|_| {
        _ = fixture
            .service
            .schedule(MS, fixture.payload(false))
            .unwrap()
    });
    fixture.clock.advance(MS);
    assert_eq!(
        (
            fixture.dropped(),
            fixture.service.stats().timers.fired,
            fixture.service.stats().panics
        ),
        (200, 200, 1)
    );
    assert_eq!(taken.load(Ordering::Relaxed), 199, "the panic cost one");
    fixture.is_sound();
}

#[test]
fn a_handler_that_takes_nothing_has_all_payloads_dropped() {
    let fixture = Fixture::new(|_| {});
    (0..200).for_each(|_| {
        _ = fixture
            .service
            .schedule(MS, fixture.payload(false))
            .unwrap()
    });
    fixture.clock.advance(MS);
    assert_eq!(
        (
            fixture.dropped(),
            fixture.service.stats().timers.fired,
            fixture.service.stats().panics
        ),
        (200, 200, 0)
    );
    fixture.is_sound();
}

#[test]
fn a_handler_that_takes_one_has_the_rest_dropped() {
    let fixture = Fixture::new(|batch| drop(batch.next()));
    (0..200).for_each(|_| {
        _ = fixture
            .service
            .schedule(MS, fixture.payload(false))
            .unwrap()
    });
    fixture.clock.advance(MS);
    assert_eq!(fixture.dropped(), 200);
    fixture.is_sound();
}

#[test]
fn a_payload_that_the_handler_forgets_is_not_dropped() {
    let forgotten = AtomicUsize::new(0);
    let fixture = Fixture::new(move |batch| {
        for payload in batch {
            if forgotten.fetch_add(1, Ordering::Relaxed) < 10 {
                std::mem::forget(payload);
            }
        }
    });
    (0..200).for_each(|_| {
        _ = fixture
            .service
            .schedule(MS, fixture.payload(false))
            .unwrap()
    });
    fixture.clock.advance(MS);
    assert_eq!(
        (fixture.dropped(), fixture.service.stats().timers.fired),
        (190, 200)
    );
    fixture.is_sound();
}

#[test]
fn a_payload_that_the_handler_keeps_lives_on() {
    let (send, receive) = mpsc::channel();
    let fixture = Fixture::new(move |batch| batch.for_each(|payload| send.send(payload).unwrap()));
    (0..200).for_each(|_| {
        _ = fixture
            .service
            .schedule(MS, fixture.payload(false))
            .unwrap()
    });
    fixture.clock.advance(MS);
    assert!(fixture.service.stop().is_empty());
    drop(fixture.service);
    assert_eq!(fixture.dropped.load(Ordering::Relaxed), 0);
    assert_eq!(receive.try_iter().count(), 200);
    assert_eq!(fixture.dropped.load(Ordering::Relaxed), 200);
}

#[test]
fn a_drop_that_panics_in_a_handler_is_counted() {
    let fixture = Fixture::new(|batch| batch.for_each(drop));
    (0..200).for_each(|number| {
        _ = fixture
            .service
            .schedule(MS, fixture.payload(number % 4 == 0))
            .unwrap()
    });
    fixture.clock.advance(MS);
    assert_eq!(
        (
            fixture.dropped(),
            fixture.service.stats().timers.fired,
            fixture.service.stats().panics
        ),
        (200, 200, 50)
    );
    fixture.is_sound();
}

#[test]
fn a_drop_that_panics_behind_a_handler_is_counted() {
    // The handler takes nothing: it is the service that drops.
    let fixture = Fixture::new(|_| {});
    (0..200).for_each(|number| {
        _ = fixture
            .service
            .schedule(MS, fixture.payload(number % 4 == 0))
            .unwrap()
    });
    fixture.clock.advance(MS);
    assert_eq!(
        (
            fixture.dropped(),
            fixture.service.stats().timers.fired,
            fixture.service.stats().panics
        ),
        (200, 200, 50)
    );
    fixture.is_sound();
}

#[test]
fn drops_and_handlers_that_both_panic_come_to_an_end() {
    let (done, end) = mpsc::channel();
    std::thread::spawn(move || {
        let fixture = Fixture::new(|_| panic_as_expected());
        (0..200).for_each(|_| _ = fixture.service.schedule(MS, fixture.payload(true)).unwrap());
        fixture.clock.advance(MS);
        done.send((fixture.dropped(), fixture.service.stats().timers.fired))
            .unwrap();
    });
    assert_eq!(end.recv_timeout(HANGS), Ok((200, 200)));
}

#[test]
fn a_drop_that_panics_in_cancel_reaches_the_caller_alone() {
    let fixture = Fixture::new(|batch| batch.for_each(drop));
    let ids: Vec<_> = (0..200)
        .map(|_| fixture.service.schedule(MS, fixture.payload(true)).unwrap())
        .collect();
    for (cancelled, &id) in ids.iter().enumerate() {
        let panic = catch_unwind(AssertUnwindSafe(|| fixture.service.cancel(id))).unwrap_err();
        assert!(panic.is::<Expected>());
        assert_eq!(fixture.dropped(), cancelled + 1);
        assert!(!fixture.service.cancel(id), "it is cancelled nevertheless");
    }
    fixture.clock.advance(HOUR);
    assert_eq!(
        (
            fixture.service.stats().timers.fired,
            fixture.service.stats().panics
        ),
        (0, 0)
    );
    fixture.is_sound();
}

#[test]
fn a_drop_that_panics_in_the_drop_of_the_service_reaches_the_caller_alone() {
    let Fixture {
        clock,
        service,
        dropped,
    } = Fixture::new(|batch| batch.for_each(drop));
    let handle = service.handle();
    let payload = |panics| Payload {
        dropped: dropped.clone(),
        panics,
    };
    (0..100).for_each(|number| _ = handle.schedule(MS, payload(number == 50)).unwrap());
    assert!(
        catch_unwind(AssertUnwindSafe(|| drop(service)))
            .unwrap_err()
            .is::<Expected>()
    );
    assert_eq!(
        dropped.load(Ordering::Relaxed),
        100,
        "the others are dropped all the same"
    );
    clock.advance(HOUR);
    assert!(handle.schedule(MS, payload(false)).is_err());
}

/// The payload of a panic that panics when it is dropped, so often.
struct Chain(usize);

impl Drop for Chain {
    fn drop(&mut self) {
        if let Some(rest) = self.0.checked_sub(1) {
            resume_unwind(Box::new(Chain(rest)));
        }
    }
}

#[test]
fn a_panic_whose_payload_panics_reaches_nobody() {
    everywhere(|builder| {
        let service = builder.start().unwrap();
        let (send, receive) = mpsc::channel();
        for chain in 0..4 {
            service
                .schedule(MS, move || resume_unwind(Box::new(Chain(chain))))
                .unwrap();
            let send = send.clone();
            service
                .schedule(MS, move || send.send(()).unwrap())
                .unwrap();
        }
        (0..4).for_each(|_| receive.recv_timeout(HANGS).unwrap());
        service
            .schedule(MS, move || send.send(()).unwrap())
            .unwrap();
        receive.recv_timeout(HANGS).unwrap();
        assert!(service.stop().is_empty());
        assert_eq!(
            (service.stats().timers.fired, service.stats().panics),
            (9, 4)
        );
    });
}

#[test]
fn a_closure_whose_captures_panic_in_cancel_is_gone() {
    let service = TimerService::builder().start().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    for large in [false, true] {
        let payload = Payload {
            dropped: dropped.clone(),
            panics: true,
        };
        let id = if large {
            let room = [7u64; 20];
            service
                .schedule(HOUR, move || drop((payload, room)))
                .unwrap()
        } else {
            service.schedule(HOUR, move || drop(payload)).unwrap()
        };
        assert!(catch_unwind(AssertUnwindSafe(|| service.cancel(id))).is_err());
        assert!(!service.is_pending(id));
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    assert!(service.stop().is_empty());
}

#[test]
fn cancel_many_drops_one_payload_after_the_other() {
    let fixture = Fixture::new(|batch| batch.for_each(drop));
    let ids: Vec<_> = (0..200)
        .map(|number| {
            fixture
                .service
                .schedule(MS, fixture.payload(number % 4 == 0))
                .unwrap()
        })
        .collect();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        fixture.service.cancel_many(ids.clone())
    }))
    .unwrap_err();
    assert!(panic.is::<Expected>(), "the first one reaches the caller");
    assert_eq!(fixture.dropped(), 200, "all are cancelled, and dropped");
    assert!(!ids.iter().any(|&id| fixture.service.is_pending(id)));
    fixture.is_sound();
}

#[test]
fn cancel_all_drops_one_payload_after_the_other() {
    let fixture = Fixture::new(|batch| batch.for_each(drop));
    (0..200).for_each(|number| {
        _ = fixture
            .service
            .schedule(MS, fixture.payload(number % 4 == 0))
            .unwrap()
    });
    let panic = catch_unwind(AssertUnwindSafe(|| fixture.service.cancel_all())).unwrap_err();
    assert!(panic.is::<Expected>(), "the first one reaches the caller");
    assert_eq!(
        (fixture.dropped(), fixture.service.len()),
        (200, 0),
        "all are cancelled, and dropped"
    );
    fixture.is_sound();
}

#[test]
fn drops_that_panic_in_the_drop_of_the_service_come_one_after_the_other() {
    let Fixture {
        clock: _,
        service,
        dropped,
    } = Fixture::new(|batch| batch.for_each(drop));
    let payload = || Payload {
        dropped: dropped.clone(),
        panics: true,
    };
    (0..100).for_each(|_| _ = service.schedule(MS, payload()).unwrap());
    assert!(
        catch_unwind(AssertUnwindSafe(|| drop(service)))
            .unwrap_err()
            .is::<Expected>()
    );
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
}

#[test]
fn what_nobody_receives_is_dropped_one_payload_after_the_other() {
    for fire_all in [false, true] {
        let (clock, dropped) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
        let (builder, receiver) = TimerService::builder()
            .clock(clock.clone())
            .on_expire_channel::<Payload>(None);
        let service = builder.start().unwrap();
        drop(receiver);
        (0..200).for_each(|_| {
            _ = service
                .schedule(
                    MS,
                    Payload {
                        dropped: dropped.clone(),
                        panics: true,
                    },
                )
                .unwrap()
        });
        if fire_all {
            assert!(service.stop_with(StopPolicy::FireAll).is_empty());
        } else {
            clock.advance(MS);
        }
        let stats = service.stats();
        assert_eq!(
            (
                dropped.load(Ordering::Relaxed),
                stats.timers.fired,
                stats.panics
            ),
            (200, 200, 200),
            "FireAll: {fire_all}"
        );
        assert_eq!(stats.timers.dropped, 200, "FireAll: {fire_all}");
    }
}

/// A value that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_as_expected();
    }
}

/// What is captured by a handler, and by hooks, may panic when the service goes: by a task that has
/// the last of it, too.
#[test]
fn a_service_whose_handler_and_hooks_panic_when_they_go_is_gone() {
    everywhere(|builder| {
        let (handler, hooks) = (Bomb, [Bomb, Bomb, Bomb]);
        let [late, panic, dropped] = hooks;
        let builder = builder
            .on_late(HOUR, move |_| _ = &late)
            .on_panic(move |_| _ = &panic)
            .on_dropped(move |_| _ = &dropped)
            .on_expire(move |batch: &mut Batch<'_, Box<dyn FnOnce() + Send>>| {
                let _handler = &handler;
                batch.for_each(|task| task());
            });
        let service = Arc::new(builder.start().unwrap());
        let (send, receive) = mpsc::channel();
        let own = service.clone();
        let task = move || {
            drop(own);
            send.send(()).unwrap();
        };
        service
            .schedule(MS * 5, Box::new(task) as Box<dyn FnOnce() + Send>)
            .unwrap();
        drop(service);
        receive.recv_timeout(HANGS).unwrap();
    });
}

#[test]
fn a_service_that_goes_in_a_task_of_a_manual_clock_leaves_the_clock_to_others() {
    let clock = ManualClock::new();
    let bomb = Bomb;
    let handler = move |batch: &mut Batch<'_, Box<dyn FnOnce() + Send>>| {
        let _bomb = &bomb;
        batch.for_each(|task| task());
    };
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(handler)
        .start()
        .unwrap();
    let own = Arc::new(std::sync::Mutex::new(None));
    let last = own.clone();
    service
        .schedule(
            MS,
            Box::new(move || drop(last.lock().unwrap().take())) as Box<dyn FnOnce() + Send>,
        )
        .unwrap();
    *own.lock().unwrap() = Some(service);
    let other = Fixture {
        service: TimerService::builder()
            .clock(clock.clone())
            .on_expire(|batch: &mut Batch<'_, Payload>| batch.for_each(drop))
            .start()
            .unwrap(),
        clock: clock.clone(),
        dropped: Arc::default(),
    };
    clock.advance(MS);
    assert!(own.lock().unwrap().is_none());
    other.is_sound();
}

#[test]
fn two_closures_of_a_timer_may_panic_when_they_go() {
    let service = TimerService::builder().start().unwrap();
    let arm = || {
        let (run, next) = (Bomb, Bomb);
        let by = service.every_by(move |last| {
            let _next = &next;
            Some(last + HOUR)
        });
        by.first(HOUR).start(move || _ = &run).unwrap()
    };
    let (one, two, _three) = (arm(), arm(), arm());
    assert!(catch_unwind(AssertUnwindSafe(|| service.cancel(one))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| service.cancel_many([two]))).is_err());
    assert!(service.stop().is_empty());
    assert_eq!(service.stats().panics, 1, "that of the third");
}

#[test]
fn a_guard_that_goes_with_a_panic_cancels() {
    let fixture = Fixture::new(|batch| batch.for_each(drop));
    let id = fixture
        .service
        .schedule(HOUR, fixture.payload(true))
        .unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = fixture.service.guard(id);
        panic_as_expected();
    }));
    assert!(unwound.is_err() && fixture.dropped() == 1);
}
