//! Promise: durable timers fire at least once, never early, and `cancel` tells the truth. On a
//! manual clock, with the store for tests.

use std::num::NonZeroUsize;
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::{Dispatch, ManualClock};
use wheelwork_durable::{
    Delivery, Durable, DurableBuilder, DurableError, HandlerResult, Memory, OpenError, RetryPolicy,
    When, WindowLimits,
};

const SECOND: Duration = Duration::from_secs(1);

/// Payloads in the order in which a handler got them.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// A handler that notes the payload.
    fn handler(&self) -> impl Fn(&Delivery) -> HandlerResult + Send + Sync + 'static {
        let log = self.clone();
        move |delivery| {
            log.note(delivery.payload_text());
            Ok(())
        }
    }
}

fn open(clock: &ManualClock, store: &Memory) -> DurableBuilder<Memory> {
    Durable::builder(store.clone()).clock(clock.clone())
}

#[test]
fn nothing_lags_that_is_not_due() {
    let clock = ManualClock::new();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .on("x", |_| Ok(()))
        .start()
        .unwrap();
    // At the end of one of the seconds of 1,024 ms by which the window counts.
    let second = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000 * 1_024);
    clock.set_system_time(second - 5 * SECOND);
    let due = second + Duration::from_millis(1_020);
    let id = timers.schedule("x", due, "").unwrap();
    clock.advance(6 * SECOND);
    assert!(timers.get(id).unwrap().is_some(), "it takes a turn");
    assert_eq!(timers.stats().lag, Duration::ZERO);
}

#[test]
fn smoke() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let timers = open(&clock, &Memory::new())
        .on("mail", log.handler())
        .start()
        .unwrap();
    let first = timers.schedule("mail", SECOND, "first").unwrap();
    timers.schedule("mail", 2 * SECOND, "second").unwrap();
    let third = timers.schedule("mail", 3 * SECOND, "third").unwrap();
    assert!(timers.cancel(third).unwrap());
    assert!(!timers.cancel(third).unwrap());
    clock.advance(SECOND - Duration::from_millis(1));
    assert_eq!(log.take(), [""; 0]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(log.take(), ["first"]);
    assert!(!timers.cancel(first).unwrap());
    assert_eq!(timers.get(first).unwrap(), None);
    clock.advance(10 * SECOND);
    assert_eq!(log.take(), ["second"]);
    let stats = timers.stats();
    assert_eq!((stats.armed, stats.done, stats.cancelled), (3, 2, 1));
    assert_eq!((stats.window_rows, stats.lag), (0, Duration::ZERO));
}

#[test]
fn timers_survive_a_restart() {
    let (clock, log, store) = (ManualClock::new(), Log::default(), Memory::new());
    let timers = open(&clock, &store)
        .on("mail", log.handler())
        .start()
        .unwrap();
    timers.schedule("mail", 10 * SECOND, "due before").unwrap();
    timers.schedule("mail", 100 * SECOND, "due after").unwrap();
    timers
        .schedule("mail", 1_000_000 * SECOND, "due late")
        .unwrap();
    timers.stop().unwrap();
    clock.advance(50 * SECOND);
    assert_eq!(log.take(), [""; 0]);
    let timers = open(&clock, &store)
        .on("mail", log.handler())
        .start()
        .unwrap();
    clock.advance(Duration::from_millis(1));
    assert_eq!(log.take(), ["due before"]);
    clock.advance(50 * SECOND);
    assert_eq!(log.take(), ["due after"]);
    clock.advance(1_000_000 * SECOND);
    assert_eq!(log.take(), ["due late"]);
    drop(timers);
}

/// An error of a library whose own text says little.
#[derive(Debug)]
struct Outer(std::io::Error);

impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("db error")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn a_failure_is_told_with_its_causes() {
    let (clock, failed) = (ManualClock::new(), Log::default());
    let told = failed.clone();
    let timers = open(&clock, &Memory::new())
        .on("mail", |_| {
            Err(Outer(std::io::Error::other("no such\ntable")).into())
        })
        .retry_policy(RetryPolicy::new().attempts(1))
        .on_failed(move |_, why| told.note(why))
        .start()
        .unwrap();
    timers.schedule("mail", SECOND, "").unwrap();
    clock.advance(SECOND);
    assert_eq!(failed.take(), ["db error: no such table"]);
    let letters = timers.dead_letters(None, 10).unwrap();
    assert_eq!(
        letters[0].cause.to_string(),
        "its handler failed: db error: no such table"
    );
}

#[test]
fn a_timer_is_tried_again_and_dies() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let (failed, dead) = (Log::default(), Log::default());
    let (seen, hook_failed, hook_dead) = (log.clone(), failed.clone(), dead.clone());
    let timers = open(&clock, &Memory::new())
        .on("mail", move |delivery| {
            seen.note(format!("{}", delivery.attempt()));
            if delivery.attempt() == 2 {
                panic!("oh");
            }
            Err("no server".into())
        })
        .retry_policy_for("mail", RetryPolicy::new().first(SECOND).attempts(3))
        .on_failed(move |_, why| hook_failed.note(why))
        .on_dead(move |letter| hook_dead.note(letter.cause.to_string()))
        .start()
        .unwrap();
    let id = timers.schedule("mail", SECOND, "hello").unwrap();
    clock.advance(SECOND);
    assert_eq!(log.take(), ["1"]);
    // It waits, so it is there, and can be cancelled: another does.
    assert_eq!(timers.get(id).unwrap().unwrap().attempts, 1);
    clock.advance(20 * SECOND);
    assert_eq!(log.take(), ["2", "3"]);
    assert_eq!(failed.take(), ["no server", "it panicked: oh", "no server"]);
    assert_eq!(dead.take(), ["its handler failed: no server"]);
    assert_eq!(timers.get(id).unwrap(), None);
    let letters = timers.dead_letters(None, 10).unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].row.id, id);
    assert_eq!(&*letters[0].row.payload, b"hello");
    assert_eq!(letters[0].row.attempts, 3);
    assert!(timers.revive(id).unwrap());
    assert!(!timers.revive(id).unwrap());
    clock.advance(20 * SECOND);
    assert_eq!(log.take(), ["1", "2", "3"]);
    assert!(timers.discard_dead(id).unwrap());
    assert!(!timers.discard_dead(id).unwrap());
    assert_eq!(timers.dead_letters(None, 10).unwrap(), []);
}

#[test]
fn a_key_has_one_timer() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let timers = open(&clock, &Memory::new())
        .on("mail", log.handler())
        .start()
        .unwrap();
    let order = timers.key("4711");
    order.schedule("mail", SECOND, "former").unwrap();
    order.schedule("mail", 2 * SECOND, "present").unwrap();
    assert_eq!(&*order.get().unwrap().unwrap().payload, b"present");
    clock.advance(SECOND);
    assert_eq!(log.take(), [""; 0]);
    assert!(order.reschedule(5 * SECOND).unwrap());
    clock.advance(SECOND);
    assert_eq!(log.take(), [""; 0]);
    clock.advance(4 * SECOND);
    assert_eq!(log.take(), ["present"]);
    assert!(!order.cancel().unwrap());
    assert!(!order.reschedule(SECOND).unwrap());
}

#[test]
fn a_key_that_is_taken_while_its_handler_runs_supersedes_the_timer() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let seen = log.clone();
    let timers = Arc::new(Mutex::new(None::<wheelwork_durable::DurableClient>));
    let inside = timers.clone();
    let service = open(&clock, &Memory::new())
        .on("mail", move |delivery| {
            seen.note(delivery.payload_text());
            if delivery.payload() == b"former" {
                let timers = inside.lock().unwrap().clone().unwrap();
                assert!(!timers.key("4711").cancel()?);
                timers.key("4711").schedule("mail", 5 * SECOND, "present")?;
                return Err("fails, and is not tried again".into());
            }
            Ok(())
        })
        .start()
        .unwrap();
    *timers.lock().unwrap() = Some(service.client());
    service
        .key("4711")
        .schedule("mail", SECOND, "former")
        .unwrap();
    clock.advance(100 * SECOND);
    assert_eq!(log.take(), ["former", "present"]);
    assert_eq!(service.stats().superseded, 1);
    *timers.lock().unwrap() = None;
}

#[test]
fn a_timer_without_handler_is_kept() {
    let clock = ManualClock::new();
    let store = Memory::new();
    let handled = |_: &Delivery| Ok(());
    let timers = open(&clock, &store).on("report", handled);
    let timers = timers.start().unwrap();
    let due = |number: u64| SECOND + Duration::from_millis(number / 100);
    let many = (0..100_000).map(|number| ("mail", due(number), "hello"));
    timers.schedule_many(many).unwrap();
    clock.advance(100 * SECOND);
    assert_eq!(timers.dead_letters(None, 10).unwrap(), []);
    assert_eq!(timers.unhandled().unwrap()[0].rows, 100_000);
    timers.stop().unwrap();
    // They are released while others come due.
    let timers = open(&clock, &store).on("report", handled);
    let timers = timers.on("mail", handled).start().unwrap();
    timers.schedule("report", Duration::ZERO, "").unwrap();
    clock.advance(SECOND);
    assert_eq!(timers.stats().done, 100_001);
    assert_eq!(timers.list(.., 1).unwrap(), []);
    timers.stop().unwrap();
}

#[test]
fn batches_come_together() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let seen = log.clone();
    let timers = open(&clock, &Memory::new())
        .on_batch("mail", move |mails| {
            seen.note(mails.len().to_string());
            mails.iter().skip(1).map(|_| Ok(())).collect()
        })
        .start()
        .unwrap();
    let mails = (0..5).map(|number| ("mail", SECOND, vec![number]));
    let ids = timers.schedule_many(mails).unwrap();
    clock.advance(SECOND);
    assert_eq!(log.take(), ["5"]);
    let stats = timers.stats();
    assert_eq!((stats.done, stats.failed), (4, 1));
    let last = timers.get(ids[4]).unwrap().unwrap();
    assert_eq!(last.attempts, 1);
}

#[test]
fn a_limit_bounds_the_calls_at_once() {
    let clock = ManualClock::new();
    let (sender, futures) = crossbeam_channel::unbounded();
    let timers = open(&clock, &Memory::new())
        .spawner(move |future| sender.send(future).unwrap())
        .on_async("mail", |_| async { Ok(()) })
        .max_calls("mail", NonZeroUsize::new(2).unwrap())
        .start()
        .unwrap();
    let mails = (0..5).map(|number| ("mail", SECOND, vec![number]));
    timers.schedule_many(mails).unwrap();
    clock.advance(SECOND);
    for done in 0..5 {
        assert_eq!(futures.len(), (5 - done).min(2));
        assert_eq!(timers.stats().done, done as u64);
        futures_lite::future::block_on(futures.recv().unwrap());
    }
    assert!(futures.is_empty());
    assert_eq!(timers.stats().done, 5);
}

#[test]
fn a_future_that_is_dropped_has_failed() {
    let clock = ManualClock::new();
    let timers = open(&clock, &Memory::new())
        .spawner(drop)
        .on_async("mail", |_| std::future::pending())
        .start()
        .unwrap();
    let id = timers.schedule("mail", SECOND, "hello").unwrap();
    clock.advance(SECOND);
    assert_eq!(timers.stats().failed, 1);
    assert_eq!(timers.get(id).unwrap().unwrap().attempts, 1);
}

#[test]
fn a_clock_that_is_set_fires_what_is_due_and_nothing_early() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let timers = open(&clock, &Memory::new())
        .on("mail", log.handler())
        .start()
        .unwrap();
    let start = clock.system_time();
    timers.schedule("mail", 100 * SECOND, "loaded").unwrap();
    timers.schedule("mail", 100_000 * SECOND, "far").unwrap();
    clock.set_system_time(start - 50 * SECOND);
    clock.advance(149 * SECOND);
    assert_eq!(log.take(), [""; 0]);
    clock.advance(SECOND);
    assert_eq!(log.take(), ["loaded"]);
    // A year forward.
    clock.set_system_time(start + 365 * 86_400 * SECOND);
    clock.advance(2 * SECOND);
    assert_eq!(log.take(), ["far"]);
    // And back: what is armed now fires at its time.
    clock.set_system_time(start);
    let id = timers.schedule("mail", 10 * SECOND, "after").unwrap();
    assert!(timers.cancel(id).unwrap());
    timers.schedule("mail", 10 * SECOND, "after").unwrap();
    clock.advance(10 * SECOND - Duration::from_millis(1));
    assert_eq!(log.take(), [""; 0]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(log.take(), ["after"]);
}

#[test]
fn a_small_window_costs_no_promise() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let timers = open(&clock, &Memory::new())
        .window(WindowLimits::new().rows(8).bytes(1 << 20))
        .on("mail", log.handler())
        .start()
        .unwrap();
    let random = &mut fastrand::Rng::with_seed(7);
    let mut wanted = Vec::new();
    for number in 0..500 {
        let at = random.u64(0..1_000_000);
        let id = timers
            .schedule("mail", Duration::from_millis(at), format!("{number}"))
            .unwrap();
        wanted.push((at, number, id));
    }
    wanted.retain(|&(_, number, id)| number % 3 > 0 || !timers.cancel(id).unwrap());
    assert!(timers.stats().window_rows <= 10);
    clock.advance(1_000 * SECOND);
    wanted.sort_unstable();
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(_, number, _)| number.to_string())
        .collect();
    assert_eq!(log.take(), wanted);
}

#[test]
fn bad_input_is_an_error() {
    let clock = ManualClock::new();
    let timers = open(&clock, &Memory::new()).start().unwrap();
    let long = "k".repeat(10_240);
    assert!(matches!(
        timers.key(&long).schedule("mail", SECOND, ""),
        Err(DurableError::KeyTooLong {
            bytes: 10_240,
            max: 1_024
        })
    ));
    assert!(matches!(
        timers.schedule(&long, SECOND, ""),
        Err(DurableError::KindTooLong { .. })
    ));
    assert!(matches!(
        timers.schedule("mail", SECOND, vec![0; (1 << 20) + 1]),
        Err(DurableError::PayloadTooLarge { .. })
    ));
    let error = open(&clock, &Memory::new())
        .retry_policy_for("mail", RetryPolicy::never())
        .start()
        .unwrap_err();
    assert!(matches!(error, OpenError::Setting(_)));
    assert_eq!(
        error.to_string(),
        "the kind \"mail\" has a setting, and no handler"
    );
    let error = open(&clock, &Memory::new())
        .on_async("mail", |_| async { Ok(()) })
        .start()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the handler of the kind \"mail\" is async, and no `spawner` is set"
    );
}

#[test]
fn times_far_away_are_times() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let timers = open(&clock, &Memory::new())
        .on("mail", log.handler())
        .start()
        .unwrap();
    let whens: [(When, &str); 4] = [
        (SystemTime::UNIX_EPOCH.into(), "epoch"),
        ((SystemTime::UNIX_EPOCH - SECOND).into(), "before"),
        (Duration::from_secs(292 * 366 * 86_400).into(), "292 years"),
        (Duration::MAX.into(), "never"),
    ];
    let ids = whens.map(|(when, name)| timers.schedule("mail", when, name).unwrap());
    clock.advance(Duration::from_millis(2));
    assert_eq!(log.take(), ["epoch", "before"]);
    assert!(timers.cancel(ids[2]).unwrap());
    assert!(timers.cancel(ids[3]).unwrap());
}

#[test]
fn tickets_of_moves_and_cancels() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let timers = open(&clock, &Memory::new())
        .on("mail", log.handler())
        .start()
        .unwrap();
    let key = timers.key("one");
    key.schedule("mail", SECOND, "by key").unwrap();
    let id = timers.schedule("mail", SECOND, "by id").unwrap();
    let moved = [
        key.reschedule_ticket(3 * SECOND).unwrap(),
        timers.reschedule_ticket(id, 3 * SECOND).unwrap(),
    ];
    assert_eq!(moved.map(|ticket| ticket.wait().unwrap()), [true; 2]);
    clock.advance(2 * SECOND);
    assert_eq!(log.take(), [""; 0]);
    assert!(key.cancel_ticket().unwrap().wait().unwrap());
    assert!(!key.cancel_ticket().unwrap().wait().unwrap());
    assert!(!key.reschedule_ticket(SECOND).unwrap().wait().unwrap());
    clock.advance(2 * SECOND);
    assert_eq!(log.take(), ["by id"]);
    let late = timers.reschedule_ticket(id, SECOND).unwrap();
    assert!(!late.wait().unwrap());
}

#[test]
fn threads_and_tickets() {
    let log = Log::default();
    let timers = Durable::builder(Memory::new())
        .dispatch(Dispatch::RayonThreads(2))
        .on("mail", log.handler())
        .start()
        .unwrap();
    let tickets: Vec<_> = (0..1_000)
        .map(|number| {
            timers
                .schedule_ticket("mail", Duration::ZERO, format!("{number}"))
                .unwrap()
        })
        .collect();
    for ticket in tickets {
        futures_lite::future::block_on(ticket).unwrap();
    }
    // (A timer is done when that is stored.)
    while timers.stats().done < 1_000 {
        std::thread::yield_now();
    }
    let mut seen = log.take();
    seen.sort_unstable_by_key(|number| number.parse::<u32>().unwrap());
    let wanted: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();
    assert_eq!(seen, wanted);
    timers.stop().unwrap();
    assert!(matches!(
        timers.schedule("mail", SECOND, ""),
        Err(DurableError::Stopped)
    ));
    timers.stop().unwrap();
}

#[test]
fn whoever_asks_while_it_stops_is_answered() {
    for _ in 0..50 {
        let timers = Durable::builder(Memory::new()).start().unwrap();
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let handle = timers.client();
                std::thread::spawn(
                    move || {
                        while handle.schedule("mail", 1_000 * SECOND, "").is_ok() {}
                    },
                )
            })
            .collect();
        while timers.stats().armed < 3 {
            std::thread::yield_now();
        }
        timers.stop().unwrap();
        // (It would hang.)
        callers
            .into_iter()
            .for_each(|caller| caller.join().unwrap());
    }
}

#[test]
fn a_list_may_begin_and_end_before_1970() {
    let timers = Durable::builder(Memory::new())
        .clock(ManualClock::new())
        .start()
        .unwrap();
    let epoch = SystemTime::UNIX_EPOCH;
    timers.schedule("mail", epoch, "").unwrap();
    let before = epoch - Duration::from_secs(1);
    let list =
        |range: (Bound<SystemTime>, Bound<SystemTime>)| timers.list(range, 10).unwrap().len();
    assert_eq!(list((Bound::Excluded(before), Bound::Unbounded)), 1);
    assert_eq!(list((Bound::Unbounded, Bound::Included(before))), 0);
    assert_eq!(list((Bound::Unbounded, Bound::Excluded(epoch))), 0);
    assert_eq!(list((Bound::Unbounded, Bound::Included(epoch))), 1);
}

#[test]
fn of_a_long_error_the_beginning_is_stored() {
    let clock = ManualClock::new();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .on("mail", |_| Err("\u{20ac}".repeat(7_000_000).into()))
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    timers.schedule("mail", Duration::ZERO, "").unwrap();
    clock.advance(Duration::from_millis(10));
    let dead = timers.dead_letters(None, 10).unwrap();
    let why = dead[0].cause.to_string();
    assert!(why.len() < 5_000, "{} bytes", why.len());
    assert!(why.contains("\u{20ac}.. (20995905 bytes more)"), "{why}");
}
