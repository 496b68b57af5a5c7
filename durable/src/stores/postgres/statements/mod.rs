//! Statements: what nodes send to the database, and what they read from it.

pub(super) mod commit;
mod locked;
mod phases;
pub(crate) mod rows;
mod settle;
pub(crate) mod sql;
