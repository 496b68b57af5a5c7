//! Promise: tables may be made with more than 256 partitions. Nodes and the functions of the schema
//! agree on them, and programs that know 256 alone are refused.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::all_may_go::AllMayGo;
use crate::both_stores::demands::{Opened, demands};
use crate::both_stores::held::held_demands;
use crate::own_schema::{Schema, next};
use crate::versions::{NUMBER, numbers};
use postgres::{Client, NoTls};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::Duration;
use uuid::Uuid;
use wheelwork_durable::contract::{
    KindSlice, Outcome, Position, SharedStore, Store, Target, Write,
};
use wheelwork_durable::{DurableId, Partition, Postgres, Row, StoreTime};

/// The year 2100.
const FAR: StoreTime = StoreTime::from_millis(4_102_444_800_000);

fn store(schema: &Schema, partitions: u32) -> Postgres {
    let builder = schema.builder(&schema.database).partitions(partitions);
    builder.lease(Duration::from_secs(60)).connect().unwrap()
}

/// A row in this partition.
fn row_in(partition: Partition, number: u64) -> Row {
    let id = DurableId::new(partition, FAR, number);
    Row::new(id, FAR, "mail".into(), (*b"x").into())
}

fn one(store: &mut Postgres, write: Write) -> Outcome {
    store.commit(vec![write], &mut AllMayGo).unwrap().remove(0)
}

/// What a function says of an id or a key.
fn says(client: &mut Client, schema: &Schema, call: &str, id: DurableId) -> bool {
    let call = schema.sql(&format!("SELECT {{s}}.{call}"));
    let id = Uuid::from_u128(id.to_bits());
    client.query_one(&call, &[&id]).unwrap().get(0)
}

/// Each has a gate that is there, which it shares with those beside it.
fn each_has_its_gate(schema: &Schema, partitions: u32) {
    let numbers = "SELECT l.part, g.part FROM {s}.lease l
        JOIN {s}.gate g ON g.part = {s}.wheelwork_gate(l.part)";
    let all = schema.client().query(&schema.sql(numbers), &[]).unwrap();
    assert_eq!(all.len(), partitions as usize);
    for row in all {
        let [part, gate] = [row.get::<_, i16>(0), row.get(1)];
        let number = u32::from(part.cast_unsigned());
        assert_eq!(gate as u32, number / (partitions / 256));
    }
}

#[test]
fn nodes_and_functions_agree_on_the_partition_of_a_key() {
    for partitions in [256, 1_024] {
        let Some(schema) = Schema::new("agree") else {
            return;
        };
        let mut store = store(&schema, partitions);
        assert_eq!(store.acquire().unwrap().len(), partitions as usize);
        assert_eq!(SharedStore::partitions(&store), partitions);
        let mut client = schema.client();
        let keys: Vec<String> = (0..1_000).map(|key| format!("key {key}")).collect();
        let part = schema.sql("SELECT {s}.wheelwork_part(key) FROM unnest($1::text[]) u (key)");
        let parts = client.query(&part, &[&keys]).unwrap();
        let parts = parts.iter().map(|row| row.get::<_, i16>(0).cast_unsigned());
        let of_nodes = keys.iter().map(|key| store.new_id(Some(key), FAR));
        let of_nodes: Vec<Partition> = of_nodes.map(DurableId::partition).collect();
        assert!(parts.eq(of_nodes.iter().copied()), "{partitions}");
        let last = of_nodes.iter().max().unwrap();
        assert!(u32::from(*last) > partitions / 100 * 98, "they are spread");
        each_has_its_gate(&schema, partitions);
        store.release().unwrap();
    }
}

#[test]
fn a_row_of_each_partition_is_found_from_both_sides() {
    for partitions in [2_048_u32, 65_536] {
        let Some(schema) = Schema::new("edges") else {
            return;
        };
        let mut store = store(&schema, partitions);
        store.acquire().unwrap();
        each_has_its_gate(&schema, partitions);
        let mut client = schema.client();
        let last = (partitions - 1) as Partition;
        let edges = [0, 1, 255, 256, 1_000, 32_767, 32_768, last];
        let edges: BTreeSet<_> = edges.into_iter().filter(|&edge| edge <= last).collect();
        for (number, &edge) in (1..).zip(&edges) {
            let rows = [0, 100, 200].map(|more| row_in(edge, number + more));
            for row in &rows {
                assert_eq!(
                    one(&mut store, Write::Arm(row.clone())),
                    Outcome::Armed(None)
                );
            }
            let [first, second, third] = rows.map(|row| row.id);
            let moves = "wheelwork_reschedule_at($1, 4102444800001)";
            assert!(says(&mut client, &schema, moves, first), "{edge}");
            assert!(says(&mut client, &schema, "wheelwork_cancel($1)", first));
            assert!(!says(&mut client, &schema, "wheelwork_cancel($1)", first));
            let cancelled = one(&mut store, Write::Cancel(Target::Id(second)));
            assert_eq!(cancelled, Outcome::Cancelled(Some(second)));
            let found = store.get(&Target::Id(third)).unwrap();
            assert_eq!(found.map(|row| row.id), Some(third));
            // Once the node may have handed it out, a function says so.
            assert!(says(&mut client, &schema, moves, third));
        }
        // What the functions arm is found by key, and replaced.
        for key in 0..100 {
            let key = format!("key {key}");
            let arm = schema.sql("SELECT {s}.wheelwork_schedule_at('mail', $1, 'x', $2)");
            let due = FAR.as_millis() as i64;
            let id: Uuid = client.query_one(&arm, &[&due, &key]).unwrap().get(0);
            let id = DurableId::from_bits(id.as_u128());
            assert_eq!(store.new_id(Some(&key), FAR).partition(), id.partition());
            let mut row = row_in(id.partition(), 1_000);
            row.id = store.new_id(Some(&key), FAR);
            row.key = Some((*key).into());
            assert_eq!(
                one(&mut store, Write::Arm(row.clone())),
                Outcome::Armed(Some(id))
            );
            let cancel = schema.sql("SELECT {s}.wheelwork_cancel_key($1)");
            let cancelled: bool = client.query_one(&cancel, &[&key]).unwrap().get(0);
            assert!(cancelled && store.get(&Target::Id(row.id)).unwrap().is_none());
        }
        let plain = schema.sql(
            "SELECT {s}.wheelwork_schedule_at('mail', 4102444800000, 'x')
            FROM generate_series(1, 200)",
        );
        let ids = client.query(&plain, &[]).unwrap();
        let ids: BTreeSet<_> = ids
            .iter()
            .map(|row| DurableId::from_bits(row.get::<_, Uuid>(0).as_u128()))
            .collect();
        assert!(ids.iter().all(|id| u32::from(id.partition()) < partitions));
        assert!(ids.iter().any(|id| id.partition() > 255));
        // A kind is cancelled up to the last one, which is not the end of the numbers. (It asks one
        // after the other, so this begins near the end.)
        let id = DurableId::new(last - 50, StoreTime::MIN, 0);
        let due = StoreTime::MIN;
        let slice = KindSlice {
            after: Position { due, id },
            ..KindSlice::all("mail")
        };
        let Outcome::CancelledMany(gone, None) = one(&mut store, Write::CancelKind(slice)) else {
            panic!("there are more rows");
        };
        assert!(gone.iter().any(|id| id.partition() == last), "{gone:?}");
        store.release().unwrap();
    }
}

/// GateEnter: a node and a function wait at the gate of a row's partition, and at no other one.
#[test]
fn a_row_is_behind_the_gate_of_its_partition() {
    let Some(schema) = Schema::new("gates") else {
        return;
    };
    let mut store = store(&schema, 2_048);
    store.acquire().unwrap();
    let rows = [2_000, 2_007, 2_008].map(|partition| row_in(partition, 1));
    for row in &rows {
        assert_eq!(
            one(&mut store, Write::Arm(row.clone())),
            Outcome::Armed(None)
        );
    }
    let mut holder = schema.client();
    let mut holder = holder.transaction().unwrap();
    let gate = schema.sql("SELECT part FROM {s}.gate WHERE part = 250 FOR UPDATE");
    holder.query_one(&gate, &[]).unwrap();
    let mut user = schema.client();
    user.batch_execute("SET lock_timeout = 20").unwrap();
    for (row, waits) in rows.iter().zip([true, true, false]) {
        let moves = Write::Move(Target::Id(row.id), StoreTime::MAX);
        let outcome = one(&mut store, moves);
        let is_blocked = matches!(outcome, Outcome::Blocked(_));
        assert_eq!(is_blocked, waits, "{outcome:?}");
        let cancel = schema.sql("SELECT {s}.wheelwork_cancel($1)");
        let id = Uuid::from_u128(row.id.to_bits());
        assert_eq!(user.query_one(&cancel, &[&id]).is_err(), waits);
    }
    holder.rollback().unwrap();
    let cancelled = one(&mut store, Write::Cancel(Target::Id(rows[0].id)));
    assert_eq!(cancelled, Outcome::Cancelled(Some(rows[0].id)));
}

#[test]
fn the_demands_are_met_with_more_partitions() {
    for (name, demand) in demands().into_iter().chain(held_demands()) {
        let Some(schema) = Schema::new("demands") else {
            return;
        };
        println!("{name}");
        demand(&mut Opened::new(store(&schema, 1_024)));
    }
}

#[test]
fn nodes_share_them_and_hand_out() {
    let Some(schema) = Schema::new("share") else {
        return;
    };
    let (send, handled) = channel();
    let nodes = [0, 1].map(|_| Schema::node_of(store(&schema, 2_048), &send));
    let mut client = schema.client();
    let arm = "SELECT {s}.wheelwork_schedule_at('mail', 1, convert_to(n::text, 'UTF8'), n::text)
        FROM generate_series(1, 300) g (n)";
    client.batch_execute(&schema.sql(arm)).unwrap();
    let got: BTreeSet<String> = (0..300).map(|_| next(&handled).0).collect();
    assert_eq!(got.len(), 300);
    let fleet = nodes[0].fleet().unwrap();
    let numbers = fleet.partitions.iter().map(|partition| partition.number);
    assert!(numbers.eq(0..2_048));
    for node in &nodes {
        node.stop().unwrap();
    }
}

#[test]
fn tables_keep_their_number_and_close_to_earlier_programs() {
    let Some(schema) = Schema::new("keep") else {
        return;
    };
    drop(store(&schema, 1_024));
    assert_eq!(numbers(&schema), (5, NUMBER));
    for wrong in [0, 1, 128, 255, 257, 1_000, 131_072, u32::MAX] {
        let builder = schema.builder(&schema.database).partitions(wrong);
        let error = builder.connect().unwrap_err().to_string();
        assert!(error.contains("a power of two of partitions"), "{error}");
    }
    let builder = schema.builder(&schema.database).partitions(512);
    let error = builder.connect().unwrap_err().to_string();
    assert!(
        error.contains("it has 1024 partitions, and not 512"),
        "{error}"
    );
    // Unless it is told a number, a program takes what is there.
    assert_eq!(SharedStore::partitions(&schema.store()), 1_024);
    let Some(plain) = Schema::new("keep_256") else {
        return;
    };
    assert_eq!(SharedStore::partitions(&store(&plain, 256)), 256);
    assert_eq!(numbers(&plain), (3, NUMBER));
}

/// A process that makes the tables was killed before the first step.
#[test]
fn a_schema_that_is_half_made_gets_its_number() {
    let (Some(whole), Some(half)) = (Schema::new("whole"), Schema::new("half_made")) else {
        return;
    };
    drop(store(&whole, 1_024));
    let sql = Postgres::migrations(&half.name, 0).unwrap();
    let (first, _) = sql.split_once("\n-- 4\n").unwrap();
    let mut client = Client::connect(&half.database, NoTls).unwrap();
    client.batch_execute(first).unwrap();
    let more = "INSERT INTO {s}.lease SELECT part, NULL, 0, -1, -1, true
            FROM generate_series(256, 1023) g (part);
        UPDATE {s}.meta SET version = 5";
    client.batch_execute(&half.sql(more)).unwrap();
    let mut made = half.store();
    assert_eq!(made.acquire().unwrap().len(), 1_024);
    let count = "SELECT value FROM {s}.setting WHERE name = 'partitions'";
    let count: i64 = client.query_one(&half.sql(count), &[]).unwrap().get(0);
    assert_eq!(count, 1_024);
    // SQL that is printed is for 256, and changes nothing here.
    let sql = Postgres::migrations(&whole.name, 4).unwrap();
    let error = whole.client().batch_execute(&sql).unwrap_err();
    assert!(
        error
            .as_db_error()
            .unwrap()
            .message()
            .contains("the schema has")
    );
}
