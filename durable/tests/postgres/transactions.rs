//! Promise: a timer may be part of a user's transaction, and a handler may work in one.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::{Schema, next, until};
use postgres::NoTls;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};
use tokio_postgres::error::SqlState;
use wheelwork_durable::{BlockingTransaction, Durable, Postgres, PostgresOutbox, RetryPolicy};

const HOUR: Duration = Duration::from_secs(3_600);
const MS: Duration = Duration::from_millis(1);

#[test]
fn a_timer_may_be_part_of_a_transaction() {
    let Some(schema) = Schema::new("outbox") else {
        return;
    };
    let (send, handled) = channel();
    let outbox = schema.store().outbox();
    let node = schema.node(&send);
    let mut client = schema.client();
    let mut transaction = client.transaction().unwrap();
    outbox
        .within(&mut transaction)
        .schedule("mail", MS * 50, "rolled back")
        .unwrap();
    transaction.rollback().unwrap();
    let mut transaction = client.transaction().unwrap();
    let mut timers = outbox.within(&mut transaction);
    timers.schedule("mail", MS * 50, "committed").unwrap();
    let id = timers.schedule("mail", HOUR, "cancelled").unwrap();
    let mut key = timers.key("key");
    key.schedule("mail", HOUR, "replaced").unwrap();
    key.schedule("mail", HOUR, "moved").unwrap();
    let moved = timers.schedule("mail", HOUR, "moved too").unwrap();
    assert!(!timers.key("no such key").cancel().unwrap());
    transaction.commit().unwrap();
    assert_eq!(next(&handled), ("committed".to_owned(), 1));
    assert_eq!(node.get(id).unwrap().map(|row| row.id), Some(id));
    let mut transaction = client.transaction().unwrap();
    let mut timers = outbox.within(&mut transaction);
    assert!(timers.cancel(id).unwrap());
    assert!(!timers.cancel(id).unwrap());
    assert!(timers.reschedule(moved, SystemTime::now()).unwrap());
    transaction.commit().unwrap();
    assert_eq!(node.get(id).unwrap(), None);
    assert_eq!(next(&handled), ("moved too".to_owned(), 1));
    let mut transaction = client.transaction().unwrap();
    let mut timers = outbox.within(&mut transaction);
    assert!(timers.key("key").reschedule(MS * 50).unwrap());
    assert!(!timers.key("no such key").reschedule(MS * 50).unwrap());
    transaction.commit().unwrap();
    assert_eq!(next(&handled), ("moved".to_owned(), 1));
    node.stop().unwrap();
    assert!(handled.try_recv().is_err());
}

#[test]
fn so_it_may_in_async_code() {
    let Some(schema) = Schema::new("async") else {
        return;
    };
    let (send, handled) = channel();
    let outbox = schema.store().outbox();
    let node = schema.node(&send);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let id = runtime.block_on(async {
        let connected = tokio_postgres::connect(&schema.database, NoTls).await;
        let (mut client, connection) = connected.unwrap();
        tokio::spawn(connection);
        let transaction = client.transaction().await.unwrap();
        let mut timers = outbox.within_async(&transaction);
        let scheduled = timers.schedule("mail", MS * 50, "async");
        scheduled.await.unwrap();
        let later = timers.key("k").schedule("mail", HOUR, "later");
        let id = later.await.unwrap();
        transaction.commit().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let mut timers = outbox.within_async(&transaction);
        assert!(timers.cancel(id).await.unwrap());
        for key in ["moved", "cancelled"] {
            let scheduled = timers.key(key).schedule("mail", HOUR, key);
            let id = scheduled.await.unwrap();
            assert!(timers.reschedule(id, HOUR * 2).await.unwrap());
        }
        let moved = timers.key("moved").reschedule(MS * 300);
        assert!(moved.await.unwrap());
        assert!(timers.key("cancelled").cancel().await.unwrap());
        transaction.commit().await.unwrap();
        id
    });
    // (Where the node finds both at once, two threads handle them.)
    let mut both = [next(&handled), next(&handled)];
    both.sort();
    assert_eq!(both, ["async", "moved"].map(|text| (text.to_owned(), 1)));
    assert_eq!(node.key("cancelled").get().unwrap(), None);
    assert_eq!(node.get(id).unwrap(), None);
    node.stop().unwrap();
}

#[test]
fn other_languages_have_functions() {
    let Some(schema) = Schema::new("functions") else {
        return;
    };
    let (send, handled) = channel();
    let node = schema.node(&send);
    let mut client = schema.client();
    let mut bool_of =
        |text: &str| -> bool { client.query_one(&schema.sql(text), &[]).unwrap().get(0) };
    let soon = "SELECT {s}.wheelwork_schedule('mail', now() + interval '50 ms', 'sql') IS NOT NULL";
    assert!(bool_of(soon));
    assert_eq!(next(&handled), ("sql".to_owned(), 1));
    let keyed = "SELECT {s}.wheelwork_schedule('mail', now() + interval '1 h', 'keyed', 'a key') \
                 IS NOT NULL";
    assert!(
        bool_of(keyed) && bool_of(keyed),
        "the second one replaces the first"
    );
    let row = node.key("a key").get().unwrap().expect("it is there");
    assert_eq!(&*row.payload, b"keyed");
    assert_eq!(node.list(SystemTime::now().., 10).unwrap().len(), 1);
    let id = row.id;
    let move_by_id = format!(
        "SELECT {{s}}.wheelwork_reschedule('{}', now() + interval '2 h')",
        uuid::Uuid::from_u128(id.to_bits())
    );
    assert!(bool_of(&move_by_id) && bool_of(&move_by_id));
    assert!(bool_of(
        "SELECT {s}.wheelwork_reschedule_key('a key', now() + interval '3 h')"
    ));
    let due = node.get(id).unwrap().expect("it stays").due.system_time();
    assert!(due > SystemTime::now() + HOUR * 5 / 2);
    assert!(bool_of("SELECT {s}.wheelwork_cancel_key('a key')"));
    assert!(!bool_of("SELECT {s}.wheelwork_cancel_key('a key')"));
    assert!(!bool_of(
        &move_by_id
            .replace("reschedule", "cancel")
            .replace(", now() + interval '2 h'", "")
    ));
    // Past deadlines are now.
    let past =
        "SELECT {s}.wheelwork_schedule('mail', now() - interval '1 day', 'past') IS NOT NULL";
    assert!(bool_of(past));
    assert_eq!(next(&handled), ("past".to_owned(), 1));
    node.stop().unwrap();
}

#[test]
fn a_handler_may_work_in_the_transaction_that_ends_its_timer() {
    let Some(schema) = Schema::new("once") else {
        return;
    };
    let make = schema.sql("CREATE SCHEMA {s}; CREATE TABLE {s}.work (payload text)");
    schema.client().batch_execute(&make).unwrap();
    let insert = schema.sql("INSERT INTO {s}.work (payload) VALUES ($1)");
    let failures = Arc::new(Mutex::new(0));
    let counted = failures.clone();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |work, transaction| {
            transaction.execute(&insert, &[&&*work.payload_text()])?;
            if work.attempt() == 1 {
                *counted.lock().unwrap() += 1;
                return Err("it fails after it has written".into());
            }
            if work.attempt() == 2 {
                panic!("it panics after it has written");
            }
            Ok(())
        })
        .retry_policy(RetryPolicy::new().first(MS * 10).attempts(5))
        .start()
        .unwrap();
    for number in 0..20 {
        node.schedule("work", MS * 20, format!("{number}")).unwrap();
    }
    until("all are done", || node.stats().done == 20);
    node.stop().unwrap();
    let count = schema.sql("SELECT count(*), count(DISTINCT payload) FROM {s}.work");
    let row = schema.client().query_one(&count, &[]).unwrap();
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1)),
        (20, 20),
        "each once"
    );
    assert_eq!(*failures.lock().unwrap(), 20);
}

#[test]
fn a_handler_whose_connection_has_ended_meanwhile_gets_another_one() {
    let Some(schema) = Schema::new("ended") else {
        return;
    };
    let name = format!("{}_node", schema.name);
    let database = format!("{} application_name={name}", schema.database);
    let store = Postgres::builder(&database).schema(&schema.name);
    let node = Durable::builder(store.connect().unwrap())
        .on_in_transaction("work", |work, transaction| {
            transaction.execute("SELECT 1", &[])?;
            assert_eq!(work.attempt(), 1);
            Ok(())
        })
        .start()
        .unwrap();
    for number in 1..=5 {
        node.schedule("work", MS, "").unwrap();
        until("it is done", || {
            let stats = node.stats();
            assert_eq!(stats.failed, 0);
            stats.done == number
        });
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
        schema.client().execute(end, &[&name]).unwrap();
    }
    node.stop().unwrap();
}

#[test]
fn a_transaction_that_stays_open_holds_up_its_partition_alone() {
    let Some(schema) = Schema::new("open") else {
        return;
    };
    let (send, handled) = channel();
    let nodes = [schema.node(&send), schema.node(&send)];
    nodes[0].key("held").schedule("mail", HOUR, "held").unwrap();
    let mut client = schema.client();
    let mut transaction = client.transaction().unwrap();
    let cancel = schema.sql("SELECT {s}.wheelwork_cancel_key('no such key')");
    transaction.execute(&cancel, &[]).unwrap();
    // For longer than a lease lasts.
    let mut count = 0;
    for _ in 0..40 {
        for node in &nodes {
            node.schedule("mail", MS * 50, format!("{count}")).unwrap();
            count += 1;
        }
        thread::sleep(MS * 75);
    }
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < count - 4 {
        seen.insert(next(&handled).0);
    }
    transaction.commit().unwrap();
    while seen.len() < count {
        seen.insert(next(&handled).0);
    }
    assert!(nodes.iter().all(|node| node.failure().is_none()));
    for node in &nodes {
        node.stop().unwrap();
    }
}

#[cfg(feature = "calendar")]
#[test]
fn a_calendar_that_is_behind_catches_up_in_a_transaction_too() {
    use wheelwork::calendar::{Calendar, Missed};
    let Some(schema) = Schema::new("behind") else {
        return;
    };
    // Of a thousand runs that were missed `made_up` are made, and then one that is in time.
    for (policy, made_up) in [(Missed::Once, 1), (Missed::Burst(3), 3)] {
        let (sender, handled) = channel();
        let timers = Durable::builder(schema.store())
            .on_in_transaction("work", move |work, _| Ok(sender.send(work.due())?))
            .start()
            .unwrap();
        let seconds = Calendar::cron("* * * * * *").unwrap().zone("UTC").unwrap();
        let id = timers
            .schedule_calendar("work", seconds.missed(policy), "")
            .unwrap();
        // (One that runs just now cannot be moved.)
        let mut begun = SystemTime::now();
        until("it is moved", || {
            begun = SystemTime::now();
            timers
                .reschedule(id, begun - 1_000 * Duration::from_secs(1))
                .unwrap()
        });
        while next(&handled) > begun - 500 * Duration::from_secs(1) {}
        let missed = (1..9).find(|_| next(&handled) > begun - 500 * Duration::from_secs(1));
        assert_eq!(missed, Some(made_up), "{policy:?}");
        until("it is cancelled", || timers.cancel(id).unwrap());
        timers.stop().unwrap();
    }
}

/// Arms a timer in a transaction that blocks.
fn arm(outbox: &PostgresOutbox, transaction: &mut impl BlockingTransaction, key: &str) {
    let mut timers = outbox.within(transaction);
    let hour = Duration::from_secs(3_600);
    timers.key(key).schedule("later", hour, key).unwrap();
    // (The other calls see what it has done.)
    assert!(timers.key(key).reschedule(hour).unwrap());
    let id = timers.schedule("later", hour, "gone").unwrap();
    assert!(timers.cancel(id).unwrap());
}

#[test]
fn the_outbox_takes_transactions_of_both_clients_and_of_handlers() {
    let Some(schema) = Schema::new("both") else {
        return;
    };
    let store = schema.store();
    let outbox = store.outbox();
    let within = outbox.clone();
    let node = Durable::builder(store)
        .on_in_transaction("work", move |work, transaction| {
            arm(&within, transaction, &work.payload_text());
            match work.payload() {
                b"handler kept" => Ok(()),
                _ => Err("it fails".into()),
            }
        })
        .on("later", |_| Ok(()))
        .retry_policy(RetryPolicy::never())
        .start()
        .unwrap();
    node.schedule("work", MS, "handler kept").unwrap();
    node.schedule("work", MS, "handler lost").unwrap();

    let mut client = schema.client();
    let mut transaction = client.transaction().unwrap();
    arm(&outbox, &mut transaction, "postgres kept");
    transaction.commit().unwrap();
    let mut transaction = client.transaction().unwrap();
    arm(&outbox, &mut transaction, "postgres lost");
    transaction.rollback().unwrap();

    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        let connected = tokio_postgres::connect(&schema.database, tokio_postgres::NoTls).await;
        let (mut client, connection) = connected.unwrap();
        tokio::spawn(connection);
        for key in ["tokio kept", "tokio lost"] {
            let transaction = client.transaction().await.unwrap();
            let hour = Duration::from_secs(3_600);
            let mut timers = outbox.within_async(&transaction);
            timers.key(key).schedule("later", hour, key).await.unwrap();
            if key == "tokio kept" {
                transaction.commit().await.unwrap();
            } else {
                transaction.rollback().await.unwrap();
            }
        }
    });

    until("both have answered", || {
        node.stats().done + node.stats().died == 2
    });
    for who in ["handler", "postgres", "tokio"] {
        let is_there = |end| node.key(&format!("{who} {end}")).get().unwrap().is_some();
        assert!(is_there("kept") && !is_there("lost"), "{who}");
    }
    assert_eq!(
        node.list(.., 9).unwrap().len(),
        3,
        "what was cancelled is gone"
    );
    node.stop().unwrap();
}

#[test]
fn a_handler_has_all_calls_of_a_transaction() {
    let Some(schema) = Schema::new("calls") else {
        return;
    };
    drop(schema.store());
    let make = schema.sql("CREATE TABLE {s}.work (n int PRIMARY KEY)");
    schema.client().batch_execute(&make).unwrap();
    let name = schema.name.clone();
    let node = Durable::builder(schema.store())
        .on_in_transaction("work", move |_, transaction| {
            let insert = format!("INSERT INTO {name}.work VALUES ($1)");
            assert_eq!(transaction.execute(&insert, &[&1])?, 1);
            transaction.batch_execute(&format!("INSERT INTO {name}.work VALUES (2), (3)"))?;
            let all = format!("SELECT n FROM {name}.work WHERE n > $1 ORDER BY n");
            assert_eq!(transaction.query(&all, &[&0])?.len(), 3);
            assert_eq!(transaction.query_one(&all, &[&2])?.get::<_, i32>(0), 3);
            assert!(
                transaction.query_one(&all, &[&0]).is_err(),
                "there are three"
            );
            assert!(transaction.query_opt(&all, &[&3])?.is_none());
            // An error in a savepoint leaves the rest as it is.
            let refused = transaction.block_on(async |transaction| {
                let part = transaction.savepoint("part").await?;
                let refused = part.execute(&insert, &[&3]).await;
                part.rollback().await?;
                Ok::<_, tokio_postgres::Error>(refused)
            })?;
            let code = refused.unwrap_err().code().cloned();
            assert_eq!(code, Some(SqlState::UNIQUE_VIOLATION));
            Ok(())
        })
        .start()
        .unwrap();
    node.schedule("work", MS, "").unwrap();
    until("it is done", || node.stats().done + node.stats().failed > 0);
    assert_eq!(node.stats().failed, 0);
    let count = schema.sql("SELECT count(*) FROM {s}.work");
    let count = schema.client().query_one(&count, &[]).unwrap();
    assert_eq!(count.get::<_, i64>(0), 3);
    node.stop().unwrap();
}
