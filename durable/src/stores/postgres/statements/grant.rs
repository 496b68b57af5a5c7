//! Grant: tokens and calls of a rule for a node.
//!
//! `rule.full_at_us` says when the bucket of a rule is full, in microseconds since the Unix epoch.
//! `permit` has the calls that each node may make. Who grants locks the row of the rule first. So
//! grants of a rule come one after the other, and each sees those before it.

use super::statement::{Sql, Statement, statement};
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[
    LockRule::SQL,
    SetFullAt::SQL,
    ReadCalls::SQL,
    PutCalls::SQL,
    ForgetCalls::SQL,
];

/// A rule whose row is locked.
pub(crate) struct LockedRule {
    pub(in crate::stores::postgres) per_second: Option<f64>,
    pub(in crate::stores::postgres) burst: Option<i64>,
    pub(in crate::stores::postgres) full_at_us: Option<i64>,
    pub(in crate::stores::postgres) calls: Option<i64>,
    /// When the transaction began, in microseconds.
    pub(in crate::stores::postgres) now: i64,
}

/// The calls of a node that is alive.
pub(crate) struct CallsOf {
    pub(in crate::stores::postgres) node: Uuid,
    pub(in crate::stores::postgres) calls: i64,
    pub(in crate::stores::postgres) wants: i64,
    pub(in crate::stores::postgres) since_us: i64,
}

statement! {
    /// GrantLock: nobody else grants anything of this rule before this transaction ends.
    LockRule<'a> { name: &'a str }
    -> LockedRule = |row| LockedRule {
        per_second: row.get(0),
        burst: row.get(1),
        full_at_us: row.get(2),
        calls: row.get(3),
        now: row.get(4),
    };
    "
SELECT per_second, burst, full_at_us, calls, (extract(epoch FROM now()) * 1000000)::bigint
FROM {s}.rule WHERE name = :name FOR UPDATE"
}

statement! {
    /// When the bucket is full from now on.
    SetFullAt<'a> { name: &'a str, full_at_us: i64 }
    -> () = |_| ();
    "UPDATE {s}.rule SET full_at_us = :full_at_us WHERE name = :name"
}

statement! {
    /// The calls that nodes have which are alive.
    ReadCalls<'a> { name: &'a str }
    -> CallsOf = |row| CallsOf {
        node: row.get(0),
        calls: row.get(1),
        wants: row.get(2),
        since_us: row.get(3),
    };
    "
SELECT p.node, p.calls, p.wants, p.since_us FROM {s}.permit p JOIN {s}.node n ON n.node = p.node
WHERE p.name = :name AND n.until > now() AND NOT n.dead"
}

statement! {
    /// The calls that a node has from now on.
    PutCalls<'a> { name: &'a str, node: Uuid, calls: i64, wanted: i64, since_us: i64 }
    -> () = |_| ();
    "
INSERT INTO {s}.permit (name, node, calls, wants, since_us)
    VALUES (:name, :node, :calls, :wanted, :since_us)
ON CONFLICT (name, node) DO UPDATE SET calls = excluded.calls, wants = excluded.wants,
    since_us = excluded.since_us"
}

statement! {
    /// The calls of nodes that are not known any more.
    ForgetCalls {}
    -> () = |_| ();
    "
DELETE FROM {s}.permit p WHERE NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.node = p.node)
    OR NOT EXISTS (SELECT 1 FROM {s}.rule r WHERE r.name = p.name)"
}
