//! Promise: a handler of `on_in_transaction` works at each isolation level, what it says of the
//! database is kept, its connections go in async code too, and its answers mean what those of other
//! handlers mean.
//!
//! Each test has a schema of its own in the database of WHEELWORK_POSTGRES
//! (`scripts/with-postgres`). Without it they say that they are left out, and pass.

#[path = "common/own_schema.rs"]
mod own_schema;

use own_schema::{Schema, until};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use wheelwork::Dispatch;
use wheelwork_durable::{Cause, Durable, RetryPolicy};

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_default_level_of_a_role_does_not_matter() {
    let Some(schema) = Schema::new("level") else {
        return;
    };
    let config = format!(
        "{} options='-c default_transaction_isolation=serializable'",
        schema.database
    );
    let node = Durable::builder(schema.builder(&config).connect().unwrap())
        .on_in_transaction("work", |_, transaction| {
            let level = transaction.query_one("SHOW transaction_isolation", &[])?;
            assert_eq!(level.get::<_, String>(0), "read committed");
            Ok(())
        })
        .start()
        .unwrap();
    for number in 0..50 {
        node.schedule("work", MS * 20 * number, "").unwrap();
    }
    until("all are done", || node.stats().done == 50);
    assert_eq!(node.stats().failed, 0);
    node.stop().unwrap();
}

#[test]
fn a_conflict_with_another_transaction_is_no_attempt() {
    let Some(schema) = Schema::new("conflict") else {
        return;
    };
    drop(schema.store());
    let make = "CREATE TABLE {s}.work (n int); INSERT INTO {s}.work VALUES (0)";
    schema.client().batch_execute(&schema.sql(make)).unwrap();
    let (look, raise) = ("SELECT n FROM {s}.work", "UPDATE {s}.work SET n = n + 1");
    let (look, raise) = (schema.sql(look), schema.sql(raise));
    let calls = Arc::new(AtomicU32::new(0));
    let (counted, database) = (calls.clone(), schema.database.clone());
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            assert_eq!(work.attempt(), 1);
            transaction.batch_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
            transaction.query_one(&look, &[])?;
            if counted.fetch_add(1, Ordering::SeqCst) < 2 {
                // Another transaction comes between.
                postgres::Client::connect(&database, postgres::NoTls)?.batch_execute(&raise)?;
            }
            transaction.batch_execute(&raise)?;
            Ok(())
        })
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    until("it is done", || {
        assert_eq!(node.stats().failed, 0);
        node.stats().done == 1
    });
    assert!(calls.load(Ordering::SeqCst) >= 3, "it met the other twice");
    let count = schema
        .client()
        .query_one(&schema.sql("SELECT n FROM {s}.work"), &[]);
    assert_eq!(count.unwrap().get::<_, i32>(0), 3, "its work is done once");
    node.stop().unwrap();
}

#[test]
fn it_is_called_beside_a_slow_kind() {
    let Some(schema) = Schema::new("beside") else {
        return;
    };
    let (shut, opened) = mpsc::channel::<()>();
    let opened = Mutex::new(opened);
    let begun = Arc::new(AtomicU32::new(0));
    let begins = begun.clone();
    let node = Durable::builder(schema.store())
        .dispatch(Dispatch::RayonThreads(1))
        .on("slow", move |_| {
            begins.fetch_add(1, Ordering::SeqCst);
            // It ends when nobody holds the other end any more.
            _ = opened.lock().unwrap().recv();
            Ok(())
        })
        .on_in_transaction("work", |_, _| Ok(()))
        .start()
        .unwrap();
    // (Dropped before the node, also if the test fails.)
    let shut = shut;
    let some = (0..10).map(|_| ("slow", Duration::ZERO, ""));
    node.schedule_many(some).unwrap();
    until("a slow one begins", || begun.load(Ordering::SeqCst) > 0);
    let some = (0..10).map(|_| ("work", Duration::ZERO, ""));
    node.schedule_many(some).unwrap();
    until("the others are done", || node.stats().done == 10);
    drop(shut);
    until("all are done", || node.stats().done == 20);
    node.stop().unwrap();
}

#[test]
fn it_may_be_dropped_in_async_code_after_a_call() {
    let Some(schema) = Schema::new("dropped") else {
        return;
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        let node = Durable::builder(schema.store())
            .on_in_transaction("work", |_, _| Ok(()))
            .start()
            .unwrap();
        node.schedule_ticket("work", MS, "").unwrap().await.unwrap();
        until("it is done", || node.stats().done == 1);
        drop(node);
    });
}

#[test]
fn a_dead_letter_says_what_the_database_said() {
    let Some(schema) = Schema::new("said") else {
        return;
    };
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", |_, transaction| {
            transaction.batch_execute("SELECT * FROM no_such_table")?;
            Ok(())
        })
        .retry_policy(RetryPolicy::new().attempts(1))
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    until("it is dead", || {
        !node.dead_letters(None, 10).unwrap().is_empty()
    });
    let letters = node.dead_letters(None, 10).unwrap();
    let Cause::Failed(why) = &letters[0].cause else {
        panic!("{:?}", letters[0].cause);
    };
    assert!(
        why.contains("no_such_table") && why.lines().count() == 1,
        "{why}"
    );
    node.stop().unwrap();
}

/// What becomes of a timer does not depend on which kind of handler has answered.
#[cfg(feature = "calendar")]
mod answers {
    use super::{Durable, RetryPolicy, Schema, until};
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, SystemTime};
    use wheelwork::calendar::{Calendar, Missed};
    use wheelwork_durable::{Delivery, DurableBuilder, DurableId, HandlerResult, Postgres};
    use wheelwork_durable::{Partition, StoreTime};

    /// The answers of a handler: the first word of a payload.
    const ANSWERS: [&str; 3] = ["ok", "err", "panic"];

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
            let due =
                "SELECT count(*) FROM {s}.timer WHERE due <= extract(epoch FROM now()) * 1000";
            let due = client.query_one(&schema.sql(due), &[]).unwrap();
            due.get::<_, i64>(0) == 0
        });
        node.stop().unwrap();
        let mut left = BTreeMap::new();
        // (A copy of a timer with a calendar has a new id.)
        for table in [
            "SELECT 'timer ' || convert_from(payload, 'UTF8'), due, 0::bigint, concat_ws(' | ',
                part, id, kind, coalesce(key, 'no key'), attempts, crashes,
                coalesce(calendar, 'once'), superseded, moved, epoch > 0) FROM {s}.timer",
            "SELECT 'dead ' || convert_from(payload, 'UTF8'), due, since, concat_ws(' | ',
                kind, coalesce(key, 'no key'), attempts, crashes, coalesce(calendar, 'once'),
                cause, why) FROM {s}.dead",
        ] {
            for row in client.query(&schema.sql(table), &[]).unwrap() {
                let times = [row.get(1), row.get(2)];
                let columns = row.get(3);
                let former = left.insert(row.get(0), Left { columns, times });
                assert!(former.is_none(), "two rows of one timer");
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
        let (usual_calls, within_calls) =
            (usual_calls.lock().unwrap(), within_calls.lock().unwrap());
        for case in &cases {
            let payload = &case.payload;
            assert_eq!(
                within_calls.get(payload),
                usual_calls.get(payload),
                "calls of: {payload}"
            );
            for table in ["timer", "dead"] {
                let row = format!("{table} {payload}");
                let (within, usual) = (within.get(&row), usual.get(&row));
                let is_alike = match (within, usual) {
                    (Some(within), Some(usual)) => within.is_like(usual),
                    (within, usual) => within == usual,
                };
                assert!(
                    is_alike,
                    "{row}: {within:?} in a transaction, {usual:?} otherwise"
                );
            }
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
        assert!(
            is_left("timer err one run, 0 attempts") && is_left("dead err one run, 2 attempts")
        );
        assert!(is_left("timer err once, 2 attempts") && is_left("dead err once, 2 attempts"));
        assert!(is_left("dead ok unreadable, 0 attempts"));
        assert!(!is_left("timer err one run, 0 attempts, struck"));
    }
}
