//! Promise: a database that durable timers cannot use is refused when it is connected, at once and
//! with one line; an error of the store has the database's error as its source; a connection that
//! has died silently is noticed; the database's clock is read while timers are due.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::all_may_go::AllMayGo;
use crate::own_schema::{Schema, next, until};
use crate::proxy;
use postgres::{Client, NoTls};
use std::error::Error;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;
use wheelwork_durable::contract::{Position, SharedStore, SliceLimit, Store, Target, Write};
use wheelwork_durable::{Durable, DurableError, Postgres, Row, StoreTime};

const MS: Duration = Duration::from_millis(1);

/// Asserts that an error is one line, and has this.
fn says(error: &str, says: &str) {
    assert!(
        error.contains(says) && error.lines().count() == 1,
        "{error:?} does not say {says:?}"
    );
}

/// A database of a test's own, which goes with it.
struct Database {
    admin: String,
    name: String,
}

impl Database {
    fn new(schema: &Schema, name: &str, with: &str) -> Self {
        let name = format!("{name}_{}", std::process::id());
        let create = format!("CREATE DATABASE {name} TEMPLATE template0 {with}");
        schema.client().batch_execute(&create).unwrap();
        let admin = schema.database.clone();
        Self { admin, name }
    }

    fn config(&self) -> String {
        format!("{} dbname={}", self.admin, self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Ok(mut client) = Client::connect(&self.admin, NoTls) {
            let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
            let _ = client.batch_execute(&drop);
        }
    }
}

#[test]
fn names_of_schemas_that_sql_reserves_are_refused() {
    let config = "host=127.0.0.1 port=1 user=shop";
    for name in ["user", "order", "table", "left", "pg_timers"] {
        let error = Postgres::builder(config).schema(name).connect();
        says(&error.unwrap_err().to_string(), "reserve");
    }
}

#[test]
fn no_reserved_word_of_this_server_is_missing() {
    let Some(schema) = Schema::new("words") else {
        return;
    };
    let words = "SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')";
    let words = schema.client().query(words, &[]).unwrap();
    assert!(words.len() > 50, "{}", words.len());
    for word in words {
        let error = Postgres::builder(&schema.database).schema(word.get(0));
        says(&error.connect().unwrap_err().to_string(), "reserve");
    }
    // A word that has a meaning in some places alone may be a name.
    let taken = ["temporary", "position"].map(|name| {
        let store = Postgres::builder(&schema.database).schema(name).connect();
        let remove = format!("DROP SCHEMA IF EXISTS {name} CASCADE");
        schema.client().batch_execute(&remove).unwrap();
        store.map(drop)
    });
    assert!(taken.iter().all(Result::is_ok), "{taken:?}");
}

#[test]
fn a_database_of_another_encoding_is_refused() {
    let Some(schema) = Schema::new("encoding") else {
        return;
    };
    for encoding in ["LATIN1", "WIN1252", "SQL_ASCII"] {
        let with = format!("ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'");
        let database = Database::new(&schema, &encoding.to_lowercase(), &with);
        let error = schema.builder(&database.config()).connect().unwrap_err();
        says(&error.to_string(), &format!("encoding is {encoding}"));
        let tables = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = $1";
        let mut client = Client::connect(&database.config(), NoTls).unwrap();
        let tables = client.query_one(tables, &[&schema.name]).unwrap();
        assert_eq!(tables.get::<_, i64>(0), 0, "nothing is made there");
    }
}

/// As one in FIPS mode does not.
#[test]
fn a_database_that_does_not_hash_is_refused() {
    let Some(schema) = Schema::new("hash") else {
        return;
    };
    let database = Database::new(&schema, "hash", "");
    let mut client = Client::connect(&database.config(), NoTls).unwrap();
    let gone = "ALTER FUNCTION pg_catalog.md5(text) RENAME TO md5_that_was";
    client.batch_execute(gone).unwrap();
    let error = schema.builder(&database.config()).connect().unwrap_err();
    says(&error.to_string(), "no md5()");
}

#[test]
fn a_database_that_only_reads_is_refused() {
    let Some(schema) = Schema::new("only_reads") else {
        return;
    };
    // With the tables, and without them.
    for has_tables in [false, true] {
        if has_tables {
            drop(schema.store());
        }
        let config = format!(
            "{} options='-c default_transaction_read_only=on'",
            schema.database
        );
        let error = schema.builder(&config).connect().unwrap_err();
        says(&error.to_string(), "only be read");
    }
}

#[test]
fn a_start_on_a_database_that_only_reads_says_so() {
    let Some(schema) = Schema::new("reads_later") else {
        return;
    };
    let database = Database::new(&schema, "reads_later", "");
    let store = schema.builder(&database.config()).connect().unwrap();
    // New sessions, such as the one that `start` makes, cannot write any more.
    let only = format!(
        "ALTER DATABASE {} SET default_transaction_read_only = on",
        database.name
    );
    schema.client().batch_execute(&only).unwrap();
    let error = Durable::builder(store).start();
    says(&error.unwrap_err().to_string(), "only be read");
}

/// A node whose connection is lost may come to a standby, which still has timers that have ended on
/// its primary. So nothing is read there.
#[test]
fn a_node_that_comes_to_a_database_that_only_reads_reads_nothing() {
    let Some(schema) = Schema::new("reads_now") else {
        return;
    };
    let database = Database::new(&schema, "reads_now", "");
    let [mut hands_out, mut looks, mut counts] = [(); 3].map(|()| {
        let builder = schema.builder(&database.config()).patience(MS * 500);
        builder.lease(MS * 60_000).connect().unwrap()
    });
    let leases = hands_out.acquire().unwrap();
    assert_eq!(leases.len(), 256);
    for store in [&mut looks, &mut counts] {
        assert_eq!(store.acquire().unwrap(), []);
    }
    let now = StoreTime::reading(SharedStore::clock(&hands_out).at_most());
    let id = hands_out.new_id(None, now);
    let row = Row::new(id, now, "mail".into(), b"".as_slice().into());
    let arm = vec![Write::Arm(row)];
    hands_out.commit(arm, &mut AllMayGo).unwrap();
    // From now on it reads what is due by then without a lock.
    hands_out.claim(&leases, now).unwrap();
    let mut admin = schema.client();
    let mut set_read_only = |is_so: &str| {
        let name = &database.name;
        let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = {is_so}");
        admin.batch_execute(&set).unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        until("its sessions have ended", || {
            admin.query(end, &[name]).unwrap().is_empty()
        });
    };
    set_read_only("on");
    let all: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
    let limit = SliceLimit::rows(10);
    let loaded = hands_out.load_many(&all, Position::MIN, now, limit);
    assert!(loaded.is_err(), "{loaded:?}");
    let found = looks.get(&Target::Id(id));
    assert!(found.is_err(), "{found:?}");
    let fleet = counts.fleet();
    assert!(fleet.is_err(), "{fleet:?}");
    let error = looks.reopen().unwrap_err();
    says(&error.to_string(), "only be read");
    // It is the primary again.
    set_read_only("off");
    assert_eq!(hands_out.reopen().unwrap().len(), 256);
    let loaded = hands_out.load_many(&all, Position::MIN, now, limit);
    assert_eq!(loaded.unwrap().len(), 1);
    looks.reopen().unwrap();
    assert!(looks.get(&Target::Id(id)).unwrap().is_some());
}

#[test]
fn an_error_has_the_databases_error_behind_it() {
    let Some(schema) = Schema::new("behind") else {
        return;
    };
    let node = Durable::builder(schema.store()).start().unwrap();
    let drop = schema.sql("DROP TABLE {s}.timer");
    schema.client().batch_execute(&drop).unwrap();
    let error = node.schedule("mail", Duration::ZERO, "").unwrap_err();
    // (The node may have noticed it before.)
    let is_of_the_store = matches!(
        error,
        DurableError::Store(_) | DurableError::Unavailable { .. }
    );
    assert!(is_of_the_store, "{error:?}");
    says(&error.to_string(), "does not exist");
    assert_eq!(error.to_string().matches("does not exist").count(), 1);
    let source = error.source().and_then(|source| source.downcast_ref());
    let code = source.and_then(postgres::Error::code);
    assert_eq!(code, Some(&postgres::error::SqlState::UNDEFINED_TABLE));
    let failure = node.failure().unwrap();
    assert!(failure.source().is_some(), "{failure}");
}

#[test]
fn a_listener_whose_connection_has_died_silently_gets_another_one() {
    let Some(schema) = Schema::new("silent") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let (send, handled) = channel();
    let store = schema.builder(&database).connect().unwrap();
    let node = Schema::node_of(store, &send);
    until("it listens", || seen.listening() == 1);
    seen.let_listening_die();
    until("it listens again", || seen.listening() == 2);
    node.schedule("mail", Duration::ZERO, "fires").unwrap();
    assert_eq!(next(&handled), ("fires".to_owned(), 1));
    node.stop().unwrap();
}

#[test]
fn the_clock_is_read_while_timers_are_due() {
    let Some(schema) = Schema::new("readings") else {
        return;
    };
    let (database, seen) = proxy::to(&schema.database);
    let (send, handled) = channel();
    let store = schema.builder(&database).connect().unwrap();
    let node = Schema::node_of(store, &send);
    until("it is read", || {
        let soon = Duration::from_millis(100);
        node.schedule("mail", soon, "").unwrap();
        next(&handled);
        seen.readings.load(Ordering::SeqCst) > 40
    });
    node.stop().unwrap();
}
