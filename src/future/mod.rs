//! Timers as futures, under any runtime: [`sleep()`], [`timeout()`], [`interval()`],
//! [`DelayQueue`], [`DelayMap`], [`retry()`], and for times of day [`sleep_until_system_time`].
//!
//! A [`Sleep`] allocates nothing of its own. Its first poll arms a timer whose payload is the
//! task's waker; its drop cancels the timer. When the timer fires, its shard wakes the task. A
//! waker is all that this needs, so it works under any runtime. It has two consequences:
//!
//!  - A timeout that is not needed costs one [`schedule`](crate::ServiceHandle::schedule) and one
//!    [`cancel`](crate::ServiceHandle::cancel), on any thread.
//!  - A timeout around a future that is ready at its first poll costs no timer.
//!
//! The functions of this module use a service that the whole program shares. It starts at the first
//! call and never ends. [`Timers::set_global`] sets its tick, clock and dispatch. [`Timers`] is a
//! service of your own. In a test, use [`Timers::enter`] or [`testing`](crate::testing) to make the
//! functions use the test's own service.
//!
//! With the feature `stream`, the trait `StreamExt` has calls for any stream: a limit on the time
//! for each item, a wait after each item, only the last of items that follow each other closely,
//! and chunks. With the feature `calendar`, `calendar_runs` is a stream of a calendar's times.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use wheelwork::future::{sleep, timeout};
//!
//! # futures_lite::future::block_on(async {
//! sleep(Duration::from_millis(5)).await;
//! let answer = timeout(Duration::from_secs(30), async { "the answer" }).await;
//! assert_eq!(answer, Ok("the answer"));
//! let no_answer = timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
//! assert!(no_answer.is_err());
//! # });
//! ```

#[cfg(feature = "calendar")]
mod calendar_runs;
mod calls;
#[cfg(feature = "stream")]
mod chunks;
#[cfg(feature = "stream")]
mod debounce;
mod delay_map;
mod interval;
mod queue;
mod retry;
mod shared;
mod sleep;
mod spawned;
#[cfg(feature = "stream")]
mod stream_ext;
#[cfg(feature = "stream")]
mod stream_timeout;
mod system_time;
#[cfg(feature = "stream")]
mod throttle;
mod timeout;
mod timers;
pub(crate) mod wait;
mod waiting;
mod wall;

#[cfg(feature = "calendar")]
pub use calendar_runs::{CalendarRuns, calendar_runs};
pub use calls::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};
#[cfg(feature = "stream")]
pub use chunks::ChunksTimeout;
#[cfg(feature = "stream")]
pub use debounce::Debounce;
pub use delay_map::DelayMap;
pub use interval::Interval;
pub use queue::{DelayQueue, Expired, Key};
pub use retry::{retry, retry_if};
pub use shared::{Entered, SetGlobalError};
pub use sleep::Sleep;
pub use spawned::AsyncTask;
#[cfg(feature = "stream")]
pub use stream_ext::StreamExt;
#[cfg(feature = "stream")]
pub use stream_timeout::StreamTimeout;
pub use system_time::{SystemTimeSleep, sleep_until_system_time, timeout_at_system_time};
#[cfg(feature = "stream")]
pub use throttle::Throttle;
pub use timeout::{Elapsed, Timeout};
pub use timers::Timers;
