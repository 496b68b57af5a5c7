//! Promise: a program opens the schemas that earlier versions have made, and what they have.
//!
//! The schemas are files (`tests/golden`). Each test has a schema of its own on a server
//! (`common/server.rs`). Without one the tests are left out, which is said.

use crate::golden::{SCHEMAS, load, seen};
use crate::own_schema::{Schema, next};
use std::sync::mpsc::channel;
use std::time::Duration;
use wheelwork_durable::contract::Store;

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn each_schema_that_there_was_is_read() {
    for (number, golden, rows) in SCHEMAS {
        let Some(schema) = Schema::new("was") else {
            return;
        };
        load(&schema, golden);
        let mut store = schema.store();
        // (The node that has written it is long gone.)
        assert_eq!(store.acquire().unwrap().len(), 256, "schema {number}");
        assert_eq!(seen(&mut store), rows, "schema {number}");
    }
}

#[test]
fn a_node_goes_on_with_each_schema_that_there_was() {
    for (_, golden, rows) in SCHEMAS {
        let Some(schema) = Schema::new("goes_on") else {
            return;
        };
        load(&schema, golden);
        let (send, handled) = channel();
        let node = schema.node(&send);
        // What its last node had handed out goes on trial, one after the other.
        let mut got: Vec<_> = (0..3).map(|_| next(&handled).0).collect();
        got.sort();
        assert_eq!(got, ["handed out 0", "handed out 1", "handed out 2"]);
        // What waits is there to be cancelled, moved, replaced and revived.
        assert!(node.key("key 0").cancel().unwrap());
        assert!(!node.key("key 0").cancel().unwrap(), "it is gone");
        assert!(node.key("key 1").reschedule(Duration::ZERO).unwrap());
        assert_eq!(next(&handled).0, "has a key 1");
        let new = node.key("key 2").schedule("mail", HOUR, "new").unwrap();
        assert_eq!(&*node.get(new).unwrap().unwrap().payload, b"new");
        let dead = node.dead_letters(None, 10).unwrap();
        assert_eq!(dead.len(), rows.matches(", dead since ").count());
        assert!(node.revive(dead[0].row.id).unwrap());
        assert!(next(&handled).0.starts_with("buried "));
        node.stop().unwrap();
    }
}
