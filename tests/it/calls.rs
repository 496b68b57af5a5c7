//! Promise: each call of a [`Coalesced`] is followed by a run that begins after it, once for many
//! calls, and in time. Runs never overlap. A panic, a cancel, a stop and a full service lose no
//! later call. A keep-alive runs when nothing has come, and ends when it is dropped.

use crate::quiet::panic_on_purpose;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;
use wheelwork::{Coalesced, ManualClock, ScheduleError, StopPolicy, TimerService};

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// A service on a clock that the test moves, and a count of runs.
struct Runs {
    service: TimerService,
    clock: ManualClock,
    count: Arc<AtomicU32>,
}

impl Runs {
    fn new() -> Self {
        let clock = ManualClock::new();
        let builder = TimerService::builder().shards(1).clock(clock.clone());
        Self {
            service: builder.start().unwrap(),
            clock,
            count: Arc::default(),
        }
    }

    fn counted(&self) -> impl Fn() + Send + Sync + 'static {
        let count = self.count.clone();
        move || {
            count.fetch_add(1, SeqCst);
        }
    }

    fn after(&self, ms: u32) -> u32 {
        self.clock.advance(ms * MS);
        self.count.load(SeqCst)
    }
}

#[test]
fn a_debounced_closure_runs_when_calls_have_ended() {
    let runs = Runs::new();
    let save = runs.service.debounce(10 * MS, runs.counted());
    assert_eq!(runs.after(100), 0, "nobody has called");
    for burst in 0..3 {
        for _ in 0..50 {
            save.call().unwrap();
            assert_eq!(runs.after(3), burst);
        }
        assert_eq!(runs.after(6), burst);
        assert_eq!(runs.after(1), burst + 1);
        assert_eq!(runs.after(100), burst + 1);
    }
    assert!(runs.service.is_empty());
}

#[test]
fn a_call_does_not_arm_a_timer_of_its_own() {
    let runs = Runs::new();
    let save = runs.service.debounce(10 * MS, runs.counted());
    for _ in 0..1_000 {
        save.call().unwrap();
    }
    assert_eq!(runs.service.stats().timers.armed, 1);
    assert_eq!(runs.after(10), 1);
}

#[test]
fn calls_without_a_pause_do_not_put_a_run_off_for_ever() {
    let runs = Runs::new();
    let index = runs
        .service
        .debounce_within(10 * MS, 35 * MS, runs.counted());
    for ms in 0..100 {
        index.call().unwrap();
        // At 35; the next wait begins with the call at 35.
        assert_eq!(runs.after(1), (ms + 1) / 35, "{ms}");
    }
    let never_ends = runs.service.debounce(10 * MS, || unreachable!());
    for _ in 0..1_000 {
        never_ends.call().unwrap();
        runs.clock.advance(9 * MS);
    }
    assert!(never_ends.cancel());
}

#[test]
fn a_throttled_closure_runs_at_once_and_then_once_a_gap() {
    let runs = Runs::new();
    let draw = runs.service.throttle(10 * MS, runs.counted());
    draw.call().unwrap();
    assert_eq!(runs.after(1), 1);
    for ms in 1..100 {
        draw.call().unwrap();
        assert_eq!(runs.after(1), 1 + ms / 10, "{ms}");
    }
    // The last call is followed by a run, and after that there is none.
    assert_eq!(runs.after(10), 11);
    assert_eq!(runs.after(100), 11);
    draw.call().unwrap();
    assert_eq!(runs.after(1), 12);
    assert!(runs.service.is_empty());
}

/// A closure that calls for its own next run, the first few times.
fn calls_itself(runs: &Runs, times: u32, debounce: bool) -> Arc<OnceLock<Coalesced>> {
    let own = Arc::new(OnceLock::<Coalesced>::new());
    let (inner, counted, count) = (own.clone(), runs.counted(), runs.count.clone());
    let run = move || {
        counted();
        if count.load(SeqCst) < times {
            let _ = inner.get().unwrap().call();
        }
    };
    let coalesced = if debounce {
        runs.service.debounce(10 * MS, run)
    } else {
        runs.service.throttle(10 * MS, run)
    };
    assert!(own.set(coalesced).is_ok());
    own
}

#[test]
fn a_call_during_a_run_is_followed_by_another_run() {
    for debounce in [true, false] {
        let runs = Runs::new();
        let own = calls_itself(&runs, 3, debounce);
        own.get().unwrap().call().unwrap();
        let first = if debounce { 10 } else { 1 };
        assert_eq!(runs.after(first), 1);
        assert_eq!(runs.after(9), 1);
        assert_eq!([runs.after(1), runs.after(10), runs.after(50)], [2, 3, 3]);
    }
}

#[test]
fn a_run_that_panics_loses_no_later_call() {
    let runs = Runs::new();
    let (counted, panics) = (runs.counted(), Arc::new(AtomicBool::new(true)));
    let (own, is_bad) = (Arc::new(OnceLock::<Coalesced>::new()), panics.clone());
    let inner = own.clone();
    let coalesced = runs.service.debounce(10 * MS, move || {
        counted();
        if is_bad.swap(false, SeqCst) {
            inner.get().unwrap().call().unwrap();
            panic_on_purpose();
        }
    });
    own.set(coalesced).unwrap_or_else(|_| unreachable!());
    own.get().unwrap().call().unwrap();
    assert_eq!(runs.after(10), 1);
    assert_eq!(runs.service.stats().panics, 1);
    // What it had called for before it panicked; then what others call for.
    assert_eq!(runs.after(10), 2);
    panics.store(true, SeqCst);
    own.get().unwrap().call().unwrap();
    assert_eq!([runs.after(10), runs.after(10), runs.after(10)], [3, 4, 4]);
}

#[test]
fn what_is_called_off_does_not_run_and_hides_no_later_call() {
    let runs = Runs::new();
    let save = runs.service.debounce(10 * MS, runs.counted());
    assert!(!save.cancel());
    save.call().unwrap();
    assert!(save.cancel() && !save.cancel());
    assert_eq!(runs.after(5), 0);
    // The timer of the first call is still there, and does for the second one.
    save.call().unwrap();
    assert_eq!([runs.after(9), runs.after(1)], [0, 1]);
    save.call().unwrap();
    save.cancel();
    assert_eq!(runs.after(10), 1);
    assert!(runs.service.is_empty());
    save.call().unwrap();
    assert_eq!(runs.after(10), 2);
}

/// The longest wait of a call that was called off is not that of the next call.
#[test]
fn what_is_called_off_does_not_hurry_a_later_call() {
    let runs = Runs::new();
    let save = runs
        .service
        .debounce_within(300 * MS, 1_000 * MS, runs.counted());
    for _ in 0..9 {
        save.call().unwrap();
        runs.after(100);
    }
    assert!(save.cancel());
    runs.after(50);
    save.call().unwrap();
    assert_eq!([runs.after(299), runs.after(1)], [0, 1]);
    // Calls without a pause: its own longest wait is what holds.
    save.call().unwrap();
    assert!(save.cancel());
    runs.after(100);
    for _ in 0..9 {
        save.call().unwrap();
        assert_eq!(runs.after(100), 1);
    }
    save.call().unwrap();
    assert_eq!([runs.after(99), runs.after(1)], [1, 2]);
}

#[test]
fn a_timer_that_somebody_else_cancels_hides_no_later_call() {
    let runs = Runs::new();
    let save = runs.service.debounce(10 * MS, runs.counted());
    save.call().unwrap();
    assert_eq!(runs.service.cancel_all(), 1);
    assert!(!save.cancel(), "it was called off with its timer");
    assert_eq!(runs.after(20), 0);
    save.call().unwrap();
    assert_eq!(runs.after(10), 1);
}

#[test]
fn a_stop_treats_what_waits_as_a_timer() {
    // Handed back: whoever runs it runs the closure.
    let runs = Runs::new();
    let save = runs.service.debounce(10 * MS, runs.counted());
    save.call().unwrap();
    let unfired = runs.service.stop();
    assert_eq!(unfired.len(), 1);
    assert!(matches!(save.call(), Ok(())), "one is called for already");
    for timer in unfired {
        timer.payload.run();
    }
    assert_eq!(runs.count.load(SeqCst), 1);
    assert!(matches!(save.call(), Err(ScheduleError::Stopped(()))));
    assert!(matches!(save.call(), Err(ScheduleError::Stopped(()))));

    // Fired, though its last call was just now.
    let runs = Runs::new();
    let save = runs.service.debounce(10 * MS, runs.counted());
    save.call().unwrap();
    runs.after(5);
    save.call().unwrap();
    runs.service.stop_with(StopPolicy::FireAll);
    assert_eq!(runs.count.load(SeqCst), 1);

    // Dropped.
    let runs = Runs::new();
    let save = runs.service.debounce(10 * MS, runs.counted());
    save.call().unwrap();
    let Runs { service, count, .. } = runs;
    drop(service);
    assert_eq!(count.load(SeqCst), 0);
    assert!(matches!(save.call(), Err(ScheduleError::Stopped(()))));
}

/// A closure that always calls for its next run holds no stop up.
#[test]
fn a_closure_that_calls_itself_ends_with_its_service() {
    for debounce in [true, false] {
        let runs = Runs::new();
        let own = calls_itself(&runs, u32::MAX, debounce);
        own.get().unwrap().call().unwrap();
        runs.service.stop_with(StopPolicy::FireAll);
        let count = runs.count.load(SeqCst);
        assert!((1..=2).contains(&count), "{count}");
    }
}

#[test]
fn a_full_service_refuses_a_call_and_hides_none() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().clock(clock.clone()).max_pending(1);
    let service = builder.start().unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let counter = count.clone();
    let save = service.debounce(10 * MS, move || {
        counter.fetch_add(1, SeqCst);
    });
    let other = service.schedule(1_000 * MS, || ()).unwrap();
    assert!(matches!(save.call(), Err(ScheduleError::Full(()))));
    assert!(service.cancel(other));
    save.call().unwrap();
    clock.advance(10 * MS);
    assert_eq!(count.load(SeqCst), 1);
}

/// Its timer is due, but more calls have come, and the service has no room for another timer.
#[test]
fn a_run_that_cannot_wait_on_comes_at_once() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().shards(1).clock(clock.clone());
    let service = Arc::new(builder.max_pending(2).start().unwrap());
    let count = Arc::new(AtomicU32::new(0));
    let counter = count.clone();
    let save = service.debounce(10 * MS, move || {
        counter.fetch_add(1, SeqCst);
    });
    let handle = service.handle();
    let room = service.schedule(
        10 * MS,
        move || {
            while handle.schedule(1_000 * MS, || ()).is_ok() {}
        },
    );
    room.unwrap();
    save.call().unwrap();
    clock.advance(5 * MS);
    save.call().unwrap();
    clock.advance(5 * MS);
    assert_eq!(count.load(SeqCst), 1, "5 ms early, but not lost");
    clock.advance(100 * MS);
    assert_eq!(count.load(SeqCst), 1);
    service.cancel_all();
    save.call().unwrap();
    clock.advance(10 * MS);
    assert_eq!(count.load(SeqCst), 2);
}

/// No run follows a call during a run that comes at once, so it is refused. The next one leads to a
/// run.
#[test]
fn a_call_during_a_run_that_cannot_wait_is_refused() {
    let clock = ManualClock::new();
    let builder = TimerService::builder().shards(1).clock(clock.clone());
    let service = builder.max_pending(1).start().unwrap();
    let (own, said) = (
        Arc::new(OnceLock::<Coalesced>::new()),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (inner, results, handle) = (own.clone(), said.clone(), service.handle());
    let run = move || {
        while handle.schedule(1_000 * MS, || ()).is_ok() {}
        let called = inner.get().unwrap().call();
        results.lock().unwrap().push(called.is_ok());
    };
    assert!(own.set(service.throttle(10 * MS, run)).is_ok());
    let closure = own.get().unwrap();
    closure.call().unwrap();
    clock.advance(100 * MS);
    assert_eq!(
        *said.lock().unwrap(),
        [true, false],
        "the second run was the last"
    );
    service.cancel_all();
    closure.call().unwrap();
    clock.advance(20 * MS);
    assert_eq!(said.lock().unwrap().len(), 4);
}

/// What a thread has written before its call, the last run has read.
#[test]
fn calls_of_many_threads_are_all_followed_by_a_run() {
    for debounce in [true, false] {
        let service = TimerService::builder().tick(MS).start().unwrap();
        let (written, is_running) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
        let (send, read) = mpsc::channel();
        let counter = written.clone();
        let run = move || {
            assert!(!is_running.swap(true, SeqCst), "two runs at once");
            let _ = send.send(counter.load(SeqCst));
            is_running.store(false, SeqCst);
        };
        let closure = if debounce {
            service.debounce(MS, run)
        } else {
            service.throttle(MS, run)
        };
        const CALLS: u64 = 10_000;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..CALLS {
                        written.fetch_add(1, SeqCst);
                        closure.call().unwrap();
                    }
                });
            }
        });
        while read.recv_timeout(HANGS).expect("a call is lost") < 4 * CALLS {}
        service.stop();
        assert_eq!(service.stats().panics, 0);
    }
}

#[test]
fn a_keep_alive_runs_when_nothing_has_come() {
    let runs = Runs::new();
    let keep_alive = runs.service.keep_alive(30 * MS, runs.counted()).unwrap();
    for _ in 0..10 {
        assert_eq!(runs.after(29), 0);
        assert!(keep_alive.reset());
    }
    assert_eq!([runs.after(29), runs.after(1)], [0, 1]);
    assert_eq!([runs.after(29), runs.after(1)], [1, 2]);
    runs.after(29);
    assert!(keep_alive.reset());
    assert_eq!([runs.after(29), runs.after(1)], [2, 3]);
    drop(keep_alive);
    assert_eq!(runs.after(100), 3);
    assert!(runs.service.is_empty());
}

#[test]
fn a_keep_alive_s_closure_goes_when_it_is_dropped() {
    let runs = Runs::new();
    let captured = Arc::new(());
    let held = captured.clone();
    let keep_alive = runs.service.keep_alive(30 * MS, move || drop(held.clone()));
    drop(keep_alive.unwrap());
    assert_eq!(Arc::strong_count(&captured), 1);

    // From within its own run, too.
    let place = Arc::new(Mutex::new(None));
    let (inner, held) = (place.clone(), captured.clone());
    let keep_alive = runs.service.keep_alive(30 * MS, move || {
        let keep_alive = inner.lock().unwrap().take();
        assert!(keep_alive.is_some_and(|own: wheelwork::KeepAlive<_>| !own.reset()));
        drop(held.clone());
    });
    *place.lock().unwrap() = Some(keep_alive.unwrap());
    runs.after(200);
    assert_eq!(Arc::strong_count(&captured), 1);
    assert_eq!(runs.service.stats().panics, 0);
}

#[test]
fn a_keep_alive_ends_with_its_service() {
    let runs = Runs::new();
    let keep_alive = runs.service.keep_alive(30 * MS, runs.counted()).unwrap();
    runs.service.stop();
    assert!(!keep_alive.reset());
    assert_eq!(runs.after(100), 0);
    let again = runs.service.keep_alive(30 * MS, || ());
    assert!(matches!(again, Err(ScheduleError::Stopped(()))));
}
