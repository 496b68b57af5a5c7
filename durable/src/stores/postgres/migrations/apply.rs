//! Apply: makes a step, beside nodes that work and nodes that want to make it too; or prints it.
//!
//! A step is made under two locks. The advisory one lets other nodes wait without an error in the
//! database's log. The row of `meta` is what counts: the step's number is read after it is locked.
//!
//! A step locks tables. Behind a user's long transaction it would wait, and every statement of all
//! nodes behind it. So it waits for 50 ms and is rolled back, and is tried again after a pause.

use super::steps::Step;
use super::tables;
use crate::stores::postgres::session::{Live, Trouble, is_unknown, trouble};
use std::fmt::Write as _;
use tokio_postgres::Error;

/// What says in the schema which program has done something.
pub(in crate::stores::postgres) const PROGRAM: &str =
    concat!("wheelwork-durable ", env!("CARGO_PKG_VERSION"));

/// How many partitions a schema has, unless it was made with more.
pub(in crate::stores::postgres) const PARTITIONS: u32 = 256;

/// The number of a schema that has no table of numbers.
pub(super) const FIRST: i64 = 3;

/// The first key of the advisory lock, for all schemas. The second one is the schema's.
const LOCK: i32 = 0x7777_6865;

/// `wheelwork_close` asks for this isolation.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// How long a step may wait for another node that makes it.
const WAIT_FOR_OTHERS: &str = "SET LOCAL lock_timeout = 10000";

/// How long it may wait for a table.
const WAIT_FOR_TABLES: &str = "SET LOCAL lock_timeout = 50";

/// What became of a try.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// The step is made, by this node or by another one.
    Done,
    /// The step would break a node that is alive: the node's name.
    Breaks(String),
}

/// The second key of the advisory lock: FNV-1a of the schema's name.
fn key_of(schema: &str) -> i32 {
    let hash = schema.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.cast_signed()
}

/// The statements that take both locks.
fn exclusion(schema: &str) -> [String; 2] {
    let advisory = format!("SELECT pg_advisory_xact_lock({LOCK}, {})", key_of(schema));
    let row = format!("SELECT version FROM {schema}.meta WHERE one = 1 FOR UPDATE");
    [advisory, row]
}

/// These statements of a step.
pub(super) fn texts(schema: &str, partitions: u32, statements: &[&str]) -> Vec<String> {
    let number = partitions.to_string();
    let text = |sql: &&str| sql.replace("{s}", schema).replace("{n}", &number);
    statements.iter().map(text).collect()
}

/// What a step does to tables that others use, and its number.
fn last(schema: &str, partitions: u32, step: &Step) -> Vec<String> {
    let to = step.to;
    let number = format!(
        "UPDATE {schema}.setting SET value = {to}, program = '{PROGRAM}' WHERE name = 'step'"
    );
    let mut last = texts(schema, partitions, step.locks);
    last.push(number);
    last
}

/// The text that asks to close the schema for programs below a number.
fn close(schema: &str, number: i64) -> String {
    format!("SELECT {schema}.wheelwork_close({number}, '{PROGRAM}')")
}

/// Tries once to make a step. Unless it is made, nothing is changed, and the floor neither.
pub(super) async fn make(
    live: &Live,
    schema: &str,
    step: &Step,
    partitions: u32,
) -> Result<Made, Error> {
    let made = make_within(live, schema, step, partitions).await;
    if !matches!(made, Ok(Made::Done)) {
        // (If this fails, the connection is lost, and the transaction with it.)
        let _ = live.client.batch_execute("ROLLBACK").await;
    }
    made
}

/// StepMake. What locks tables that are there is one message with `COMMIT`: others wait for that.
async fn make_within(
    live: &Live,
    schema: &str,
    step: &Step,
    partitions: u32,
) -> Result<Made, Error> {
    let [advisory, row] = exclusion(schema);
    live.client.batch_execute(BEGIN).await?;
    live.client.batch_execute(WAIT_FOR_OTHERS).await?;
    passed_over(live, &[advisory]).await?;
    live.client.batch_execute(WAIT_FOR_TABLES).await?;
    live.client.batch_execute(&row).await?;
    if step_of(live, schema).await? >= step.to {
        live.client.batch_execute("COMMIT").await?;
        return Ok(Made::Done);
    }
    for statement in texts(schema, partitions, step.sql) {
        live.client.batch_execute(&statement).await?;
    }
    passed_over(live, &texts(schema, partitions, step.rights)).await?;
    if let Some(number) = step.breaks {
        let older = live.client.query_one(&close(schema, number), &[]).await?;
        if let Some(older) = older.get(0) {
            return Ok(Made::Breaks(older));
        }
    }
    let last = last(schema, partitions, step)
        .into_iter()
        .map(|sql| sql + ";\n");
    let last = last.collect::<String>() + "COMMIT";
    live.client.batch_execute(&last).await?;
    Ok(Made::Done)
}

/// Runs what PostgreSQL knows and other databases may not know: of these statements, each one that
/// is known.
pub(super) async fn passed_over(live: &Live, statements: &[String]) -> Result<(), Error> {
    for statement in statements {
        live.client.batch_execute("SAVEPOINT more").await?;
        match live.client.batch_execute(statement).await {
            Err(error) if is_unknown(&error) => {
                let back = "ROLLBACK TO SAVEPOINT more";
                live.client.batch_execute(back).await?;
            }
            other => other?,
        }
    }
    Ok(())
}

/// The number that a schema has reached, inside a transaction.
async fn step_of(live: &Live, schema: &str) -> Result<i64, Error> {
    let has_setting = format!("SELECT to_regclass('{schema}.setting') IS NOT NULL");
    let has_setting: bool = live.client.query_one(&has_setting, &[]).await?.get(0);
    if !has_setting {
        return Ok(FIRST);
    }
    let step = tables::STEP.replace("{s}", schema);
    let row = live.client.query_opt(&step, &[]).await?;
    Ok(row.map_or(FIRST, |row| row.get(0)))
}

/// Whether a try may go well later.
pub(super) fn is_in_the_way(error: &Error) -> bool {
    trouble(error) == Trouble::Conflict
}

/// The tables that a step needs for itself, as SQL has a list of texts. A transaction that uses one
/// of them is in its way.
fn tables_of(step: &Step) -> String {
    let altered = step.locks.iter().filter_map(|sql| {
        let (_, rest) = sql.split_once("{s}.")?;
        rest.split_whitespace().next()
    });
    // (FloorRaise locks it.)
    altered
        .chain(step.breaks.map(|_| "node"))
        .fold(NO_TABLES.to_owned(), |all, table| all + ", '" + table + "'")
}

/// The same if no table is known: no table has this name.
const NO_TABLES: &str = "''";

/// Which transaction has been in the way of a step for longest, in a few words. One that uses other
/// tables of the schema is in nobody's way. The last try has waited for 50 ms, so no later one was
/// in its way. Of one whose times are not seen nothing is known: it stands behind those that have
/// lasted for a second, and before shorter ones. `step`: `None` if it is not known which tables
/// were to be locked.
pub(super) async fn in_the_way(live: &Live, schema: &str, step: Option<&Step>) -> Option<String> {
    let tables = step.map_or_else(|| NO_TABLES.to_owned(), tables_of);
    // (A step locks a row of `meta`, and changes one of `setting` that only steps change.)
    let longest = format!(
        "SELECT l.pid, c.relname::text, extract(epoch FROM now() - a.xact_start)::bigint
        FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
        WHERE l.granted AND n.nspname = '{schema}' AND c.relkind = 'r'
            AND (c.relname IN ({tables})
                OR c.relname = 'meta' AND l.mode <> 'AccessShareLock'
                OR c.relname = 'setting' AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock',
                    'ExclusiveLock', 'AccessExclusiveLock'))
            AND l.pid IS DISTINCT FROM pg_backend_pid()
            AND (a.xact_start IS NULL OR a.xact_start < now() - interval '50 ms')
        ORDER BY CASE WHEN a.xact_start < now() - interval '1 s' THEN 0
                WHEN a.xact_start IS NULL THEN 1 ELSE 2 END,
            a.xact_start, c.relname = 'timer' DESC LIMIT 1"
    );
    let row = live.client.query_opt(&longest, &[]).await.ok()??;
    // (One that is prepared has no process. A role does not see the times of other roles.)
    let whose = match row.get::<_, Option<i32>>(0) {
        Some(pid) => format!("a transaction of pid {pid}"),
        None => "a prepared transaction".to_owned(),
    };
    let table: String = row.get(1);
    Some(match row.get::<_, Option<i64>>(2) {
        Some(seconds) => format!("{whose} has used {table} for {seconds} s"),
        None => format!("{whose} uses {table}"),
    })
}

/// The SQL that takes a schema from a number (0: there is none) through these steps. It is for 256
/// partitions.
pub(super) fn printed(schema: &str, from: i64, steps: &[Step]) -> String {
    let to = steps.last().map_or(FIRST, |step| step.to);
    let partitions = PARTITIONS;
    let mut all = format!("-- {PROGRAM}, schema {schema}: {from} -> {to}\n");
    all.push_str(
        "-- If a step fails because a table is in use, those before it stay. Print this\n",
    );
    all.push_str("-- again, from the number that the schema has by then, and run that.\n");
    if from < FIRST {
        let create = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
        let tables = texts(schema, partitions, tables::CREATE);
        let tune = texts(schema, partitions, tables::TUNE);
        let statements = [create].into_iter().chain(tables).chain(tune);
        transaction(&mut all, FIRST, statements);
    }
    let mut former = FIRST;
    for step in steps {
        if step.to > from {
            let has = format!("SELECT value FROM {schema}.setting WHERE name = 'step'");
            // (A body of PL/pgSQL is planned when it is reached: the table need not be there.)
            let check = format!(
                "DO $$
DECLARE
    reached bigint := {FIRST};
BEGIN
    IF to_regclass('{schema}.setting') IS NOT NULL THEN
        reached := ({has});
    END IF;
    IF reached <> {former} THEN
        RAISE EXCEPTION 'the schema has number %, and not {former}', reached;
    END IF;
    IF (SELECT count(*) FROM {schema}.lease) <> {partitions} THEN
        RAISE EXCEPTION 'the schema has other partitions than {partitions}';
    END IF;
END
$$"
            );
            let closed = step.breaks.map(|number| {
                format!(
                    "DO $$
BEGIN
    IF ({}) IS NOT NULL THEN
        RAISE EXCEPTION 'a node of a program below {number} is alive';
    END IF;
END
$$",
                    close(schema, number)
                )
            });
            let begin = [WAIT_FOR_TABLES.to_string()]
                .into_iter()
                .chain(exclusion(schema));
            let statements = begin
                .chain([check])
                .chain(texts(schema, partitions, step.sql))
                .chain(texts(schema, partitions, step.rights))
                .chain(closed)
                .chain(last(schema, partitions, step));
            transaction(&mut all, step.to, statements);
        }
        former = step.to;
    }
    all
}

/// A transaction of these statements.
fn transaction(all: &mut String, number: i64, statements: impl Iterator<Item = String>) {
    let _ = write!(all, "\n-- {number}\n{BEGIN};\n");
    for statement in statements {
        let _ = writeln!(all, "{};", statement.trim());
    }
    all.push_str("COMMIT;\n");
}
