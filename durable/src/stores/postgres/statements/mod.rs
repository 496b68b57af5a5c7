//! Statements: what nodes send to the database, and what they read from it.

mod arm;
mod cancel;
pub(super) mod commit;
pub(super) mod dead;
mod locked;
mod phases;
mod reschedule;
pub(crate) mod rows;
pub(crate) mod settle;
pub(crate) mod sql;
pub(crate) mod statement;
#[cfg(test)]
mod tests;

use statement::{Sql, Statement};
use std::collections::HashMap;

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
pub(super) fn texts(schema: &str) -> HashMap<&'static str, String> {
    let named = ALL.iter().map(|sql| (sql.text, sql.in_schema(schema)));
    let text = |&sql: &&'static str| (sql, sql.replace("{s}", schema));
    named.chain(sql::PREPARED.iter().map(text)).collect()
}
