//! A lock-free timer service: sharded timing wheels on pinned cores, for programs that arm and cancel timers by the million from
//! many threads.
//!
//! Request timeouts, idle connections, heartbeats, retries, delayed messages: most such timers are cancelled long before they are due.
//! wheelwork makes arming and cancelling cheap on any number of threads: no lock, no word that all producers write, no allocation per timer.
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
//! - [`TimerService`] runs closures, or hands typed payloads in batches to one handler ([`Builder::on_expire`]).
//! - [`TimerHandle`] has the calls: [`schedule`](TimerHandle::schedule), [`cancel`](TimerHandle::cancel), [`take`](TimerHandle::take) and others.
//! - [`ManualClock`] moves time by hand, for tests.
//! - [`wheel::Wheel`] is the wheel alone, for one thread: no threads, no clock.
//!
//! # Choosing
//!
//! - **Tick.** 1 ms unless [`Builder::tick`] says otherwise: timers fire at the first tick at or after their deadline. A shorter tick fires closer to it, and wakes the shard's
//!   thread more often while timers fire; with nothing due no thread wakes, whatever the tick.
//! - **Payload.** Closures are easiest: up to three captured words need no allocation. A million timers that mean the same are cheaper as payloads of a few bytes, which
//!   [`Builder::on_expire`] takes in batches.
//! - **Dispatch.** A rayon pool unless [`Builder::dispatch`] says otherwise; [`Dispatch::Inline`] for handlers of a few microseconds, which saves the hand-over;
//!   [`Dispatch::executor`] for threads of yours; [`Builder::on_expire_channel`] for a consumer that fetches.
//! - **Shards.** One for every four cores unless [`Builder::shards`] says otherwise. One takes in some ten million timers a second.
//! - **Futures or callbacks.** With the feature `async`, [`future`](https://docs.rs/wheelwork/latest/wheelwork/future/) has `sleep`, `timeout`, `interval` and others, under any runtime.
//! - **Times of day.** [`schedule_at_time`](TimerHandle::schedule_at_time) is for one; with the feature `calendar`, [`calendar`](https://docs.rs/wheelwork/latest/wheelwork/calendar/)
//!   follows cron patterns in a time zone.
//!
//! With the feature `metrics`, [`metrics`](https://docs.rs/wheelwork/latest/wheelwork/metrics/) hands the counters to a recorder of the crate of that name: for Prometheus and others.
//!
//! With the feature `tracing`, [`trace`](https://docs.rs/wheelwork/latest/wheelwork/trace/) carries spans from arm to fire, and a service tells of panics, late timers and stalls as events.
//!
//! Those who know another timer find their calls in [`coming_from`].
//!
//! What is promised, and what it costs, is in the README; how it works, in ARCHITECTURE.md.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "calendar")]
pub mod calendar;
mod cell;
#[doc = include_str!("coming_from.md")]
pub mod coming_from {}
mod count;
mod dispatch;
#[cfg(any(loom, feature = "__door"))]
#[doc(hidden)]
pub mod door;
mod doorbell;
mod entry;
mod error;
#[cfg(feature = "async")]
pub mod future;
mod lane;
#[cfg(loom)]
#[doc(hidden)]
pub mod loom_door;
mod mem;
#[cfg(feature = "metrics")]
pub mod metrics;
mod service;
mod shard;
mod sync;
mod time;
#[cfg(feature = "tracing")]
pub mod trace;
/// The timing wheel alone: [`Wheel`](wheel::Wheel), for event loops and simulations that have a thread and a time of their own.
///
/// What follows is how it works inside.
pub mod wheel;

pub use crossbeam_channel::Receiver;
pub use dispatch::Dispatch;
pub use error::{InsideTask, ScheduleError, StartError};
pub use service::{
    Batch, Builder, IntoPayload, LatenessHistogram, Periodic, ShardStats, Stats, StopPolicy, Task, TimerGuard, TimerHandle, TimerId,
    TimerService, Unfired,
};
pub use time::{ManualClock, Missed};
