//! A timer service for programs that arm and cancel timers by the million, from many threads.
//!
//! Request timeouts, idle connections, heartbeats, retries, delayed messages: most such timers are
//! cancelled long before they are due. wheelwork makes arming and cancelling cheap on any number of
//! threads. They take no lock, and they write to no memory that all threads write to. Once warm
//! they allocate nothing, except to box a closure larger than three words.
//!
//! ```
//! use std::time::Duration;
//! use wheelwork::TimerService;
//!
//! let service = TimerService::builder().start()?;
//! let timeout = service.schedule(Duration::from_secs(30), || eprintln!("no answer in 30 s"))?;
//! // The answer has come. Any thread may cancel, at any time.
//! assert!(service.cancel(timeout));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to begin
//!
//! The [`guide`] explains each task with examples. These are the main types:
//!
//! - [`TimerService`] runs closures, or hands typed payloads in batches to one handler
//!   ([`Builder::on_expire`]).
//! - [`ServiceHandle`] has all the calls except those that stop the service, which are on
//!   [`TimerService`]. Every thread may have a handle.
//! - [`Builder`] has the settings: [`tick`](Builder::tick), [`shards`](Builder::shards),
//!   [`dispatch`](Builder::dispatch), hooks and others. The defaults suit most programs.
//! - [`after`] arms a timer without a service of your own.
//! - [`ManualClock`] moves time by hand, for tests. `testing::block_on` moves it for async code.
//! - [`wheel::Wheel`] is a timing wheel by itself, for one thread: it has no threads and no clock.
//!
//! If timers must survive their process, use the crate `wheelwork-durable`.
//!

#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../docs/guide/features.md")]

#[cfg(not(target_has_atomic = "64"))]
compile_error!("wheelwork needs atomics of 64 bits, which this target does not have");

mod cell;
mod cold_drop;
mod counters;
mod dispatch;
mod doorbell;
mod engine;
mod entry;
mod entry_wheel;
mod error;
#[cfg(any(loom, feature = "__internals"))]
#[doc(hidden)]
pub mod internals;
mod lane;
mod mem;
mod repeat;
mod retry;
mod service;
mod shard;
mod slab_box;
mod sync;
mod time;
pub mod wheel;

// After `service`: rustdoc shows the calls of `ServiceHandle` in the order of the modules.
mod calls;

#[cfg(feature = "backon")]
mod backon;
#[cfg(feature = "calendar")]
pub mod calendar;
#[cfg(feature = "async")]
pub mod future;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(any(feature = "tokio", feature = "futures-io"))]
pub mod io;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "async")]
pub mod testing;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
pub mod trace;

pub use calls::{Coalesced, KeepAlive};
pub use dispatch::{
    Dispatch, Receiver, UserExecutor, is_inside_task, is_relief_thread, run_as_task,
};
pub use engine::figures::lateness::{LatenessHistogram, LatenessRecorder};
pub use engine::figures::stats::{Machinery, PoolCounts, ShardStats, Stats, TimerCounts};
pub use engine::id::TimerId;
pub use engine::life::batch::Batch;
pub use engine::notices::news::{Dropped, Late, Stall};
pub use engine::start::settings::Pinning;
pub use engine::task::{IntoPayload, Task};
pub use error::{InsideTaskError, ScheduleError, StartError};
pub use repeat::Missed;
pub use retry::RetryPolicy;
pub use service::{
    Builder, Periodic, PeriodicRun, ServiceHandle, StopFuture, StopPolicy, TimerGroup, TimerGuard,
    TimerService, Unfired, after, global,
};
pub use time::{ManualClock, TimeOfDayWatch, boot_time};

// The pages of `docs/guide/`, whose examples need all features. Before each page, `links.md` tells
// rustdoc where the links between the pages go.
#[cfg(any(all(doc, not(doctest)), all(doctest, feature = "full")))]
pub mod guide {
    #![doc = include_str!("../docs/guide/links.md")]
    #![doc = include_str!("../docs/guide/README.md")]

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/dispatch.md")]
    pub mod dispatch {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/features.md")]
    pub mod features {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/frameworks.md")]
    pub mod frameworks {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/futures.md")]
    pub mod futures {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/observing.md")]
    pub mod observing {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/periodic.md")]
    pub mod periodic {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/shutdown.md")]
    pub mod shutdown {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/testing.md")]
    pub mod testing {}

    #[doc = include_str!("../docs/guide/links.md")]
    #[doc = include_str!("../docs/guide/timers.md")]
    pub mod timers {}
}

/// The README's examples, as tests.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../README.md")]
struct Readme;
