//! Load: rows are read and counted.

use super::rows::{ROW_COLUMNS, row_of, time};
use super::statement::{Sql, Statement, statement};
use crate::store::row::{Row, StoreTime};
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[
    Load::SQL,
    LoadUnlocked::SQL,
    Look::SQL,
    NextDue::SQL,
    Get::SQL,
    GetKey::SQL,
    Count::SQL,
    Estimate::SQL,
];

statement! {
    /// RowRead: the first rows of each partition after a position, up to a number of bytes in all.
    Load<'a> { part: &'a [i16], due: i64, id: Uuid, until: i64, limit: i64, bytes: i64 }
    -> (Row, i64) = loaded_of;
    "
SELECT c.due, c.id, c.kind, c.key, c.payload, c.attempts, c.calendar, c.superseded, c.crashes,
    c.held, c.held_since, c.expires, c.limit_ms, c.trace, c.epoch FROM (
    SELECT t.*, sum(octet_length(t.payload)) OVER (ORDER BY t.due, t.id)
        - octet_length(t.payload) AS before
    FROM unnest(:part::smallint[]) p (part) CROSS JOIN LATERAL (
        SELECT * FROM {s}.timer r WHERE r.part = p.part AND (r.due, r.id) > (:due, :id)
        AND r.due <= :until ORDER BY r.due, r.id LIMIT :limit) t) c
WHERE c.before < :bytes ORDER BY c.due, c.id"
}

statement! {
    /// The same without those that a transaction is ending or moving.
    LoadUnlocked<'a> { part: &'a [i16], due: i64, id: Uuid, until: i64, limit: i64, bytes: i64 }
    -> (Row, i64) = loaded_of;
    "
SELECT c.due, c.id, c.kind, c.key, c.payload, c.attempts, c.calendar, c.superseded, c.crashes,
    c.held, c.held_since, c.expires, c.limit_ms, c.trace, c.epoch FROM (
    SELECT t.*, sum(octet_length(t.payload)) OVER (ORDER BY t.due, t.id)
        - octet_length(t.payload) AS before
    FROM unnest(:part::smallint[]) p (part) CROSS JOIN LATERAL (
        SELECT * FROM {s}.timer r WHERE r.part = p.part AND (r.due, r.id) > (:due, :id)
        AND r.due <= :until ORDER BY r.due, r.id LIMIT :limit FOR KEY SHARE SKIP LOCKED) t) c
WHERE c.before < :bytes ORDER BY c.due, c.id"
}

statement! {
    /// The first rows of each partition after a position, each with its epoch and whether it is of
    /// this kind, has a key that begins so, and has a calendar. Others are without their payloads.
    /// It ends at a number of bytes of payloads in all.
    Look<'a> {
        part: &'a [i16],
        due: i64,
        id: Uuid,
        until: i64,
        limit: i64,
        bytes: i64,
        kind: Option<&'a str>,
        prefix: Option<&'a str>,
        recurring: bool,
    }
    -> (Row, i64, bool) = |row| (row_of(row), row.get(ROW_COLUMNS), row.get(ROW_COLUMNS + 1));
    "
SELECT c.due, c.id, c.kind, c.key, c.payload, c.attempts, c.calendar, c.superseded, c.crashes,
    c.held, c.held_since, c.expires, c.limit_ms, c.trace, c.epoch, c.taken FROM (
    SELECT f.*, sum(octet_length(f.payload)) OVER (ORDER BY f.due, f.id)
        - octet_length(f.payload) AS before
    FROM (
        SELECT t.due, t.id, t.kind, t.key,
            CASE WHEN t.taken THEN t.payload ELSE ''::bytea END AS payload, t.attempts,
            t.calendar, t.superseded, t.crashes, t.held, t.held_since, t.expires, t.limit_ms,
            t.trace, t.epoch, t.taken
        FROM unnest(:part::smallint[]) p (part) CROSS JOIN LATERAL (
            SELECT r.*, (:kind::text IS NULL OR r.kind = :kind::text)
                AND (:prefix::text IS NULL
                    OR COALESCE(left(r.key, length(:prefix::text)) = :prefix::text, false))
                AND (NOT :recurring::boolean OR r.calendar IS NOT NULL) AS taken
            FROM {s}.timer r WHERE r.part = p.part AND (r.due, r.id) > (:due, :id)
            AND r.due <= :until ORDER BY r.due, r.id LIMIT :limit) t) f) c
WHERE c.before < :bytes ORDER BY c.due, c.id"
}

/// A row and its epoch.
fn loaded_of(row: &tokio_postgres::Row) -> (Row, i64) {
    (row_of(row), row.get(ROW_COLUMNS))
}

statement! {
    /// The first deadline from a time on, the database's time in seconds, and the number of all
    /// rules.
    NextDue<'a> { part: &'a [i16], from: i64 }
    -> (Option<StoreTime>, f64, Option<i64>) =
        |row| (row.get::<_, Option<i64>>(0).map(time), row.get(1), row.get(2));
    "
SELECT min(t.due), extract(epoch FROM now())::float8,
    (SELECT s.value FROM {s}.setting s WHERE s.name = 'rules')
    FROM unnest(:part::smallint[]) p (part)
    CROSS JOIN LATERAL (
    SELECT r.due FROM {s}.timer r WHERE r.part = p.part AND r.due >= :from
    ORDER BY r.due LIMIT 1) t"
}

statement! {
    /// A row by its id and its first deadline.
    Get { part: i16, id: Uuid, due: i64 }
    -> Row = row_of;
    "
SELECT due, id, kind, key, payload, attempts, calendar, superseded, crashes, held, held_since,
    expires, limit_ms, trace FROM {s}.timer
    WHERE part = :part AND id = :id AND (due = :due OR moved)"
}

statement! {
    /// A row by its key.
    GetKey<'a> { part: i16, key: &'a str }
    -> Row = row_of;
    "
SELECT due, id, kind, key, payload, attempts, calendar, superseded, crashes, held, held_since,
    expires, limit_ms, trace FROM {s}.timer
    WHERE part = :part AND key = :key"
}

statement! {
    /// Counts up to a number of rows. It also goes through rows that are deleted and still lie
    /// there.
    Count { limit: i64 }
    -> [Option<u64>; 2] = counts_of;
    "
SELECT (SELECT count(*) FROM (SELECT 1 FROM {s}.timer LIMIT :limit) t),
    (SELECT count(*) FROM (SELECT 1 FROM {s}.dead LIMIT :limit) d)"
}

statement! {
    /// How many rows the last `ANALYZE` or `VACUUM` has found. -1: there was none.
    Estimate {}
    -> [Option<u64>; 2] = counts_of;
    "
SELECT COALESCE((SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass('{s}.timer')), -1),
    COALESCE((SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass('{s}.dead')), -1)"
}

/// Numbers of rows and of dead letters. `None`: not known.
fn counts_of(row: &tokio_postgres::Row) -> [Option<u64>; 2] {
    [0, 1].map(|at| u64::try_from(row.get::<_, i64>(at)).ok())
}
