//! Promise: timers that are held are released by one call of the schema, so that a program that
//! does not know of them hands them out.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::{Schema, next};
use crate::versions::Role;
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;

/// Milliseconds that are added to the deadline of a timer that is held.
const HELD: i64 = 1 << 47;

#[test]
fn timers_that_are_held_are_released() {
    let Some(schema) = Schema::new("released") else {
        return;
    };
    drop(schema.store());
    let mut client = schema.client();
    let far = 4_102_444_800_000_i64;
    let arm = "SELECT {s}.wheelwork_schedule_at('mail', 1, 'over');
        SELECT {s}.wheelwork_schedule_at('mail', 4102444800000, 'waits');
        SELECT {s}.wheelwork_schedule_at('mail', 1, 'has a key', 'key');
        UPDATE {s}.timer SET due = due + 140737488355328, held = 1, held_since = 7, moved = true;
        SELECT {s}.wheelwork_schedule_at('mail', 1, 'moved by a program of 3');
        UPDATE {s}.timer SET held = 1 WHERE due < 140737488355328;
        SELECT {s}.wheelwork_schedule_at('mail', 4102444800000, 'not held')";
    client.batch_execute(&schema.sql(arm)).unwrap();
    let release = schema.sql("SELECT {s}.wheelwork_release_held()");
    // A role that may not write timers may not do this either.
    let reads = "GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {r}";
    let reader = Role::new(&schema, "reader", reads);
    let mut reader = Client::connect(&reader.database(), NoTls).unwrap();
    let error = reader.query_one(&release, &[]).unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    let mut release = || -> i64 { client.query_one(&release, &[]).unwrap().get(0) };
    assert_eq!(release(), 3);
    assert_eq!(release(), 0, "none is held");
    let rows = "SELECT convert_from(payload, 'UTF8'), due, moved FROM {s}.timer
        WHERE held_since IS NULL AND due < $1 ORDER BY payload";
    let rows = schema.client().query(&schema.sql(rows), &[&HELD]).unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        let (payload, due, moved): (String, i64, bool) = (row.get(0), row.get(1), row.get(2));
        match &*payload {
            // It is where its id says.
            "waits" | "not held" => assert_eq!((due, moved), (far, false)),
            "over" | "has a key" => assert!(due < far && moved, "{payload} is due at {due}"),
            _ => assert!(due < far),
        }
    }
    let (send, handled) = channel();
    let node = schema.node(&send);
    let got: BTreeSet<String> = (0..3).map(|_| next(&handled).0).collect();
    let all = ["over", "has a key", "moved by a program of 3"].map(String::from);
    assert_eq!(got, BTreeSet::from(all));
    node.stop().unwrap();
}
