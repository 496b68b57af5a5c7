//! Promise: the floor of a schema, below which no program may work with it, rises only by a role
//! that writes timers, to a number that the schema has or is about to get, and while no node below
//! it is alive.
//!
//! Each test has a schema of its own on a server (`common/server.rs`). Without one the tests are
//! left out, which is said.

use crate::all_may_go::AllMayGo;
use crate::own_schema::Schema;
use crate::versions::{NUMBER, OldNode, Role, numbers, of_3};
use postgres::error::SqlState;
use postgres::{Client, IsolationLevel, NoTls};
use std::time::{Duration, Instant};
use wheelwork_durable::contract::{
    HeldWhy, Lease, Outcome, Position, RowFilter, Settled, SharedStore, SliceLimit, Store, Target,
    Write,
};
use wheelwork_durable::{Durable, HandlerResult, OpenError, Postgres, Row, StoreError, StoreTime};

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

/// No node renews while a transaction has the table of nodes. An operator who types the call into a
/// transaction, and goes away, is not to stop the fleet.
#[test]
fn a_transaction_that_stands_still_after_it_is_ended() {
    let Some(schema) = Schema::new("stands_still") else {
        return;
    };
    let mut node = Node::of(schema.store());
    node.hold();
    let noted = "SELECT count(*) FROM {s}.setting WHERE name = 'floor_before_held'";
    let noted: i64 = (schema.client().query_one(&schema.sql(noted), &[]).unwrap()).get(0);
    assert_eq!(noted, 1, "the floor can fall");
    node.store.release().unwrap();
    let limit = |client: &mut Client| -> String {
        let limit = "SHOW idle_in_transaction_session_timeout";
        client.query_one(limit, &[]).unwrap().get(0)
    };
    for call in ["wheelwork_release_held()", "wheelwork_close(6, 'a test')"] {
        let mut client = schema.client();
        let before = numbers(&schema);
        client.batch_execute("BEGIN").unwrap();
        let call = schema.sql(&format!("SELECT {{s}}.{call}"));
        client.batch_execute(&call).unwrap();
        assert_eq!(limit(&mut client), "1s", "{call}");
        let pid: i32 = (client.query_one("SELECT pg_backend_pid()", &[]).unwrap()).get(0);
        // It stands still until it is ended. Nothing else ends its session.
        let mut other = schema.client();
        let is_there = "SELECT 1 FROM pg_stat_activity WHERE pid = $1";
        while other.query_opt(is_there, &[&pid]).unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(numbers(&schema), before, "{call}");
        drop(schema.store());
    }
    // The setting ends with the transaction.
    let mut client = schema.client();
    let before = limit(&mut client);
    close(&mut client, &schema, NUMBER + 1).unwrap();
    assert_eq!(limit(&mut client), before);
}

/// The year 2100.
const FAR: StoreTime = StoreTime::from_millis(4_102_444_800_000);

/// A node, by its store.
struct Node {
    store: Postgres,
    leases: Vec<Lease>,
}

impl Node {
    fn of(mut store: Postgres) -> Self {
        let leases = store.acquire().unwrap();
        Self { store, leases }
    }

    /// A row in one of its partitions.
    fn row(&mut self, change: impl FnOnce(&mut Row)) -> Row {
        let id = self.store.new_id(None, FAR);
        let mut row = Row::new(id, FAR, "mail".into(), (*b"x").into());
        change(&mut row);
        row
    }

    fn commit(&mut self, writes: Vec<Write>) -> Vec<Outcome> {
        self.store.commit(writes, &mut AllMayGo).unwrap()
    }

    /// Arms a row that differs so.
    fn arm(&mut self, change: impl FnOnce(&mut Row)) -> Outcome {
        let row = self.row(change);
        self.commit(vec![Write::Arm(row)]).remove(0)
    }

    /// Arms a row, and holds it.
    fn hold(&mut self) -> Row {
        let row = self.row(|_| {});
        let of_row = |lease: &&Lease| lease.partition == row.id.partition();
        let epoch = self.leases.iter().find(of_row).unwrap().epoch;
        let of = Settled {
            id: row.id,
            due: row.due,
            epoch,
        };
        let (why, since) = (HeldWhy::Unhandled, StoreTime::MIN);
        let outcome = self.commit(vec![Write::Arm(row), Write::Hold { of, why, since }]);
        let [_, Outcome::Settled(true, Some(row))] = &outcome[..] else {
            panic!("{outcome:?}");
        };
        assert!(row.held().is_some());
        row.clone()
    }
}

fn expires(row: &mut Row) {
    row.set_expires(Some(FAR));
}

fn offset(row: &mut Row) {
    row.calendar = Some("cron 0 9 * * *; zone=UTC; offset=PT1.5S; missed=burst 3".into());
}

fn release(schema: &Schema) -> i64 {
    let release = schema.sql("SELECT {s}.wheelwork_release_held()");
    schema.client().query_one(&release, &[]).unwrap().get(0)
}

#[test]
fn the_first_write_that_an_older_program_would_get_wrong_raises_it() {
    let limit = |row: &mut Row| row.set_time_limit(Some(Duration::from_secs(1)));
    for change in [expires, limit, offset] {
        let Some(schema) = Schema::new("first_write") else {
            return;
        };
        let mut node = Node::of(schema.store());
        let plain = |row: &mut Row| row.set_traceparent(Some("00-0af7-b7ad-01".into()));
        assert_eq!(node.arm(plain), Outcome::Armed(None));
        let recurs = |row: &mut Row| row.calendar = Some("cron 0 9 * * *; zone=UTC".into());
        assert_eq!(node.arm(recurs), Outcome::Armed(None));
        assert_eq!(numbers(&schema), (3, NUMBER));
        assert_eq!(node.arm(change), Outcome::Armed(None));
        assert_eq!(numbers(&schema), (NUMBER, NUMBER));
        assert_eq!(node.arm(change), Outcome::Armed(None));
        node.store.release().unwrap();
        assert_eq!(release(&schema), 0);
        assert_eq!(numbers(&schema), (NUMBER, NUMBER), "it does not fall");
    }
}

#[test]
fn such_a_write_is_refused_while_an_older_node_is_alive() {
    let Some(schema) = of_3("older") else {
        return;
    };
    let mut node = Node::of(schema.store());
    let old = OldNode::join(&schema).unwrap();
    let (before, after) = (node.row(|_| {}), node.row(|_| {}));
    assert!(matches!(node.arm(offset), Outcome::Refused(_)));
    let refused = node.row(expires);
    let cancels = Write::Cancel(Target::Id(before.id));
    let arms = [before, refused.clone(), after].map(Write::Arm);
    let outcomes = node.commit(arms.into_iter().chain([cancels.clone()]).collect());
    let says = "node old is alive, whose program knows no expiry, limit, offset or rule";
    let Outcome::Refused(why) = &outcomes[1] else {
        panic!("{outcomes:?}");
    };
    assert_eq!(&**why, says);
    // The others are made.
    let cancelled = node.commit(vec![cancels]);
    assert_eq!(cancelled, [Outcome::Cancelled(None)]);
    let [Outcome::Armed(None), _, Outcome::Armed(None), last] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert!(matches!(last, Outcome::Cancelled(Some(_))));
    assert_eq!(node.store.get(&Target::Id(refused.id)).unwrap(), None);
    assert_eq!(numbers(&schema), (3, NUMBER));
    drop(old);
    let over = schema.sql("UPDATE {s}.node SET until = now() WHERE name = 'old'");
    schema.client().batch_execute(&over).unwrap();
    assert_eq!(node.arm(expires), Outcome::Armed(None));
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
    let refused = OldNode::join(&schema).map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::CHECK_VIOLATION));
}

#[test]
fn it_falls_when_rows_are_released_that_were_held() {
    let Some(schema) = of_3("falls") else {
        return;
    };
    let mut node = Node::of(schema.store());
    node.hold();
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
    // A node is alive that may hold more.
    assert_eq!(release(&schema), 1);
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
    let refused = OldNode::join(&schema).map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::CHECK_VIOLATION));
    let held = node.hold();
    node.store.release().unwrap();
    assert_eq!(release(&schema), 1);
    assert_eq!(numbers(&schema), (3, NUMBER));
    let old = OldNode::join(&schema).unwrap();
    drop(old);
    let over =
        schema.sql("UPDATE {s}.node SET until = now() - interval '2 hours' WHERE name = 'old'");
    schema.client().batch_execute(&over).unwrap();
    // Once more, and then for good.
    let mut node = Node::of(schema.store());
    let row = node.store.get(&Target::Id(held.id)).unwrap().unwrap();
    assert_eq!((row.held(), row.due), (None, FAR));
    node.hold();
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
    assert_eq!(node.arm(expires), Outcome::Armed(None));
    node.store.release().unwrap();
    assert_eq!(release(&schema), 1);
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
}

/// A node that was dead for a while does not rely on a floor that has fallen meanwhile.
#[test]
fn a_node_that_comes_back_asks_for_it_again() {
    let Some(schema) = Schema::new("comes_back") else {
        return;
    };
    let mut node = Node::of(schema.store());
    node.hold();
    let over = schema.sql("UPDATE {s}.node SET until = now()");
    schema.client().batch_execute(&over).unwrap();
    assert_eq!(release(&schema), 1);
    assert_eq!(numbers(&schema), (3, NUMBER));
    node.leases = node.store.renew().unwrap().taken;
    node.hold();
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
}

#[test]
fn a_row_is_held_beside_an_older_node_and_it_rises_when_that_is_gone() {
    let Some(schema) = of_3("beside") else {
        return;
    };
    let mut node = Node::of(schema.store());
    let mut old = OldNode::join(&schema).unwrap();
    node.hold();
    assert_eq!(numbers(&schema), (3, NUMBER));
    node.store.renew().unwrap();
    assert!(old.renew());
    assert_eq!(numbers(&schema), (3, NUMBER));
    let ended = |ago: &str| {
        let over = "UPDATE {s}.node SET until = now() - interval 'AGO' WHERE name = 'old'";
        let over = schema.sql(&over.replace("AGO", ago));
        schema.client().batch_execute(&over).unwrap();
    };
    // (It may have been paused, and come back under another name.)
    ended("59 minutes");
    node.store.renew().unwrap();
    assert_eq!(numbers(&schema), (3, NUMBER));
    ended("61 minutes");
    node.store.renew().unwrap();
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
}

/// A backup reads the table of nodes for as long as it lasts. A row is held meanwhile, and a change
/// that needs the floor is refused.
#[test]
fn it_does_not_wait_for_somebody_who_has_the_table_of_nodes() {
    let Some(schema) = Schema::new("dumped") else {
        return;
    };
    let mut node = Node::of(schema.store());
    let mut backup = schema.client();
    let reads = schema.sql("BEGIN; SELECT FROM {s}.node");
    backup.batch_execute(&reads).unwrap();
    node.hold();
    let Outcome::Refused(why) = node.arm(expires) else {
        panic!("a floor that has not risen");
    };
    assert!(why.starts_with("the floor cannot rise: "), "{why}");
    node.store.renew().unwrap();
    assert_eq!(numbers(&schema), (3, NUMBER));
    backup.batch_execute("COMMIT").unwrap();
    node.store.renew().unwrap();
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
}

/// Who finds a row that is held asks for the floor, also after a start.
#[test]
fn a_node_that_finds_a_held_row_asks_for_it() {
    let Some(schema) = Schema::new("finds") else {
        return;
    };
    let mut node = Node::of(schema.store());
    let mut old = OldNode::join(&schema).unwrap();
    node.hold();
    node.store.release().unwrap();
    assert!(old.renew());
    drop(old);
    let over = "UPDATE {s}.node SET until = now() - interval '2 hours' WHERE name = 'old'";
    schema.client().batch_execute(&schema.sql(over)).unwrap();
    let mut node = Node::of(schema.store());
    assert_eq!(numbers(&schema), (3, NUMBER));
    let all: Vec<u16> = (0..=255).collect();
    let (from, until, every) = (Position::MIN, StoreTime::MAX, RowFilter::ALL);
    let limit = SliceLimit::rows(10);
    let found = node.store.list_many(&all, from, until, &every, limit);
    assert_eq!(found.unwrap().rows.len(), 1);
    node.store.renew().unwrap();
    assert_eq!(numbers(&schema), (NUMBER, NUMBER));
}

/// A store whose floor is too high is no store for a node, and says so at its start.
#[test]
fn a_node_does_not_start_above_it() {
    let Some(schema) = Schema::new("above") else {
        return;
    };
    drop(schema.store());
    let above = schema.sql("UPDATE {s}.meta SET version = 6");
    schema.client().batch_execute(&above).unwrap();
    let store = schema.store();
    let begun = Instant::now();
    let handler = |_: &wheelwork_durable::Delivery| -> HandlerResult { Ok(()) };
    let started = Durable::builder(store).on("mail", handler).start();
    let refused = started.map(drop).unwrap_err();
    let says = matches!(&refused, OpenError::Store(StoreError::Version(_, 6)));
    assert!(says, "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}
