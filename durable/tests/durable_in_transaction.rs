//! Promise: a handler of `on_in_transaction` works at each isolation level, what it says of the
//! database is kept, its connections go in async code too, and its answers mean what those of other
//! handlers mean (`postgres/answers.rs` has what they do to a timer).
//!
//! Each test has a schema of its own in the database of WHEELWORK_POSTGRES
//! (`scripts/with-postgres`). Without it they say that they are left out, and pass.

#[path = "common/own_schema.rs"]
mod own_schema;
#[path = "common/proxy.rs"]
mod proxy;

use own_schema::{Schema, next, until};
use postgres::{Client, NoTls};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};
use wheelwork::Dispatch;
use wheelwork_durable::{Cause, Durable, GiveUp, Later, RetryPolicy};

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

/// A handler that panics leaves no lock behind, and its connection goes on.
#[test]
fn a_panic_rolls_back_before_the_writer_hears_of_it() {
    let Some(schema) = Schema::new("panics") else {
        return;
    };
    drop(schema.store());
    let make = "CREATE TABLE {s}.work (n int); INSERT INTO {s}.work VALUES (0)";
    schema.client().batch_execute(&schema.sql(make)).unwrap();
    let raise = schema.sql("UPDATE {s}.work SET n = n + 1");
    let try_lock = schema.sql("SELECT n FROM {s}.work FOR UPDATE NOWAIT");
    let other = Mutex::new(schema.client());
    let told = Arc::new(Mutex::new(None));
    let tells = told.clone();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |_, transaction| {
            transaction.execute(&raise, &[])?;
            panic!("it panics");
        })
        .on_failed(move |_, _| {
            let row = other
                .lock()
                .unwrap()
                .query_one(&try_lock, &[])
                .map(|row| row.get::<_, i32>(0));
            *tells.lock().unwrap() = Some(row.ok());
        })
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    until("it is dead", || node.stats().died == 1);
    assert_eq!(*told.lock().unwrap(), Some(Some(0)));
    node.stop().unwrap();
}

/// An acknowledgement that fails leaves no lock behind. The handler has swallowed an error, so its
/// transaction is aborted, with a savepoint in it.
#[test]
fn a_failed_acknowledgement_rolls_back_before_the_writer_hears_of_it() {
    let Some(schema) = Schema::new("aborted") else {
        return;
    };
    drop(schema.store());
    let make = "CREATE TABLE {s}.work (n int PRIMARY KEY, done int);
        INSERT INTO {s}.work VALUES (1, 0)";
    schema.client().batch_execute(&schema.sql(make)).unwrap();
    let raise = schema.sql("UPDATE {s}.work SET done = done + 1");
    let twice = schema.sql("INSERT INTO {s}.work VALUES (1, 0)");
    let try_lock = schema.sql("SELECT done FROM {s}.work FOR UPDATE NOWAIT");
    let other = Mutex::new(schema.client());
    let told = Arc::new(Mutex::new(None));
    let tells = told.clone();
    // While the first attempt is at work, so is another call: there are two connections.
    let (met, meets) = (Barrier::new(2), AtomicU32::new(0));
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            if work.attempt() == 1 && meets.fetch_add(1, Ordering::SeqCst) < 2 {
                met.wait();
            }
            if work.payload() == b"beside" {
                return Ok(());
            }
            transaction.execute(&raise, &[])?;
            if work.attempt() == 1 {
                transaction.batch_execute("SAVEPOINT part")?;
                assert!(
                    transaction.execute(&twice, &[]).is_err(),
                    "the row is there"
                );
            }
            Ok(())
        })
        .on_failed(move |_, _| {
            let row = other.lock().unwrap().query_one(&try_lock, &[]);
            *tells.lock().unwrap() = Some(row.ok().map(|row| row.get::<_, i32>(0)));
        })
        .retry_policy(RetryPolicy::new().first(MS))
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    node.schedule("work", MS, "beside").unwrap();
    until("both are done", || node.stats().done == 2);
    assert_eq!(node.stats().failed, 1);
    assert_eq!(*told.lock().unwrap(), Some(Some(0)), "nobody has the row");
    let done = schema.sql("SELECT done FROM {s}.work");
    let done = schema.client().query_one(&done, &[]).unwrap();
    assert_eq!(done.get::<_, i32>(0), 1, "its work is done once");
    node.stop().unwrap();
}

/// A user's transaction that has re-armed the key of a running timer holds up that timer alone.
#[test]
fn a_transaction_that_has_the_key_holds_up_no_other_timer() {
    let Some(schema) = Schema::new("rearmed") else {
        return;
    };
    let store = schema.store();
    let outbox = store.outbox();
    let make = "CREATE TABLE {s}.work (payload text)";
    schema.client().batch_execute(&schema.sql(make)).unwrap();
    let insert = schema.sql("INSERT INTO {s}.work VALUES ($1)");
    let (begins, begun) = mpsc::channel();
    let (rearms, rearmed) = mpsc::channel::<()>();
    let (rearmed, told) = (Mutex::new(rearmed), Arc::new(Mutex::new(Vec::new())));
    let tells = told.clone();
    let calls = AtomicU32::new(0);
    let node = Durable::builder(store)
        .on_in_transaction("work", move |work, transaction| {
            transaction.execute(&insert, &[&work.payload_text()])?;
            if work.payload() == b"old" && calls.fetch_add(1, Ordering::SeqCst) == 0 {
                begins.send(())?;
                rearmed.lock().unwrap().recv()?;
            }
            Ok(())
        })
        .on_failed(move |work, why| {
            let told = format!("{}: {why}", work.payload_text());
            tells.lock().unwrap().push(told);
        })
        .max_calls("work", NonZeroUsize::MIN)
        .start()
        .unwrap();
    // (Dropped before the node, also if the test fails.)
    let rearms = rearms;
    node.key("key").schedule("work", MS, "old").unwrap();
    begun.recv().unwrap();
    let mut client = schema.client();
    let mut transaction = client.transaction().unwrap();
    let hour = Duration::from_secs(3_600);
    let mut timers = outbox.within(&mut transaction);
    timers.key("key").schedule("work", hour, "new").unwrap();
    rearms.send(()).unwrap();
    let others = (0..5).map(|_| ("work", MS, "other"));
    node.schedule_many(others).unwrap();
    until("the others are done", || node.stats().done == 5);
    transaction.commit().unwrap();
    until("the old one is gone", || {
        node.list(.., 9).unwrap().len() == 1
    });
    let new = node.key("key").get().unwrap().unwrap();
    assert_eq!(&new.payload[..], b"new");
    node.stop().unwrap();
    // Its work is not committed without its end.
    let others = schema.sql("SELECT count(*) FROM {s}.work WHERE payload = 'other'");
    let old = schema.sql("SELECT count(*) FROM {s}.work WHERE payload = 'old'");
    let mut count = |sql: &str| client.query_one(sql, &[]).unwrap().get::<_, i64>(0);
    assert_eq!((count(&others), count(&old)), (5, 0));
    let told = told.lock().unwrap();
    let is_blocked = |why: &String| why.starts_with("old: another transaction has the timer");
    assert!(told.len() == 1 && told.iter().all(is_blocked), "{told:?}");
}

/// A COMMIT that fails leaves its connection as good as new.
#[test]
fn a_failed_commit_is_tried_again() {
    let Some(schema) = Schema::new("deferred") else {
        return;
    };
    drop(schema.store());
    let make = "CREATE TABLE {s}.work (n int UNIQUE DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO {s}.work VALUES (1)";
    schema.client().batch_execute(&schema.sql(make)).unwrap();
    let insert = schema.sql("INSERT INTO {s}.work VALUES ($1)");
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            let number = i32::try_from(work.attempt())?;
            transaction.execute(&insert, &[&number])?;
            Ok(())
        })
        .retry_policy(RetryPolicy::new().first(MS))
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    until("it is done", || node.stats().done == 1);
    assert_eq!(node.stats().failed, 1);
    let count = schema.sql("SELECT count(*) FROM {s}.work");
    let count = schema.client().query_one(&count, &[]).unwrap();
    assert_eq!(count.get::<_, i64>(0), 2);
    node.stop().unwrap();
}

/// The node of a handler is gone, and the handler's statement waits for a lock: the server ends it
/// (`client_connection_check_interval`), so what the handler has locked is free.
#[test]
fn a_handlers_statement_ends_when_its_node_is_gone() {
    let Some(schema) = Schema::new("gone") else {
        return;
    };
    drop(schema.store());
    let make = "CREATE TABLE {s}.work (n int); INSERT INTO {s}.work VALUES (1), (2)";
    schema.client().batch_execute(&schema.sql(make)).unwrap();
    let lock = |n: i32, how: &str| {
        schema.sql(&format!(
            "SELECT FROM {{s}}.work WHERE n = {n} FOR UPDATE {how}"
        ))
    };
    let (own, others) = (lock(1, ""), lock(2, ""));
    let mut other = schema.client();
    other.batch_execute("BEGIN").unwrap();
    other.batch_execute(&others).unwrap();
    let (database, seen) = proxy::to(&schema.database);
    let store = schema.builder(&database).connect().unwrap();
    let (begins, begun) = mpsc::channel();
    let node = Durable::builder(store)
        .on_in_transaction("work", move |work, transaction| {
            if work.attempt() == 1 {
                transaction.batch_execute(&own)?;
                let pid = transaction.query_one("SELECT pg_backend_pid()", &[])?;
                begins.send(pid.get::<_, i32>(0))?;
                transaction.batch_execute(&others)?;
            }
            Ok(())
        })
        .retry_policy(RetryPolicy::new().first(MS))
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    let pid = next(&begun);
    let mut watch = schema.client();
    until("it waits", || {
        let waits = "SELECT count(*) > 0 FROM pg_locks WHERE pid = $1 AND NOT granted";
        watch.query_one(waits, &[&pid]).unwrap().get(0)
    });
    seen.cut_all();
    let own = lock(1, "SKIP LOCKED");
    until("the server has ended it", || {
        !watch.query(&own, &[]).unwrap().is_empty()
    });
    until("it is tried again", || node.stats().done == 1);
    assert_eq!(node.stats().failed, 1);
    node.stop().unwrap();
}

/// The machine of a handler's node may be lost. (A session without TCP has no keepalives.)
#[test]
fn the_server_of_a_handler_sends_keepalives() {
    let Some(schema) = Schema::new("keepalives") else {
        return;
    };
    let (tells, told) = mpsc::channel();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |_, transaction| {
            let shown = "SELECT inet_client_addr() IS NULL, current_setting('tcp_keepalives_idle'),
                current_setting('tcp_keepalives_interval'), current_setting('tcp_keepalives_count')";
            let row = transaction.query_one(shown, &[])?;
            let times: [String; 3] = [1, 2, 3].map(|column| row.get(column));
            tells.send((row.get::<_, bool>(0), times))?;
            Ok(())
        })
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    let (is_local, times) = next(&told);
    node.stop().unwrap();
    assert_eq!(times, if is_local { ["0"; 3] } else { ["15", "5", "3"] });
}

#[test]
fn each_call_at_one_time_has_a_connection_that_is_kept() {
    let Some(schema) = Schema::new("kept") else {
        return;
    };
    let (tells, pids) = mpsc::channel();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |_, transaction| {
            let pid = transaction.query_one("SELECT pg_backend_pid()", &[])?;
            tells.send(pid.get::<_, i32>(0))?;
            Ok(())
        })
        .max_calls("work", NonZeroUsize::new(2).unwrap())
        .start()
        .unwrap();
    node.schedule_many((0..40).map(|_| ("work", MS, "")))
        .unwrap();
    let mut all: Vec<i32> = (0..40).map(|_| next(&pids)).collect();
    node.stop().unwrap();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() <= 2, "{all:?}");
}

/// What `docs/guide/transactions.md` says of sessions and of transactions that a handler ends.
#[test]
fn a_session_goes_from_call_to_call_and_a_transaction_may_not_be_ended() {
    let Some(schema) = Schema::new("session") else {
        return;
    };
    drop(schema.store());
    let make = schema.sql("CREATE TABLE {s}.work (payload text)");
    schema.client().batch_execute(&make).unwrap();
    let insert = schema.sql("INSERT INTO {s}.work VALUES ('work')");
    let (tells, told) = mpsc::channel();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            match work.payload() {
                b"sets" => transaction.batch_execute(
                    "SET wheelwork_test.of_session = 'session'; SET LOCAL wheelwork_test.of_call = 'call';
                    CREATE TEMPORARY TABLE mine (n int)",
                )?,
                b"locks" => {
                    transaction.batch_execute(
                        "SELECT pg_advisory_lock(4711); SET wheelwork_test.of_failure = 'rolled back'",
                    )?;
                    return Err("it fails".into());
                }
                b"ends" => {
                    transaction.batch_execute(&format!("{insert}; COMMIT; BEGIN; {insert}"))?;
                    return Err("it fails".into());
                }
                _ => {}
            }
            let of_session = "SELECT concat_ws(' ', current_setting('wheelwork_test.of_session', true),
                current_setting('wheelwork_test.of_call', true),
                current_setting('wheelwork_test.of_failure', true), to_regclass('mine'),
                (SELECT count(*) FROM pg_locks
                    WHERE locktype = 'advisory' AND pid = pg_backend_pid()))";
            tells.send(transaction.query_one(of_session, &[])?.get::<_, String>(0))?;
            Ok(())
        })
        .max_calls("work", NonZeroUsize::MIN)
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    let call = |payload: &str| {
        let ended = node.stats().done + node.stats().died;
        node.schedule("work", MS, payload).unwrap();
        until("it has ended", || {
            node.stats().done + node.stats().died > ended
        });
    };
    call("sets");
    assert_eq!(next(&told), "session call mine 0");
    call("locks");
    call("looks");
    let seen = next(&told);
    let seen: Vec<_> = seen.split_whitespace().collect();
    assert_eq!(seen, ["session", "mine", "1"]);
    call("ends");
    let count = schema.sql("SELECT count(*) FROM {s}.work");
    let count = schema.client().query_one(&count, &[]).unwrap();
    assert_eq!(count.get::<_, i64>(0), 1, "what it has committed stays");
    node.stop().unwrap();
}

#[test]
fn an_answer_rolls_back_and_is_no_conflict() {
    let Some(schema) = Schema::new("answer") else {
        return;
    };
    drop(schema.store());
    let make = "CREATE TABLE {s}.work (n int)";
    schema.client().batch_execute(&schema.sql(make)).unwrap();
    let insert = schema.sql("INSERT INTO {s}.work VALUES (1)");
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            assert_eq!(work.attempt(), 1);
            transaction.batch_execute(&insert)?;
            match counted.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Later::after(MS * 50).into()),
                // (An error by which the transaction would be repeated.)
                1 => {
                    let raise = "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$";
                    let met = transaction.batch_execute(raise).unwrap_err();
                    Err(GiveUp::because(met).into())
                }
                _ => Ok(()),
            }
        })
        .start()
        .unwrap();
    let id = node.schedule("work", MS, "").unwrap();
    until("it is dead", || node.stats().died == 1);
    let dead = node.dead_letters(None, 9).unwrap();
    assert!(matches!(&dead[0].cause, Cause::GivenUp(why) if why.contains("40001")));
    let count = schema.sql("SELECT count(*) FROM {s}.work");
    let count = |client: &mut Client| client.query_one(&count, &[]).unwrap().get::<_, i64>(0);
    assert_eq!(count(&mut schema.client()), 0, "both are rolled back");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(node.revive(id).unwrap());
    until("it is done", || node.stats().done == 1);
    assert_eq!(count(&mut schema.client()), 1);
    assert_eq!((node.stats().snoozed, node.stats().failed), (1, 0));
    node.stop().unwrap();
}

#[test]
fn a_time_limit_ends_statements_and_not_handlers() {
    let Some(schema) = Schema::new("limit") else {
        return;
    };
    let (tells, told) = mpsc::channel();
    let config = format!("{} options='-c statement_timeout=2000'", schema.database);
    let node = Durable::builder(schema.builder(&config).connect().unwrap())
        .on_in_transaction("work", move |work, transaction| {
            // (What sets the limit takes no snapshot.)
            transaction.batch_execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
            let limit = transaction.query_one("SHOW statement_timeout", &[])?;
            let (limit, left) = (limit.get::<_, String>(0), work.time_left());
            tells
                .send((work.payload_text().into_owned(), limit, left))
                .unwrap();
            match &*work.payload_text() {
                "ends late" => std::thread::sleep(MS * 60),
                _ => transaction.batch_execute("SELECT pg_sleep(30)")?,
            }
            Ok(())
        })
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    // (A handler's session has the role's own limit, if that is shorter.)
    let cases = [("short", 40), ("long", 40_000), ("ends late", 50)];
    for (number, (payload, limit)) in (1..).zip(cases) {
        let timer = node.timer("work", MS, payload).time_limit(MS * limit);
        timer.schedule().unwrap();
        let (_, shown, left) = next(&told);
        assert!(left.unwrap() <= MS * limit, "{payload}: {left:?}");
        match payload {
            "long" => assert_eq!(shown, "2s"),
            _ => assert!(shown.ends_with("ms"), "{payload}: {shown}"),
        }
        until("it has ended", || {
            node.stats().done + node.stats().died == number
        });
    }
    until("one is done", || node.stats().done == 1);
    assert_eq!((node.stats().died, node.stats().over_time >= 1), (2, true));
    for letter in node.dead_letters(None, 9).unwrap() {
        assert!(matches!(&letter.cause, Cause::Failed(why) if why.contains("statement timeout")));
    }
    node.stop().unwrap();
}

#[test]
fn an_attempt_is_nine_calls_that_meet_others() {
    let Some(schema) = Schema::new("nine") else {
        return;
    };
    let (tells, told) = mpsc::channel();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            tells.send((work.attempt(), Instant::now()))?;
            transaction.batch_execute("DO $$BEGIN RAISE SQLSTATE '40P01'; END$$")?;
            Ok(())
        })
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    until("it is dead", || node.stats().died == 1);
    node.stop().unwrap();
    drop(node);
    let calls: Vec<(u32, Instant)> = told.iter().collect();
    assert!(
        calls.len() == 9 && calls.iter().all(|call| call.0 == 1),
        "{calls:?}"
    );
    assert!(calls[8].1 - calls[0].1 >= MS * 388);
}

/// A handler that gets no connection has failed: an attempt.
#[test]
fn a_handler_without_a_database_has_failed() {
    let Some(schema) = Schema::new("refused") else {
        return;
    };
    let name = schema.name.clone();
    let mut admin = schema.client();
    admin
        .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))
        .unwrap();
    let database = format!("{} dbname={name}", schema.database);
    let (tells, told) = mpsc::channel();
    let node = Durable::builder(schema.builder(&database).connect().unwrap())
        .on_in_transaction("work", |_, _| Ok(()))
        .on_failed(move |work, why| tells.send((work.attempt(), why.to_owned())).unwrap())
        .retry_policy(RetryPolicy::new().first(MS))
        .start()
        .unwrap();
    let allow = |admin: &mut Client, allow: bool| {
        let allow = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {allow}");
        admin.batch_execute(&allow).unwrap();
    };
    // (Sessions that are open stay.)
    allow(&mut admin, false);
    assert!(Client::connect(&database, NoTls).is_err());
    node.schedule("work", MS, "").unwrap();
    let (first, second) = (next(&told), next(&told));
    allow(&mut admin, true);
    assert!(first.1.contains("not currently accepting"), "{first:?}");
    assert_eq!((first.0, second.0), (1, 2));
    until("it is done", || node.stats().done == 1);
    node.stop().unwrap();
    drop(node);
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    admin.batch_execute(&drop).unwrap();
}

/// What a handler sends: the payload, and how much of its time limit it has left.
type Told = mpsc::Receiver<(String, Option<Duration>)>;

/// A node whose handler has no connection yet, and gets none until the test says so.
fn slow_to_connect(schema: &Schema) -> (Durable, Arc<proxy::Seen>, Told) {
    let (database, seen) = proxy::to(&schema.database);
    let (tells, told) = mpsc::channel();
    let store = schema.builder(&database).lease(MS * 60_000).connect();
    let node = Durable::builder(store.unwrap())
        .on_in_transaction("work", move |work, _| {
            tells.send((work.payload_text().into_owned(), work.time_left()))?;
            Ok(())
        })
        .start()
        .unwrap();
    until("it listens", || seen.listening() == 1);
    seen.set_slow(true);
    (node, seen, told)
}

/// What is looked at before a handler is called is looked at again when its transaction has begun.
#[test]
fn a_handler_that_waits_for_a_connection_is_not_called_after_a_pause() {
    let Some(schema) = Schema::new("paused") else {
        return;
    };
    let (node, seen, told) = slow_to_connect(&schema);
    node.schedule("work", MS, "one").unwrap();
    until("it waits for a connection", || seen.waited() > 0);
    node.kind("work").pause().unwrap();
    seen.set_slow(false);
    until("it is held", || {
        assert!(told.try_recv().is_err(), "it is paused");
        node.stats().paused == 1
    });
    node.kind("work").resume().unwrap();
    assert_eq!(next(&told), ("one".to_owned(), None));
    until("it is done", || node.stats().done == 1);
    assert_eq!(node.stats().failed, 0);
    node.stop().unwrap();
}

#[test]
fn a_handler_that_waits_for_a_connection_is_not_called_after_an_expiry() {
    let Some(schema) = Schema::new("late") else {
        return;
    };
    let (node, seen, told) = slow_to_connect(&schema);
    // (It is not due before the node knows of it, and expires a little later.)
    let timer = node.timer("work", MS * 100, "one").not_after(MS * 2_000);
    let id = timer.schedule().unwrap();
    let expires = node.get(id).unwrap().unwrap().expires().unwrap();
    until("it waits for a connection, or has expired", || {
        seen.waited() > 0 || node.stats().expired > 0
    });
    let now = || {
        let now = "SELECT (extract(epoch FROM now()) * 1000)::int8";
        let row = schema.client().query_one(now, &[]).unwrap();
        row.get::<_, i64>(0)
    };
    let expires = expires.as_millis() as i64;
    until("it has expired", || now() > expires + 10);
    seen.set_slow(false);
    until("it is dead", || node.stats().expired == 1);
    assert!(told.try_recv().is_err(), "it has expired");
    node.stop().unwrap();
}

#[test]
fn a_stop_does_not_wait_for_a_connection() {
    let Some(schema) = Schema::new("stopped") else {
        return;
    };
    let (node, seen, told) = slow_to_connect(&schema);
    let id = node.schedule("work", MS, "one").unwrap();
    until("it waits for a connection", || seen.waited() > 0);
    node.stop().unwrap();
    // (A handler whose connection has failed has had an attempt.)
    assert_eq!((node.stats().failed, told.try_recv().is_err()), (0, true));
    seen.set_slow(false);
    let (tells, told) = mpsc::channel();
    let other = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, _| {
            tells.send((work.id(), work.attempt()))?;
            Ok(())
        })
        .start()
        .unwrap();
    assert_eq!(next(&told), (id, 1));
    other.stop().unwrap();
}

#[test]
fn a_wait_for_a_connection_is_no_part_of_an_attempt() {
    let Some(schema) = Schema::new("begins") else {
        return;
    };
    let (node, seen, told) = slow_to_connect(&schema);
    let limit = MS * 3_000;
    let timer = node.timer("work", MS, "one").time_limit(limit);
    timer.schedule().unwrap();
    until("it waits for a connection", || seen.waited() > 0);
    let begun = Instant::now();
    until("its limit would be over", || begun.elapsed() > limit);
    seen.set_slow(false);
    let (_, left) = next(&told);
    assert!(left > Some(Duration::ZERO), "{left:?}");
    node.stop().unwrap();
}

/// A suspect that goes alone is charged with a crash for its call. (A process that ends while it
/// waits for a connection has not ended by its handler.)
#[test]
fn a_suspect_that_waits_for_a_connection_is_not_charged() {
    let Some(schema) = Schema::new("charged") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let (tells, told) = mpsc::channel();
    let store = schema.builder(&database).lease(MS * 60_000).connect();
    let charged = schema.sql("SELECT crashes FROM {s}.timer");
    let node = Durable::builder(store.unwrap())
        .on_in_transaction("work", move |_, transaction| {
            let row = transaction.query_one(&charged, &[])?;
            tells.send(row.get::<_, i64>(0))?;
            Ok(())
        })
        .start()
        .unwrap();
    until("it listens", || seen.listening() == 1);
    seen.set_slow(true);
    let id = node.schedule("work", MS * 3_600_000, "").unwrap();
    let charge = schema.sql("UPDATE {s}.timer SET crashes = 1");
    schema.client().batch_execute(&charge).unwrap();
    assert!(node.reschedule(id, MS).unwrap());
    until("it waits for a connection", || seen.waited() > 0);
    assert_eq!(node.get(id).unwrap().unwrap().crashes, 1);
    seen.set_slow(false);
    assert_eq!(next(&told), 2, "it is charged before it is called");
    until("it is done", || node.stats().done == 1);
    node.stop().unwrap();
}

/// The database may take long to say that it limits the handler's statements.
#[test]
fn a_handler_that_waits_for_its_time_limit_is_not_called_after_a_pause() {
    let Some(schema) = Schema::new("limited") else {
        return;
    };
    let (node, seen, told) = slow_to_connect(&schema);
    seen.hold("SHOW statement_timeout");
    seen.set_slow(false);
    let limit = MS * 60_000;
    let timer = node.timer("work", MS, "one").time_limit(limit);
    timer.schedule().unwrap();
    until("it waits for its limit", || seen.holds());
    node.kind("work").pause().unwrap();
    seen.let_go();
    until("it is held", || {
        assert!(told.try_recv().is_err(), "it is paused");
        node.stats().paused == 1
    });
    node.kind("work").resume().unwrap();
    let (payload, left) = next(&told);
    let is_whole = |left: Duration| left > Duration::ZERO && left <= limit;
    assert!(payload == "one" && left.is_some_and(is_whole), "{left:?}");
    until("it is done", || node.stats().done == 1);
    assert_eq!(node.stats().failed, 0);
    node.stop().unwrap();
}

/// What has met others is no attempt yet, so a pause costs none. (This kind has one attempt.)
#[test]
fn a_handler_that_has_met_others_is_not_called_again_after_a_pause() {
    let Some(schema) = Schema::new("again") else {
        return;
    };
    let (node, begun, goes) = meets_others_once(&schema);
    node.schedule("work", MS, "").unwrap();
    assert_eq!(next(&begun), 1);
    node.kind("work").pause().unwrap();
    goes.send(()).unwrap();
    until("it is held", || node.stats().paused == 1);
    assert!(begun.try_recv().is_err(), "it is paused");
    node.kind("work").resume().unwrap();
    assert_eq!(next(&begun), 1);
    until("it is done", || node.stats().done == 1);
    assert_eq!((node.stats().snoozed, node.stats().failed), (1, 0));
    node.stop().unwrap();
}

#[test]
fn a_handler_that_has_met_others_is_called_again_during_a_stop() {
    let Some(schema) = Schema::new("stops") else {
        return;
    };
    let (node, begun, goes) = meets_others_once(&schema);
    node.schedule("work", MS, "").unwrap();
    assert_eq!(next(&begun), 1);
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| node.stop());
        // (Until the stop has begun.)
        std::thread::sleep(MS * 200);
        goes.send(()).unwrap();
        stop.join().unwrap().unwrap();
    });
    assert_eq!(next(&begun), 1);
    let stats = node.stats();
    assert_eq!((stats.done, stats.failed, stats.died), (1, 0, 0));
}

/// A node whose handler meets another transaction at its first call, when the test says so. It has
/// one attempt.
fn meets_others_once(schema: &Schema) -> (Durable, mpsc::Receiver<u32>, mpsc::Sender<()>) {
    let (begins, begun) = mpsc::channel();
    let (goes, go) = mpsc::channel::<()>();
    let (go, calls) = (Mutex::new(go), AtomicU32::new(0));
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            begins.send(work.attempt())?;
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                go.lock().unwrap().recv()?;
                transaction.batch_execute("DO $$BEGIN RAISE SQLSTATE '40P01'; END$$")?;
            }
            Ok(())
        })
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    (node, begun, goes)
}
