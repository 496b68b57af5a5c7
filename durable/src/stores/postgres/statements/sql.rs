//! The statements. `{s}` stands for the schema.
//!
//! They keep to what other databases take that speak PostgreSQL's protocol: `tests/durable_sql.rs`
//! reads them all, and refuses what is not on its list. Times are the database's `now()`; deadlines
//! are milliseconds since the Unix epoch.
//!
//! Whoever settles rows locks the rows of their partitions' leases (`FOR SHARE`) in the same
//! statement, in the order of partitions: so no lease changes hands before the transaction ends.
//!
//! Whoever ends, moves or replaces rows that were not handed out locks the gate of their partition,
//! then the rows, and reads the watermark in a later statement: the README says why.

/// A node comes: its rows, before it owns anything.
pub(crate) const JOIN: &str = "
INSERT INTO {s}.node (node, name, until, slow, dead)
    VALUES ($1, $2, now() + $3::float8 * interval '1 second', false, false)
ON CONFLICT (node) DO NOTHING";

pub(crate) const JOIN_WATERMARK: &str = "
INSERT INTO {s}.watermark (node, gen, upto) VALUES ($1, 0, -1) ON CONFLICT (node, gen) DO NOTHING";

/// LeaseRenew: one row has the end of all leases of a node. A node that others have found dead is
/// so for ever, and comes back under another name.
pub(crate) const RENEW: &str = "
UPDATE {s}.node SET until = now() + $2::float8 * interval '1 second', slow = $3
    WHERE node = $1 AND NOT dead RETURNING extract(epoch FROM now())::float8";

/// How many other nodes are alive, and how many of them are not slow; when the first of them ends
/// that has leases.
pub(crate) const OTHERS: &str = "
SELECT count(*), count(*) FILTER (WHERE NOT n.slow),
    (SELECT extract(epoch FROM min(o.until) - now())::float8 FROM {s}.node o
        WHERE o.node <> $1 AND EXISTS (SELECT 1 FROM {s}.lease l WHERE l.owner = o.node)),
    (SELECT count(*) FROM {s}.lease l WHERE l.owner IS NULL
        OR NOT EXISTS (SELECT 1 FROM {s}.node o WHERE o.node = l.owner AND NOT o.dead))
FROM {s}.node n WHERE n.node <> $1 AND n.until > now() AND NOT n.dead";

pub(crate) const OWN: &str = "
SELECT part, epoch, raise_upto FROM {s}.lease WHERE owner = $1 ORDER BY part";

/// LeaseExpire: nodes whose leases have run out are dead. A renewal that is under way comes first,
/// or finds that it is too late.
pub(crate) const EXPIRE: &str = "
UPDATE {s}.node SET dead = true WHERE until <= now() AND NOT dead";

pub(crate) const FREE: &str = "
SELECT l.part FROM {s}.lease l WHERE l.owner IS NULL
    OR NOT EXISTS (SELECT 1 FROM {s}.node o WHERE o.node = l.owner AND NOT o.dead)";

/// LeaseTake. Rows due by `raise_upto` may have been handed out by an owner before, and were not
/// settled. The watermark of that owner is written down.
pub(crate) const TAKE: &str = "
WITH o AS (SELECT l.part, l.owner FROM {s}.lease l WHERE l.part = ANY($2::smallint[])
    AND (l.owner IS NULL
        OR NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.node = l.owner AND NOT n.dead))
    ORDER BY l.part FOR UPDATE SKIP LOCKED),
w AS (SELECT o.part, COALESCE(max(w.upto), -1) AS upto
    FROM o LEFT JOIN {s}.watermark w ON w.node = o.owner GROUP BY o.part)
UPDATE {s}.lease l SET owner = $1, epoch = l.epoch + 1, clean = false,
        claimed_upto = GREATEST(l.claimed_upto, w.upto), raise_upto = CASE
            WHEN l.clean THEN l.raise_upto ELSE GREATEST(l.raise_upto, l.claimed_upto, w.upto) END
    FROM o JOIN w ON w.part = o.part
    WHERE l.part = o.part AND l.owner IS NOT DISTINCT FROM o.owner
    RETURNING l.part, l.epoch, l.raise_upto";

/// LeaseRelease. What was handed out is settled. Rows that were suspect stay so.
pub(crate) const GIVE_BACK: &str = "
WITH o AS (SELECT part FROM {s}.lease WHERE part = ANY($2::smallint[])
    ORDER BY part FOR UPDATE SKIP LOCKED),
w AS (SELECT max(upto) AS upto FROM {s}.watermark WHERE node = $1)
UPDATE {s}.lease l SET owner = NULL, claimed_upto = GREATEST(l.claimed_upto, w.upto),
    clean = true, raise_upto = CASE WHEN EXISTS (SELECT 1 FROM {s}.timer t WHERE t.part = l.part
        AND t.due <= l.raise_upto AND t.epoch < l.epoch) THEN l.raise_upto ELSE -1 END
    FROM w, o JOIN unnest($2::smallint[], $3::bigint[]) u (part, epoch) ON u.part = o.part
    WHERE l.part = o.part AND l.epoch = u.epoch AND l.owner = $1";

/// Its leases are others' from now on, if some are left.
pub(crate) const LEAVE: &str = "
UPDATE {s}.node SET dead = true, until = LEAST(until, now()) WHERE node = $1";

/// Nodes that nobody needs to know any more: no lease names them.
pub(crate) const FORGET_NODES: &str = "
DELETE FROM {s}.node n WHERE n.dead AND n.until < now() - interval '1 hour'
    AND NOT EXISTS (SELECT 1 FROM {s}.lease l WHERE l.owner = n.node)";

pub(crate) const FORGET_WATERMARKS: &str = "
DELETE FROM {s}.watermark w WHERE NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.node = w.node)
    AND NOT EXISTS (SELECT 1 FROM {s}.lease l WHERE l.owner = w.node)";

pub(crate) const FORGET_SEQS: &str = "
DELETE FROM {s}.seq q WHERE NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.node = q.node)";

/// ClaimRaise: one row for all partitions of a node.
pub(crate) const CLAIM: &str = "
UPDATE {s}.watermark SET upto = GREATEST(upto, $3) WHERE node = $1 AND gen = $2 RETURNING upto";

/// The next row for it. Behind a snapshot that somebody holds a row has as many versions as it was
/// written, and each reading goes through them. So it is written a thousand times, and no more. The
/// old row is written in the same transaction: whoever reads by an old snapshot has to notice.
pub(crate) const NEXT_WATERMARK: &str = "
INSERT INTO {s}.watermark (node, gen, upto) VALUES ($1, $2, $3)
ON CONFLICT (node, gen) DO UPDATE SET upto = GREATEST(watermark.upto, excluded.upto)";

pub(crate) const OLD_WATERMARK: &str = "DELETE FROM {s}.watermark WHERE node = $1 AND gen = $2";

/// GateProbe: the partitions in which nobody ends or moves a row just now.
pub(crate) const PROBE: &str = "
SELECT part FROM {s}.gate WHERE part = ANY($1::smallint[]) ORDER BY part FOR UPDATE SKIP LOCKED";

/// RowRead: the first rows of each partition after a position, up to a number of bytes in all.
pub(crate) const LOAD: &str = "
SELECT c.due, c.id, c.kind, c.key, c.payload, c.attempts, c.calendar, c.superseded, c.crashes,
    c.epoch FROM (
    SELECT t.*, sum(octet_length(t.payload)) OVER (ORDER BY t.due, t.id)
        - octet_length(t.payload) AS before
    FROM unnest($1::smallint[]) p (part) CROSS JOIN LATERAL (
        SELECT * FROM {s}.timer r WHERE r.part = p.part AND (r.due, r.id) > ($2, $3)
        AND r.due <= $4 ORDER BY r.due, r.id LIMIT $5) t) c
WHERE c.before < $6 ORDER BY c.due, c.id";

/// The same without those that a transaction is ending or moving.
pub(crate) const LOAD_UNLOCKED: &str = "
SELECT c.due, c.id, c.kind, c.key, c.payload, c.attempts, c.calendar, c.superseded, c.crashes,
    c.epoch FROM (
    SELECT t.*, sum(octet_length(t.payload)) OVER (ORDER BY t.due, t.id)
        - octet_length(t.payload) AS before
    FROM unnest($1::smallint[]) p (part) CROSS JOIN LATERAL (
        SELECT * FROM {s}.timer r WHERE r.part = p.part AND (r.due, r.id) > ($2, $3)
        AND r.due <= $4 ORDER BY r.due, r.id LIMIT $5 FOR KEY SHARE SKIP LOCKED) t) c
WHERE c.before < $6 ORDER BY c.due, c.id";

pub(crate) const NEXT_DUE: &str = "
SELECT min(t.due), extract(epoch FROM now())::float8 FROM unnest($1::smallint[]) p (part) CROSS JOIN LATERAL (
    SELECT r.due FROM {s}.timer r WHERE r.part = p.part AND r.due >= $2
    ORDER BY r.due LIMIT 1) t";

pub(crate) const GET: &str = "
SELECT due, id, kind, key, payload, attempts, calendar, superseded, crashes FROM {s}.timer
    WHERE part = $1 AND id = $2 AND (due = $3 OR moved)";

pub(crate) const GET_KEY: &str = "
SELECT due, id, kind, key, payload, attempts, calendar, superseded, crashes FROM {s}.timer
    WHERE part = $1 AND key = $2";

pub(crate) const FLEET: &str = "
SELECT l.part, l.epoch, n.name, n.node, (SELECT r.due FROM {s}.timer r WHERE r.part = l.part
        AND r.due <= (extract(epoch FROM now()) * 1000)::bigint ORDER BY r.due LIMIT 1),
    extract(epoch FROM now())::float8
FROM {s}.lease l LEFT JOIN {s}.node n ON n.node = l.owner AND n.until > now() AND NOT n.dead
ORDER BY l.part";

pub(crate) const NODES: &str = "
SELECT node, name FROM {s}.node WHERE until > now() AND NOT dead ORDER BY name, node";

/// Counts up to a number of rows. It also goes through rows that are deleted and still lie there.
pub(crate) const COUNT: &str = "
SELECT (SELECT count(*) FROM (SELECT 1 FROM {s}.timer LIMIT $1) t),
    (SELECT count(*) FROM (SELECT 1 FROM {s}.dead LIMIT $1) d)";

/// How many rows the last `ANALYZE` or `VACUUM` has found. -1: there was none.
pub(crate) const ESTIMATE: &str = "
SELECT COALESCE((SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass('{s}.timer')), -1),
    COALESCE((SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass('{s}.dead')), -1)";

/// What a session prepares.
pub(crate) const PREPARED: &[&str] = &[
    JOIN,
    JOIN_WATERMARK,
    RENEW,
    OTHERS,
    OWN,
    EXPIRE,
    FREE,
    TAKE,
    GIVE_BACK,
    LEAVE,
    FORGET_NODES,
    FORGET_WATERMARKS,
    FORGET_SEQS,
    CLAIM,
    NEXT_WATERMARK,
    OLD_WATERMARK,
    PROBE,
    LOAD,
    LOAD_UNLOCKED,
    NEXT_DUE,
    GET,
    GET_KEY,
    FLEET,
    NODES,
    COUNT,
    ESTIMATE,
];
