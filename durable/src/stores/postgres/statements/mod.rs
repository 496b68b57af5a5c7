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
pub(super) mod done;
pub(super) mod floor;
pub(super) mod grant;
pub(super) mod lease;
pub(super) mod load;
mod locked;
mod phases;
mod reschedule;
pub(super) mod rows;
pub(super) mod rules;
mod settle;
pub(super) mod statement;
#[cfg(test)]
mod tests;

use super::session::Texts;
use statement::Sql;

/// What a session prepares: the statements of each file.
const ALL: [&[&Sql]; 13] = [
    arm::ALL,
    cancel::ALL,
    commit::ALL,
    dead::ALL,
    done::ALL,
    floor::ALL,
    grant::ALL,
    lease::ALL,
    load::ALL,
    locked::ALL,
    reschedule::ALL,
    rules::ALL,
    settle::ALL,
];

/// The same as a database takes it, by the text with names.
pub(super) fn texts(schema: &str) -> Texts {
    let text = |sql: &&Sql| (sql.text, sql.in_schema(schema));
    ALL.into_iter().flatten().map(text).collect()
}
