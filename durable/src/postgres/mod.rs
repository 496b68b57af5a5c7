#![doc = include_str!("README.md")]

mod clock;
mod commit;
mod connect;
mod functions;
mod handler;
mod leases;
mod listen;
mod locked;
mod outbox;
mod phases;
mod rows;
mod schema;
mod session;
mod settle;
mod shared;
pub(crate) mod sql;
mod store;
#[cfg(test)]
mod tests;
mod transaction;

pub use connect::PostgresBuilder;
pub use outbox::PostgresOutbox;
pub use store::Postgres;
