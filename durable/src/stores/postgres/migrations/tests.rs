//! Tests of a step that breaks nodes of the number before: there is none yet, so they have one of
//! their own. They need a server (`tests/common/server.rs`), and are left out without one.

use super::schema::number_of;
use super::steps::{STEPS, Step};
use crate::Postgres;
use crate::store::contract::{SharedStore, Store, StoreError};
use postgres::{Client, NoTls};
use std::time::{Duration, Instant};

#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../../../tests/common/server.rs"]
mod server;

/// The steps that there are, and one that breaks all programs that know no more.
const WITH_BREAKING: &[Step] = &[
    Step {
        to: STEPS[0].to,
        breaks: STEPS[0].breaks,
        sql: STEPS[0].sql,
        rights: STEPS[0].rights,
    },
    Step {
        to: STEPS[1].to,
        breaks: STEPS[1].breaks,
        sql: STEPS[1].sql,
        rights: STEPS[1].rights,
    },
    Step {
        to: 6,
        breaks: Some(6),
        sql: &["ALTER TABLE {s}.lease DROP COLUMN wants"],
        rights: &[],
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
    let refused = schema.store("old", STEPS).unwrap_err();
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
    assert!(refused.to_string().contains("node_number"), "{refused}");
    while new.leases.own.len() < 256 {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{:?}",
            new.leases.own
        );
        SharedStore::renew(&mut new).unwrap();
    }
}

#[test]
fn steps_come_in_their_order() {
    let numbers: Vec<i64> = STEPS.iter().map(|step| step.to).collect();
    assert_eq!(numbers, (4..=number_of(STEPS)).collect::<Vec<_>>());
}
