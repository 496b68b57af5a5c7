//! News: what hooks are told, by name. Each may get further fields.

use std::time::Duration;

/// Timers that fire late, as the hook of [`Builder::on_late`](crate::Builder::on_late) gets them.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{Late, TimerService};
///
/// fn report(late: &Late) {
///     eprintln!("{} timers are late, by at most {:?}", late.timers, late.max_lateness);
/// }
///
/// let service = TimerService::builder().on_late(Duration::from_millis(100), report).start()?;
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Late {
    /// The greatest lateness among them.
    pub max_lateness: Duration,
    /// Their number, at most 64.
    pub timers: u64,
}

/// Timers that fired and whose payloads nobody took, as the hook of
/// [`Builder::on_dropped`](crate::Builder::on_dropped) gets them.
///
/// # Example
/// ```
/// use wheelwork::{Dropped, TimerService};
///
/// let report = |dropped: &Dropped| eprintln!("{} payloads were dropped", dropped.timers);
/// let service = TimerService::builder().on_dropped(report).start()?;
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// Their number.
    pub timers: u64,
}

/// A shard that stalls, as the hook of [`Builder::on_stall`](crate::Builder::on_stall) gets it.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{Stall, TimerService};
///
/// fn report(stall: &Stall) {
///     eprintln!("shard {} is overdue by {:?}", stall.shard, stall.overdue);
/// }
///
/// let service = TimerService::builder().on_stall(Duration::from_secs(1), report).start()?;
/// # Ok::<(), wheelwork::StartError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The number of the shard.
    pub shard: usize,
    /// By how much it is overdue.
    pub overdue: Duration,
}
