//! Promise: a timer that expires is not handed out afterwards, and is a dead letter then. What is
//! set for a single timer is stored with it, through moves, retries, restarts and its death.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::{
    Cause, Delivery, Durable, DurableBuilder, DurableError, GiveUp, Kind, Later, Memory,
    RetryPolicy, SpawnedFuture, StoreTime,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A builder whose kind `work` counts its calls.
fn counting(clock: &ManualClock, store: &Memory) -> (DurableBuilder<Memory>, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let count = calls.clone();
    let builder = Durable::builder(store.clone())
        .clock(clock.clone())
        .on("work", move |_| {
            count.fetch_add(1, SeqCst);
            Ok(())
        });
    (builder, calls)
}

#[test]
fn it_is_found_when_it_is_due_and_is_not_handed_out() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let (builder, calls) = counting(&clock, &store);
    let timers = builder.start().unwrap();
    let [late, in_time, never] = [Some(10 * SECOND), Some(2 * HOUR), None].map(|limit| {
        let timer = timers.timer("work", SECOND, "");
        let timer = limit
            .iter()
            .fold(timer, |timer, &limit| timer.not_after(limit));
        timer.schedule().unwrap()
    });
    drop(timers);
    clock.advance(HOUR);
    let (builder, calls_after) = counting(&clock, &store);
    let deaths = Arc::new(Mutex::new(Vec::new()));
    let log = deaths.clone();
    let builder = builder.on_dead(move |letter| {
        let letter = (letter.row.id, letter.cause.clone(), letter.row.attempts);
        log.lock().unwrap().push(letter);
    });
    let timers = builder.start().unwrap();
    clock.advance(SECOND);
    assert_eq!((calls.load(SeqCst), calls_after.load(SeqCst)), (0, 2));
    assert_eq!(*deaths.lock().unwrap(), [(late, Cause::Expired, 0)]);
    let stats = timers.stats();
    let counts = (stats.expired, stats.died, stats.done, stats.failed);
    assert_eq!(counts, (1, 1, 2, 0));
    assert_eq!(timers.get(in_time).unwrap(), None);
    assert_eq!(timers.get(never).unwrap(), None);
    let dead = timers.dead_letters(None, 9).unwrap();
    assert_eq!((dead.len(), dead[0].row.id), (1, late));
    assert_eq!(Cause::Expired.to_string(), "it expired");
}

#[test]
fn the_last_instant_is_in_time() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let (builder, calls) = counting(&clock, &store);
    let timers = builder.start().unwrap();
    let timer = timers.timer("work", SECOND, "").not_after(SECOND);
    timer.clone().schedule().unwrap();
    clock.advance(SECOND);
    assert_eq!((calls.load(SeqCst), timers.stats().expired), (1, 0));
    timer.schedule().unwrap();
    drop(timers);
    clock.advance(SECOND);
    // (What is overdue when a program starts is handed out a millisecond later.)
    let (builder, calls) = counting(&clock, &store);
    let timers = builder.start().unwrap();
    clock.advance(MS);
    assert_eq!((calls.load(SeqCst), timers.stats().expired), (0, 1));
}

#[test]
fn it_expires_while_it_waits_for_a_place_or_for_its_executor() {
    let clock = ManualClock::new();
    let (sender, futures) = crossbeam_channel::unbounded::<SpawnedFuture>();
    let begun = Arc::new(AtomicU32::new(0));
    let count = begun.clone();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .spawner(move |future| sender.send(future).unwrap())
        .on_async("work", move |_| {
            count.fetch_add(1, SeqCst);
            async { Ok(()) }
        })
        .max_calls("work", NonZeroUsize::MIN)
        .start()
        .unwrap();
    for _ in 0..3 {
        let timer = timers.timer("work", SECOND, "").not_after(10 * SECOND);
        timer.schedule().unwrap();
    }
    clock.advance(SECOND);
    assert_eq!(futures.len(), 1, "the others wait for its place");
    futures_lite::future::block_on(futures.recv().unwrap());
    assert_eq!((begun.load(SeqCst), futures.len()), (1, 1));
    clock.advance(HOUR);
    // The second one has waited for its executor, and the third one for the second one's place.
    futures_lite::future::block_on(futures.recv().unwrap());
    assert_eq!((begun.load(SeqCst), futures.len()), (1, 0));
    clock.advance(MS);
    assert_eq!((timers.stats().expired, timers.stats().done), (2, 1));
}

#[test]
fn an_attempt_that_would_come_too_late_is_none() {
    let answers: [fn() -> wheelwork_durable::HandlerResult; 3] = [
        || Err("no server".into()),
        || Err(Later::after(HOUR).into()),
        || Err(GiveUp::because("no").into()),
    ];
    let causes = [
        (Cause::Failed("no server".into()), 2),
        (Cause::Expired, 0),
        (Cause::GivenUp("no".into()), 1),
    ];
    for (answer, (cause, attempts)) in answers.into_iter().zip(causes) {
        let (clock, store) = (ManualClock::new(), Memory::new());
        let timers = Durable::builder(store)
            .clock(clock.clone())
            .retry_policy(RetryPolicy::new().first(20 * SECOND).cap(20 * SECOND))
            .on("work", move |_| answer())
            .start()
            .unwrap();
        let timer = timers.timer("work", SECOND, "").not_after(30 * SECOND);
        timer.schedule().unwrap();
        clock.advance(60 * SECOND);
        let dead = timers.dead_letters(None, 9).unwrap();
        assert_eq!((&dead[0].cause, dead[0].row.attempts), (&cause, attempts));
        // It did not wait for the time at which it expires.
        assert!(dead[0].since <= dead[0].row.expires().unwrap(), "{cause}");
    }
}

#[test]
fn what_is_put_off_within_its_time_comes_again() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let timers = Durable::builder(store)
        .clock(clock.clone())
        .on("work", |work: &Delivery| {
            let expires = work.expires().ok_or("it has no expiry")?;
            Err(Later::at(expires).into())
        })
        .start()
        .unwrap();
    let timer = timers.timer("work", SECOND, "").not_after(HOUR);
    let id = timer.schedule().unwrap();
    clock.advance(SECOND);
    let row = timers.get(id).unwrap().unwrap();
    assert_eq!(Some(row.due), row.expires());
    clock.advance(HOUR);
    // At its last instant it is handed out, and could not come again afterwards.
    let stats = timers.stats();
    assert_eq!((stats.snoozed, stats.expired, stats.failed), (1, 1, 0));
}

#[test]
fn what_is_moved_behind_its_end_expires_and_what_is_revived_too() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let (builder, calls) = counting(&clock, &store);
    let timers = builder.start().unwrap();
    let timer = timers.timer("work", SECOND, "").not_after(HOUR);
    let id = timer.key("key").schedule().unwrap();
    assert!(timers.key("key").reschedule(2 * HOUR).unwrap());
    clock.advance(2 * HOUR);
    assert_eq!((timers.stats().expired, calls.load(SeqCst)), (1, 0));
    assert!(timers.revive(id).unwrap());
    clock.advance(SECOND);
    assert_eq!((timers.stats().expired, calls.load(SeqCst)), (2, 0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let (builder, _) = counting(&clock, &store);
    let timers = builder.start().unwrap();
    let timer = timers.timer("work", HOUR, "").not_after(SECOND);
    let error = timer.schedule().unwrap_err();
    assert!(matches!(error, DurableError::Invalid(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "the timer would expire 3599s before it is due"
    );
    let timer = timers
        .timer("work", HOUR, "")
        .not_after(SystemTime::UNIX_EPOCH);
    assert!(timer.clone().schedule_ticket().is_err());
    // (The same time is one, and a delay that no time can hold is the last time.)
    let timer = timer.not_after(HOUR);
    assert!(timer.schedule_ticket().unwrap().wait().is_ok());
    let timer = timers.timer("work", HOUR, "").not_after(Duration::MAX);
    let id = timer.schedule().unwrap();
    let row = timers.get(id).unwrap().unwrap();
    assert_eq!(row.expires(), Some(StoreTime::MAX));
    assert_eq!(timers.list(.., 9).unwrap().len(), 2);
}

#[test]
fn a_key_has_one_timer_however_it_is_armed() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let (builder, calls) = counting(&clock, &store);
    let timers = builder.start().unwrap();
    let first = timers.key("key").schedule("work", SECOND, "").unwrap();
    let second = timers.timer("work", SECOND, "").key("key");
    let second = second.not_after(HOUR).schedule().unwrap();
    assert_eq!(timers.get(first).unwrap(), None);
    assert_eq!(timers.key("key").get().unwrap().unwrap().id, second);
    let third = timers.key("key").schedule("work", SECOND, "").unwrap();
    assert_eq!(timers.get(third).unwrap().unwrap().expires(), None);
    clock.advance(SECOND);
    assert_eq!(calls.load(SeqCst), 1);
}

const UNPAID: Kind<u64> = Kind::new("unpaid");

#[test]
fn a_value_may_have_settings_too() {
    let (clock, log) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
    let numbers = log.clone();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .on_typed(UNPAID, move |order, number| {
            let told = (number, order.expires().is_some(), order.key().is_some());
            numbers.lock().unwrap().push(told);
            Ok(())
        })
        .start()
        .unwrap();
    let timer = timers.timer_typed(UNPAID, SECOND, &7).unwrap();
    timer.not_after(HOUR).schedule().unwrap();
    let timer = timers.timer_typed("unpaid", 2 * SECOND, &8_u64).unwrap();
    timer.key("eight").schedule().unwrap();
    clock.advance(HOUR);
    assert_eq!(*log.lock().unwrap(), [(7, true, false), (8, false, true)]);
}

#[test]
fn a_trace_comes_with_each_attempt_and_a_text_that_is_none_does_not() {
    let (clock, store) = (ManualClock::new(), Memory::new());
    let log = Arc::new(Mutex::new(Vec::new()));
    let open = || {
        let traces = log.clone();
        Durable::builder(store.clone())
            .clock(clock.clone())
            .on("work", move |work: &Delivery| {
                let trace = work.traceparent().map(str::to_owned);
                traces.lock().unwrap().push((work.attempt(), trace));
                match work.attempt() {
                    1 => Err("failed".into()),
                    _ => Err(GiveUp::because("enough").into()),
                }
            })
            .start()
            .unwrap()
    };
    let timers = open();
    let id = timers
        .timer("work", SECOND, "")
        .traceparent(TRACE)
        .schedule();
    let id = id.unwrap();
    drop(timers);
    let timers = open();
    assert!(timers.reschedule(id, 2 * SECOND).unwrap());
    clock.advance(HOUR);
    let trace = Some(TRACE.to_owned());
    assert_eq!(
        *log.lock().unwrap(),
        [(1, trace.clone()), (2, trace.clone())]
    );
    let dead = timers.dead_letters(None, 9).unwrap();
    assert_eq!(dead[0].row.traceparent(), Some(TRACE));
    assert!(timers.revive(id).unwrap());
    clock.advance(SECOND);
    assert_eq!(log.lock().unwrap()[2], (1, trace));

    let later_version = format!("cc{}-what-comes-later", &TRACE[2..]);
    let (long, far) = (
        format!("{TRACE}-"),
        format!("cc{}-{}", &TRACE[2..], "x".repeat(99)),
    );
    let wrong = [
        "",
        "hello",
        &TRACE[1..],
        &TRACE[..54],
        &TRACE.to_uppercase(),
        &TRACE.replace("00-4b", "ff-4b"),
        &TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
        &TRACE.replace("00f067aa0ba902b7", &"0".repeat(16)),
        &TRACE.replace('-', "_"),
        &TRACE.replace("-01", "-0g"),
        &long,
        &far,
        &format!("{later_version} \n"),
    ];
    let keeps = |text: &str| {
        let id = timers.timer("work", HOUR, "").traceparent(text).schedule();
        let row = timers.get(id.unwrap()).unwrap().unwrap();
        row.traceparent() == Some(text)
    };
    assert!(keeps(TRACE) && keeps(&later_version));
    for text in wrong {
        assert!(!keeps(text), "{text:?}");
    }
}

#[test]
fn a_file_keeps_all_of_it() {
    use wheelwork_durable::Redb;
    let folder = std::env::temp_dir().join(format!("wheelwork-expiry-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("timers.redb");
    let clock = ManualClock::new();
    clock.set_system_time(SystemTime::UNIX_EPOCH + 1_000_000 * HOUR);
    let open = || {
        let store = Redb::open(&path).unwrap();
        let builder = Durable::builder(store).clock(clock.clone());
        builder.on("work", |_| Err("failed".into())).start()
    };
    let timers = open().unwrap();
    let timer = timers.timer("work", SECOND, "").not_after(HOUR);
    let id = timer.traceparent(TRACE).schedule().unwrap();
    drop(timers);
    let timers = open().unwrap();
    clock.advance(SECOND);
    let row = timers.get(id).unwrap().expect("it is tried again");
    assert_eq!((row.attempts, row.traceparent()), (1, Some(TRACE)));
    drop(timers);
    clock.advance(2 * HOUR);
    let timers = open().unwrap();
    clock.advance(SECOND);
    let dead = timers.dead_letters(None, 9).unwrap();
    assert_eq!((&dead[0].cause, dead[0].row.attempts), (&Cause::Expired, 1));
    assert_eq!(dead[0].row.traceparent(), Some(TRACE));
    drop(timers);
    std::fs::remove_dir_all(&folder).unwrap();
}
