#![doc = include_str!("README.md")]

// In the order in which rustdoc shows the calls: the most used first.
mod schedule;

mod cancel;

mod reschedule;

mod pausing;

mod group;

mod periodic;

mod many;

pub(crate) mod inspect;

mod builder;

mod handle;

mod stop;

mod global;

pub(crate) mod start_once;

mod stop_async;

#[cfg(all(test, not(loom)))]
mod tests;

pub use builder::Builder;
pub use cancel::TimerGuard;
pub use global::{after, global};
pub use group::TimerGroup;
pub use handle::{ServiceHandle, TimerService};
pub use periodic::{Periodic, PeriodicRun};
pub use stop::{StopPolicy, Unfired};
pub use stop_async::StopFuture;
