//! Lease: nodes, their leases, and up to where rows were handed out.

use super::rows::partition;
use super::statement::{Sql, Statement, statement};
use crate::store::contract::Lease;
use crate::store::row::Partition;
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[
    Join::SQL,
    JoinWatermark::SQL,
    Renew::SQL,
    Others::SQL,
    Own::SQL,
    Expire::SQL,
    Free::SQL,
    Want::SQL,
    Kinds::SQL,
    Take::SQL,
    GiveBack::SQL,
    Leave::SQL,
    LookOnly::SQL,
    ForgetNodes::SQL,
    ForgetWatermarks::SQL,
    ForgetSeqs::SQL,
    IsKept::SQL,
    Claim::SQL,
    NextWatermark::SQL,
    OldWatermark::SQL,
    Probe::SQL,
    Partitions::SQL,
    Nodes::SQL,
];

statement! {
    /// A node comes: its rows, before it owns anything. It is refused (23514) if the schema was
    /// closed for programs of its number.
    Join<'a> {
        node: Uuid, name: &'a str, lasts: f64, number: i64, program: &'a str,
        kinds: Option<&'a [String]>, looks: bool,
    }
    -> () = |_| ();
    "
INSERT INTO {s}.node (node, name, until, slow, dead, version, program, kinds, looks)
    VALUES (:node, :name, now() + :lasts::float8 * interval '1 second', :looks, false, :number,
        :program, :kinds, :looks)
ON CONFLICT (node) DO NOTHING"
}

statement! {
    /// The first watermark of a node that comes.
    JoinWatermark { node: Uuid }
    -> () = |_| ();
    "
INSERT INTO {s}.watermark (node, gen, upto) VALUES (:node, 0, -1) ON CONFLICT (node,
        gen) DO NOTHING"
}

statement! {
    /// LeaseRenew: one row has the end of all leases of a node. A node that others have found dead
    /// is so for ever, and comes back under another name. Returns the database's time.
    Renew { node: Uuid, lasts: f64, slow: bool }
    -> f64 = |row| row.get(0);
    "
UPDATE {s}.node SET until = now() + :lasts::float8 * interval '1 second', slow = :slow
    WHERE node = :node AND NOT dead RETURNING extract(epoch FROM now())::float8"
}

statement! {
    /// StopLeave: others count this node no more, and give nothing away to its kinds.
    LookOnly { node: Uuid }
    -> () = |_| ();
    "
UPDATE {s}.node SET looks = true, kinds = '{}' WHERE node = :node"
}

statement! {
    /// How many other nodes are alive that do not only look, and how many of them are not slow;
    /// when the first of them ends that has leases.
    Others { node: Uuid }
    -> OtherNodes = others_of;
    "
SELECT count(*), count(*) FILTER (WHERE NOT n.slow),
    (SELECT extract(epoch FROM min(o.until) - now())::float8 FROM {s}.node o
        WHERE o.node <> :node AND EXISTS (SELECT 1 FROM {s}.lease l WHERE l.owner = o.node)),
    (SELECT count(*) FROM {s}.lease l WHERE l.owner IS NULL
        OR NOT EXISTS (SELECT 1 FROM {s}.node o WHERE o.node = l.owner AND NOT o.dead)),
    EXISTS (SELECT 1 FROM {s}.lease l WHERE l.owner IS NULL AND l.wants IS NOT NULL)
FROM {s}.node n WHERE n.node <> :node AND n.until > now() AND NOT n.dead AND NOT n.looks"
}

statement! {
    /// The leases of a node, each with up to when rows are suspect.
    Own { node: Uuid }
    -> (Lease, i64) = lease_of;
    "
SELECT part, epoch, raise_upto FROM {s}.lease WHERE owner = :node ORDER BY part"
}

statement! {
    /// LeaseExpire: nodes whose leases have run out are dead. A renewal that is under way comes
    /// first, or finds that it is too late.
    Expire {}
    -> () = |_| ();
    "
UPDATE {s}.node SET dead = true WHERE until <= now() AND NOT dead"
}

statement! {
    /// The partitions that have no owner, or one that is dead, and for nodes with which kinds they
    /// were given back.
    Free {}
    -> (i16, Option<Vec<String>>) = |row| (row.get(0), row.get(1));
    "
SELECT l.part, l.wants FROM {s}.lease l WHERE l.owner IS NULL
    OR NOT EXISTS (SELECT 1 FROM {s}.node o WHERE o.node = l.owner AND NOT o.dead)"
}

statement! {
    /// GiveAway: the partition is to go to a node that has one of these kinds.
    Want<'a> { node: Uuid, part: i16, epoch: i64, wants: &'a [String] }
    -> () = |_| ();
    "
UPDATE {s}.lease SET wants = :wants WHERE part = :part AND epoch = :epoch AND owner = :node"
}

statement! {
    /// The nodes that are alive and do not only look, and the kinds that they hand out.
    Kinds {}
    -> (Uuid, String, Option<Vec<String>>) = |row| (row.get(0), row.get(1), row.get(2));
    "
SELECT node, name, kinds FROM {s}.node WHERE until > now() AND NOT dead AND NOT looks
ORDER BY name, node"
}

statement! {
    /// LeaseTake. Rows due by `raise_upto` may have been handed out by an owner before, and were
    /// not settled. The watermark of that owner is written down.
    Take<'a> { node: Uuid, part: &'a [i16] }
    -> (Lease, i64) = lease_of;
    "
WITH o AS (SELECT l.part, l.owner FROM {s}.lease l WHERE l.part = ANY(:part::smallint[])
    AND (l.owner IS NULL
        OR NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.node = l.owner AND NOT n.dead))
    ORDER BY l.part FOR UPDATE SKIP LOCKED),
w AS (SELECT o.part, COALESCE(max(w.upto), -1) AS upto
    FROM o LEFT JOIN {s}.watermark w ON w.node = o.owner GROUP BY o.part)
UPDATE {s}.lease l SET owner = :node, epoch = l.epoch + 1, clean = false, wants = NULL,
        claimed_upto = GREATEST(l.claimed_upto, w.upto), raise_upto = CASE
            WHEN l.clean THEN l.raise_upto ELSE GREATEST(l.raise_upto, l.claimed_upto, w.upto) END
    FROM o JOIN w ON w.part = o.part
    WHERE l.part = o.part AND l.owner IS NOT DISTINCT FROM o.owner
    RETURNING l.part, l.epoch, l.raise_upto"
}

statement! {
    /// LeaseRelease. What was handed out is settled. Rows that were suspect stay so.
    GiveBack<'a> { node: Uuid, part: &'a [i16], epoch: &'a [i64] }
    -> () = |_| ();
    "
WITH o AS (SELECT part FROM {s}.lease WHERE part = ANY(:part::smallint[])
    ORDER BY part FOR UPDATE SKIP LOCKED),
w AS (SELECT max(upto) AS upto FROM {s}.watermark WHERE node = :node)
UPDATE {s}.lease l SET owner = NULL, claimed_upto = GREATEST(l.claimed_upto, w.upto),
    clean = true, raise_upto = CASE WHEN EXISTS (SELECT 1 FROM {s}.timer t WHERE t.part = l.part
        AND t.due <= l.raise_upto AND t.epoch < l.epoch) THEN l.raise_upto ELSE -1 END
    FROM w, o JOIN unnest(:part::smallint[], :epoch::bigint[]) u (part, epoch) ON u.part = o.part
    WHERE l.part = o.part AND l.epoch = u.epoch AND l.owner = :node"
}

statement! {
    /// Its leases are others' from now on, if some are left.
    Leave { node: Uuid }
    -> () = |_| ();
    "
UPDATE {s}.node SET dead = true, until = LEAST(until, now()) WHERE node = :node"
}

statement! {
    /// Nodes that nobody needs to know any more: no lease names them.
    ForgetNodes {}
    -> () = |_| ();
    "
DELETE FROM {s}.node n WHERE n.dead AND n.until < now() - interval '1 hour'
    AND NOT EXISTS (SELECT 1 FROM {s}.lease l WHERE l.owner = n.node)"
}

statement! {
    /// The watermarks of such nodes.
    ForgetWatermarks {}
    -> () = |_| ();
    "
DELETE FROM {s}.watermark w WHERE NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.node = w.node)
    AND NOT EXISTS (SELECT 1 FROM {s}.lease l WHERE l.owner = w.node)"
}

statement! {
    /// The numbers of their commits.
    ForgetSeqs {}
    -> () = |_| ();
    "
DELETE FROM {s}.seq q WHERE NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.node = q.node)"
}

statement! {
    /// Whether a node's row is there: then none of the numbers of its commits was forgotten. A row
    /// that was forgotten does not come back, because a node that was dead has another name.
    IsKept { node: Uuid }
    -> () = |_| ();
    "SELECT node FROM {s}.node WHERE node = :node"
}

statement! {
    /// ClaimRaise: one row for all partitions of a node. Returns the watermark as it is then, and
    /// the number of all rules: what is due by this watermark is handed out by these rules.
    Claim { node: Uuid, number: i64, upto: i64 }
    -> (i64, i64) = |row| (row.get(0), row.get(1));
    "
UPDATE {s}.watermark w SET upto = GREATEST(w.upto, :upto) FROM {s}.setting s
    WHERE w.node = :node AND w.gen = :number AND s.name = 'rules' RETURNING w.upto, s.value"
}

statement! {
    /// The next row for it. Behind a snapshot that somebody holds a row has as many versions as it
    /// was written, and each reading goes through them. So it is written a thousand times, and no
    /// more. The old row is written in the same transaction: whoever reads by an old snapshot has
    /// to notice.
    NextWatermark { node: Uuid, number: i64, upto: i64 }
    -> () = |_| ();
    "
INSERT INTO {s}.watermark (node, gen, upto) VALUES (:node, :number, :upto)
ON CONFLICT (node, gen) DO UPDATE SET upto = GREATEST(watermark.upto, excluded.upto)"
}

statement! {
    /// Deletes the row of a watermark that another row follows.
    OldWatermark { node: Uuid, number: i64 }
    -> () = |_| ();
    "DELETE FROM {s}.watermark WHERE node = :node AND gen = :number"
}

statement! {
    /// GateProbe: the gates behind which nobody ends or moves a row just now.
    Probe<'a> { part: &'a [i16] }
    -> i16 = |row| row.get(0);
    "
SELECT part FROM {s}.gate WHERE part = ANY(:part::smallint[]) ORDER BY part FOR UPDATE SKIP LOCKED"
}

statement! {
    /// All partitions, with their owners that are alive.
    Partitions {}
    -> OwnedPartition = partition_of;
    "
SELECT l.part, l.epoch, n.name, n.node, (SELECT r.due FROM {s}.timer r WHERE r.part = l.part
        AND r.due <= (extract(epoch FROM now()) * 1000)::bigint ORDER BY r.due LIMIT 1),
    extract(epoch FROM now())::float8
FROM {s}.lease l LEFT JOIN {s}.node n ON n.node = l.owner AND n.until > now() AND NOT n.dead
ORDER BY l.part"
}

statement! {
    /// The nodes that are alive, and their names.
    Nodes {}
    -> (Uuid, String) = |row| (row.get(0), row.get(1));
    "
SELECT node, name FROM {s}.node WHERE until > now() AND NOT dead ORDER BY name, node"
}

/// What a node sees of others.
#[derive(Default)]
pub(crate) struct OtherNodes {
    /// How many are alive.
    pub(in crate::stores::postgres) count: usize,
    /// How many of them are not slow.
    pub(in crate::stores::postgres) fast: usize,
    /// When the first lease of others ends, or ended, in seconds from now.
    pub(in crate::stores::postgres) first_end: Option<f64>,
    /// Whether partitions have no owner that is alive.
    pub(in crate::stores::postgres) has_free: bool,
    /// Whether one was given back for nodes with some kinds.
    pub(in crate::stores::postgres) has_wants: bool,
}

fn others_of(row: &tokio_postgres::Row) -> OtherNodes {
    let count = |at| usize::try_from(row.get::<_, i64>(at)).unwrap_or_default();
    OtherNodes {
        count: count(0),
        fast: count(1),
        first_end: row.get(2),
        has_free: count(3) > 0,
        has_wants: row.get(4),
    }
}

/// A lease, and up to when rows of its partition are suspect.
fn lease_of(row: &tokio_postgres::Row) -> (Lease, i64) {
    let lease = Lease {
        partition: partition(row.get(0)),
        epoch: u64::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
    };
    (lease, row.get(2))
}

/// A partition, as all nodes see it.
pub(crate) struct OwnedPartition {
    pub(in crate::stores::postgres) number: Partition,
    pub(in crate::stores::postgres) epoch: u64,
    /// Its owner, if that is alive.
    pub(in crate::stores::postgres) name: Option<String>,
    pub(in crate::stores::postgres) node: Option<Uuid>,
    /// The deadline of the first row that is due, in milliseconds.
    pub(in crate::stores::postgres) oldest: Option<i64>,
    /// The database's time, in seconds.
    pub(in crate::stores::postgres) now: f64,
}

fn partition_of(row: &tokio_postgres::Row) -> OwnedPartition {
    OwnedPartition {
        number: partition(row.get(0)),
        epoch: u64::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
        name: row.get(2),
        node: row.get(3),
        oldest: row.get(4),
        now: row.get(5),
    }
}
