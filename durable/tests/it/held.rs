//! Promise: a timer whose kind has no handler waits for one, and is not lost meanwhile.
//!
//! - It is handed out when a program has a handler, in the order of deadlines.
//! - Calls see it as any other timer: they find, list, move, cancel and replace it.
//! - It keeps no other timer waiting, and is in no window.
//! - After a week it becomes a dead letter. A program without any handler leaves all as it is.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{SliceLimit, Store};
use wheelwork_durable::{Cause, Durable, DurableBuilder, HeldWhy, Memory, StoreTime, WindowLimits};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A clock on day 100.
fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set_system_time(SystemTime::UNIX_EPOCH + 100 * DAY);
    clock
}

/// What handlers were given, in their order.
type Calls = Arc<Mutex<Vec<String>>>;

/// A program with handlers of these kinds.
fn program<S: Store>(
    store: S,
    clock: &ManualClock,
    kinds: &[&str],
    calls: &Calls,
) -> DurableBuilder<S> {
    let mut builder = Durable::builder(store).clock(clock.clone());
    for kind in kinds {
        let calls = calls.clone();
        builder = builder.on(kind, move |timer| {
            calls
                .lock()
                .unwrap()
                .push(timer.payload_text().into_owned());
            Ok(())
        });
    }
    builder
}

fn taken(calls: &Calls) -> Vec<String> {
    std::mem::take(&mut calls.lock().unwrap())
}

fn waits_for_a_handler<S: Store>(open: impl Fn() -> S) {
    let (clock, calls) = (clock(), Calls::default());
    let timers = program(open(), &clock, &["mail"], &calls).start().unwrap();
    for (minute, name) in [(3, "c"), (1, "a"), (2, "b")] {
        let due = minute * 60 * SECOND;
        timers.schedule("report", due, name).unwrap();
    }
    timers.schedule("mail", 90 * SECOND, "mail").unwrap();
    clock.advance(DAY);
    assert_eq!(taken(&calls), ["mail"]);
    let stats = timers.stats();
    assert_eq!((stats.rows, stats.dead, stats.window_rows), (3, 0, 0));
    assert_eq!((stats.unhandled, stats.lag), (3, Duration::ZERO));
    timers.stop().unwrap();
    // A program without the handler finds them too, and one with it runs them in their order.
    let timers = program(open(), &clock, &["mail"], &calls).start().unwrap();
    assert_eq!(timers.stats().unhandled, 3);
    clock.advance(DAY);
    assert_eq!(timers.unhandled().unwrap()[0].rows, 3);
    timers.stop().unwrap();
    let timers = program(open(), &clock, &["report"], &calls)
        .start()
        .unwrap();
    clock.advance(SECOND);
    assert_eq!(taken(&calls), ["a", "b", "c"]);
    let stats = timers.stats();
    assert_eq!((stats.done, stats.unhandled, stats.died), (3, 0, 0));
    assert_eq!(timers.list(.., 9).unwrap(), []);
    timers.stop().unwrap();
}

#[test]
fn a_kind_without_a_handler_waits_and_runs_when_it_has_one() {
    let store = Memory::new();
    waits_for_a_handler(|| store.clone());
}

#[cfg(feature = "redb")]
#[test]
fn it_does_so_in_a_file() {
    let name = format!("wheelwork-held-{}.redb", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    waits_for_a_handler(|| wheelwork_durable::Redb::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn calls_see_it_as_any_other() {
    let (clock, calls) = (clock(), Calls::default());
    let store = Memory::new();
    let builder = program(store.clone(), &clock, &["mail"], &calls);
    let timers = builder.start().unwrap();
    let ids = ["a", "b", "c", "d"].map(|name| timers.schedule("report", HOUR, name).unwrap());
    let keyed = timers.key("key").schedule("report", HOUR, "keyed").unwrap();
    let mail = timers.schedule("mail", 2 * HOUR, "mail").unwrap();
    let begin = SystemTime::UNIX_EPOCH + 100 * DAY;
    clock.advance(HOUR + SECOND);
    let row = timers.get(ids[0]).unwrap().unwrap();
    assert_eq!(row.due.system_time(), begin + HOUR, "its own deadline");
    assert_eq!(row.held().unwrap().why, HeldWhy::Unhandled);
    assert_eq!(timers.key("key").get().unwrap().unwrap().id, keyed);
    let list = timers.list(.., 9).unwrap();
    let listed: Vec<_> = list.iter().map(|row| row.id).collect();
    assert_eq!(listed, [ids[0], ids[1], ids[2], ids[3], keyed, mail]);
    let hour = timers.list(..=begin + HOUR, 9).unwrap();
    assert_eq!(hour[..], list[..5], "those of its hour");
    assert_eq!(timers.list(.., 2).unwrap()[..], list[..2]);
    assert_eq!(timers.list(begin + HOUR + MS.., 9).unwrap()[..], list[5..]);
    // They are cancelled, moved and replaced.
    assert!(timers.cancel(ids[0]).unwrap());
    assert!(timers.reschedule(ids[1], HOUR).unwrap());
    assert_eq!(timers.get(ids[1]).unwrap().unwrap().held(), None);
    timers.key("key").schedule("mail", HOUR, "new").unwrap();
    assert_eq!(timers.get(keyed).unwrap(), None);
    assert_eq!(timers.unhandled().unwrap()[0].rows, 2);
    clock.advance(HOUR);
    assert_eq!(taken(&calls), ["mail", "new"]);
    assert_eq!(timers.unhandled().unwrap()[0].rows, 3);
    assert_eq!(timers.cancel_kind("report").unwrap(), 3);
    assert_eq!(timers.unhandled().unwrap(), []);
    assert_eq!(timers.list(.., 9).unwrap(), []);
    timers.stop().unwrap();
}

#[test]
fn lists_of_several_slices_have_each_timer_once() {
    let (clock, calls) = (clock(), Calls::default());
    let builder = program(Memory::new(), &clock, &["mail"], &calls);
    let timers = builder.slices(SliceLimit {
        rows: 3,
        bytes: 1 << 20,
    });
    let timers = timers.start().unwrap();
    for minute in 1..=20 {
        let kind = if minute % 3 == 0 { "report" } else { "other" };
        timers.schedule(kind, minute * 60 * SECOND, "").unwrap();
        timers
            .schedule("mail", DAY + minute * 60 * SECOND, "")
            .unwrap();
    }
    // (No time has room for this one.)
    timers.schedule("mail", Duration::MAX, "").unwrap();
    clock.advance(10 * 60 * SECOND);
    let list = timers.list(.., 99).unwrap();
    assert_eq!(list.len(), 41);
    assert!(list.is_sorted_by_key(|row| row.due));
    assert_eq!(list[40].due, StoreTime::MAX);
    let held = list.iter().filter(|row| row.held().is_some()).count();
    assert!((10..=20).contains(&held), "{held}");
    let kinds = timers.unhandled().unwrap();
    let counted: Vec<_> = kinds.iter().map(|kind| (&*kind.kind, kind.rows)).collect();
    let reports = list[..held].iter().filter(|row| &*row.kind == "report");
    let reports = reports.count() as u64;
    let others = held as u64 - reports;
    assert_eq!(counted, [("other", others), ("report", reports)]);
    timers.stop().unwrap();
}

#[test]
fn it_keeps_no_other_timer_waiting() {
    let (clock, calls) = (clock(), Calls::default());
    let builder = program(Memory::new(), &clock, &["mail"], &calls);
    let timers = builder.window(WindowLimits::new().rows(4)).start().unwrap();
    for _ in 0..1_000 {
        timers.schedule("report", HOUR, "").unwrap();
    }
    timers.schedule("mail", HOUR + MS, "mail").unwrap();
    clock.advance(HOUR + MS);
    assert_eq!(taken(&calls), ["mail"]);
    clock.advance(2 * SECOND);
    assert_eq!(timers.stats().rows, 1_000);
    timers.stop().unwrap();
}

#[test]
fn after_a_week_it_is_a_dead_letter() {
    let (clock, calls) = (clock(), Calls::default());
    let store = Memory::new();
    let (dead, waiting) = (Calls::default(), Calls::default());
    let start = |clock: &ManualClock| {
        let (dead, waiting) = (dead.clone(), waiting.clone());
        program(store.clone(), clock, &["mail"], &calls)
            .on_dead(move |letter| dead.lock().unwrap().push(letter.cause.to_string()))
            .on_unhandled(move |kind, rows| {
                waiting.lock().unwrap().push(format!("{kind} {rows}"));
            })
            .start()
            .unwrap()
    };
    let timers = start(&clock);
    let id = timers.schedule("report", HOUR, "a").unwrap();
    clock.advance(HOUR);
    assert_eq!(taken(&waiting), ["report 1"]);
    clock.advance(3 * DAY);
    let told = taken(&waiting);
    let is_same = told.iter().all(|told| told == "report 1");
    assert!(is_same && (1..=72).contains(&told.len()), "{told:?}");
    timers.schedule("report", Duration::ZERO, "b").unwrap();
    clock.advance(SECOND);
    assert!(taken(&waiting).len() < 2, "at most once an hour");
    timers.stop().unwrap();
    let timers = start(&clock);
    clock.advance(SECOND);
    assert_eq!(taken(&waiting), ["report 2"], "when it starts");
    clock.advance(4 * DAY - HOUR);
    assert_eq!(timers.dead_letters(None, 9).unwrap(), []);
    clock.advance(HOUR);
    let letters = timers.dead_letters(None, 9).unwrap();
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.row.id, &letter.cause), (id, &Cause::UnknownKind));
    assert_eq!(letter.row.attempts, 0, "it was not tried");
    let due = SystemTime::UNIX_EPOCH + 100 * DAY + HOUR;
    assert_eq!(letter.row.due.system_time(), due);
    assert_eq!(taken(&dead), ["no handler has its kind"]);
    assert_eq!((timers.stats().died, timers.stats().unhandled), (1, 1));
    clock.advance(4 * DAY);
    assert_eq!(timers.dead_letters(None, 9).unwrap().len(), 2);
    assert!(timers.revive(id).unwrap());
    clock.advance(SECOND);
    assert_eq!(
        timers.get(id).unwrap().unwrap().held().unwrap().why,
        HeldWhy::Unhandled
    );
    timers.stop().unwrap();
    assert_eq!(taken(&calls), [""; 0]);
}

#[test]
fn it_may_wait_for_ever() {
    let (clock, calls) = (clock(), Calls::default());
    let builder = program(Memory::new(), &clock, &["mail"], &calls);
    let timers = builder.bury_unhandled_after(Duration::MAX).start().unwrap();
    timers.schedule("report", HOUR, "a").unwrap();
    clock.advance(1_000 * DAY);
    assert_eq!((timers.stats().rows, timers.stats().died), (1, 0));
    timers.stop().unwrap();
}

#[test]
fn a_program_that_looks_buries_nothing() {
    let (clock, calls) = (clock(), Calls::default());
    let store = Memory::new();
    let timers = Durable::builder(store.clone()).clock(clock.clone());
    let timers = timers.start().unwrap();
    let id = timers.schedule("report", HOUR, "a").unwrap();
    clock.advance(30 * DAY);
    assert_eq!(
        timers.get(id).unwrap().unwrap().held(),
        None,
        "nobody has touched it"
    );
    let stats = timers.stats();
    assert_eq!((stats.rows, stats.dead, stats.window_rows), (1, 0, 0));
    assert_eq!((stats.lag, stats.unhandled), (Duration::ZERO, 0));
    timers.stop().unwrap();
    // Nor does it bury what another program has found to wait.
    let builder = program(store.clone(), &clock, &["mail"], &calls);
    builder.start().unwrap().stop().unwrap();
    let timers = Durable::builder(store.clone()).clock(clock.clone());
    let timers = timers.start().unwrap();
    clock.advance(30 * DAY);
    assert_eq!(timers.unhandled().unwrap()[0].rows, 1);
    timers.stop().unwrap();
    let builder = program(store, &clock, &["report"], &calls);
    let timers = builder.start().unwrap();
    clock.advance(SECOND);
    assert_eq!(taken(&calls), ["a"]);
    timers.stop().unwrap();
}

#[cfg(feature = "calendar")]
#[test]
fn a_recurring_one_waits_for_its_handler_and_goes_on() {
    use wheelwork::calendar::{Calendar, Missed};
    let (clock, calls) = (clock(), Calls::default());
    let store = Memory::new();
    let builder = program(store.clone(), &clock, &["mail"], &calls);
    let timers = builder.start().unwrap();
    let daily = Calendar::daily(0, 30).unwrap().missed(Missed::Once);
    let key = timers.key("daily");
    let id = key
        .schedule_calendar("report", daily.clone(), "run")
        .unwrap();
    let due = key.get().unwrap().unwrap().due;
    clock.advance(3 * DAY);
    // A program that arms it at each start leaves it as it is.
    assert_eq!(key.schedule_calendar("report", daily, "run").unwrap(), id);
    assert_eq!(key.get().unwrap().unwrap().due, due);
    assert!(key.get().unwrap().unwrap().held().is_some());
    clock.advance(5 * DAY);
    let letters = timers.dead_letters(None, 9).unwrap();
    assert_eq!(letters.len(), 1, "after a week");
    let next = key.get().unwrap().unwrap();
    assert_eq!(next.id, id);
    assert!(next.due.system_time() > SystemTime::UNIX_EPOCH + 107 * DAY);
    timers.stop().unwrap();
    let builder = program(store, &clock, &["report"], &calls);
    let timers = builder.start().unwrap();
    clock.advance(SECOND);
    assert_eq!(taken(&calls), ["run"]);
    timers.stop().unwrap();
}
