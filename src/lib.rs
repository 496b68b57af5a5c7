//! A timer service for programs that arm and cancel timers by the million, from many threads.
//!
//! Request timeouts, idle connections, heartbeats, retries, delayed messages: most such timers are
//! cancelled long before they are due. wheelwork makes arming and cancelling cheap on many threads.
//! They take no lock (but at a thread's first call to each shard), and write to memory that all
//! threads share about once in 64 calls, or in each if the number of pending timers is limited.
//! Once warm they seldom allocate, except to box a closure larger than three words.
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
//! - [`TimerGroup`] has the timers of one owner, to pause, resume and cancel them by one call.
//! - [`RetryPolicy`] and [`spread()`] give delays: after failed attempts, and for timers that
//!   should not run all at once.
//! - [`ManualClock`] moves time by hand, for tests. `testing::block_on` moves it for async code.
//! - [`wheel::Wheel`] is a timing wheel by itself, for one thread: it has no threads and no clock.
//!
//! Futures, time limits for connections, calendars, metrics and traces are in modules of their own:
//! `future`, `io`, `tower`, `quinn`, `calendar`, `metrics` and `trace`. The table of
//! [Cargo features](#cargo-features) says which feature brings each.
//!
//! If timers must survive their process, use the crate `wheelwork-durable`.
//!

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../docs/guide/features.md")]

extern crate alloc;

#[cfg(all(feature = "std", not(target_has_atomic = "64")))]
compile_error!("wheelwork needs atomics of 64 bits, which this target does not have");

#[cfg(feature = "std")]
mod cell;
#[cfg(feature = "std")]
mod cold_drop;
#[cfg(feature = "std")]
mod counters;
#[cfg(feature = "std")]
mod dispatch;
#[cfg(feature = "std")]
mod doorbell;
#[cfg(feature = "std")]
mod engine;
#[cfg(feature = "std")]
mod entry;
#[cfg(feature = "std")]
mod entry_wheel;
#[cfg(feature = "std")]
mod error;
#[cfg(any(loom, feature = "__internals"))]
#[doc(hidden)]
pub mod internals;
#[cfg(feature = "std")]
mod lane;
#[cfg(feature = "std")]
mod mem;
mod prefetch;
#[cfg(feature = "std")]
mod repeat;
#[cfg(feature = "std")]
mod retry;
#[cfg(feature = "std")]
mod service;
#[cfg(feature = "std")]
mod shard;
#[cfg(feature = "std")]
mod slab_box;
#[cfg(feature = "std")]
mod spread;
#[cfg(feature = "std")]
mod sync;
#[cfg(feature = "std")]
mod time;
pub mod wheel;

// After `service`: rustdoc shows the calls of `ServiceHandle` in the order of the modules.
#[cfg(feature = "std")]
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

#[cfg(feature = "std")]
pub use calls::{Coalesced, KeepAlive};
#[cfg(feature = "std")]
pub use dispatch::{
    Dispatch, Receiver, UserExecutor, is_inside_task, is_relief_thread, run_as_task,
};
#[cfg(feature = "std")]
pub use engine::figures::lateness::{LatenessHistogram, LatenessRecorder};
#[cfg(feature = "std")]
pub use engine::figures::stats::{Machinery, PoolCounts, ShardStats, Stats, TimerCounts};
#[cfg(feature = "std")]
pub use engine::id::TimerId;
#[cfg(feature = "std")]
pub use engine::life::batch::Batch;
#[cfg(feature = "std")]
pub use engine::notices::news::{Dropped, Late, Stall};
#[cfg(feature = "std")]
pub use engine::start::settings::Pinning;
#[cfg(feature = "std")]
pub use engine::task::{IntoPayload, Task};
#[cfg(feature = "std")]
pub use error::{InsideTaskError, ScheduleError, StartError};
#[cfg(feature = "std")]
pub use repeat::Missed;
#[cfg(feature = "std")]
pub use retry::RetryPolicy;
#[cfg(feature = "std")]
pub use service::{
    Builder, Periodic, PeriodicRun, ServiceHandle, StopFuture, StopPolicy, TimerGroup, TimerGuard,
    TimerService, Unfired, after, global,
};
#[cfg(feature = "std")]
pub use spread::spread;
#[cfg(feature = "std")]
pub use time::{ManualClock, TimeOfDayWatch, boot_time};

// The pages of `docs/guide/`, whose examples need all features. Before each page, `links.md` tells
// rustdoc where the links between the pages go.
#[cfg(any(
    all(doc, not(doctest), feature = "std"),
    all(doctest, feature = "full")
))]
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
