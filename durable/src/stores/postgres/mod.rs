#![doc = include_str!("README.md")]

pub(crate) mod acknowledge;
mod addresses;
pub(crate) mod blocking;
mod clock;
mod connect;
#[cfg(test)]
mod connection_tests;
mod done;
mod floor;
#[cfg(test)]
mod grant_tests;
mod grants;
#[cfg(test)]
mod handler_tests;
mod leases;
mod listen;
mod look;
mod migrations;
mod outbox;
mod reopen;
/// The server of the tests that need one.
#[cfg(test)]
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../../tests/common/server.rs"]
mod server;
pub(crate) mod session;
mod shared;
#[cfg(test)]
mod standby_tests;
mod statements;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod transaction;

pub use blocking::{BlockingTransaction, PostgresTransaction};
pub use connect::PostgresBuilder;
#[cfg(feature = "diesel")]
pub use outbox::DieselConnection;
pub use outbox::{
    AsyncOutboxClient, AsyncOutboxKeyed, AsyncOutboxWithin, OutboxClient, OutboxKeyed,
    OutboxWithin, PostgresOutbox,
};
pub use store::Postgres;
