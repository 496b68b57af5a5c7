//! Promise: a program opens the schemas that earlier versions have made, and takes them to its own
//! number, while nodes of the version before go on with them. A schema of a later version is
//! refused, and nothing of it is changed.
//!
//! The schemas are files (`tests/golden`). Each test has a schema of its own on a server
//! (`common/server.rs`). Without one the tests are left out, which is said.

use crate::golden::{GOLDEN, SCHEMAS, load, seen};
use crate::own_schema::{Schema, next};
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use uuid::Uuid;
use wheelwork_durable::contract::{Store, Target};
use wheelwork_durable::{Durable, DurableId, Postgres, StoreError};

const HOUR: Duration = Duration::from_secs(3_600);

/// The number of this program's schema.
pub(crate) const NUMBER: i64 = 5;

/// The statements of programs of number 3.
const STATEMENTS_3: &str = include_str!("../golden/statements-3.txt");

/// A golden schema of number 3 under the name of a test's own. `None`: there is no database.
pub(crate) fn of_3(name: &str) -> Option<Schema> {
    let schema = Schema::new(name)?;
    load(&schema, SCHEMAS[0].1);
    Some(schema)
}

/// The floor of a schema, and its step.
pub(crate) fn numbers(schema: &Schema) -> (i64, i64) {
    let read = "SELECT m.version, s.value FROM {s}.meta m, {s}.setting s WHERE s.name = 'step'";
    let row = schema.client().query_one(&schema.sql(read), &[]).unwrap();
    (row.get(0), row.get(1))
}

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
        assert_eq!(numbers(&schema).1, NUMBER);
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

/// The statements of programs of number 5.
const STATEMENTS_5: &str = include_str!("../golden/statements-5.txt");

/// A statement of a golden file: the types that it takes and gives, and its text.
struct Old {
    types: String,
    text: String,
}

fn statements_of_3(schema: &Schema) -> Vec<Old> {
    statements(schema, STATEMENTS_3)
}

fn statements(schema: &Schema, golden: &str) -> Vec<Old> {
    let all = golden.replace(GOLDEN, &schema.name);
    let all = all.split("\n\n").map(|statement| {
        let (types, text) = statement.split_once('\n').unwrap();
        let (types, text) = (types.to_owned(), text.trim().to_owned());
        Old { types, text }
    });
    all.collect()
}

/// The types of a statement, as the file has them.
fn types_of(statement: &postgres::Statement) -> String {
    let takes: Vec<_> = statement.params().iter().map(|ty| ty.name()).collect();
    let columns = statement.columns().iter();
    let gives: Vec<_> = columns.map(|column| column.type_().name()).collect();
    format!("-- takes: {}; gives: {}", takes.join(" "), gives.join(" "))
}

/// A node of number 3, by its statements.
pub(crate) struct OldNode {
    client: Client,
    prepared: BTreeMap<String, postgres::Statement>,
    node: Uuid,
}

impl OldNode {
    /// It has prepared all its statements, and joined.
    pub(crate) fn join(schema: &Schema) -> Result<Self, postgres::Error> {
        let mut client = schema.client();
        let mut prepared = BTreeMap::new();
        for Old { text, .. } in statements_of_3(schema) {
            let statement = client.prepare(&text)?;
            prepared.insert(text.replace(&schema.name, "{s}"), statement);
        }
        let node = Uuid::from_u128(3);
        let mut node = Self {
            client,
            prepared,
            node,
        };
        let lasts = 60.0_f64;
        let id = node.node;
        node.run("INSERT INTO {s}.node", &[&id, &"old", &lasts])?;
        node.run(
            "INSERT INTO {s}.watermark (node, gen, upto) VALUES ($1, 0",
            &[&id],
        )?;
        Ok(node)
    }

    /// Runs the statement that begins so.
    fn run(
        &mut self,
        begins: &str,
        values: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<Vec<postgres::Row>, postgres::Error> {
        let mut found = self.prepared.iter();
        let found = found.find(|(text, _)| text.starts_with(begins));
        let (_, statement) = found.unwrap_or_else(|| panic!("no statement begins {begins}"));
        self.client.query(statement, values)
    }

    /// Runs the statement that has this in it.
    pub(crate) fn run_of(
        &mut self,
        has: &[&str],
        values: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<Vec<postgres::Row>, postgres::Error> {
        let mut found = self.prepared.iter();
        let found = found.find(|(text, _)| has.iter().all(|has| text.contains(has)));
        let (_, statement) = found.unwrap_or_else(|| panic!("no statement has {has:?}"));
        self.client.query(statement, values)
    }

    pub(crate) fn renew(&mut self) -> bool {
        let id = self.node;
        let renew = ["SET until = now() +"];
        !self
            .run_of(&renew, &[&id, &60.0_f64, &false])
            .unwrap()
            .is_empty()
    }
}

#[test]
fn all_statements_of_3_still_do() {
    let Some(schema) = of_3("statements") else {
        return;
    };
    // A node of 3 has prepared them before the steps are made, and goes on in its session.
    let mut old = OldNode::join(&schema).unwrap();
    let mut store = schema.store();
    assert_eq!(store.acquire().unwrap().len(), 128, "the old one has half");
    assert_eq!(numbers(&schema), (3, NUMBER));
    let mut client = schema.client();
    let statements = statements_of_3(&schema);
    assert!(statements.len() > 50, "{} are not all", statements.len());
    for Old { types, text } in statements {
        let statement = client.prepare(&text).unwrap();
        assert_eq!(types_of(&statement), types, "{text}");
    }
    // It takes partitions, arms, reads and ends rows beside the node of 5.
    assert!(old.renew());
    let free = old.run("SELECT l.part FROM {s}.lease l", &[]).unwrap();
    let free: Vec<i16> = free.iter().map(|row| row.get(0)).collect();
    let id = old.node;
    let taken = old.run("WITH o AS (SELECT l.part, l.owner", &[&id, &free]);
    let taken: BTreeMap<i16, i64> = taken
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    assert_eq!(taken.len(), 128);
    let (&part, &epoch) = taken.first_key_value().unwrap();
    let (due, row) = (1_i64, Uuid::from_u128((part as u128) << 112 | 1 << 64 | 7));
    let values: [&(dyn postgres::types::ToSql + Sync); 11] = [
        &vec![part],
        &vec![due],
        &vec![row],
        &vec!["mail"],
        &vec![None::<&str>],
        &vec![&b"old"[..]],
        &vec![0_i64],
        &vec![0_i64],
        &vec![None::<&str>],
        &vec![false],
        &vec![epoch],
    ];
    let arm = "INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, crashes, \
               calendar, superseded,\n    moved, epoch)\nSELECT part, due";
    old.run(arm, &values).unwrap();
    let ack = [
        "DELETE FROM {s}.timer t",
        "l.epoch = u.epoch RETURNING t.id",
    ];
    let acked = old.run_of(&ack, &[&vec![part], &vec![due], &vec![row], &vec![epoch]]);
    assert_eq!(acked.unwrap().len(), 1);
    assert!(old.renew());
}

#[test]
fn all_statements_of_5_still_do() {
    let Some(schema) = Schema::new("statements_5") else {
        return;
    };
    load(&schema, SCHEMAS[1].1);
    drop(schema.store());
    let mut client = schema.client();
    let all = statements(&schema, STATEMENTS_5);
    assert!(all.len() > 57, "{} are not all", all.len());
    for Old { types, text } in all {
        let statement = client.prepare(&text).unwrap();
        assert_eq!(types_of(&statement), types, "{text}");
    }
}

#[test]
fn twenty_nodes_migrate_at_once() {
    let Some(schema) = of_3("at_once") else {
        return;
    };
    let (send, handled) = channel();
    let nodes: Vec<Durable> = thread::scope(|scope| {
        let start = || scope.spawn(|| schema.node(&send));
        let threads: Vec<_> = (0..20).map(|_| start()).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    assert_eq!(numbers(&schema), (3, NUMBER));
    let steps = schema.sql("SELECT program FROM {s}.setting WHERE name = 'step'");
    let steps = schema.client().query(&steps, &[]).unwrap();
    assert_eq!(steps.len(), 1);
    let program: &str = steps[0].get(0);
    assert!(program.starts_with("wheelwork-durable "), "{program}");
    let mut got: Vec<_> = (0..3).map(|_| next(&handled).0).collect();
    got.sort();
    assert_eq!(got, ["handed out 0", "handed out 1", "handed out 2"]);
    // (A node whose lease has run out on a busy machine has come back under another name.)
    let versions = "SELECT count(*) FILTER (WHERE version = 5 AND program <> ''),
            count(*) FILTER (WHERE version <> 5)
        FROM {s}.node WHERE name <> 'dies'";
    let versions = schema.client().query_one(&schema.sql(versions), &[]);
    let [of_this, others]: [i64; 2] = versions.map(|row| [row.get(0), row.get(1)]).unwrap();
    assert!(of_this >= 20 && others == 0, "{of_this}, {others}");
    for node in &nodes {
        node.stop().unwrap();
    }
}

#[test]
fn a_step_waits_for_a_long_transaction_and_holds_up_nobody() {
    let Some(schema) = of_3("waits") else {
        return;
    };
    let (mut long, mut arms) = (schema.client(), schema.client());
    let mut long = long.transaction().unwrap();
    let timers = schema.sql("SELECT count(*) FROM {s}.timer");
    long.query_one(&timers, &[]).unwrap();
    let arm = schema.sql("SELECT {s}.wheelwork_schedule_at('mail', $1, 'x')");
    let arm = arms.prepare(&arm).unwrap();
    let (made, took_max) = thread::scope(|scope| {
        let migrates = scope.spawn(|| {
            drop(schema.store());
            Instant::now()
        });
        let begun = Instant::now();
        let mut took_max = Duration::ZERO;
        while begun.elapsed() < Duration::from_secs(2) {
            let sent = Instant::now();
            arms.query_one(&arm, &[&4_102_444_800_000_i64]).unwrap();
            took_max = took_max.max(sent.elapsed());
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!migrates.is_finished(), "it waits");
        let ended = Instant::now();
        long.rollback().unwrap();
        (migrates.join().unwrap() - ended, took_max)
    });
    assert_eq!(numbers(&schema), (3, NUMBER));
    println!("an arm took {took_max:?} at most; the steps came {made:?} after it");
    // A step that waited with its locks would have held an arm up for two seconds.
    assert!(took_max < Duration::from_millis(1_000), "{took_max:?}");
}

#[test]
fn a_step_that_is_in_the_way_of_a_transaction_for_ever_names_it() {
    let Some(schema) = of_3("for_ever") else {
        return;
    };
    let mut long = schema.client();
    let mut long = long.transaction().unwrap();
    let timers = schema.sql("SELECT pg_backend_pid() FROM {s}.timer");
    let pid: i32 = long.query(&timers, &[]).unwrap()[0].get(0);
    let builder = schema.builder(&schema.database);
    let error = builder.patience(Duration::from_millis(500)).connect();
    let error = error.unwrap_err();
    assert!(
        matches!(error, StoreError::NeedsMigration(_, 4)),
        "{error:?}"
    );
    let says = format!("a transaction of pid {pid} has used timer for ");
    assert!(error.to_string().contains(&says), "{error}");
}

/// A report has read tables that the step does not lock, for longer. An operator would end it.
#[test]
fn a_transaction_on_other_tables_is_in_nobodys_way_and_is_not_named() {
    let Some(schema) = of_3("elsewhere") else {
        return;
    };
    let (mut report, mut long) = (schema.client(), schema.client());
    let mut report = report.transaction().unwrap();
    for table in ["gate", "meta", "watermark"] {
        let read = schema.sql(&format!("SELECT FROM {{s}}.{table}"));
        report.query(&read, &[]).unwrap();
    }
    let mut long = long.transaction().unwrap();
    let letters = schema.sql("SELECT pg_backend_pid(), count(*) FROM {s}.dead");
    let pid: i32 = long.query_one(&letters, &[]).unwrap().get(0);
    let builder = schema.builder(&schema.database);
    let error = builder.patience(Duration::from_millis(500)).connect();
    let error = error.unwrap_err();
    assert!(
        matches!(error, StoreError::NeedsMigration(_, 4)),
        "{error:?}"
    );
    let says = format!("a transaction of pid {pid} has used dead for ");
    assert!(error.to_string().contains(&says), "{error}");
}

/// PostgreSQL shows a role that is no superuser the locks of others, and not their times.
#[test]
fn a_transaction_of_another_role_that_is_in_the_way_is_named_too() {
    let Some(schema) = of_3("of_other") else {
        return;
    };
    let own = "DO $$BEGIN EXECUTE format('GRANT %I TO {r}', current_user); END$$";
    let owner = Role::new(&schema, "owner", own);
    let other = Role::new(&schema, "other", "GRANT SELECT ON {s}.timer TO {r}");
    let mut long = postgres::Client::connect(&other.database(), postgres::NoTls).unwrap();
    let mut long = long.transaction().unwrap();
    let timers = schema.sql("SELECT pg_backend_pid(), count(*) FROM {s}.timer GROUP BY 1");
    long.query(&timers, &[]).unwrap();
    let pid: i32 = long
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    let builder = schema.builder(&owner.database());
    let error = builder.patience(Duration::from_millis(500)).connect();
    let error = error.unwrap_err();
    assert!(
        matches!(error, StoreError::NeedsMigration(_, 4)),
        "{error:?}"
    );
    let says = format!("a transaction of pid {pid} uses timer");
    assert!(error.to_string().contains(&says), "{error}");
}

/// A role of a test's own, which goes with it. It goes before the schema does.
pub(crate) struct Role<'a> {
    schema: &'a Schema,
    name: String,
}

impl<'a> Role<'a> {
    /// It may use the schema; `sql` says what else.
    pub(crate) fn new(schema: &'a Schema, name: &str, sql: &str) -> Self {
        let name = format!("{name}_{}", schema.name);
        let make =
            format!("CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA {{s}} TO {name}; {sql}");
        let make = make.replace("{r}", &name);
        schema.client().batch_execute(&schema.sql(&make)).unwrap();
        Self { schema, name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn database(&self) -> String {
        format!("{} user={}", self.schema.database, self.name)
    }
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        let name = &self.name;
        let drop = format!("DROP OWNED BY {name}; DROP ROLE {name}");
        let _ = self.schema.client().batch_execute(&drop);
    }
}

#[test]
fn a_role_without_rights_is_told() {
    let Some(schema) = of_3("rights") else {
        return;
    };
    let grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {s} TO {r}";
    let node = Role::new(&schema, "node", grants);
    let outbox = Role::new(&schema, "outbox", "GRANT SELECT ON {s}.meta TO {r}");
    let error = schema.builder(&node.database()).connect().unwrap_err();
    let says = format!("`Postgres::migrations({:?}, 3)`", schema.name);
    assert!(
        matches!(error, StoreError::NeedsMigration(_, 3)),
        "{error:?}"
    );
    let line = error.to_string();
    assert!(line.contains(&says) && line.lines().count() == 1, "{line}");
    let source = std::error::Error::source(&error).unwrap();
    let source: &postgres::Error = source.downcast_ref().unwrap();
    assert_eq!(source.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    // A role that only calls functions needs no step.
    let only_calls = || {
        schema
            .builder(&outbox.database())
            .connect()
            .unwrap()
            .outbox()
    };
    only_calls();
    // One that may make them, and must not.
    let refused = schema.builder(&schema.database).migrate(false).connect();
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, StoreError::NeedsMigration(_, 3)),
        "{refused:?}"
    );
    assert!(
        refused.to_string().contains("`migrate(false)`"),
        "{refused}"
    );
    // An operator makes them. The role has its rights on what is new.
    let sql = Postgres::migrations(&schema.name, 3).unwrap();
    schema.client().batch_execute(&sql).unwrap();
    let (send, handled) = channel();
    let store = schema.builder(&node.database()).migrate(false).connect();
    let durable = Schema::node_of(store.unwrap(), &send);
    assert!(next(&handled).0.starts_with("handed out"));
    durable.stop().unwrap();
    let mut client = Client::connect(&node.database(), NoTls).unwrap();
    let write = "INSERT INTO {s}.rule (name) VALUES ('mail'); DELETE FROM {s}.done;
        SELECT {s}.wheelwork_close(3, '')";
    client.batch_execute(&schema.sql(write)).unwrap();
    let outbox_calls = only_calls();
    let mut client = Client::connect(&outbox.database(), NoTls).unwrap();
    let close = schema.sql("SELECT {s}.wheelwork_close(3, '')");
    let error = client.batch_execute(&close).unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    let mut transaction = client.transaction().unwrap();
    let mut calls = outbox_calls.within(&mut transaction);
    calls.schedule("mail", HOUR, "by the outbox").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn what_an_operator_makes_belongs_to_the_owner_of_the_tables() {
    let Some(schema) = Schema::new("owner") else {
        return;
    };
    let grants = "GRANT CREATE ON DATABASE postgres TO {r}; DROP SCHEMA {s}";
    schema
        .client()
        .batch_execute(&schema.sql("CREATE SCHEMA {s}"))
        .unwrap();
    let owner = Role::new(&schema, "owner", grants);
    let golden = SCHEMAS[0].1.replace(GOLDEN, &schema.name);
    let mut client = Client::connect(&owner.database(), NoTls).unwrap();
    let golden = format!("SET check_function_bodies = false; {golden}");
    client.batch_execute(&golden).unwrap();
    let sql = Postgres::migrations(&schema.name, 3).unwrap();
    schema.client().batch_execute(&sql).unwrap();
    let owned = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = '{s}' AND c.relowner <> '{r}'::regrole";
    let owned = schema.sql(owned).replace("{r}", &owner.name);
    let others: i64 = schema.client().query_one(&owned, &[]).unwrap().get(0);
    assert_eq!(others, 0);
    let owned = owned
        .replace("pg_class c", "pg_proc c")
        .replace("rel", "pro");
    let others: i64 = schema.client().query_one(&owned, &[]).unwrap().get(0);
    assert_eq!(others, 0);
    drop(schema.builder(&owner.database()).connect().unwrap());
}

/// What a schema has: its columns, functions, constraints, indexes and rights, a line each.
fn made_of(schema: &Schema) -> BTreeSet<String> {
    let all = "SELECT concat_ws(' ', 'column', table_name, column_name, data_type, is_nullable,
            column_default, collation_name) FROM information_schema.columns WHERE table_schema = '{s}'
        UNION ALL SELECT concat_ws(' ', 'function', pg_get_functiondef(p.oid), p.proacl)
            FROM pg_proc p WHERE p.pronamespace = '{s}'::regnamespace
        UNION ALL SELECT concat_ws(' ', 'constraint', c.conname, pg_get_constraintdef(c.oid))
            FROM pg_constraint c WHERE c.connamespace = '{s}'::regnamespace
        UNION ALL SELECT concat_ws(' ', 'index', indexdef) FROM pg_indexes WHERE schemaname = '{s}'
        UNION ALL SELECT concat_ws(' ', 'table', c.relname, c.relacl, c.reloptions) FROM pg_class c
            WHERE c.relnamespace = '{s}'::regnamespace
        UNION ALL SELECT concat_ws(' ', 'setting', name, value, program) FROM {s}.setting
        UNION ALL SELECT concat_ws(' ', 'meta', version) FROM {s}.meta";
    let rows = schema.client().query(&schema.sql(all), &[]).unwrap();
    let lines = rows.iter().map(|row| row.get::<_, String>(0));
    lines
        .map(|line| line.replace(&schema.name, "{s}"))
        .collect()
}

#[test]
fn migrations_printed_are_migrations_made() {
    let (Some(made), Some(printed)) = (of_3("made"), of_3("printed")) else {
        return;
    };
    drop(made.store());
    let sql = Postgres::migrations(&printed.name, 3).unwrap();
    printed.client().batch_execute(&sql).unwrap();
    let is = made_of(&made);
    assert!(is.len() > 100, "{} are not all", is.len());
    assert_eq!(made_of(&printed), is);
    // Once more changes nothing.
    let error = printed.client().batch_execute(&sql).unwrap_err();
    let error = error.as_db_error().unwrap().message();
    assert_eq!(error, "the schema has number 5, and not 3");
    assert_eq!(made_of(&printed), is);
    // From the step between.
    let Some(half) = of_3("half") else {
        return;
    };
    let end = sql.find("\n-- 5\n").unwrap();
    let first = sql[..end].replace(&printed.name, &half.name);
    half.client().batch_execute(&first).unwrap();
    assert_eq!(numbers(&half), (3, 4));
    let rest = Postgres::migrations(&half.name, 4).unwrap();
    half.client().batch_execute(&rest).unwrap();
    assert_eq!(made_of(&half), is);
}

#[test]
fn a_schema_printed_from_nothing_is_one_that_was_made() {
    let (Some(made), Some(printed)) = (Schema::new("new"), Schema::new("from_0")) else {
        return;
    };
    drop(made.store());
    let sql = Postgres::migrations(&printed.name, 0).unwrap();
    printed.client().batch_execute(&sql).unwrap();
    assert_eq!(made_of(&printed), made_of(&made));
    let none = Postgres::migrations(&printed.name, NUMBER as u64).unwrap();
    assert!(none.lines().all(|line| line.starts_with("--")), "{none}");
    for wrong in [
        Postgres::migrations("order", 3),
        Postgres::migrations("shop", 2),
    ] {
        assert!(wrong.is_err());
    }
    let later = Postgres::migrations("shop", 6);
    assert!(matches!(later, Err(StoreError::Version(_, 6))));
}

#[test]
fn an_old_node_cannot_join_when_closed() {
    let Some(schema) = of_3("closed") else {
        return;
    };
    let mut old = OldNode::join(&schema).unwrap();
    drop(schema.store());
    let mut client = schema.client();
    let close = schema.sql("SELECT {s}.wheelwork_close(5, 'a test')");
    // It is alive.
    let in_the_way: Option<String> = client.query_one(&close, &[]).unwrap().get(0);
    assert_eq!(in_the_way.as_deref(), Some("old"));
    assert_eq!(numbers(&schema), (3, NUMBER));
    assert!(old.renew());
    // It was paused for longer than its lease lasts.
    let over = schema.sql("UPDATE {s}.node SET until = now() WHERE name = 'old'");
    client.batch_execute(&over).unwrap();
    let in_the_way: Option<String> = client.query_one(&close, &[]).unwrap().get(0);
    assert_eq!(in_the_way, None);
    assert_eq!(numbers(&schema), (5, NUMBER));
    assert!(!old.renew(), "it is dead");
    drop(old);
    let refused = OldNode::join(&schema).map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::CHECK_VIOLATION));
    // Twice changes nothing, and a node of this number goes on.
    let again: Option<String> = client.query_one(&close, &[]).unwrap().get(0);
    assert_eq!(again, None);
    let (send, handled) = channel();
    let node = schema.node(&send);
    next(&handled);
    node.stop().unwrap();
}

#[test]
fn a_schema_that_is_newer_is_refused_and_says_who_wrote_it() {
    let Some(schema) = Schema::new("newer") else {
        return;
    };
    drop(schema.store());
    let newer = "UPDATE {s}.setting SET value = 9, program = 'wheelwork-durable 0.9.1'
        WHERE name = 'step'";
    schema.client().batch_execute(&schema.sql(newer)).unwrap();
    // It has come further, and this program may work with it still.
    drop(schema.store());
    let closed = schema.sql("UPDATE {s}.meta SET version = 9");
    schema.client().batch_execute(&closed).unwrap();
    let before = made_of(&schema);
    let mut store = schema.store();
    let error = store.acquire().unwrap_err();
    assert!(matches!(error, StoreError::Version(_, 9)), "{error:?}");
    let line = error.to_string();
    let says = "last changed by wheelwork-durable 0.9.1";
    assert!(line.contains(says) && line.lines().count() == 1, "{line}");
    let read = store.get(&Target::Id(DurableId::from_bits(1)));
    assert!(matches!(read, Err(StoreError::Version(_, 9))), "{read:?}");
    assert_eq!(made_of(&schema), before);
    // A program that is no node goes on: the functions are there.
    let mut client = schema.client();
    let mut transaction = client.transaction().unwrap();
    let outbox = store.outbox();
    let mut calls = outbox.within(&mut transaction);
    let id = calls.schedule("mail", HOUR, "by the outbox").unwrap();
    assert!(calls.cancel(id).unwrap());
    transaction.commit().unwrap();
}

#[test]
fn a_schema_of_partitions_that_none_can_have_is_refused() {
    let Some(schema) = Schema::new("partitions") else {
        return;
    };
    drop(schema.store());
    let other = "UPDATE {s}.setting SET value = 1000 WHERE name = 'partitions'";
    schema.client().batch_execute(&schema.sql(other)).unwrap();
    let error = schema.store().acquire().unwrap_err();
    assert!(matches!(error, StoreError::Version(_, 5)), "{error:?}");
    let line = error.to_string();
    assert!(line.contains("it has 1000 partitions"), "{line}");
}

/// Such a role is no role of a program that only calls functions.
#[test]
fn a_role_that_reads_timers_and_no_number_is_told() {
    let Some(schema) = Schema::new("no_number") else {
        return;
    };
    drop(schema.store());
    let grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {s} TO {r};
        REVOKE ALL ON {s}.setting FROM {r}";
    let node = Role::new(&schema, "node", grants);
    let error = schema.builder(&node.database()).connect().unwrap_err();
    let says = format!("may read {0}.timer, and not {0}.setting", schema.name);
    assert!(error.to_string().contains(&says), "{error}");
}

/// The names of a function's parameters and variables, in the text of a schema.
fn variables(sql: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for function in sql.split("CREATE FUNCTION ").skip(1) {
        let end = function.find("$_$;").or(function.find("$$;")).unwrap();
        let function = &function[..end];
        let (head, body) = function.split_once("AS $").unwrap();
        let (_, parameters) = head.split_once('(').unwrap();
        let declared = body
            .split_once("DECLARE")
            .map_or("", |(_, rest)| rest.split_once("BEGIN").unwrap().0);
        let parameters = parameters.split_once(')').unwrap().0.split(',');
        for line in parameters.chain(declared.lines()) {
            let mut words = line.split_whitespace().skip_while(|word| *word == "OUT");
            names.extend(words.next().map(ToOwned::to_owned));
        }
    }
    names
}

#[test]
fn no_column_has_a_name_of_a_variable() {
    let Some(schema) = of_3("columns") else {
        return;
    };
    let variables = variables(SCHEMAS[0].1);
    for known in ["p", "d", "first", "next", "old", "timer", "name"] {
        assert!(variables.contains(known), "{variables:?} are not all");
    }
    // Tables that functions of 3 use.
    let columns = "SELECT table_name || '.' || column_name FROM information_schema.columns
        WHERE table_schema = '{s}' AND table_name IN ('timer', 'lease', 'gate', 'watermark')";
    let columns = || -> BTreeSet<String> {
        let rows = schema.client().query(&schema.sql(columns), &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let former = columns();
    drop(schema.store());
    let new: Vec<String> = columns().difference(&former).cloned().collect();
    assert_eq!(new.len(), 6, "{new:?}");
    for column in new {
        let (_, name) = column.split_once('.').unwrap();
        assert!(!variables.contains(name), "{column} is a variable, too");
    }
}
