//! Migrations: the tables and the functions of a schema, and how they are made.

mod functions;
pub(super) mod schema;
mod tables;
