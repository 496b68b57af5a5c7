//! Promise: a handler of `on_in_transaction` works at each isolation level, what it says of the
//! database is kept, and its connections go in async code too.
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
