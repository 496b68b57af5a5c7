//! Timers that survive their process: kept in a store, fired by the wheel.
//!
//! [`Durable`] keeps timers in a [`Store`]: [`Redb`], one file for one process; `Postgres`
//! (feature `durable-postgres`), a database that many machines share; or [`Memory`], for tests. A
//! timer is a kind, which names its handler, and a payload of bytes. Those that are due soon are
//! timers of a service of this crate, so they fire at the millisecond, without polling.
//!
//! What is promised:
//!
//! - **Acknowledged is durable.** What `schedule` has returned survives `kill -9`, a loss of power
//!   and a full disk.
//! - **At least once, and never early** by the store's clock. A timer fires until its handler has
//!   said `Ok` and that is stored. So it may fire twice: if the process ends, or a node loses its
//!   lease, before that, and if the handler fails half-way.
//! - **`cancel` tells the truth.** `true`: no handler is given the timer any more. (Of one with a
//!   calendar: no further run begins than the one that is under way.)
//! - **Nothing is dropped in silence.** An unknown kind, a payload that cannot be read, a handler
//!   that fails each time, or kills its process: kept as a dead letter, counted, listed.
//!
//! The [guide](crate#timers-that-survive-a-restart) has a chapter on it; `src/durable/README.md`
//! has the protocol, and why it is right.
//!
//! # Example
//! ```no_run
//! use std::time::Duration;
//! use wheelwork::durable::{Durable, Redb};
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

mod aside;
mod builder;
mod caught;
#[cfg(feature = "serde")]
mod codec;
mod delivery;
mod error;
#[cfg(feature = "tracing")]
mod events;
mod fault;
mod fleet;
mod fleet_watch;
mod handle;
mod id_map;
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
#[cfg(feature = "durable-postgres")]
pub(crate) mod postgres;
mod queue;
mod recurrence;
#[cfg(feature = "calendar")]
mod recurring;
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
mod ticket;
mod trials;
#[cfg(feature = "serde")]
mod typed;
mod when;
mod window;
mod writer;

#[cfg(feature = "durable-postgres")]
pub use self::postgres::{Postgres, PostgresBuilder, PostgresOutbox};
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
#[cfg(loom)]
pub(crate) use rights::LeaseRights;
pub use row::{Cause, DeadLetter, DurableId, ParseIdError, Partition, Position, Row, StoreTime};
pub use stats::DurableStats;
pub use store::{
    Gate, KindSlice, Lease, LeaseNews, Outcome, Settled, SharedStore, SliceLimit, Store,
    StoreCause, StoreClock, StoreError, StoreSize, Target, TrialBegun, Write,
};
pub use ticket::Ticket;
#[cfg(loom)]
pub(crate) use ticket::{Teller, ticket};
pub use when::{PayloadBytes, When};
