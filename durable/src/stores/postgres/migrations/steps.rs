//! Steps: what takes a schema from one number to the next. `{s}` stands for the schema, and `{n}`
//! for the number of its partitions.
//!
//! A step is one transaction, which ends with its number. A program of the number before goes on
//! beside a schema that has made a step, unless the step says that it breaks such programs. So a
//! step adds tables, and columns that may be null or have a default. It changes no type, drops
//! nothing, and gives no function that is there another parameter: a call without it would fit two
//! functions.
//!
//! A new column has no name that is a variable or a parameter of a function that uses its table: a
//! body that names the variable would mean either (`tests/postgres/versions.rs`).
//!
//! A step that breaks programs is the last one of its program, which works without it until no node
//! is in its way. A program that only calls functions is no node, so such a step keeps the names,
//! the parameters and the meaning of functions, too.
//!
//! A step computes nothing from rows, as an index, a count or a column that it fills. A program of
//! the number before may write rows afterwards, which know nothing of that, and the step is not
//! made again. If there must be such a thing, the step breaks that program.
//!
//! A step that was released is never changed. The next one has the change.

use super::{functions, partitions, rights, rules};

/// From one number of the schema to the next.
pub(in crate::stores::postgres) struct Step {
    /// The number that it makes.
    pub(in crate::stores::postgres) to: i64,
    /// Nodes of programs below this number would do wrong afterwards: it waits until none is alive.
    pub(in crate::stores::postgres) breaks: Option<i64>,
    /// What it makes, in this order. Nobody waits for that. (A body of PL/pgSQL is planned when it
    /// is reached, so a function may be made before the columns that it names.)
    pub(in crate::stores::postgres) sql: &'static [&'static str],
    /// The same for PostgreSQL alone: who may do what with what is new.
    pub(in crate::stores::postgres) rights: &'static [&'static str],
    /// What it does to tables that are there, in this order, at the end. The table that is used
    /// most comes last: it is locked for the shortest time.
    pub(in crate::stores::postgres) locks: &'static [&'static str],
}

/// All of them, in their order.
pub(in crate::stores::postgres) const STEPS: &[Step] = &[
    Step {
        to: 4,
        breaks: None,
        sql: STEP_4,
        rights: rights::STEP_4,
        locks: LOCKS_4,
    },
    Step {
        to: 5,
        breaks: None,
        sql: STEP_5,
        rights: rights::STEP_5,
        locks: LOCKS_5,
    },
];

/// `setting` has numbers of the schema, and the program that has set each. `rule` and `done` are
/// room for rules and for timers that have ended. A recurring timer keeps its id, and two
/// of its runs may end in one millisecond: they differ in their deadline. A name in `rule` begins
/// with `=` if it is a kind, and with `*` if it is the beginning of several: no kind meets such a
/// beginning.
const STEP_4: &[&str] = &[
    "CREATE TABLE {s}.setting (
        name text PRIMARY KEY, value bigint NOT NULL, program text NOT NULL DEFAULT '')",
    "INSERT INTO {s}.setting (name, value) VALUES ('step', 3), ('partitions', {n}), ('rules', 0)",
    "CREATE TABLE {s}.rule (
        name text PRIMARY KEY, paused boolean NOT NULL DEFAULT false,
        paused_since bigint, per_second float8, burst bigint, full_at_us bigint, calls bigint)",
    "CREATE TABLE {s}.done (
        part smallint NOT NULL, ended bigint NOT NULL, id uuid NOT NULL, due bigint NOT NULL,
        began bigint, took_us bigint, kind text NOT NULL, key text, attempts bigint NOT NULL,
        crashes bigint NOT NULL, node text NOT NULL, ending smallint NOT NULL,
        PRIMARY KEY (part, ended, id, due))",
    functions::CLOSE,
];

/// It locks no table that nodes write all the time.
const LOCKS_4: &[&str] = &["ALTER TABLE {s}.node
        ADD COLUMN version bigint NOT NULL DEFAULT 3, ADD COLUMN program text NOT NULL DEFAULT '',
        ADD COLUMN kinds text[], ADD COLUMN looks boolean NOT NULL DEFAULT false"];

/// A timer that is moved is held no more, and those that are held can be released. Timers can be
/// paused, and have rates and limits of calls. `permit` has the calls of a rule that a node may
/// make.
const STEP_5: &[&str] = &[
    "CREATE TABLE {s}.permit (
        name text NOT NULL, node uuid NOT NULL, calls bigint NOT NULL, wants bigint NOT NULL,
        since_us bigint NOT NULL, PRIMARY KEY (name, node))",
    partitions::GATE,
    partitions::SMALL,
    partitions::PART,
    partitions::ID,
    partitions::SCHEDULE_AT,
    partitions::ARM,
    partitions::CANCEL,
    partitions::CANCEL_KEY,
    functions::RESCHEDULE_AT_5,
    functions::RESCHEDULE_KEY_AT_5,
    functions::CLOSE_FOR_HELD,
    functions::RELEASE_HELD,
    functions::SCHEDULE_WITH_AT,
    rules::CHANGE_RULE,
    rules::PAUSE,
    rules::RESUME,
    rules::PAUSE_KEYS,
    rules::RESUME_KEYS,
    rules::SET_RATE,
    rules::CLEAR_RATE,
    rules::SET_RATE_KEYS,
    rules::CLEAR_RATE_KEYS,
    rules::SET_CALLS,
    rules::CLEAR_CALLS,
    rules::SET_CALLS_KEYS,
    rules::CLEAR_CALLS_KEYS,
];

/// Room for timers that are held, that expire, that have a limit for an attempt, or a trace.
///
/// No index is added to `timer`, which would take as long as it is large. A column with a constant
/// for its default rewrites no row.
const LOCKS_5: &[&str] = &[
    "ALTER TABLE {s}.dead
        ADD COLUMN expires bigint, ADD COLUMN limit_ms bigint, ADD COLUMN trace text",
    "ALTER TABLE {s}.lease ADD COLUMN wants text[]",
    "ALTER TABLE {s}.timer
        ADD COLUMN held smallint NOT NULL DEFAULT 0, ADD COLUMN held_since bigint,
        ADD COLUMN expires bigint, ADD COLUMN limit_ms bigint, ADD COLUMN trace text",
];
