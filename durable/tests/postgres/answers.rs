//! Promise: what becomes of a timer does not depend on which kind of handler has answered, one in a
//! transaction or another one.

use crate::own_schema::{Schema, until};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wheelwork::calendar::{Calendar, Missed};
use wheelwork_durable::{
    Delivery, Durable, DurableBuilder, DurableId, GiveUp, HandlerResult, Later,
};
use wheelwork_durable::{Partition, Postgres, RetryPolicy, StoreTime};

/// The answers of a handler: the first word of a payload.
const ANSWERS: [&str; 5] = ["ok", "err", "panic", "later", "never"];

/// Times of two runs that are this near count as one: a retry begins when its node reads the
/// clock.
const NEAR_MS: i64 = 600_000;

/// A timer as it is stored.
struct Stored {
    id: DurableId,
    payload: String,
    calendar: Option<String>,
    attempts: i64,
    is_superseded: bool,
}

/// The first instant of a year, in milliseconds.
fn year(year: u64) -> StoreTime {
    let leap_days = (year - 1969) / 4;
    StoreTime::from_millis(((year - 1970) * 365 + leap_days) * 86_400_000)
}

/// Calendars, and when their timers are due.
fn calendars() -> Vec<(&'static str, StoreTime, Option<String>)> {
    let run = |pattern: &str, missed: Missed| {
        let calendar = Calendar::cron(pattern).unwrap().zone("UTC").unwrap();
        Some(calendar.missed(missed).to_string())
    };
    let yearly = "0 0 1 1 *";
    let hour = Duration::from_secs(3_600);
    let century = hour * 24 * 365 * 100;
    let just_now = StoreTime::due_at(SystemTime::now() - hour);
    vec![
        ("one run", year(2020), None),
        ("once", year(2020), run(yearly, Missed::Once)),
        ("in time", just_now, run(yearly, Missed::Once)),
        ("burst of 3", year(2020), run(yearly, Missed::Burst(3))),
        ("burst of all", year(2020), run(yearly, Missed::BURST_ALL)),
        ("left out", year(2020), run(yearly, Missed::SkipAfter(hour))),
        ("grace", year(2020), run(yearly, Missed::SkipAfter(century))),
        (
            "last run",
            year(2021),
            run("0 0 0 1 1 * 2020-2021", Missed::Once),
        ),
        ("unreadable", year(2020), Some("no calendar".to_string())),
    ]
}

/// All answers to all timers: at the first and at the last attempt, struck or not.
fn all_cases() -> Vec<Stored> {
    let mut all = Vec::new();
    for answer in ANSWERS {
        for (name, due, calendar) in calendars() {
            for attempts in [0, 2] {
                for is_superseded in [false, true] {
                    let number = all.len();
                    let struck = if is_superseded { ", struck" } else { "" };
                    all.push(Stored {
                        id: DurableId::new(number as Partition, due, 1),
                        payload: format!("{answer} {name}, {attempts} attempts{struck}"),
                        calendar: calendar.clone(),
                        attempts,
                        is_superseded,
                    });
                }
            }
        }
    }
    all
}

/// What was called, by payload: the runs in milliseconds and the attempts.
type Calls = Arc<Mutex<BTreeMap<String, Vec<(u128, u32)>>>>;

fn answer(delivery: &Delivery, calls: &Calls) -> HandlerResult {
    let payload = delivery.payload_text().into_owned();
    let due = delivery.due().duration_since(SystemTime::UNIX_EPOCH)?;
    let call = (due.as_millis(), delivery.attempt());
    let mut calls = calls.lock().unwrap();
    calls.entry(payload.clone()).or_default().push(call);
    drop(calls);
    match payload.split(' ').next() {
        Some("ok") => Ok(()),
        Some("err") => Err("it fails".into()),
        Some("later") => Err(Later::after(Duration::from_secs(86_400)).into()),
        Some("never") => Err(GiveUp::because("it gives up").into()),
        _ => panic!("it panics"),
    }
}

/// A row of a table, but for its times near now: of a payload there is one in each table.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    columns: String,
    /// Deadline; since when it is dead.
    times: [i64; 2],
}

impl Left {
    fn is_like(&self, other: &Self) -> bool {
        let mut times = self.times.iter().zip(other.times);
        self.columns == other.columns && times.all(|(one, two)| (one - two).abs() < NEAR_MS)
    }
}

/// What a node makes of the cases: what it has called, and what is in the tables then.
fn run(
    name: &str,
    cases: &[Stored],
    handle: impl FnOnce(DurableBuilder<Postgres>, Calls) -> DurableBuilder<Postgres>,
) -> Option<(Calls, BTreeMap<String, Left>)> {
    let schema = Schema::new(name)?;
    drop(schema.store());
    let mut client = schema.client();
    for case in cases {
        let id = case.id.to_string();
        let insert = "INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts,
            crashes, calendar, superseded, moved, epoch)
            VALUES ($1, $2, $3::text::uuid, 'work', $4, $5, $6, 0, $7, $8, false, 0)";
        let part = i16::try_from(case.id.partition()).unwrap();
        let due = i64::try_from(case.id.first_due().as_millis()).unwrap();
        let key = (!case.is_superseded).then(|| format!("key of {id}"));
        let (payload, calendar) = (case.payload.as_bytes(), &case.calendar);
        client
            .execute(
                &schema.sql(insert),
                &[
                    &part,
                    &due,
                    &id,
                    &key,
                    &payload,
                    &case.attempts,
                    calendar,
                    &case.is_superseded,
                ],
            )
            .unwrap();
    }
    let calls = Calls::default();
    let hour = Duration::from_secs(3_600);
    let policy = RetryPolicy::new().attempts(3).first(hour).cap(hour);
    // (A lease that is lost would have timers handled twice.)
    let store = schema.builder(&schema.database).lease(hour / 60).connect();
    let node = handle(Durable::builder(store.unwrap()), calls.clone())
        .retry_policy(policy)
        .start()
        .unwrap();
    until("nothing is due", || {
        let due = "SELECT count(*) FROM {s}.timer WHERE due <= extract(epoch FROM now()) * 1000";
        let due = client.query_one(&schema.sql(due), &[]).unwrap();
        due.get::<_, i64>(0) == 0
    });
    node.stop().unwrap();
    let mut left = BTreeMap::new();
    // (A copy of a timer with a calendar has a new id.)
    for table in [
        "SELECT 'timer ' || convert_from(payload, 'UTF8'), due, 0::bigint, concat_ws(' | ',
            part, id, kind, coalesce(key, 'no key'), attempts, crashes,
            coalesce(calendar, 'once'), superseded, moved, epoch > 0) FROM {s}.timer
            ORDER BY due",
        "SELECT 'dead ' || convert_from(payload, 'UTF8'), due, since, concat_ws(' | ',
            kind, coalesce(key, 'no key'), attempts, crashes, coalesce(calendar, 'once'),
            cause, why) FROM {s}.dead ORDER BY due",
    ] {
        for row in client.query(&schema.sql(table), &[]).unwrap() {
            let times = [row.get(1), row.get(2)];
            let columns = row.get(3);
            let mut name: String = row.get(0);
            // (Several runs of a calendar may be dead.)
            while left.contains_key(&name) {
                assert!(name.starts_with("dead never"), "two rows of one timer");
                name += ", again";
            }
            left.insert(name, Left { columns, times });
        }
    }
    Some((calls, left))
}

#[test]
fn what_becomes_of_a_timer_is_the_same_as_after_other_handlers() {
    let cases = all_cases();
    let usual = run("usual", &cases, |builder, calls| {
        builder.on("work", move |delivery: &Delivery| answer(delivery, &calls))
    });
    let within = run("within", &cases, |builder, calls| {
        builder.on_in_transaction("work", move |delivery, _| answer(delivery, &calls))
    });
    let (Some((usual_calls, usual)), Some((within_calls, within))) = (usual, within) else {
        return;
    };
    let (usual_calls, within_calls) = (usual_calls.lock().unwrap(), within_calls.lock().unwrap());
    for case in &cases {
        let payload = &case.payload;
        assert_eq!(
            within_calls.get(payload),
            usual_calls.get(payload),
            "calls of: {payload}"
        );
    }
    for row in within.keys().chain(usual.keys()) {
        let (within, usual) = (within.get(row), usual.get(row));
        let is_alike = match (within, usual) {
            (Some(within), Some(usual)) => within.is_like(usual),
            (within, usual) => within == usual,
        };
        assert!(
            is_alike,
            "{row}: {within:?} in a transaction, {usual:?} otherwise"
        );
    }
    // The cases are what their names say.
    let calls = |payload: &str| within_calls.get(payload).map_or(0, Vec::len);
    assert_eq!(calls("ok once, 0 attempts"), 1);
    assert_eq!(calls("ok burst of 3, 0 attempts"), 3);
    assert!(calls("ok burst of all, 0 attempts") >= 6);
    assert_eq!(calls("ok left out, 0 attempts"), 0);
    assert_eq!(calls("ok grace, 0 attempts"), 1);
    let is_left = |row: &str| within.contains_key(row);
    assert!(is_left("timer ok once, 0 attempts") && !is_left("timer ok last run, 0 attempts"));
    assert!(is_left("timer err one run, 0 attempts") && is_left("dead err one run, 2 attempts"));
    assert!(is_left("timer err once, 2 attempts") && is_left("dead err once, 2 attempts"));
    assert!(is_left("dead ok unreadable, 0 attempts"));
    assert!(!is_left("timer err one run, 0 attempts, struck"));
    assert!(is_left("timer later one run, 2 attempts") && calls("later once, 2 attempts") == 1);
    assert!(!is_left("dead later one run, 2 attempts"));
    assert!(!is_left("timer later one run, 0 attempts, struck"));
    assert!(is_left("dead never one run, 0 attempts") && is_left("dead never once, 0 attempts"));
    assert!(!is_left("timer never one run, 0 attempts"));
    assert!(is_left("timer never once, 0 attempts"));
    assert!(is_left("dead never burst of 3, 0 attempts, again, again"));
}
