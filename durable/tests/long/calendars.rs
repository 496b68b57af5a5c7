//! Promise: a durable timer with a calendar runs at its times, through restarts, and runs that were
//! missed are made as its policy says.

use crate::all_may_go::AllMayGo;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use wheelwork::calendar::{Calendar, Missed};
use wheelwork::{ManualClock, spread};
use wheelwork_durable::contract::{Store, Write};
use wheelwork_durable::{
    Cause, Delivery, Durable, DurableBuilder, DurableClient, DurableError, Memory, RetryPolicy,
    Row, StoreTime,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The days and hours at which a handler ran, by the manual clock.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<(u64, u64)>>>);

impl Runs {
    fn take(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn at(day: u32, hour: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + day * DAY + hour * HOUR
}

/// A clock on day 100, at eight o'clock.
fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set_system_time(at(100, 8));
    clock
}

/// Nine o'clock each day.
fn nine() -> Calendar {
    Calendar::daily(9, 0).unwrap().zone("UTC").unwrap()
}

fn open(clock: &ManualClock, store: &Memory, runs: &Runs) -> DurableBuilder<Memory> {
    let (now, runs) = (clock.clone(), runs.clone());
    Durable::builder(store.clone())
        .clock(clock.clone())
        .on("report", move |_: &Delivery| {
            let now = now.system_time();
            let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let hours = since.as_secs() / 3_600;
            runs.0.lock().unwrap().push((hours / 24, hours % 24));
            Ok(())
        })
}

#[test]
fn a_program_that_arms_at_each_start_loses_no_run() {
    let (clock, store, runs) = (clock(), Memory::new(), Runs::default());
    let calendar = || nine().missed(Missed::Once);
    let start = |payload: &'static str| {
        let timers = open(&clock, &store, &runs).start().unwrap();
        let key = timers.key("nightly");
        let id = key.schedule_calendar("report", calendar(), payload);
        (id.unwrap(), timers)
    };
    let (first, timers) = start("a");
    drop(timers);
    clock.set_system_time(at(103, 12));
    let (second, timers) = start("a");
    clock.advance(SECOND);
    assert_eq!(second, first);
    assert_eq!(runs.take(), [(103, 12)], "the run that was missed");
    clock.advance(DAY);
    assert_eq!(runs.take(), [(104, 9)]);
    drop(timers);
    clock.set_system_time(at(106, 12));
    let (third, timers) = start("b");
    clock.advance(SECOND);
    assert_eq!(third, first, "it has another payload");
    assert_eq!(timers.list(.., 9).unwrap().len(), 1);
    assert_eq!(runs.take(), [(106, 12)], "the run that was missed");
    drop(timers);
    // The same calendar in other words; then another one.
    for (day, pattern, missed) in [
        (108, "00 9 * * *", 1),
        (110, "0 09 * * SUN-SAT", 1),
        (112, "0 9 * * MON-SAT", 0),
    ] {
        clock.set_system_time(at(day, 12));
        let timers = open(&clock, &store, &runs).start().unwrap();
        let calendar = Calendar::cron(pattern).unwrap().zone("UTC").unwrap();
        let key = timers.key("nightly");
        key.schedule_calendar("report", calendar, "b").unwrap();
        clock.advance(SECOND);
        assert_eq!(runs.take().len(), missed, "{pattern}");
    }
}

#[test]
fn a_clock_that_was_ahead_parks_no_calendar() {
    let (clock, store, runs) = (clock(), Memory::new(), Runs::default());
    let start = || {
        let timers = open(&clock, &store, &runs).start().unwrap();
        let id = timers
            .key("nightly")
            .schedule_calendar("report", nine(), "");
        (id.unwrap(), timers)
    };
    clock.set_system_time(at(9_000, 8));
    let (id, timers) = start();
    drop(timers);
    clock.set_system_time(at(100, 8));
    let (again, timers) = start();
    assert_eq!(again, id);
    assert_eq!(
        timers.get(id).unwrap().unwrap().due.system_time(),
        at(100, 9)
    );
    clock.advance(HOUR);
    assert_eq!(runs.take(), [(100, 9)]);
    // What somebody has moved stays there.
    assert!(timers.reschedule(id, 40 * HOUR).unwrap());
    drop(timers);
    let (again, timers) = start();
    assert_eq!(again, id);
    assert_eq!(
        timers.get(id).unwrap().unwrap().due.system_time(),
        at(102, 1)
    );
}

/// The node that has made the last run may have a clock that is ahead of this one's, and a run may
/// be made while the timer is looked at.
#[test]
fn a_run_that_was_just_made_is_not_made_again() {
    let (clock, store, runs) = (clock(), Memory::new(), Runs::default());
    let each_second = Calendar::cron("* * * * * *").unwrap().zone("UTC").unwrap();
    let timers = open(&clock, &store, &runs).start().unwrap();
    let arm = |payload: &str| {
        let key = timers.key("seconds");
        key.schedule_calendar("report", each_second.clone(), payload)
            .unwrap()
    };
    let id = arm("");
    // The next run has been made, as another node's clock has it.
    assert!(timers.reschedule(id, 2 * SECOND).unwrap());
    let due = timers.get(id).unwrap().unwrap().due;
    assert_eq!(arm(""), id);
    assert_eq!(timers.get(id).unwrap().unwrap().due, due);
    let again = arm("another payload");
    assert_eq!(timers.get(again).unwrap().unwrap().due, due);
    clock.advance(2 * SECOND);
    assert_eq!(timers.stats().done, 1);
}

#[test]
fn smoke() {
    let (clock, runs) = (clock(), Runs::default());
    let timers = open(&clock, &Memory::new(), &runs).start().unwrap();
    let id = timers.schedule_calendar("report", nine(), "").unwrap();
    clock.advance(HOUR - Duration::from_millis(1));
    assert_eq!(runs.take(), []);
    clock.advance(Duration::from_millis(1));
    assert_eq!(runs.take(), [(100, 9)]);
    let row = timers.get(id).unwrap().unwrap();
    assert_eq!((row.id, row.due.system_time()), (id, at(101, 9)));
    assert_eq!(row.calendar.as_deref(), Some("cron 0 9 * * *; zone=UTC"));
    clock.advance(3 * DAY);
    assert_eq!(runs.take(), [(101, 9), (102, 9), (103, 9)]);
    assert!(timers.cancel(id).unwrap());
    clock.advance(3 * DAY);
    assert_eq!(runs.take(), []);
    let stats = timers.stats();
    assert_eq!((stats.armed, stats.done, stats.cancelled), (1, 4, 1));
}

/// Each of these keys has its own part of an hour, whichever program arms it, and keeps it.
#[test]
fn calendars_with_an_offset_run_that_much_later() {
    let (clock, store, runs) = (clock(), Memory::new(), Runs::default());
    let offset = |key: &str| {
        let part = spread(HOUR, key);
        part - Duration::from_nanos(u64::from(part.subsec_nanos() % 1_000_000))
    };
    let arm = |timers: &Durable, key: &str| {
        let calendar = nine()
            .missed(Missed::SkipAfter(MINUTE))
            .offset(spread(HOUR, key));
        timers
            .key(key)
            .schedule_calendar("report", calendar, key)
            .unwrap()
    };
    let keys = ["node-7", "node-8", "node-9"];
    let timers = open(&clock, &store, &runs).start().unwrap();
    let ids = keys.map(|key| arm(&timers, key));
    // When each one is due.
    let due = |timers: &Durable, day: u32| {
        for (key, id) in keys.iter().zip(ids) {
            let row = timers.get(id).unwrap().unwrap();
            assert_eq!(row.due.system_time(), at(day, 9) + offset(key), "{key}");
        }
    };
    due(&timers, 100);
    let text = timers.get(ids[0]).unwrap().unwrap().calendar.unwrap();
    assert!(
        text.starts_with("cron 0 9 * * *; zone=UTC; offset=PT"),
        "{text}"
    );
    // The lists have the same times.
    let page = timers.calendars(None, 9, 3).unwrap();
    assert_eq!(page.rows.len(), 3);
    for row in page.rows {
        let of = offset(row.row.key.as_deref().unwrap());
        assert_eq!(row.runs, [100, 101, 102].map(|day| at(day, 9) + of));
    }
    clock.advance(2 * HOUR);
    assert_eq!(runs.take().len(), 3);
    due(&timers, 101);
    drop(timers);

    // The next program arms them again, and finds them as they are. A run that was missed by more
    // than a minute is left out, counted from its own time.
    clock.set_system_time(at(103, 9) + offset(keys[1]) + MINUTE / 2);
    let timers = open(&clock, &store, &runs).start().unwrap();
    assert_eq!(keys.map(|key| arm(&timers, key)), ids);
    clock.advance(SECOND);
    let in_time = |key: &&str| {
        let late = (offset(keys[1]) + MINUTE / 2).checked_sub(offset(key));
        late.is_some_and(|late| late <= MINUTE)
    };
    assert_eq!(
        runs.take().len(),
        keys.iter().filter(|key| in_time(key)).count()
    );
    clock.advance(2 * HOUR);
    due(&timers, 104);
    // Another offset is another calendar.
    let later = timers.key(keys[0]);
    let moved = nine().offset(2 * HOUR);
    let again = later.schedule_calendar("report", moved, keys[0]).unwrap();
    assert_ne!(again, ids[0]);
    let row = timers.get(again).unwrap().unwrap();
    assert_eq!(row.due.system_time(), at(104, 11));
    // What somebody has moved stays there.
    assert!(timers.reschedule(ids[2], 40 * HOUR).unwrap());
    let moved = timers.get(ids[2]).unwrap().unwrap().due;
    assert_eq!(arm(&timers, keys[2]), ids[2]);
    assert_eq!(timers.get(ids[2]).unwrap().unwrap().due, moved);
}

/// How many runs come when the program starts anew five runs later, a quarter of an hour after the
/// last of them.
fn after_a_pause(policy: Missed) -> usize {
    let (clock, store, runs) = (clock(), Memory::new(), Runs::default());
    let timers = open(&clock, &store, &runs).start().unwrap();
    let calendar = Calendar::cron("30 * * * *").unwrap().missed(policy);
    timers.schedule_calendar("report", calendar, "").unwrap();
    drop(timers);
    clock.advance(4 * HOUR + 45 * MINUTE);
    let timers = open(&clock, &store, &runs).start().unwrap();
    clock.advance(SECOND);
    let at_once = runs.take();
    assert!(at_once.iter().all(|run| *run == (100, 12)), "{at_once:?}");
    clock.advance(2 * HOUR);
    assert_eq!(runs.take(), [(100, 13), (100, 14)], "{policy:?}");
    assert_eq!(timers.stats().dead, 0);
    at_once.len()
}

#[test]
fn what_was_missed_is_made_as_the_policy_says() {
    for (policy, expected) in [
        (Missed::Once, 1),
        (Missed::Burst(0), 1),
        (Missed::Burst(1), 1),
        (Missed::Burst(3), 3),
        (Missed::BURST_ALL, 5),
        (Missed::SkipAfter(10 * MINUTE), 0),
        (Missed::SkipAfter(20 * MINUTE), 1),
        (Missed::SkipAfter(3 * HOUR), 1),
    ] {
        assert_eq!(after_a_pause(policy), expected, "{policy:?}");
    }
}

#[test]
fn the_next_run_waits_for_the_one_that_fails() {
    let (clock, fails) = (clock(), Arc::new(AtomicU32::new(2)));
    let left = fails.clone();
    let timers = Durable::builder(Memory::new())
        .clock(clock.clone())
        .retry_policy(RetryPolicy::new().first(HOUR).attempts(3))
        .on("report", move |_: &Delivery| {
            let fails = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
            match fails {
                Ok(_) => Err("no server".into()),
                Err(_) => Ok(()),
            }
        })
        .start()
        .unwrap();
    let id = timers.schedule_calendar("report", nine(), "sales").unwrap();
    clock.advance(HOUR);
    let row = timers.get(id).unwrap().unwrap();
    assert_eq!(row.attempts, 1);
    assert!(row.due.system_time() <= at(100, 10), "it is tried again");
    clock.advance(4 * HOUR);
    assert_eq!(timers.stats().done, 1);
    let row = timers.get(id).unwrap().unwrap();
    assert_eq!((row.attempts, row.due.system_time()), (0, at(101, 9)));

    // It fails for good: a copy is a dead letter, and the calendar goes on.
    fails.store(3, Ordering::Relaxed);
    clock.advance(DAY);
    let dead = timers.dead_letters(None, 10).unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].cause, Cause::Failed("no server".into()));
    assert_eq!(&*dead[0].row.payload, b"sales");
    assert!(dead[0].row.id != id && dead[0].row.calendar.is_none());
    let row = timers.get(id).unwrap().unwrap();
    assert_eq!((row.attempts, row.due.system_time()), (0, at(102, 9)));
    assert!(timers.revive(dead[0].row.id).unwrap());
    clock.advance(SECOND);
    assert_eq!(timers.stats().done, 2);
}

/// Neither an arm by a program whose waits are shorter loses the run, nor a restart that is later
/// than a run may be.
#[test]
fn a_run_that_has_failed_is_tried_again_whatever_comes_between() {
    let (clock, store, runs) = (clock(), Memory::new(), Runs::default());
    let arm = |timers: &Durable| {
        let calendar = nine().missed(Missed::SkipAfter(MINUTE));
        let key = timers.key("nightly");
        key.schedule_calendar("report", calendar, "").unwrap()
    };
    let waits = |most| RetryPolicy::new().first(most).cap(most).attempts(9);
    let failing = Durable::builder(store.clone())
        .clock(clock.clone())
        .retry_policy(waits(6 * HOUR))
        .on("report", |_: &Delivery| Err("no server".into()))
        .start()
        .unwrap();
    let id = arm(&failing);
    clock.advance(HOUR);
    let again = failing.get(id).unwrap().unwrap();
    assert_eq!(again.attempts, 1);
    assert!(again.due.system_time() > at(100, 9) + HOUR);
    drop(failing);

    let builder = open(&clock, &store, &runs).retry_policy(waits(MINUTE));
    let timers = builder.start().unwrap();
    assert_eq!(arm(&timers), id);
    assert_eq!(timers.get(id).unwrap().unwrap().due, again.due);
    drop(timers);

    clock.set_system_time(at(100, 23));
    let timers = open(&clock, &store, &runs).start().unwrap();
    assert_eq!(arm(&timers), id);
    clock.advance(SECOND);
    assert_eq!(runs.take(), [(100, 23)]);
    let row = timers.get(id).unwrap().unwrap();
    assert_eq!((row.attempts, row.due.system_time()), (0, at(101, 9)));
}

#[test]
fn a_key_has_one_calendar() {
    let (clock, store, runs) = (clock(), Memory::new(), Runs::default());
    for hour in [9, 10, 11] {
        let timers = open(&clock, &store, &runs).start().unwrap();
        let calendar = Calendar::daily(hour, 0).unwrap().zone("UTC").unwrap();
        timers
            .key("sales")
            .schedule_calendar("report", calendar, "")
            .unwrap();
    }
    let timers = open(&clock, &store, &runs).start().unwrap();
    clock.advance(DAY);
    assert_eq!(runs.take(), [(100, 11)]);
    assert!(timers.key("sales").cancel().unwrap());
    assert!(!timers.key("sales").cancel().unwrap());
}

#[test]
fn the_last_run_ends_the_timer() {
    let (clock, runs) = (clock(), Runs::default());
    let timers = open(&clock, &Memory::new(), &runs).start().unwrap();
    let once = Calendar::cron("0 0 9 13 4 * 1970").unwrap();
    let once = once.zone("UTC").unwrap();
    let id = timers
        .schedule_calendar("report", once.clone(), "")
        .unwrap();
    clock.advance(3 * DAY);
    assert_eq!(runs.take(), [(102, 9)]);
    assert_eq!(timers.get(id).unwrap(), None);
    let error = timers.schedule_calendar("report", once, "").unwrap_err();
    assert!(matches!(error, DurableError::Invalid(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "the calendar \"cron 0 0 9 13 4 * 1970; zone=UTC\" has no run any more"
    );
}

#[test]
fn a_calendar_that_cannot_be_read_is_a_dead_letter() {
    let (clock, store, runs) = (clock(), Memory::new(), Runs::default());
    let due = StoreTime::due_at(at(100, 9));
    let mut node = store.clone();
    node.acquire().unwrap();
    let mut row = Row::new(node.new_id(None, due), due, "report".into(), [].into());
    row.calendar = Some("cron 0 9 * * *; zone=Middle/Earth".into());
    let id = row.id;
    node.commit(vec![Write::Arm(row)], &mut AllMayGo).unwrap();
    node.release().unwrap();

    let timers = open(&clock, &store, &runs).start().unwrap();
    clock.advance(DAY);
    assert_eq!(runs.take(), []);
    let dead = timers.dead_letters(None, 10).unwrap();
    let Cause::Undecodable(why) = &dead[0].cause else {
        panic!("{:?}", dead[0].cause);
    };
    assert!(why.contains("Middle/Earth"), "{why}");
    assert_eq!(dead[0].row.id, id);
    assert!(dead[0].row.calendar.is_some());
    assert_eq!(timers.get(id).unwrap(), None);
}

/// How a run ends its own timer.
type Ends = fn(&DurableClient, &Delivery) -> bool;

#[test]
fn a_run_under_way_is_the_last_one_after_a_cancel() {
    let ends: [Ends; 4] = [
        |timers, run| timers.cancel(run.id()).unwrap(),
        |timers, _| timers.key("nightly").cancel().unwrap(),
        |timers, run| timers.cancel_many([run.id()]).unwrap() == 1,
        |timers, _| timers.cancel_kind("report").unwrap() == 1,
    ];
    for (number, ends) in ends.into_iter().enumerate() {
        for fails in [false, true] {
            let (clock, runs) = (clock(), Arc::new(AtomicU32::new(0)));
            let handle = Arc::new(OnceLock::<DurableClient>::new());
            let (count, own) = (runs.clone(), handle.clone());
            let timers = Durable::builder(Memory::new())
                .clock(clock.clone())
                .on("report", move |run: &Delivery| {
                    count.fetch_add(1, Ordering::Relaxed);
                    let timers = own.get().unwrap();
                    assert!(ends(timers, run), "way {number}");
                    assert!(!timers.cancel(run.id()).unwrap(), "only once");
                    assert!(!timers.reschedule(run.id(), HOUR).unwrap());
                    assert_eq!(timers.key("nightly").get().unwrap(), None);
                    if fails {
                        Err("no server".into())
                    } else {
                        Ok(())
                    }
                })
                .start()
                .unwrap();
            let _ = handle.set(timers.client());
            let key = timers.key("nightly");
            key.schedule_calendar("report", nine(), "").unwrap();
            clock.advance(25 * HOUR);
            assert_eq!(runs.load(Ordering::Relaxed), 1, "way {number}");
            assert_eq!(timers.list(.., 9).unwrap(), []);
            let stats = timers.stats();
            assert_eq!((stats.cancelled, stats.died), (1, 0));
            assert_eq!(
                (stats.done, stats.failed),
                (u64::from(!fails), u64::from(fails))
            );
        }
    }
}
