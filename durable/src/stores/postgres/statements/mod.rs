//! Statements: what nodes send to the database, and what they read from it.
//!
//! Each statement stands beside the struct of its parameters and the reader of its answer.
//! `statement.rs` says how. `{s}` stands for the schema.
//!
//! They keep to what other databases take that speak PostgreSQL's protocol: `tests/it/sql.rs`
//! reads them all, and refuses what is not on its list. Times are the database's `now()`; deadlines
//! are milliseconds since the Unix epoch.
//!
//! Whoever settles rows locks the rows of their partitions' leases (`FOR SHARE`) in the same
//! statement, in the order of partitions: so no lease changes hands before the transaction ends.
//!
//! Whoever ends, moves or replaces rows that were not handed out locks the gate of their partition,
//! then the rows, and reads the watermark in a later statement: the README says why.

mod arm;
mod cancel;
pub(super) mod commit;
pub(super) mod dead;
pub(super) mod lease;
pub(super) mod load;
mod locked;
mod phases;
mod reschedule;
pub(super) mod rows;
mod settle;
pub(super) mod statement;
#[cfg(test)]
mod tests;

use super::session::Texts;
use statement::{Sql, Statement};

/// What a session prepares.
const ALL: &[&Sql] = &[
    arm::Arm::SQL,
    cancel::SeeKind::SQL,
    commit::Seq::SQL,
    commit::OldSeq::SQL,
    commit::LockLeases::SQL,
    commit::EnterGates::SQL,
    dead::FindDead::SQL,
    dead::Revive::SQL,
    dead::Discard::SQL,
    dead::Dead::SQL,
    lease::Join::SQL,
    lease::JoinWatermark::SQL,
    lease::Renew::SQL,
    lease::Others::SQL,
    lease::Own::SQL,
    lease::Expire::SQL,
    lease::Free::SQL,
    lease::Take::SQL,
    lease::GiveBack::SQL,
    lease::Leave::SQL,
    lease::ForgetNodes::SQL,
    lease::ForgetWatermarks::SQL,
    lease::ForgetSeqs::SQL,
    lease::Claim::SQL,
    lease::NextWatermark::SQL,
    lease::OldWatermark::SQL,
    lease::Probe::SQL,
    lease::Partitions::SQL,
    lease::Nodes::SQL,
    load::Load::SQL,
    load::LoadUnlocked::SQL,
    load::NextDue::SQL,
    load::Get::SQL,
    load::GetKey::SQL,
    load::Count::SQL,
    load::Estimate::SQL,
    locked::Find::SQL,
    locked::FindMoved::SQL,
    locked::See::SQL,
    locked::FindKeys::SQL,
    locked::SeeKeys::SQL,
    locked::Upto::SQL,
    locked::End::SQL,
    locked::Supersede::SQL,
    reschedule::Move::SQL,
    settle::Ack::SQL,
    settle::AckSuperseded::SQL,
    settle::Begin::SQL,
    settle::Retry::SQL,
    settle::Bury::SQL,
];

/// The same as a database takes it, by the text with names.
pub(super) fn texts(schema: &str) -> Texts {
    let text = |sql: &&Sql| (sql.text, sql.in_schema(schema));
    ALL.iter().map(text).collect()
}
