//! Promise: the floor of a schema, below which no program may work with it, rises only by a role
//! that writes timers, to a number that the schema has or is about to get, and while no node below
//! it is alive.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::Schema;
use crate::versions::{NUMBER, Role, numbers, of_3};
use postgres::error::SqlState;
use postgres::{Client, IsolationLevel, NoTls};
use wheelwork_durable::contract::Store;

/// What `operating.md` says that the role of nodes needs.
const RIGHTS_OF_NODES: &str =
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {s} TO {r}";

/// Asks for a floor.
fn close(client: &mut Client, schema: &Schema, floor: i64) -> Result<(), postgres::Error> {
    let close = schema.sql("SELECT {s}.wheelwork_close($1, 'a test')");
    client.query_one(&close, &[&floor]).map(drop)
}

#[test]
fn the_rights_of_nodes_let_them_raise_it() {
    let Some(schema) = Schema::new("raise") else {
        return;
    };
    // The owner makes all steps, and then grants the rights.
    drop(schema.store());
    let node = Role::new(&schema, "node", RIGHTS_OF_NODES);
    let reads = "GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {r}";
    let reader = Role::new(&schema, "reader", reads);
    let mut reader = Client::connect(&reader.database(), NoTls).unwrap();
    let error = close(&mut reader, &schema, NUMBER).unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    // An owner that has put on the role of the reader, too.
    let mut owner = schema.client();
    let role = Role::new(&schema, "other", reads);
    owner
        .batch_execute(&format!("SET ROLE {}", role.name()))
        .unwrap();
    let error = close(&mut owner, &schema, NUMBER).unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    assert_eq!(numbers(&schema), (3, NUMBER));
    let mut node = Client::connect(&node.database(), NoTls).unwrap();
    close(&mut node, &schema, NUMBER).unwrap();
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
}

#[test]
fn it_rises_to_no_number_that_a_step_could_not_make() {
    let Some(schema) = of_3("too_high") else {
        return;
    };
    drop(schema.store());
    let mut client = schema.client();
    for number in [NUMBER + 2, 99, i64::MAX] {
        let error = close(&mut client, &schema, number).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE));
    }
    assert_eq!(numbers(&schema), (3, NUMBER));
    close(&mut client, &schema, NUMBER + 1).unwrap();
    assert_eq!(numbers(&schema), (NUMBER + 1, NUMBER));
}

#[test]
fn an_old_snapshot_raises_it_over_no_node() {
    let Some(schema) = Schema::new("snapshot") else {
        return;
    };
    let mut store = schema.store();
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let mut client = schema.client();
        let begun = client.build_transaction().isolation_level(level);
        let mut begun = begun.start().unwrap();
        begun.execute("SELECT 1", &[]).unwrap();
        // A node comes that this transaction does not see.
        store.acquire().unwrap();
        let close = schema.sql("SELECT {s}.wheelwork_close(6, 'a test')");
        let error = begun.query_one(&close, &[]).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::ACTIVE_SQL_TRANSACTION));
        begun.rollback().unwrap();
        store.release().unwrap();
    }
    assert_eq!(numbers(&schema), (3, NUMBER));
}
