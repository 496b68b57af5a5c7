//! Tests of a step that breaks nodes of the number before: there is none yet, so they have one of
//! their own. They need a server (`tests/common/server.rs`), and are left out without one.

use super::schema::number_of;
use super::steps::{STEPS, Step};
use crate::Postgres;
use crate::store::contract::{SharedStore, Store, StoreError};
use crate::stores::postgres::server;
use postgres::{Client, NoTls};
use std::time::{Duration, Instant};

/// The steps that there are, and one that breaks all programs that know no more.
const WITH_BREAKING: &[Step] = &[
    Step {
        to: STEPS[0].to,
        breaks: STEPS[0].breaks,
        sql: STEPS[0].sql,
        rights: STEPS[0].rights,
        locks: STEPS[0].locks,
    },
    Step {
        to: STEPS[1].to,
        breaks: STEPS[1].breaks,
        sql: STEPS[1].sql,
        rights: STEPS[1].rights,
        locks: STEPS[1].locks,
    },
    Step {
        to: 6,
        breaks: Some(6),
        sql: &[],
        rights: &[],
        locks: &["ALTER TABLE {s}.lease ADD COLUMN other text"],
    },
];

/// A step behind the one that breaks programs.
const WITH_ONE_BEHIND: &[Step] = &[
    Step { ..WITH_BREAKING[0] },
    Step { ..WITH_BREAKING[1] },
    Step { ..WITH_BREAKING[2] },
    Step {
        to: 7,
        breaks: None,
        sql: &[],
        rights: &[],
        locks: &["ALTER TABLE {s}.lease ADD COLUMN other_more text"],
    },
];

/// A schema of a test's own, which goes with it.
struct Schema {
    database: &'static str,
    name: String,
}

impl Schema {
    fn new(name: &str) -> Option<Self> {
        let database = server::database()?;
        let name = format!("steps_{name}_{}", std::process::id());
        Some(Self { database, name })
    }

    fn store(&self, name: &str, steps: &'static [Step]) -> Result<Postgres, StoreError> {
        let builder = Postgres::builder(self.database).schema(&self.name);
        let lease = Duration::from_secs(2);
        let mut builder = builder.node_name(name).lease(lease);
        builder.steps = steps;
        builder.connect()
    }

    fn client(&self) -> Client {
        Client::connect(self.database, NoTls).unwrap()
    }

    /// The floor, and the step.
    fn numbers(&self) -> (i64, i64) {
        let name = &self.name;
        let read = format!(
            "SELECT m.version, s.value FROM {name}.meta m, {name}.setting s WHERE s.name = 'step'"
        );
        let row = self.client().query_one(&read, &[]).unwrap();
        (row.get(0), row.get(1))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let drop = format!("DROP SCHEMA {} CASCADE", self.name);
        if let Ok(mut client) = Client::connect(self.database, NoTls) {
            let _ = client.batch_execute(&drop);
        }
    }
}

/// It waits while a node lives that it would break, and both nodes work meanwhile. Then a node that
/// renews its leases makes it.
#[test]
fn a_breaking_step_waits() {
    let Some(schema) = Schema::new("breaks") else {
        return;
    };
    let mut old = schema.store("old", STEPS).unwrap();
    assert_eq!(old.acquire().unwrap().len(), 256);
    let mut new = schema.store("new", WITH_BREAKING).unwrap();
    new.acquire().unwrap();
    assert_eq!(schema.numbers(), (3, 5), "the old node is alive");
    SharedStore::renew(&mut old).unwrap();
    // (It is tried each 30 s: the test does not wait so long.)
    let renew = |new: &mut Postgres| {
        new.waiting.again = 0.0;
        SharedStore::renew(new).unwrap();
    };
    renew(&mut new);
    assert_eq!(schema.numbers(), (3, 5), "it is alive still");
    assert!(new.waiting.is_so);
    old.release().unwrap();
    renew(&mut new);
    assert_eq!(schema.numbers(), (6, 6));
    assert!(!new.waiting.is_so);
    let refused = schema.store("old", STEPS).unwrap().acquire().unwrap_err();
    assert!(matches!(refused, StoreError::Version(_, 6)), "{refused:?}");
}

/// A node that was killed is in the way for as long as its lease lasts. One that had opened the
/// store before the step was made does not come in afterwards.
#[test]
fn a_breaking_step_waits_for_no_node_that_is_gone() {
    let Some(schema) = Schema::new("gone") else {
        return;
    };
    let mut killed = schema.store("killed", STEPS).unwrap();
    killed.acquire().unwrap();
    let mut late = schema.store("late", STEPS).unwrap();
    drop(killed);
    let mut new = schema.store("new", WITH_BREAKING).unwrap();
    new.acquire().unwrap();
    assert_eq!(schema.numbers(), (3, 5));
    let begun = Instant::now();
    while new.waiting.is_so {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it waits for ever"
        );
        std::thread::sleep(Duration::from_millis(50));
        new.waiting.again = 0.0;
        SharedStore::renew(&mut new).unwrap();
    }
    assert_eq!(schema.numbers(), (6, 6));
    let refused = late.acquire().unwrap_err();
    assert!(matches!(refused, StoreError::Version(_, 6)), "{refused:?}");
    while new.leases.own.len() < 256 {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{:?}",
            new.leases.own
        );
        SharedStore::renew(&mut new).unwrap();
    }
}

/// A role that may not change tables cannot make it, and does not take the way back either.
#[test]
fn a_breaking_step_that_cannot_be_made_raises_no_floor() {
    let Some(schema) = Schema::new("no_ddl") else {
        return;
    };
    drop(schema.store("owner", STEPS).unwrap());
    let role = format!("node_of_{}", schema.name);
    let name = &schema.name;
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {name} TO {role};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO {role}"
    );
    schema.client().batch_execute(&grants).unwrap();
    let builder = Postgres::builder(&format!("{} user={role}", schema.database));
    let mut builder = builder.schema(&schema.name);
    builder.steps = WITH_BREAKING;
    let mut store = builder.connect().unwrap();
    store.acquire().unwrap();
    assert!(store.waiting.is_so);
    assert_eq!(schema.numbers(), (3, 5));
    store.release().unwrap();
    drop(store);
    let drop_role = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    schema.client().batch_execute(&drop_role).unwrap();
}

/// A program cannot work without a step that comes after one that waits. It says who is alive.
#[test]
fn a_step_behind_one_that_waits_is_not_done_without() {
    let Some(schema) = Schema::new("behind") else {
        return;
    };
    let mut old = schema.store("old", STEPS).unwrap();
    old.acquire().unwrap();
    let refused = schema.store("new", WITH_ONE_BEHIND).unwrap_err();
    assert!(
        matches!(refused, StoreError::NeedsMigration(_, 5)),
        "{refused:?}"
    );
    assert!(
        refused.to_string().contains("node old is alive"),
        "{refused}"
    );
    old.release().unwrap();
    schema
        .store("new", WITH_ONE_BEHIND)
        .unwrap()
        .acquire()
        .unwrap();
    assert_eq!(schema.numbers(), (6, 7));
}

#[test]
fn a_step_locks_tables_that_are_there_at_its_end() {
    for step in STEPS {
        let others = ["ALTER TABLE", "UPDATE", "DELETE", "CREATE INDEX", "DROP"];
        let is_of_others = |sql: &&&str| others.iter().any(|other| sql.starts_with(other));
        assert_eq!(step.sql.iter().find(is_of_others), None);
        assert!(step.locks.iter().all(|sql| sql.starts_with("ALTER TABLE")));
        assert!(!step.rights.iter().any(|sql| sql.contains("{s}.timer SET")));
    }
}

#[test]
fn steps_come_in_their_order() {
    let numbers: Vec<i64> = STEPS.iter().map(|step| step.to).collect();
    assert_eq!(numbers, (4..=number_of(STEPS)).collect::<Vec<_>>());
}
