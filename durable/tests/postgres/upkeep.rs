//! Promise: what a node of a fleet does of its own accord is bounded, whatever lies in its tables.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::own_schema::{Schema, until};
use postgres::{Client, IsolationLevel};
use std::sync::mpsc::channel;
use std::time::Duration;
use wheelwork_durable::Durable;
use wheelwork_durable::contract::{SliceLimit, Store};

/// Renewals of leases that are looked at.
const RENEWALS: i64 = 12;

/// Dead letters, and a view in their place that counts how many of them were gone through. Each
/// takes a millisecond at least.
const COUNTED: &str = "
CREATE SEQUENCE {s}.looks;
CREATE TABLE {s}.bound (statement text);
INSERT INTO {s}.dead SELECT gen_random_uuid(), 0, 'mail', NULL, '', 0, 0, NULL, 0, '', 0
    FROM generate_series(1, 10000);
ALTER TABLE {s}.dead RENAME TO letter;
CREATE FUNCTION {s}.look() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    PERFORM nextval('{s}.looks'), pg_sleep(0.001);
    INSERT INTO {s}.bound VALUES (current_setting('statement_timeout'));
    RETURN true;
END $$;
CREATE VIEW {s}.dead AS SELECT * FROM {s}.letter WHERE {s}.look();
UPDATE pg_class SET reltuples = 4321 WHERE oid = '{s}.dead'::regclass";

#[test]
fn a_count_that_takes_long_is_an_estimate() {
    let Some(schema) = Schema::new("count") else {
        return;
    };
    drop(schema.store());
    let mut client = schema.client();
    client.batch_execute(&schema.sql(COUNTED)).unwrap();
    let mut store = schema.store();
    store.acquire().unwrap();
    let size = store.size().unwrap();
    let looks = schema.sql("SELECT last_value FROM {s}.looks");
    let looks: i64 = client.query_one(&looks, &[]).unwrap().get(0);
    assert!(looks < 10_000, "all dead letters were gone through");
    assert_eq!((size.rows, size.dead), (0, 4_321));
    // Other statements have the time that they need.
    assert_eq!(store.dead(None, SliceLimit::rows(1)).unwrap().len(), 1);
    let bound = schema.sql("SELECT DISTINCT statement FROM {s}.bound");
    let bound: String = client.query_one(&bound, &[]).unwrap().get(0);
    assert_eq!(bound, "25s");
}

/// How often rows of this table were written, as far as sessions have told.
fn written(client: &mut Client, schema: &Schema, table: &str) -> i64 {
    let written = "SELECT n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_all_tables
        WHERE schemaname = $1 AND relname = $2";
    let row = client.query_one(written, &[&schema.name, &table]).unwrap();
    row.get(0)
}

/// How often leases have changed hands, and how many are nobody's.
fn changes(client: &mut Client, schema: &Schema) -> (i64, i64) {
    let changes = "SELECT sum(epoch)::bigint, count(*) - count(owner) FROM {s}.lease";
    let row = client.query_one(&schema.sql(changes), &[]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn idle_nodes_write_a_row_for_each_renewal_while_somebody_holds_a_snapshot() {
    let Some(schema) = Schema::new("snapshot") else {
        return;
    };
    let (send, _handled) = channel();
    let node = || {
        let store = schema.builder(&schema.database);
        let store = store.lease(Duration::from_secs(3)).connect().unwrap();
        Schema::node_of(store, &send)
    };
    let nodes: [Durable; 2] = [node(), node()];
    let hour = Duration::from_secs(3_600);
    for number in 0..100 {
        nodes[number % 2].schedule("mail", hour, "later").unwrap();
    }
    until("they share", || {
        let fleet = nodes[0].fleet().unwrap();
        fleet.nodes.iter().all(|node| node.partitions == 128)
    });
    // Every version of a row that is written from now on stays.
    let (mut holder, mut client) = (schema.client(), schema.client());
    let held = holder.build_transaction();
    let held = held.isolation_level(IsolationLevel::RepeatableRead).start();
    let mut held = held.unwrap();
    let count = schema.sql("SELECT count(*) FROM {s}.timer");
    assert_eq!(held.query_one(&count, &[]).unwrap().get::<_, i64>(0), 100);
    let mut told = 0;
    until("they have told what they did before", || {
        let before = std::mem::replace(&mut told, written(&mut client, &schema, "node"));
        written(&mut client, &schema, "timer") == 100 && before > 0 && told > before
    });
    let tables = ["lease", "watermark", "timer", "gate", "seq"];
    let others = |client: &mut Client| tables.map(|table| written(client, &schema, table));
    let (before, owned) = (others(&mut client), changes(&mut client, &schema));
    until("they renew their leases", || {
        written(&mut client, &schema, "node") >= told + RENEWALS
    });
    let (after, owned_then) = (others(&mut client), changes(&mut client, &schema));
    if owned_then == owned {
        assert_eq!(after, before, "rows written of {tables:?}");
    } else {
        // A node stood still for longer than its leases last: that says nothing of renewals.
        println!("left out: leases have changed hands");
    }
    held.commit().unwrap();
}
