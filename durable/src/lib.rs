//! Timers that survive their process: kept in a store, fired by the wheel.
//!
//! [`Durable`] keeps timers in a store: [`Redb`], one file for one process; `Postgres` (feature
//! `postgres`), a database that many machines share; or [`Memory`], for tests. A timer is a kind,
//! which names its handler, and a payload of bytes. Those that are due soon are timers of a
//! [`TimerService`](wheelwork::TimerService), so they fire within some
//! milliseconds, without polling.
//!
//! What is promised, and how each promise is tested, is in `docs/promises.md`. The [`guide`]
//! explains each task with examples.
//!
//! # Example
//! ```no_run
//! use std::time::Duration;
//! use wheelwork_durable::{Durable, Redb};
//!
//! let timers = Durable::builder(Redb::open("timers.redb")?)
//!     .on("order.unpaid", |order| {
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
//! | INFO | the store works again | `outage_ms` |
//! | WARN | a handler has taken longer than its time limit | `kind`, `id`, `attempt` |
//! | WARN | a handler has failed | `kind`, `id`, `attempt`, `why` |
//! | WARN | timers wait, as no handler has their kind | `kind`, `rows` |
//!
//! A handler runs in a span of the level INFO: `timer`, with `kind`, `id`, `attempt` and
//! `traceparent`, or for a batch `timers`, with `kind` and `count`. There is no event for a timer
//! that becomes a dead letter during a stop.
//!

#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../docs/guide/features.md")]

mod api;
mod handler;
#[cfg(any(loom, feature = "__internals"))]
#[doc(hidden)]
pub mod internals;
mod queue;
#[cfg(any(feature = "postgres", feature = "redb"))]
mod random;
mod runner;
mod store;
mod stores;
mod sync;
mod time;
mod writer;

pub use api::builder::DurableBuilder;
pub use api::bulk::{Bulk, BulkProgress, DeadQuery, Shift};
#[cfg(feature = "calendar")]
pub use api::calendars::{CalendarPage, CalendarRow};
pub use api::client::{Durable, DurableClient};
pub use api::done::{DonePage, DoneQuery};
pub use api::keyed::Keyed;
pub use api::list::{ListPage, ListQuery};
#[cfg(feature = "metrics")]
pub use api::reporter::DurableReporter;
pub use api::rules::Ruled;
pub use api::timer_builder::TimerBuilder;
pub use api::window_limits::WindowLimits;
pub use handler::answer::{GiveUp, Later};
#[cfg(feature = "serde")]
pub use handler::codec::Codec;
pub use handler::delivery::{Delivery, HandlerResult};
pub use handler::error::{DurableError, OpenError};
pub use handler::kinds::SpawnedFuture;
pub use handler::retry::RetryPolicy;
#[cfg(feature = "serde")]
pub use handler::typed_kind::{Kind, KindOf};
pub use queue::outage::{Health, Outage};
pub use queue::stats::DurableStats;
pub use queue::ticket::Ticket;
pub use store::contract::{StoreCause, StoreError};
pub use store::cursor::{DoneCursor, ListCursor, ParseCursorError};
pub use store::done::{DoneEnding, DoneTimer};
#[cfg(feature = "__faults")]
#[doc(hidden)]
pub use store::fault::{DURABLE_FAULTS, DurableFault, set_durable_fault};
pub use store::fleet::{Fleet, FleetNode, FleetPartition};
pub use store::list::TimerState;
pub use store::row::{
    Cause, DeadLetter, DurableId, Held, HeldWhy, ParseIdError, Partition, Row, StoreTime,
};
pub use store::rule::{Rate, Rule, RuleFor};
pub use store::snapshot::BackupReport;
pub use store::unhandled::UnhandledKind;
pub use store::when::{PayloadBytes, When};
pub use stores::memory::Memory;
#[cfg(feature = "diesel")]
pub use stores::postgres::DieselConnection;
#[cfg(feature = "postgres")]
pub use stores::postgres::{
    AsyncOutboxClient, AsyncOutboxKeyed, AsyncOutboxWithin, BlockingTransaction, OutboxClient,
    OutboxKeyed, OutboxWithin, Postgres, PostgresBuilder, PostgresOutbox, PostgresTransaction,
};
#[cfg(feature = "redb")]
pub use stores::redb::{CheckReport, Redb, RedbBuilder, SalvageReport};

/// What a store is, as the writer sees it. It may change in any release.
///
/// It is hidden, and not private, because the tests' stores that fail, hang and lie are written
/// outside of this crate, and a harness calls a store directly.
#[doc(hidden)]
pub mod contract {
    pub use crate::store::contract::{
        DoneStore, Gate, Lease, LeaseNews, NodeKinds, SharedStore, Snapshot, Store, StoreClock,
        StoreSize,
    };
    pub use crate::store::done::{DoneForgotten, DoneListed, DonePlace, DoneRange};
    pub use crate::store::grant::{Grant, NodeCalls, Want, WantedCalls, share_calls, take_tokens};
    pub use crate::store::list::{Listed, RowFilter};
    pub use crate::store::row::{Held, HeldWhy, Position};
    pub use crate::store::rule::{RuleChange, Rules};
    pub use crate::store::write::{
        Amendment, KindSlice, Outcome, Replacement, Settled, SliceLimit, Target, TrialBegun, Write,
    };
}

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
