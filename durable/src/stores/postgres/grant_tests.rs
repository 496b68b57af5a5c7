//! A test of how long a node waits for a rule that a transaction of a user has locked. It needs a
//! server (`tests/common/server.rs`), and is left out without one.

use super::session::Live;
use super::{Postgres, server};
use crate::store::contract::{SharedStore, Store};
use crate::store::grant::{Grant, Want, WantedCalls};
use crate::store::rule::RuleFor;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(120);

/// Sets something in the session of a store.
fn set(store: &mut Postgres, setting: &str) {
    let set = store
        .session
        .run(async |live: &Live| live.client.batch_execute(setting).await);
    set.unwrap();
}

fn pid_of(store: &mut Postgres) -> i32 {
    let pid = store.session.run(async |live: &Live| {
        let row = live.client.query_one("SELECT pg_backend_pid()", &[]);
        Ok(row.await?.get::<_, i32>(0))
    });
    pid.unwrap()
}

/// The rule that a user has locked, and what a node asks of it.
fn ask(store: &mut Postgres) -> Grant {
    let calls = WantedCalls {
        most: 9,
        running: 0,
    };
    let want = Want {
        of: RuleFor::Kind("mail".into()),
        tokens: 0,
        calls: Some(calls),
    };
    store.grant(&[want]).unwrap().remove(0)
}

/// The writer asks ten times a second for a rule that is held up, and other timers wait for each of
/// its waits. Where nodes are in each other's way, one that never waits might get nothing.
#[test]
fn one_of_ten_tries_waits_for_a_rule_that_is_held_up() {
    let Some(database) = server::database() else {
        return;
    };
    let schema = format!("grants_{}", std::process::id());
    let builder = Postgres::builder(database).schema(&schema);
    let mut store = builder.connect().unwrap();
    store.acquire().unwrap();
    // (A wait without an end is ended by the limit of a statement, and is an error then.)
    store.session.patience = Duration::ZERO;
    let mut user = Client::connect(database, NoTls).unwrap();
    let rule = format!("INSERT INTO {schema}.rule (name, calls) VALUES ('=mail', 4)");
    user.batch_execute(&rule).unwrap();
    let lock = format!("BEGIN; SELECT FROM {schema}.rule WHERE name = '=mail' FOR UPDATE");
    user.batch_execute(&lock).unwrap();
    // The first one waits, and is told how long.
    set(&mut store, "SET lock_timeout = 1");
    assert!(ask(&mut store).is_held_up);
    // From now on a wait for a lock has no end.
    set(&mut store, "SET lock_timeout = 0");
    for number in 2..=10 {
        assert!(ask(&mut store).is_held_up, "try {number}");
    }
    let pid = pid_of(&mut store);
    let is_over = AtomicBool::new(false);
    let grant = thread::scope(|scope| {
        scope.spawn(|| {
            let mut admin = Client::connect(database, NoTls).unwrap();
            let waits = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pid = $1 AND NOT granted)";
            let begun = Instant::now();
            // Ordering: SeqCst. It only ends this loop.
            while !is_over.load(Ordering::SeqCst) && begun.elapsed() < HANGS {
                if admin.query_one(waits, &[&pid]).unwrap().get(0) {
                    break;
                }
            }
            user.batch_execute("ROLLBACK").unwrap();
        });
        let grant = ask(&mut store);
        // Ordering: SeqCst. As above.
        is_over.store(true, Ordering::SeqCst);
        grant
    });
    assert!(!grant.is_held_up, "it has not waited");
    assert_eq!(grant.calls, 4);
    drop(store);
    let mut admin = Client::connect(database, NoTls).unwrap();
    let drop = format!("DROP SCHEMA {schema} CASCADE");
    admin.batch_execute(&drop).unwrap();
}
