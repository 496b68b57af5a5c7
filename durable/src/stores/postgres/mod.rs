#![doc = include_str!("README.md")]

mod clock;
mod connect;
pub(crate) mod leases;
mod listen;
mod migrations;
mod outbox;
pub(crate) mod session;
mod shared;
pub(crate) mod statements;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod transaction;

pub use connect::PostgresBuilder;
pub use outbox::{OutboxKeyed, OutboxWithin, PostgresOutbox};
pub use store::Postgres;
