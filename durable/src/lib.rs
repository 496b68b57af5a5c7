//! Timers that survive their process: kept in a store, fired by the wheel.
//!
//! [`Durable`] keeps timers in a [`Store`]: [`Redb`], one file for one process; `Postgres` (feature
//! `postgres`), a database that many machines share; or [`Memory`], for tests. A timer is a kind,
//! which names its handler, and a payload of bytes. Those that are due soon are timers of a
//! [`TimerService`](wheelwork::TimerService), so they fire at the millisecond, without polling.
//!
//! What is promised, and how each promise is tested, is in `docs/promises.md`. The [`guide`]
//! explains each task with examples.
//!
//! # Example
//! ```no_run
//! use std::time::Duration;
//! use wheelwork_durable::{Durable, Redb};
//!
//! let timers = Durable::open(Redb::open("timers.redb")?)
//!     .handle("order.unpaid", |order| {
//!         println!("order {} was not paid", order.payload_text());
//!         Ok(())
//!     })
//!     .start()?;
//! timers.schedule("order.unpaid", Duration::from_secs(1_800), "4711")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Events
//!
//! With the feature `tracing` these events have the target `wheelwork`. The window is a service
//! with the name `durable`, and tells of itself as the module `trace` of wheelwork says.
//!
//! | level | when | fields |
//! |---|---|---|
//! | ERROR | the store has failed | `error` |
//! | ERROR | a timer has become a dead letter | `kind`, `id`, `attempts`, `cause` |
//! | WARN | a handler has failed | `kind`, `id`, `attempt`, `why` |
//!

#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../docs/guide/features.md")]

mod aside;
mod builder;
mod caught;
#[cfg(feature = "serde")]
mod codec;
mod counter;
mod delivery;
#[cfg(feature = "redb")]
mod disk;
mod error;
#[cfg(feature = "tracing")]
mod events;
mod fault;
mod fleet;
mod fleet_watch;
mod handle;
mod id_map;
#[cfg(any(loom, feature = "__internals"))]
#[doc(hidden)]
pub mod internals;
mod keyed;
mod kinds;
mod large;
mod load;
mod manual;
mod measure;
mod memory;
mod nodes;
mod outcomes;
mod pace;
mod places;
mod plan;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod queue;
mod recurrence;
#[cfg(feature = "calendar")]
mod recurring;
#[cfg(feature = "redb")]
pub(crate) mod redb;
#[cfg(feature = "metrics")]
mod reporter;
mod request;
mod retry;
mod rights;
mod row;
mod runner;
mod serve;
mod settle;
mod shared;
mod slices;
mod stall;
mod stats;
mod store;
mod suspects;
mod sync;
mod ticket;
mod time;
mod trials;
#[cfg(feature = "serde")]
mod typed;
mod when;
mod window;
mod writer;

#[cfg(feature = "postgres")]
pub use self::postgres::{Postgres, PostgresBuilder, PostgresOutbox};
#[cfg(feature = "redb")]
pub use self::redb::{Redb, RedbBuilder};
pub use builder::DurableBuilder;
#[cfg(feature = "serde")]
pub use codec::Codec;
pub use delivery::{Delivery, HandlerResult};
pub use error::{DurableError, OpenError};
#[cfg(feature = "__faults")]
#[doc(hidden)]
pub use fault::{DURABLE_FAULTS, DurableFault, set_durable_fault};
pub use fleet::{Fleet, FleetNode, FleetPartition};
pub use handle::{Durable, DurableHandle};
pub use keyed::Keyed;
pub use kinds::SpawnedFuture;
pub use memory::Memory;
#[cfg(feature = "metrics")]
pub use reporter::DurableReporter;
pub use retry::RetryPolicy;
pub use row::{Cause, DeadLetter, DurableId, ParseIdError, Partition, Position, Row, StoreTime};
pub use stats::DurableStats;
pub use store::{
    Gate, KindSlice, Lease, LeaseNews, Outcome, Settled, SharedStore, SliceLimit, Store,
    StoreCause, StoreClock, StoreError, StoreSize, Target, TrialBegun, Write,
};
pub use ticket::Ticket;
pub use when::{PayloadBytes, When};

// The pages of `docs/guide/`, whose examples need all features. Their first file tells rustdoc
// where the pages' links to each other go.
#[cfg(any(all(doc, not(doctest)), all(doctest, feature = "full")))]
pub mod guide {
    #![doc = include_str!("../docs/guide/links.md")]
    #![doc = include_str!("../docs/guide/README.md")]

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/features.md")]
    pub mod features {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/file.md")]
    pub mod file {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/fleet.md")]
    pub mod fleet {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/operating.md")]
    pub mod operating {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/transactions.md")]
    pub mod transactions {}
}

/// The README's examples, as tests.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../README.md")]
struct Readme;
