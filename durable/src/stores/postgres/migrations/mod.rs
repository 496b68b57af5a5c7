//! Migrations: the tables and the functions of a schema, and how they are made.

pub(crate) mod functions;
pub(super) mod schema;
