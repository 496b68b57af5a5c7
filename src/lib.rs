//! A lock-free timer service: sharded timing wheels on pinned cores, for programs that arm and
//! cancel timers by the million from many threads.
//!
//! Request timeouts, idle connections, heartbeats, retries, delayed messages: most such timers are
//! cancelled long before they are due. wheelwork makes arming and cancelling cheap on any number of
//! threads: no lock, no word that all producers write, no allocation per timer.
//!
//! ```
//! use std::time::Duration;
//! use wheelwork::TimerService;
//!
//! let service = TimerService::builder().start()?;
//! let timeout = service.schedule(Duration::from_secs(30), || eprintln!("no answer in 30 s"))?;
//! // The answer has come: from any thread, at any time.
//! assert!(service.cancel(timeout));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which call
//!
//! | to | call |
//! |---|---|
//! | run something once | [`schedule`](ServiceHandle::schedule) |
//! | run something once, without a service of your own | [`after`] |
//! | call it off | [`cancel`](ServiceHandle::cancel), [`take`](ServiceHandle::take) |
//! | put it off (a heartbeat) | [`reschedule`](ServiceHandle::reschedule) |
//! | run something again and again | [`every`](ServiceHandle::every) |
//! | run something at a time of day | [`schedule_at_system_time`] |
//! | see what happens | [`stats`](ServiceHandle::stats) |
//! | end the service | [`stop`](TimerService::stop), [`stop_async`](TimerService::stop_async) |
//!
//! [`schedule_at_system_time`]: ServiceHandle::schedule_at_system_time
//!
//! # Which type
//!
//! - [`TimerService`] runs closures, or hands typed payloads in batches to one handler
//!   ([`Builder::on_expire`]).
//! - [`ServiceHandle`] has the calls. Any thread may have one.
//! - [`ManualClock`] moves time by hand, for tests. `testing::block_on` moves it for async code.
//! - [`wheel::Wheel`] is a timing wheel by itself, for one thread: it has no threads and no clock.
//!
//! # Which setting
//!
//! - **Tick.** 1 ms unless [`Builder::tick`] was called. Timers fire at the first tick at or after
//!   their deadline. With a shorter tick they fire closer to it, and the shard's thread wakes more
//!   often while timers fire. With nothing due no thread wakes, whatever the tick.
//! - **Payload.** Closures are easiest: up to three captured words need no allocation. For a
//!   million timers of one kind, payloads of a few bytes are cheaper: [`Builder::on_expire`] gets
//!   them in batches.
//! - **Dispatch.** The rayon pool that all services share, unless [`Builder::dispatch`] was called.
//!   [`Dispatch::Inline`] is for handlers of a few microseconds: it saves the hand-over.
//!   [`Dispatch::RayonThreads`] keeps a service's tasks apart from those of others.
//!   [`Dispatch::executor`] is for threads of your own. [`Builder::on_expire_channel`] is for a
//!   consumer that fetches.
//! - **Shards.** One for every four cores unless [`Builder::shards`] was called. One shard takes in
//!   some thirty million timers a second.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `async` | `future`: `sleep`, `timeout` and others, under any runtime; `testing`: without real time |
//! | `calendar` | module `calendar`: cron patterns in a time zone |
//! | `metrics` | module `metrics`: the counters for the crate `metrics` (Prometheus, say) |
//! | `serde` | [`TimerId`] can be serialized |
//! | `stream` | `async`, and time limits, a pace and chunks for streams |
//! | `tower` | module `tower`: time limits for the calls of a service, and for idle connections |
//! | `tracing` | module `trace`: spans from arm to fire; panics, late timers, stalls as events |
//! | `full` | all of these |
//!
//! Timers that survive their process are in a crate beside this one, `wheelwork-durable`: in a
//! file, or on a PostgreSQL that many machines share.
//!
//! What is promised is [below](#what-is-promised), what it costs in README.md, how it works in
//! ARCHITECTURE.md.
//!

#![cfg_attr(docsrs, feature(doc_cfg))]
// The guide's examples need all features.
#![cfg_attr(any(not(doctest), feature = "full"), doc = include_str!("../docs/guide.md"))]

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
mod service;
mod shard;
mod slab_box;
mod sync;
mod time;
pub mod wheel;

// After `service`: rustdoc shows the calls of `ServiceHandle` in the order of the modules.
#[cfg(feature = "calendar")]
pub mod calendar;
#[cfg(feature = "async")]
pub mod future;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "async")]
pub mod testing;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
pub mod trace;

pub use crossbeam_channel::Receiver;
pub use dispatch::{Dispatch, UserExecutor, is_inside_task, is_relief_thread, run_as_task};
pub use engine::figures::lateness::{LatenessHistogram, LatenessRecorder};
pub use engine::figures::stats::{Machinery, PoolCounts, ShardStats, Stats, TimerCounts};
pub use engine::id::TimerId;
pub use engine::life::batch::Batch;
pub use engine::start::settings::Pinning;
pub use engine::task::{IntoPayload, Task};
pub use error::{InsideTaskError, ScheduleError, StartError};
pub use repeat::Missed;
pub use service::{
    Builder, Periodic, PeriodicRun, ServiceHandle, StopFuture, StopPolicy, TimerGuard,
    TimerService, Unfired, after, global,
};
pub use time::{ManualClock, TimeOfDayWatch, boot_time};

/// The README's examples, as tests.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../README.md")]
struct Readme;
