//! Promise: a held timer can be cancelled, moved and replaced by what knows nothing of that.
//! All are released by one call of the schema, so that an older program hands them out.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::all_may_go::AllMayGo;
use crate::own_schema::{Schema, next};
use crate::versions::{OldNode, Role, of_3};
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;
use uuid::Uuid;
use wheelwork_durable::contract::{
    HeldWhy, Outcome, Position, RowFilter, Settled, SharedStore, SliceLimit, Store, Target, Write,
};
use wheelwork_durable::{Partition, Postgres, Row, StoreTime};

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

/// The year 2100.
const FAR: StoreTime = StoreTime::from_millis(4_102_444_800_000);

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A row that is held, and has a trace.
fn held(store: &mut Postgres, key: &str) -> Row {
    let id = store.new_id(Some(key), FAR);
    let mut row = Row::new(id, FAR, "mail".into(), key.as_bytes().into());
    row.key = Some(key.into());
    row.set_traceparent(Some(TRACE.into()));
    let arm = vec![Write::Arm(row.clone())];
    store.commit(arm, &mut AllMayGo).unwrap();
    let epoch = epochs(store)[&id.partition()];
    let hold = Write::Hold {
        of: Settled {
            id,
            due: FAR,
            epoch,
        },
        why: HeldWhy::Unhandled,
        since: StoreTime::from_millis(7),
    };
    let outcome = store.commit(vec![hold], &mut AllMayGo).unwrap().remove(0);
    let Outcome::Settled(true, Some(row)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(row.held().is_some() && row.traceparent() == Some(TRACE));
    row
}

/// The epochs of all partitions.
fn epochs(store: &mut Postgres) -> BTreeMap<Partition, u64> {
    let fleet = store.fleet().unwrap();
    let all = fleet.partitions.iter();
    all.map(|partition| (partition.number, partition.epoch))
        .collect()
}

#[test]
fn functions_end_and_move_a_timer_that_is_held() {
    let Some(schema) = Schema::new("functions") else {
        return;
    };
    let mut store = schema.store();
    store.acquire().unwrap();
    let rows = ["a", "b", "c", "d", "e"].map(|key| held(&mut store, key));
    let ids = rows.each_ref().map(|row| Uuid::from_u128(row.id.to_bits()));
    let mut client = schema.client();
    let mut call = |sql: &str, id: Uuid| -> bool {
        let sql = schema.sql(&format!("SELECT {{s}}.{sql}"));
        let row = match sql.contains("$1") {
            true => client.query_one(&sql, &[&id]),
            false => client.query_one(&sql, &[]),
        };
        row.unwrap().get(0)
    };
    assert!(call("wheelwork_cancel($1)", ids[0]));
    assert!(call("wheelwork_cancel_key('b')", ids[1]));
    assert!(call("wheelwork_reschedule_at($1, 4102444800001)", ids[2]));
    assert!(call(
        "wheelwork_reschedule_key_at('d', 4102444800002)",
        ids[3]
    ));
    let replaces = "wheelwork_schedule_at('mail', 4102444800003, 'new', 'e') IS NOT NULL";
    assert!(call(replaces, ids[4]));
    let mut left = all(&mut store);
    let new = left.pop().unwrap();
    assert_eq!((&*new.payload, new.traceparent()), (&b"new"[..], None));
    for (row, (former, added)) in left.iter().zip([(&rows[2], 1), (&rows[3], 2)]) {
        assert_eq!((row.id, row.held()), (former.id, None));
        assert_eq!(row.due.as_millis(), FAR.as_millis() + added);
        assert_eq!(row.traceparent(), Some(TRACE));
    }
    assert_eq!(left.len(), 2);
}

fn all(store: &mut Postgres) -> Vec<Row> {
    let all: Vec<_> = (0..=(SharedStore::partitions(store) - 1) as u16).collect();
    let limit = SliceLimit::rows(1_000);
    let (all_of, until) = (RowFilter::ALL, StoreTime::MAX);
    let rows = store.list_many(&all, Position::MIN, until, &all_of, limit);
    rows.unwrap().rows
}

/// It knows no mark of held rows, and leaves it.
#[test]
fn what_a_node_of_3_moves_is_released() {
    let Some(schema) = of_3("old_moves") else {
        return;
    };
    let mut store = schema.store();
    store.acquire().unwrap();
    // (No row expires: the old node could not be there.)
    let mut old = OldNode::join(&schema).unwrap();
    let rows = ["a", "b"].map(|key| held(&mut store, key));
    let next = FAR.as_millis() as i64 + 5;
    let columns = |row: &Row| {
        let part = vec![row.id.partition().cast_signed()];
        let due = vec![row.due.as_millis() as i64];
        (part, due, vec![Uuid::from_u128(row.id.to_bits())])
    };
    let (part, due, id) = columns(&rows[0]);
    let moves = ["SET due = u.next, moved = u.moved, epoch = GREATEST"];
    let moved = old.run_of(
        &moves,
        &[&part, &due, &id, &vec![next], &vec![true], &vec![0_i64]],
    );
    assert_eq!(moved.unwrap().len(), 1);
    let row = store.get(&Target::Id(rows[0].id)).unwrap().unwrap();
    assert_eq!((row.held(), row.due.as_millis() as i64), (None, next));
    assert_eq!(row.traceparent(), Some(TRACE));
    // Its owner finds it as it is: not held, whatever the column says.
    let (after, limit) = (Position::end_of(FAR), SliceLimit::rows(1));
    let found = store.load_many(&[row.id.partition()], after, StoreTime::MAX, limit);
    assert!(found.unwrap().contains(&row));
    let (part, due, id) = columns(&rows[1]);
    let ended = old.run_of(
        &["DELETE FROM {s}.timer t", "t.id = u.id RETURNING t.id"],
        &[&part, &due, &id],
    );
    assert_eq!(ended.unwrap().len(), 1);
    assert_eq!(store.get(&Target::Id(rows[1].id)).unwrap(), None);
}
