//! Stores: in memory, in a file, in PostgreSQL.

pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redb")]
pub(crate) mod redb;
