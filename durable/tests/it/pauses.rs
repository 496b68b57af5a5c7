//! Promise: a pause holds all timers of a kind, or all whose key begins alike, until it is over.
//!
//! - What comes due meanwhile waits, is not lost, and is handed out in the order of deadlines.
//! - A pause survives a restart, and holds for timers that come later.
//! - Calls see a paused timer as any other. It is never buried for having waited.
//! - Handlers that have begun go on. A timer that has come due and waits for a call does not begin.

use crate::durable_model::Folder;
use std::num::NonZeroUsize;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{SliceLimit, Store};
use wheelwork_durable::{
    Cause, Durable, DurableBuilder, DurableError, HeldWhy, ListQuery, Memory, Redb, RuleFor,
    StoreTime, TimerState,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A clock on day 100.
fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set_system_time(begin());
    clock
}

fn begin() -> SystemTime {
    SystemTime::UNIX_EPOCH + 100 * DAY
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
            let text = timer.payload_text().into_owned();
            calls.lock().unwrap().push(text);
            Ok(())
        });
    }
    builder
}

fn started(clock: &ManualClock, calls: &Calls) -> Durable {
    let builder = program(Memory::new(), clock, &["mail", "other"], calls);
    builder.start().unwrap()
}

fn taken(calls: &Calls) -> Vec<String> {
    std::mem::take(&mut calls.lock().unwrap())
}

fn pauses_and_goes_on<S: Store>(open: impl Fn() -> S) {
    let (clock, calls) = (clock(), Calls::default());
    let start = || {
        let builder = program(open(), &clock, &["mail", "other"], &calls);
        builder.start().unwrap()
    };
    let timers = start();
    // One is due soon, so it is in the window; the others are far away.
    timers.schedule("mail", SECOND, "a").unwrap();
    assert!(timers.kind("mail").pause().unwrap());
    assert!(!timers.kind("mail").pause().unwrap(), "it is already");
    for (hours, name) in [(3, "c"), (2, "b")] {
        timers.schedule("mail", hours * HOUR, name).unwrap();
    }
    timers.schedule("other", 4 * HOUR, "other").unwrap();
    clock.advance(DAY);
    assert_eq!(taken(&calls), ["other"]);
    let stats = timers.stats();
    assert_eq!((stats.rows, stats.dead, stats.window_rows), (3, 0, 0));
    assert_eq!((stats.paused, stats.unhandled), (3, 0));
    assert_eq!(stats.lag, Duration::ZERO);
    assert_eq!(timers.unhandled().unwrap(), [], "they have a handler");
    timers.stop().unwrap();
    let timers = start();
    let rule = timers.kind("mail").rule().unwrap().unwrap();
    assert_eq!(rule.of, RuleFor::Kind("mail".into()));
    assert_eq!(rule.paused_since, Some(StoreTime::reading(begin())));
    clock.advance(DAY);
    assert_eq!((taken(&calls), timers.stats().paused), (vec![], 3));
    assert!(timers.kind("mail").resume().unwrap());
    assert!(!timers.kind("mail").resume().unwrap(), "it is over already");
    clock.advance(SECOND);
    assert_eq!(taken(&calls), ["a", "b", "c"]);
    let stats = timers.stats();
    assert_eq!((stats.done, stats.paused, stats.died), (3, 0, 0));
    assert_eq!(timers.rules().unwrap(), []);
    timers.stop().unwrap();
    // Nothing is left of it.
    let timers = start();
    timers.schedule("mail", SECOND, "later").unwrap();
    clock.advance(HOUR);
    assert_eq!(taken(&calls), ["later"]);
    timers.stop().unwrap();
}

#[test]
fn what_comes_due_meanwhile_waits_and_goes_in_order() {
    let store = Memory::new();
    pauses_and_goes_on(|| store.clone());
}

#[cfg(feature = "redb")]
#[test]
fn it_does_so_in_a_file() {
    let name = format!("wheelwork-pauses-{}.redb", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    pauses_and_goes_on(|| wheelwork_durable::Redb::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_pause_that_is_over_in_time_delays_nothing() {
    let (clock, calls) = (clock(), Calls::default());
    let timers = started(&clock, &calls);
    for minutes in [1_u32, 2, 3] {
        let due = minutes * 60 * SECOND;
        timers.schedule("mail", due, format!("{minutes}")).unwrap();
    }
    // All of them are in the window.
    clock.advance(SECOND);
    assert!(timers.kind("mail").pause().unwrap());
    clock.advance(90 * SECOND);
    assert_eq!(taken(&calls), [""; 0]);
    assert!(timers.kind("mail").resume().unwrap());
    clock.advance(MS);
    assert_eq!(taken(&calls), ["1"], "at once");
    clock.advance(29 * SECOND - 3 * MS);
    assert_eq!(taken(&calls), [""; 0]);
    clock.advance(2 * MS);
    assert_eq!(taken(&calls), ["2"], "at its own deadline");
    clock.advance(60 * SECOND);
    assert_eq!(taken(&calls), ["3"]);
}

#[test]
fn those_whose_key_begins_alike() {
    let (clock, calls) = (clock(), Calls::default());
    let timers = started(&clock, &calls);
    let tenant = timers.keys_with("tenant-7/");
    assert!(tenant.pause().unwrap());
    for key in ["tenant-7/a", "tenant-70/a", "tenant-7/b", "tenant-7"] {
        timers.key(key).schedule("mail", SECOND, key).unwrap();
    }
    timers.schedule("other", SECOND, "none").unwrap();
    clock.advance(HOUR);
    let mut others = taken(&calls);
    others.sort();
    assert_eq!(others, ["none", "tenant-7", "tenant-70/a"]);
    // A kind is paused beside it: what both hold waits for both.
    assert!(timers.kind("mail").pause().unwrap());
    timers
        .key("tenant-8/a")
        .schedule("mail", SECOND, "8")
        .unwrap();
    clock.advance(HOUR);
    assert!(tenant.resume().unwrap());
    clock.advance(HOUR);
    assert_eq!((taken(&calls), timers.stats().paused), (vec![], 3));
    assert!(timers.kind("mail").resume().unwrap());
    clock.advance(SECOND);
    let mut waited = taken(&calls);
    // (What is due at once has no order.)
    waited.sort();
    assert_eq!(waited, ["8", "tenant-7/a", "tenant-7/b"]);
}

#[test]
fn calls_see_a_paused_timer_as_any_other() {
    let (clock, calls) = (clock(), Calls::default());
    let timers = started(&clock, &calls);
    timers.kind("mail").pause().unwrap();
    let ids = ["a", "b", "c", "d"].map(|name| timers.schedule("mail", HOUR, name).unwrap());
    let keyed = timers.key("key").schedule("mail", HOUR, "keyed").unwrap();
    clock.advance(HOUR + SECOND);
    let row = timers.get(ids[0]).unwrap().unwrap();
    assert_eq!(row.due.system_time(), begin() + HOUR, "its own deadline");
    assert_eq!(row.held().unwrap().why, HeldWhy::Paused);
    let page = timers.list_page(&ListQuery::new()).unwrap();
    assert_eq!(page.rows.len(), 5);
    let query = ListQuery::new().state(TimerState::Held);
    assert_eq!(timers.list_page(&query).unwrap().rows.len(), 5);
    assert!(timers.cancel(ids[0]).unwrap());
    assert!(timers.reschedule(ids[1], HOUR).unwrap());
    timers.key("key").schedule("other", HOUR, "new").unwrap();
    assert_eq!(timers.get(keyed).unwrap(), None);
    clock.advance(2 * HOUR);
    assert_eq!(taken(&calls), ["new"]);
    assert_eq!(timers.stats().paused, 3);
    assert!(timers.reschedule(ids[2], 2 * HOUR).unwrap());
    timers.kind("mail").resume().unwrap();
    clock.advance(SECOND);
    let mut waited = taken(&calls);
    waited.sort();
    assert_eq!(waited, ["b", "d"]);
    clock.advance(2 * HOUR);
    assert_eq!(taken(&calls), ["c"]);
    timers.kind("mail").pause().unwrap();
    timers.schedule("mail", SECOND, "e").unwrap();
    clock.advance(HOUR);
    assert_eq!(timers.cancel_kind("mail").unwrap(), 1);
    timers.kind("mail").resume().unwrap();
    clock.advance(HOUR);
    assert_eq!((taken(&calls), timers.stats().rows), (vec![], 0));
}

/// Whichever comes first: the pause, or that there is no handler.
#[test]
fn a_paused_timer_without_a_handler_waits_for_both_and_is_not_buried() {
    for is_paused_first in [false, true] {
        let (clock, calls, store) = (clock(), Calls::default(), Memory::new());
        let start = |kinds: &[&str]| {
            let builder = program(store.clone(), &clock, kinds, &calls);
            builder.start().unwrap()
        };
        let (with, without) = (&["other", "mail"][..], &["other"][..]);
        let timers = start(if is_paused_first { with } else { without });
        if is_paused_first {
            timers.kind("mail").pause().unwrap();
        }
        timers.schedule("mail", SECOND, "a").unwrap();
        clock.advance(HOUR);
        let why = |timers: &Durable| {
            let rows = timers.list(.., 9).unwrap();
            rows[0].held().unwrap().why
        };
        let first = [HeldWhy::Unhandled, HeldWhy::Paused][usize::from(is_paused_first)];
        assert_eq!(why(&timers), first);
        timers.kind("mail").pause().unwrap();
        timers.stop().unwrap();
        // It waits for a handler, and is paused: for longer than a week.
        let timers = start(without);
        clock.advance(30 * DAY);
        assert_eq!(why(&timers), HeldWhy::Unhandled);
        assert_eq!(timers.unhandled().unwrap()[0].rows, 1);
        assert_eq!((timers.stats().unhandled, timers.stats().paused), (1, 0));
        timers.stop().unwrap();
        let timers = start(with);
        clock.advance(30 * DAY);
        assert_eq!(why(&timers), HeldWhy::Paused);
        assert_eq!((timers.stats().unhandled, timers.stats().paused), (0, 1));
        assert_eq!((taken(&calls), timers.stats().died), (vec![], 0));
        timers.kind("mail").resume().unwrap();
        clock.advance(MS);
        assert_eq!(taken(&calls), ["a"]);
        timers.stop().unwrap();
    }
}

#[test]
fn it_expires_while_it_is_paused() {
    let (clock, calls) = (clock(), Calls::default());
    let timers = started(&clock, &calls);
    timers.kind("mail").pause().unwrap();
    let id = timers.timer("mail", HOUR, "late").not_after(2 * HOUR);
    let id = id.schedule().unwrap();
    let in_time = timers.timer("mail", HOUR, "in time").not_after(DAY);
    in_time.schedule().unwrap();
    clock.advance(3 * HOUR);
    assert_eq!(timers.stats().expired, 0, "it waits");
    timers.kind("mail").resume().unwrap();
    clock.advance(MS);
    assert_eq!(taken(&calls), ["in time"]);
    let letters = timers.dead_letters(None, 9).unwrap();
    assert_eq!(
        (letters[0].row.id, &letters[0].cause),
        (id, &Cause::Expired)
    );
}

#[cfg(feature = "calendar")]
#[test]
fn a_recurring_one_goes_on() {
    use wheelwork::calendar::{Calendar, Missed};
    let (clock, calls) = (clock(), Calls::default());
    let timers = started(&clock, &calls);
    let daily = Calendar::daily(0, 30).unwrap().missed(Missed::Once);
    let key = timers.key("daily");
    let id = key.schedule_calendar("mail", daily, "run").unwrap();
    clock.advance(DAY);
    assert_eq!(taken(&calls), ["run"]);
    timers.kind("mail").pause().unwrap();
    clock.advance(5 * DAY);
    assert_eq!(taken(&calls), [""; 0]);
    timers.kind("mail").resume().unwrap();
    clock.advance(MS);
    assert_eq!(taken(&calls), ["run"], "once for all that were missed");
    clock.advance(DAY);
    assert_eq!(taken(&calls), ["run"]);
    assert_eq!(key.get().unwrap().unwrap().id, id);
}

/// More than a slice of the scan has room for.
#[test]
fn many_go_in_order() {
    let (clock, calls) = (clock(), Calls::default());
    let builder = program(Memory::new(), &clock, &["mail", "other"], &calls);
    let builder = builder.slices(SliceLimit {
        rows: 7,
        bytes: 1 << 20,
    });
    let timers = builder.start().unwrap();
    timers.kind("mail").pause().unwrap();
    let names: Vec<_> = (0..200).map(|number| format!("{number:03}")).collect();
    for (number, name) in names.iter().enumerate().rev() {
        let due = HOUR + number as u32 * SECOND;
        timers.schedule("mail", due, name.as_bytes()).unwrap();
    }
    timers
        .schedule("other", HOUR + 50 * SECOND, "other")
        .unwrap();
    clock.advance(DAY);
    assert_eq!(taken(&calls), ["other"]);
    assert_eq!(timers.stats().paused, 200);
    timers.kind("mail").resume().unwrap();
    clock.advance(SECOND);
    assert_eq!(taken(&calls), names);
}

#[test]
fn a_rule_that_cannot_be_is_refused() {
    let (clock, calls) = (clock(), Calls::default());
    let timers = started(&clock, &calls);
    let refused = |answer: Result<bool, DurableError>| {
        let error = answer.unwrap_err();
        assert!(matches!(error, DurableError::Refused(_)), "{error:?}");
        assert_eq!(error.to_string().lines().count(), 1);
    };
    refused(timers.keys_with("").pause());
    refused(timers.kind(&"k".repeat(2_000)).pause());
    for number in 0..1_000 {
        assert!(timers.kind(&format!("kind-{number}")).pause().unwrap());
    }
    refused(timers.kind("mail").pause());
    timers.schedule("mail", SECOND, "a").unwrap();
    clock.advance(SECOND);
    assert_eq!(taken(&calls), ["a"]);
    assert_eq!(timers.rules().unwrap().len(), 1_000);
}

/// Handlers of their own threads: one has begun, and others wait for a place.
#[test]
fn a_handler_that_has_begun_goes_on_and_none_begins() {
    let (begins, begun) = channel();
    let (go_on, waits) = channel::<()>();
    let (begins, waits) = (Mutex::new(begins), Mutex::new(waits));
    let timers = Durable::builder(Memory::new())
        .on("mail", move |mail| {
            let text = mail.payload_text().into_owned();
            begins.lock().unwrap().send(text)?;
            waits.lock().unwrap().recv()?;
            Ok(())
        })
        .on("other", |_| Ok(()))
        .max_calls("mail", NonZeroUsize::MIN)
        .start()
        .unwrap();
    let names = ["a", "b", "c"];
    timers
        .schedule_many(names.map(|name| ("mail", Duration::ZERO, name)))
        .unwrap();
    // (One of them: what is due at one time has no order. A test that failed while a handler waits
    // would not end, so the demands come last.)
    let first = begun.recv().unwrap();
    let is_paused = timers.kind("mail").pause().unwrap();
    // One that comes later is behind the others.
    timers.schedule("mail", 2 * MS, "d").unwrap();
    while timers.stats().paused < 1 {
        std::thread::yield_now();
    }
    go_on.send(()).unwrap();
    // (One that is just about to wait for a place when the pause comes is held when the place is
    // free.)
    while timers.stats().done < 1 || timers.stats().paused < 3 {
        std::thread::yield_now();
    }
    let too_soon = begun.try_recv();
    let is_resumed = timers.kind("mail").resume().unwrap();
    let others = [(); 3].map(|()| {
        let name = begun.recv().unwrap();
        go_on.send(()).unwrap();
        name
    });
    while timers.stats().done < 4 {
        std::thread::yield_now();
    }
    timers.stop().unwrap();
    assert!(is_paused && is_resumed);
    assert!(too_soon.is_err(), "{too_soon:?} begins while it is paused");
    let mut all = others.to_vec();
    all.push(first);
    all.sort();
    assert_eq!(all, ["a", "b", "c", "d"]);
}

/// With a step broken, what is promised here is not so.
#[cfg(feature = "__faults")]
#[test]
fn broken_steps_are_noticed() {
    use wheelwork_durable::{DurableFault, set_durable_fault};
    let story = |fault: Option<DurableFault>| {
        set_durable_fault(fault);
        let (clock, calls) = (clock(), Calls::default());
        let timers = started(&clock, &calls);
        timers.schedule("mail", SECOND, "near").unwrap();
        timers.schedule("mail", DAY, "far").unwrap();
        clock.advance(MS);
        timers.kind("mail").pause().unwrap();
        clock.advance(30 * DAY);
        // (A scan has just begun, so the next one is a minute away.)
        timers.schedule("mail", MS, "last").unwrap();
        clock.advance(SECOND);
        let meanwhile = taken(&calls);
        let died = timers.stats().died;
        timers.kind("mail").resume().unwrap();
        clock.advance(SECOND);
        let afterwards = taken(&calls);
        timers.stop().unwrap();
        set_durable_fault(None);
        (meanwhile, died, afterwards)
    };
    let all = ["near", "far", "last"].map(String::from);
    let kept = (vec![], 0, all.to_vec());
    assert_eq!(story(None), kept);
    let broken = [
        DurableFault::PauseIgnored,
        DurableFault::ResumeForgotten,
        DurableFault::PausedBuried,
    ];
    for fault in broken {
        assert_ne!(story(Some(fault)), kept, "{fault:?}");
    }
}

/// What one transaction of the file has no room for comes in the next one.
#[test]
fn large_timers_of_a_file_come_in_order_too() {
    let folder = Folder::new("large-pauses");
    let (clock, calls) = (clock(), Calls::default());
    let store = Redb::open(folder.file()).unwrap();
    let timers = program(store, &clock, &["mail"], &calls).start().unwrap();
    timers.kind("mail").pause().unwrap();
    let payload = |number: u32| format!("{number:0>40000}");
    for number in 0..200 {
        let delay = SECOND + MS * number;
        timers.schedule("mail", delay, payload(number)).unwrap();
    }
    for _ in 0..20 {
        clock.advance(SECOND);
    }
    assert_eq!(timers.stats().paused, 200);
    timers.kind("mail").resume().unwrap();
    for _ in 0..20 {
        clock.advance(SECOND);
    }
    let calls = calls.lock().unwrap();
    let numbers = calls.iter().map(|text| text.parse::<u32>().unwrap());
    assert!(numbers.eq(0..200));
}
