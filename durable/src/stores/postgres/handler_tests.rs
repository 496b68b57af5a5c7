//! A test of a handler's transaction whose server stands still: it takes what is sent, and does not
//! answer. It needs a server (`tests/common/server.rs`), and is left out without one.

use super::{Postgres, server};
use crate::{Durable, RetryPolicy};
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

#[path = "../../../tests/common/proxy.rs"]
mod proxy;

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(120);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANGS, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The commit is made, and nobody hears of it. The service is stopped, and another node does what
/// is left: nothing.
#[test]
fn a_commit_without_an_answer_keeps_no_stop() {
    let Some(direct) = server::database() else {
        return;
    };
    let schema = format!("still_{}", std::process::id());
    let (database, seen) = proxy::to(direct);
    let mut admin = Client::connect(direct, NoTls).unwrap();
    let store = |database: &str| {
        let builder = Postgres::builder(database).schema(&schema);
        let mut store = builder.lease(Duration::from_secs(1)).connect().unwrap();
        store.handlers_answer_max = Duration::from_secs(2);
        store
    };
    let nodes = [store(&database), store(direct)];
    admin
        .batch_execute(&format!("CREATE TABLE {schema}.work (n int)"))
        .unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let [first, second] = nodes.map(|store| {
        let insert = format!("INSERT INTO {schema}.work VALUES (1)");
        let (calls, seen) = (calls.clone(), seen.clone());
        Durable::builder(store)
            .on_in_transaction("work", move |_, transaction| {
                // Ordering: SeqCst. A count of calls, with which nothing else is published.
                if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                    seen.stand_still_after("work VALUES (1)", "COMMIT");
                }
                transaction.batch_execute(&insert)?;
                Ok(())
            })
            .retry_policy(RetryPolicy::new().first(Duration::from_millis(1)))
    });
    let first = first.start().unwrap();
    let id = first.schedule("work", Duration::ZERO, "").unwrap();
    until("it stands still", || {
        // Ordering: SeqCst. As above.
        calls.load(Ordering::SeqCst) > 0 && seen.stands_still()
    });
    let (tells, told) = mpsc::channel();
    thread::spawn(move || tells.send(first.stop()));
    let stopped = told.recv_timeout(HANGS).expect("the stop ends");
    stopped.unwrap();
    let second = second.start().unwrap();
    until("it has ended", || second.get(id).unwrap().is_none());
    second.stop().unwrap();
    let count = format!("SELECT count(*) FROM {schema}.work");
    let count: i64 = admin.query_one(&count, &[]).unwrap().get(0);
    admin
        .batch_execute(&format!("DROP SCHEMA {schema} CASCADE"))
        .unwrap();
    assert_eq!(count, 1, "its work is done once");
}
