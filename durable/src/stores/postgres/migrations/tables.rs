//! Tables: the statements that make a schema of number 3, and that find one. `{s}` stands for the
//! schema.
//!
//! They are never changed: a new schema is made so, and then takes the steps (`steps.rs`) that the
//! old ones take.

use super::functions;

/// Whether the schema is there: a role that may use it need not be one that may make it.
pub(super) const SCHEMA: &str =
    "SELECT count(*) FROM information_schema.schemata WHERE schema_name = '{s}'";

pub(super) const CREATE_SCHEMA: &str = "CREATE SCHEMA {s}";

/// The tables, the indexes and the functions, in the order in which they are made.
pub(super) const CREATE: &[&str] = &[
    "CREATE TABLE {s}.meta (one smallint PRIMARY KEY, version bigint NOT NULL)",
    "CREATE TABLE {s}.lease (
        part smallint PRIMARY KEY, owner uuid, epoch bigint NOT NULL,
        claimed_upto bigint NOT NULL, raise_upto bigint NOT NULL, clean boolean NOT NULL)",
    "INSERT INTO {s}.lease (part, owner, epoch, claimed_upto, raise_upto, clean)
        SELECT part, NULL, 0, -1, -1, true FROM generate_series(0, 255) g (part)",
    "CREATE TABLE {s}.gate (part smallint PRIMARY KEY)",
    "INSERT INTO {s}.gate (part) SELECT part FROM generate_series(0, 255) g (part)",
    "CREATE TABLE {s}.node (
        node uuid PRIMARY KEY, name text NOT NULL, until timestamptz NOT NULL,
        slow boolean NOT NULL, dead boolean NOT NULL)",
    "CREATE TABLE {s}.watermark (
        node uuid NOT NULL, gen bigint NOT NULL, upto bigint NOT NULL, PRIMARY KEY (node, gen))",
    "CREATE TABLE {s}.seq (node uuid NOT NULL, seq bigint NOT NULL, PRIMARY KEY (node, seq))",
    "CREATE TABLE {s}.timer (
        part smallint NOT NULL, due bigint NOT NULL, id uuid NOT NULL, kind text NOT NULL, key text,
        payload bytea NOT NULL, attempts bigint NOT NULL, crashes bigint NOT NULL, calendar text,
        superseded boolean NOT NULL, moved boolean NOT NULL, epoch bigint NOT NULL,
        PRIMARY KEY (part, due, id))",
    "CREATE UNIQUE INDEX timer_key ON {s}.timer (part, key) WHERE key IS NOT NULL",
    "CREATE INDEX timer_moved ON {s}.timer (part, id) WHERE moved",
    "CREATE TABLE {s}.dead (
        id uuid PRIMARY KEY, due bigint NOT NULL, kind text NOT NULL, key text,
        payload bytea NOT NULL, attempts bigint NOT NULL, crashes bigint NOT NULL, calendar text,
        cause smallint NOT NULL, why text NOT NULL, since bigint NOT NULL)",
    functions::PART,
    functions::CLOCK,
    functions::MILLIS,
    functions::ID,
    functions::UPTO,
    functions::FIND,
    functions::FIND_KEY,
    functions::ARM,
    functions::SCHEDULE_AT,
    functions::SCHEDULE,
    functions::CANCEL,
    functions::CANCEL_KEY,
    functions::RESCHEDULE_AT,
    functions::RESCHEDULE,
    functions::RESCHEDULE_KEY_AT,
    functions::RESCHEDULE_KEY,
    "INSERT INTO {s}.meta (one, version) VALUES (1, 3)",
];

/// What a schema of more partitions has besides: `{n}` stands for their number. Programs of number
/// 3 know 256, so the floor is that of step 5, which gives the functions their number.
pub(super) const MORE_PARTITIONS: &[&str] = &[
    "INSERT INTO {s}.lease (part, owner, epoch, claimed_upto, raise_upto, clean)
        SELECT (CASE WHEN part > 32767 THEN part - 65536 ELSE part END)::smallint,
            NULL, 0, -1, -1, true FROM generate_series(256, {n} - 1) g (part)",
    "UPDATE {s}.meta SET version = 5",
];

/// For PostgreSQL alone: dead rows go soon. Others do without what they do not know.
pub(super) const TUNE: &[&str] = &[
    "ALTER TABLE {s}.timer SET (autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0)",
    "ALTER TABLE {s}.watermark SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)",
    "ALTER TABLE {s}.seq SET (autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)",
    "ALTER TABLE {s}.node SET (fillfactor = 20)",
    "REVOKE EXECUTE ON FUNCTION {s}.wheelwork_upto(smallint) FROM PUBLIC",
    "REVOKE EXECUTE ON FUNCTION {s}.wheelwork_find(smallint, bigint, uuid) FROM PUBLIC",
    "REVOKE EXECUTE ON FUNCTION {s}.wheelwork_find_key(smallint, text) FROM PUBLIC",
    "REVOKE EXECUTE ON FUNCTION
        {s}.wheelwork_arm(text, text, bigint, bytea, smallint, uuid) FROM PUBLIC",
];

/// The lowest number of a program that may work with the schema.
pub(super) const FLOOR: &str = "SELECT version FROM {s}.meta WHERE one = 1";

/// The number that its tables have reached.
pub(super) const STEP: &str = "SELECT value FROM {s}.setting WHERE name = 'step'";

/// How many partitions it has.
pub(super) const PARTITIONS: &str = "SELECT value FROM {s}.setting WHERE name = 'partitions'";

/// The programs that have raised the floor, or made a step: that of the floor first.
pub(super) const WRITER: &str = "SELECT program FROM {s}.setting
    WHERE name IN ('floor', 'step') AND program <> '' ORDER BY name LIMIT 1";

/// Refused to a role that has no rights on the timers: it only calls functions.
pub(super) const READS: &str = "SELECT part FROM {s}.timer LIMIT 0";
