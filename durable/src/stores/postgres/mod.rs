#![doc = include_str!("README.md")]

pub(crate) mod acknowledge;
mod addresses;
pub(crate) mod blocking;
mod clock;
mod connect;
mod done;
mod floor;
mod grants;
mod leases;
mod listen;
mod look;
mod migrations;
mod outbox;
mod reopen;
pub(crate) mod session;
mod shared;
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
