//! The statements. `{s}` stands for the schema.
//!
//! They keep to what other databases take that speak PostgreSQL's protocol: `tests/durable_sql.rs`
//! reads them all, and refuses what is not on its list. Times are the database's `now()`; deadlines
//! are milliseconds since the Unix epoch.
//!
//! Lease rows are locked in the order of partitions, whatever for: so no two transactions wait for
//! each other there.
//!
//! Whoever settles, ends, moves or replaces rows locks the rows of their partitions' leases first
//! (`FOR SHARE`), in the same statement: so no watermark rises, and no lease changes hands, between
//! the look at it and the end of the transaction.

/// Whether the schema is there: a role that may use it need not be one that may make it.
pub(crate) const SCHEMA: &str =
    "SELECT count(*) FROM information_schema.schemata WHERE schema_name = '{s}'";

pub(crate) const CREATE_SCHEMA: &str = "CREATE SCHEMA {s}";

/// The tables, the indexes and the functions, in the order in which they are made.
pub(crate) const CREATE: &[&str] = &[
    "CREATE TABLE {s}.meta (one smallint PRIMARY KEY, version bigint NOT NULL)",
    "CREATE TABLE {s}.lease (
        part smallint PRIMARY KEY, owner uuid, epoch bigint NOT NULL, until timestamptz NOT NULL,
        claimed_upto bigint NOT NULL, raise_upto bigint NOT NULL, clean boolean NOT NULL)",
    "INSERT INTO {s}.lease (part, owner, epoch, until, claimed_upto, raise_upto, clean)
        SELECT part, NULL, 0, now(), -1, -1, true FROM generate_series(0, 255) g (part)",
    "CREATE TABLE {s}.node (
        node uuid PRIMARY KEY, name text NOT NULL, seq bigint NOT NULL, until timestamptz NOT NULL)",
    "CREATE TABLE {s}.timer (
        part smallint NOT NULL, due bigint NOT NULL, id uuid NOT NULL, kind text NOT NULL, key text,
        payload bytea NOT NULL, attempts bigint NOT NULL, calendar text,
        superseded boolean NOT NULL, moved boolean NOT NULL, epoch bigint NOT NULL,
        PRIMARY KEY (part, due, id))",
    "CREATE UNIQUE INDEX timer_key ON {s}.timer (part, key) WHERE key IS NOT NULL",
    "CREATE INDEX timer_moved ON {s}.timer (part, id) WHERE moved",
    "CREATE TABLE {s}.dead (
        id uuid PRIMARY KEY, due bigint NOT NULL, kind text NOT NULL, key text,
        payload bytea NOT NULL, attempts bigint NOT NULL, calendar text, cause smallint NOT NULL,
        why text NOT NULL, since bigint NOT NULL)",
    "CREATE FUNCTION {s}.wheelwork_part(key text) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
        SELECT ('x' || substr(md5(key), 1, 2))::bit(8)::int::smallint
    $$",
    "CREATE FUNCTION {s}.wheelwork_clock() RETURNS bigint LANGUAGE sql AS $$
        SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint
    $$",
    "CREATE FUNCTION {s}.wheelwork_id(part smallint, due bigint) RETURNS uuid LANGUAGE sql AS $$
        SELECT (lpad(to_hex(part::int), 4, '0') || lpad(to_hex(due), 12, '0')
            || substr(md5(gen_random_uuid()::text), 1, 16))::uuid
    $$",
    "CREATE FUNCTION {s}.wheelwork_arm(
        kind text, key text, due bigint, payload bytea, part smallint, id uuid)
    RETURNS uuid LANGUAGE sql AS $$
        WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = $5 AND $2 IS NOT NULL
            FOR SHARE)
        DELETE FROM {s}.timer t USING l WHERE t.part = l.part AND t.key = $2
            AND t.due > l.claimed_upto;
        UPDATE {s}.timer SET key = NULL, superseded = true WHERE part = $5 AND key = $2;
        INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, calendar, superseded,
                moved, epoch)
            VALUES ($5, $3, $6, $1, $2, $4, 0, NULL, false, false, 0);
        SELECT $6
    $$",
    // Not before now: other nodes look for what is due, not for what was.
    "CREATE FUNCTION {s}.wheelwork_schedule_at(
        kind text, due bigint, payload bytea, key text DEFAULT NULL)
    RETURNS uuid LANGUAGE sql AS $$
        SELECT {s}.wheelwork_arm($1, $4, w.due, $3, w.part, {s}.wheelwork_id(w.part, w.due))
        FROM (SELECT LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655) AS due,
            COALESCE({s}.wheelwork_part($4), floor(random() * 256)::smallint) AS part) w
    $$",
    "CREATE FUNCTION {s}.wheelwork_schedule(
        kind text, due timestamptz, payload bytea, key text DEFAULT NULL)
    RETURNS uuid LANGUAGE sql AS $$
        SELECT {s}.wheelwork_schedule_at($1, ceil(extract(epoch FROM $2) * 1000)::bigint, $3, $4)
    $$",
    "CREATE FUNCTION {s}.wheelwork_cancel(timer uuid) RETURNS boolean LANGUAGE sql AS $$
        WITH l AS (SELECT part, claimed_upto FROM {s}.lease
            WHERE part = ('x' || substr($1::text, 1, 4))::bit(16)::int::smallint FOR SHARE),
        gone AS (DELETE FROM {s}.timer t USING l WHERE t.part = l.part AND t.id = $1
            AND t.due > l.claimed_upto AND (t.moved
                OR t.due = ('x' || substr(replace($1::text, '-', ''), 5, 12))::bit(48)::bigint)
            RETURNING t.id)
        SELECT count(*) > 0 FROM gone
    $$",
    "CREATE FUNCTION {s}.wheelwork_cancel_key(key text) RETURNS boolean LANGUAGE sql AS $$
        WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = {s}.wheelwork_part($1)
            FOR SHARE),
        gone AS (DELETE FROM {s}.timer t USING l WHERE t.part = l.part AND t.key = $1
            AND t.due > l.claimed_upto RETURNING t.id)
        SELECT count(*) > 0 FROM gone
    $$",
    "CREATE FUNCTION {s}.wheelwork_reschedule_at(timer uuid, due bigint)
    RETURNS boolean LANGUAGE sql AS $$
        WITH l AS (SELECT part, claimed_upto FROM {s}.lease
            WHERE part = ('x' || substr($1::text, 1, 4))::bit(16)::int::smallint FOR SHARE),
        w AS (SELECT LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655) AS due,
            ('x' || substr(replace($1::text, '-', ''), 5, 12))::bit(48)::bigint AS first_due),
        gone AS (UPDATE {s}.timer t SET due = w.due, moved = w.due <> w.first_due FROM l, w
            WHERE t.part = l.part AND t.id = $1 AND t.due > l.claimed_upto AND NOT t.superseded
            AND (t.moved OR t.due = w.first_due) RETURNING t.id)
        SELECT count(*) > 0 FROM gone
    $$",
    "CREATE FUNCTION {s}.wheelwork_reschedule(timer uuid, due timestamptz)
    RETURNS boolean LANGUAGE sql AS $$
        SELECT {s}.wheelwork_reschedule_at($1, ceil(extract(epoch FROM $2) * 1000)::bigint)
    $$",
    "CREATE FUNCTION {s}.wheelwork_reschedule_key_at(key text, due bigint)
    RETURNS boolean LANGUAGE sql AS $$
        WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = {s}.wheelwork_part($1)
            FOR SHARE),
        w AS (SELECT LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655) AS due),
        gone AS (UPDATE {s}.timer t SET due = w.due, moved = true FROM l, w
            WHERE t.part = l.part AND t.key = $1 AND t.due > l.claimed_upto RETURNING t.id)
        SELECT count(*) > 0 FROM gone
    $$",
    "CREATE FUNCTION {s}.wheelwork_reschedule_key(key text, due timestamptz)
    RETURNS boolean LANGUAGE sql AS $$
        SELECT {s}.wheelwork_reschedule_key_at($1, ceil(extract(epoch FROM $2) * 1000)::bigint)
    $$",
    "INSERT INTO {s}.meta (one, version) VALUES (1, 1)",
];

/// For PostgreSQL alone: dead rows go soon. Others refuse it, which does no harm.
pub(crate) const TUNE: &[&str] = &[
    "ALTER TABLE {s}.timer SET (autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0)",
    "ALTER TABLE {s}.lease SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)",
    "ALTER TABLE {s}.node SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 1000)",
];

pub(crate) const VERSION: &str = "SELECT version FROM {s}.meta WHERE one = 1";

/// The node is alive, and the time; how many others are, and when the first lease of others ends.
pub(crate) const NODE: &str = "
INSERT INTO {s}.node (node, name, seq, until)
    VALUES ($1, $2, 0, now() + $3::float8 * interval '1 second')
ON CONFLICT (node) DO UPDATE SET until = excluded.until
RETURNING extract(epoch FROM now())::float8,
    (SELECT count(*) FROM {s}.node n WHERE n.node <> $1 AND n.until > now()),
    (SELECT extract(epoch FROM min(l.until) - now())::float8 FROM {s}.lease l
        WHERE l.owner IS NULL OR l.owner <> $1)";

pub(crate) const RENEW: &str = "
WITH o AS (SELECT part FROM {s}.lease WHERE owner = $1 ORDER BY part FOR UPDATE)
UPDATE {s}.lease l SET until = now() + $2::float8 * interval '1 second'
    FROM o WHERE l.part = o.part AND l.owner = $1 RETURNING l.part, l.epoch, l.raise_upto";

/// The same for those that no transaction has locked: not even a user's that lasts.
pub(crate) const RENEW_UNLOCKED: &str = "
WITH o AS (SELECT part FROM {s}.lease WHERE owner = $1 ORDER BY part FOR UPDATE SKIP LOCKED)
UPDATE {s}.lease l SET until = now() + $2::float8 * interval '1 second'
    FROM o WHERE l.part = o.part AND l.owner = $1 RETURNING l.part, l.epoch, l.raise_upto";

pub(crate) const FREE: &str = "
SELECT part FROM {s}.lease WHERE owner IS NULL OR until <= now()";

/// LeaseTake. Rows due by `raise_upto` may have been handed out by an owner before, and were not
/// settled.
pub(crate) const TAKE: &str = "
WITH o AS (SELECT part FROM {s}.lease WHERE part = ANY($3::smallint[])
    AND (owner IS NULL OR until <= now()) ORDER BY part FOR UPDATE SKIP LOCKED)
UPDATE {s}.lease l SET owner = $1, epoch = l.epoch + 1, clean = false,
        until = now() + $2::float8 * interval '1 second', raise_upto =
            CASE WHEN l.clean THEN -1 ELSE GREATEST(l.raise_upto, l.claimed_upto) END
    FROM o WHERE l.part = o.part AND (l.owner IS NULL OR l.until <= now())
    RETURNING l.part, l.epoch, l.raise_upto";

/// TakeOverRaise: adds an attempt to such rows, once in an epoch.
pub(crate) const RAISE: &str = "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
UPDATE {s}.timer t SET attempts = t.attempts + 1, epoch = u.epoch
    FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::bigint[]) u (part, due, id, epoch), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch AND t.epoch < u.epoch AND NOT t.superseded RETURNING t.id";

/// LeaseRelease. It is clean if no row is owed an attempt.
pub(crate) const GIVE_BACK: &str = "
WITH o AS (SELECT part FROM {s}.lease WHERE part = ANY($2::smallint[])
    ORDER BY part FOR UPDATE SKIP LOCKED)
UPDATE {s}.lease l SET owner = NULL, until = now(), clean = NOT EXISTS (
        SELECT 1 FROM {s}.timer t WHERE t.part = l.part AND t.due <= l.raise_upto
        AND t.epoch < l.epoch)
    FROM o JOIN unnest($2::smallint[], $3::bigint[]) u (part, epoch) ON u.part = o.part
    WHERE l.part = o.part AND l.epoch = u.epoch AND l.owner = $1";

pub(crate) const LEAVE: &str = "DELETE FROM {s}.node WHERE node = $1";

pub(crate) const FORGET_NODES: &str = "
DELETE FROM {s}.node WHERE until < now() - interval '1 day'";

pub(crate) const CLAIM: &str = "
WITH o AS (SELECT part FROM {s}.lease WHERE part = ANY($2::smallint[])
    ORDER BY part FOR UPDATE)
UPDATE {s}.lease l SET claimed_upto = GREATEST(l.claimed_upto, $4)
    FROM o JOIN unnest($2::smallint[], $3::bigint[]) u (part, epoch) ON u.part = o.part
    WHERE l.part = o.part AND l.epoch = u.epoch AND l.owner = $1 RETURNING l.part";

/// The same for those that no transaction has locked.
pub(crate) const CLAIM_UNLOCKED: &str = "
WITH o AS (SELECT part FROM {s}.lease WHERE part = ANY($2::smallint[])
    ORDER BY part FOR UPDATE SKIP LOCKED)
UPDATE {s}.lease l SET claimed_upto = GREATEST(l.claimed_upto, $4)
    FROM o JOIN unnest($2::smallint[], $3::bigint[]) u (part, epoch) ON u.part = o.part
    WHERE l.part = o.part AND l.epoch = u.epoch AND l.owner = $1 RETURNING l.part";

/// The first rows of each partition after a position.
pub(crate) const LOAD: &str = "
SELECT t.due, t.id, t.kind, t.key, t.payload, t.attempts, t.calendar, t.superseded, t.epoch
FROM unnest($1::smallint[]) p (part) CROSS JOIN LATERAL (
    SELECT * FROM {s}.timer r WHERE r.part = p.part AND (r.due, r.id) > ($2, $3) AND r.due <= $4
    ORDER BY r.due, r.id LIMIT $5) t
ORDER BY t.due, t.id";

pub(crate) const NEXT_DUE: &str = "
SELECT min(t.due), extract(epoch FROM now())::float8 FROM unnest($1::smallint[]) p (part) CROSS JOIN LATERAL (
    SELECT r.due FROM {s}.timer r WHERE r.part = p.part AND r.due >= $2
    ORDER BY r.due LIMIT 1) t";

/// The number of this node's last commit, when no commit of it is under way.
pub(crate) const SETTLED_SEQ: &str = "SELECT seq FROM {s}.node WHERE node = $1 FOR UPDATE";

/// For a transaction with several statements that lock lease rows: all of them, first.
pub(crate) const LOCK: &str = "
SELECT part FROM {s}.lease WHERE part = ANY($1::smallint[]) ORDER BY part FOR SHARE";

pub(crate) const ARM: &str = "
INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, calendar, superseded, moved,
    epoch)
SELECT part, due, id, kind, key, payload, attempts, calendar, false, moved, epoch
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::bytea[],
        $7::bigint[], $8::text[], $9::boolean[], $10::bigint[])
    u (part, due, id, kind, key, payload, attempts, calendar, moved, epoch)";

pub(crate) const REPLACE: &str = "
WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
DELETE FROM {s}.timer t USING unnest($1::smallint[], $2::text[]) u (part, key), l
    WHERE t.part = u.part AND t.key = u.key AND l.part = u.part AND t.due > l.claimed_upto
    RETURNING t.key, t.id";

pub(crate) const SUPERSEDE: &str = "
UPDATE {s}.timer t SET key = NULL, superseded = true
    FROM unnest($1::smallint[], $2::text[]) u (part, key)
    WHERE t.part = u.part AND t.key = u.key";

pub(crate) const CANCEL: &str = "
WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
DELETE FROM {s}.timer t USING unnest($1::smallint[], $2::bigint[], $3::uuid[]) u (part, due, id), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND t.due > l.claimed_upto RETURNING t.id";

/// The same for rows that are not due at their first deadline.
pub(crate) const CANCEL_MOVED: &str = "
WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
DELETE FROM {s}.timer t USING unnest($1::smallint[], $2::uuid[]) u (part, id), l
    WHERE t.part = u.part AND t.id = u.id AND t.moved AND l.part = u.part
    AND t.due > l.claimed_upto RETURNING t.id";

pub(crate) const CANCEL_KIND: &str = "
WITH l AS (SELECT part, claimed_upto FROM {s}.lease ORDER BY part FOR SHARE)
DELETE FROM {s}.timer t USING l
    WHERE t.part = l.part AND t.kind = $1 AND t.due > l.claimed_upto RETURNING t.id";

/// A row that its owner moves is not owed an attempt: it was not handed out.
pub(crate) const MOVE: &str = "
WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
UPDATE {s}.timer t SET due = u.next, moved = u.moved, epoch = GREATEST(t.epoch, u.epoch)
    FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::boolean[],
        $6::bigint[]) u (part, due, id, next, moved, epoch), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND t.due > l.claimed_upto AND NOT t.superseded
    RETURNING t.due, t.id, t.kind, t.key, t.payload, t.attempts, t.calendar, t.superseded";

pub(crate) const MOVE_MOVED: &str = "
WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
UPDATE {s}.timer t SET due = u.next, moved = u.moved, epoch = GREATEST(t.epoch, u.epoch)
    FROM unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::boolean[], $5::bigint[])
        u (part, id, next, moved, epoch), l
    WHERE t.part = u.part AND t.id = u.id AND t.moved AND l.part = u.part
    AND t.due > l.claimed_upto AND NOT t.superseded
    RETURNING t.due, t.id, t.kind, t.key, t.payload, t.attempts, t.calendar, t.superseded";

pub(crate) const MOVE_KEY: &str = "
WITH l AS (SELECT part, claimed_upto FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
UPDATE {s}.timer t SET due = u.next, moved = true, epoch = GREATEST(t.epoch, u.epoch)
    FROM unnest($1::smallint[], $2::text[], $3::bigint[], $4::bigint[]) u (part, key, next, epoch), l
    WHERE t.part = u.part AND t.key = u.key AND l.part = u.part AND t.due > l.claimed_upto
    RETURNING t.due, t.id, t.kind, t.key, t.payload, t.attempts, t.calendar, t.superseded";

pub(crate) const ACK: &str = "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
DELETE FROM {s}.timer t
    USING unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::bigint[]) u (part, due, id, epoch), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch RETURNING t.id";

/// Of rows that are to be tried again, those whose key another row has taken.
pub(crate) const ACK_SUPERSEDED: &str = "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
DELETE FROM {s}.timer t
    USING unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::bigint[]) u (part, due, id, epoch), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch AND t.superseded RETURNING t.id";

pub(crate) const RETRY: &str = "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
UPDATE {s}.timer t SET due = u.next, moved = u.moved, attempts = u.attempts, epoch = u.epoch
    FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::boolean[],
        $7::bigint[]) u (part, due, id, epoch, next, moved, attempts), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch AND NOT t.superseded
    RETURNING t.due, t.id, t.kind, t.key, t.payload, t.attempts, t.calendar, t.superseded";

pub(crate) const BURY: &str = "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY($1::smallint[])
    ORDER BY part FOR SHARE)
INSERT INTO {s}.dead (id, due, kind, key, payload, attempts, calendar, cause, why, since)
SELECT COALESCE(u.copy, t.id), t.due, t.kind, CASE WHEN u.copy IS NULL THEN t.key END, t.payload,
    u.attempts, CASE WHEN u.copy IS NULL THEN t.calendar END, u.cause, u.why, u.since
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::uuid[], $6::bigint[],
        $7::smallint[], $8::text[], $9::bigint[])
    u (part, due, id, epoch, copy, attempts, cause, why, since)
    JOIN l ON l.part = u.part AND l.epoch = u.epoch
    JOIN {s}.timer t ON t.part = u.part AND t.due = u.due AND t.id = u.id AND NOT t.superseded
RETURNING id";

pub(crate) const REVIVE: &str = "
INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, calendar, superseded, moved,
    epoch)
SELECT u.part, u.due, d.id, d.kind, NULL, d.payload, 0, d.calendar, false, u.moved, u.epoch
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::boolean[], $5::bigint[])
        u (part, due, id, moved, epoch)
    JOIN {s}.dead d ON d.id = u.id
RETURNING due, id, kind, key, payload, attempts, calendar, superseded";

pub(crate) const DISCARD: &str = "DELETE FROM {s}.dead WHERE id = ANY($1::uuid[]) RETURNING id";

pub(crate) const GET: &str = "
SELECT due, id, kind, key, payload, attempts, calendar, superseded FROM {s}.timer
    WHERE part = $1 AND id = $2 AND (due = $3 OR moved)";

pub(crate) const GET_KEY: &str = "
SELECT due, id, kind, key, payload, attempts, calendar, superseded FROM {s}.timer
    WHERE part = $1 AND key = $2";

pub(crate) const DEAD: &str = "
SELECT due, id, kind, key, payload, attempts, calendar, false, cause, why, since FROM {s}.dead
    WHERE id > $1 ORDER BY id LIMIT $2";

pub(crate) const FLEET: &str = "
SELECT l.part, l.epoch, n.name, n.node, (SELECT r.due FROM {s}.timer r WHERE r.part = l.part
        AND r.due <= (extract(epoch FROM now()) * 1000)::bigint ORDER BY r.due LIMIT 1),
    extract(epoch FROM now())::float8
FROM {s}.lease l LEFT JOIN {s}.node n ON n.node = l.owner AND l.until > now() ORDER BY l.part";

pub(crate) const NODES: &str = "
SELECT node, name FROM {s}.node WHERE until > now() ORDER BY name, node";

pub(crate) const SIZE: &str = "
SELECT count(*), (SELECT count(*) FROM {s}.dead) FROM {s}.timer";

/// What a session prepares.
pub(crate) const PREPARED: &[&str] = &[
    NODE,
    RENEW,
    RENEW_UNLOCKED,
    FREE,
    TAKE,
    RAISE,
    GIVE_BACK,
    LEAVE,
    FORGET_NODES,
    CLAIM,
    CLAIM_UNLOCKED,
    LOAD,
    NEXT_DUE,
    SETTLED_SEQ,
    LOCK,
    ARM,
    REPLACE,
    SUPERSEDE,
    CANCEL,
    CANCEL_MOVED,
    CANCEL_KIND,
    MOVE,
    MOVE_MOVED,
    MOVE_KEY,
    ACK,
    ACK_SUPERSEDED,
    RETRY,
    BURY,
    REVIVE,
    DISCARD,
    GET,
    GET_KEY,
    DEAD,
    FLEET,
    NODES,
    SIZE,
];
