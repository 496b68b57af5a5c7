//! Grant: tokens and calls of a rule for a node.
//!
//! `kind.slot` says when the bucket of a rule is full, in microseconds since the Unix epoch.
//! `permit` has the calls that each node may make. Who grants locks the row of the rule first. So
//! grants of a rule come one after the other, and each sees those before it.

use super::statement::{Sql, Statement, statement};
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[
    LockRule::SQL,
    SetSlot::SQL,
    ReadCalls::SQL,
    PutCalls::SQL,
    ForgetCalls::SQL,
];

/// A rule whose row is locked.
pub(crate) struct LockedRule {
    pub(in crate::stores::postgres) per_second: Option<f64>,
    pub(in crate::stores::postgres) burst: Option<i64>,
    pub(in crate::stores::postgres) slot: Option<i64>,
    pub(in crate::stores::postgres) calls: Option<i64>,
    /// When the transaction began, in microseconds.
    pub(in crate::stores::postgres) now: i64,
}

/// The calls of a node that is alive.
pub(crate) struct CallsOf {
    pub(in crate::stores::postgres) node: Uuid,
    pub(in crate::stores::postgres) calls: i64,
    pub(in crate::stores::postgres) wants: i64,
    pub(in crate::stores::postgres) since: i64,
}

statement! {
    /// GrantLock: nobody else grants anything of this rule before this transaction ends.
    LockRule<'a> { name: &'a str }
    -> LockedRule = |row| LockedRule {
        per_second: row.get(0),
        burst: row.get(1),
        slot: row.get(2),
        calls: row.get(3),
        now: row.get(4),
    };
    "
SELECT per_second, burst, slot, calls, (extract(epoch FROM now()) * 1000000)::bigint
FROM {s}.kind WHERE name = :name FOR UPDATE"
}

statement! {
    /// When the bucket is full from now on.
    SetSlot<'a> { name: &'a str, slot: i64 }
    -> () = |_| ();
    "UPDATE {s}.kind SET slot = :slot WHERE name = :name"
}

statement! {
    /// The calls that nodes have which are alive.
    ReadCalls<'a> { name: &'a str }
    -> CallsOf = |row| CallsOf {
        node: row.get(0),
        calls: row.get(1),
        wants: row.get(2),
        since: row.get(3),
    };
    "
SELECT p.node, p.calls, p.wants, p.since FROM {s}.permit p JOIN {s}.node n ON n.node = p.node
WHERE p.name = :name AND n.until > now() AND NOT n.dead"
}

statement! {
    /// The calls that a node has from now on.
    PutCalls<'a> { name: &'a str, node: Uuid, calls: i64, wanted: i64, since: i64 }
    -> () = |_| ();
    "
INSERT INTO {s}.permit (name, node, calls, wants, since)
    VALUES (:name, :node, :calls, :wanted, :since)
ON CONFLICT (name, node) DO UPDATE SET calls = excluded.calls, wants = excluded.wants,
    since = excluded.since"
}

statement! {
    /// The calls of nodes that are not known any more.
    ForgetCalls {}
    -> () = |_| ();
    "
DELETE FROM {s}.permit p WHERE NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.node = p.node)
    OR NOT EXISTS (SELECT 1 FROM {s}.kind k WHERE k.name = p.name)"
}
