//! Watch: a closure that a manual clock calls when the time of day was set.
//!
//! Owned by the user; the clock has a weak reference. The thread that drives the clock calls it.

use super::driven::{Busy, Driven, Pass};
use crate::sync::{AtomicU64, Ordering};
use std::fmt;
use std::sync::{Arc, Weak};

/// A watch of the time of day of a [`ManualClock`](super::ManualClock). It ends when it is dropped.
/// Only a call that another thread has begun, or is just about to begin, may outlast the drop.
///
/// # Example
/// See [`ManualClock::watch_time_of_day`](super::ManualClock::watch_time_of_day).
#[must_use = "the watch ends when it is dropped"]
pub struct TimeOfDayWatch {
    /// The clock has a weak reference.
    watcher: Arc<dyn Driven>,
    ended: Arc<AtomicU64>,
}

impl TimeOfDayWatch {
    pub(super) fn new(tell: impl Fn() + Send + Sync + 'static) -> Self {
        let ended = Arc::<AtomicU64>::default();
        let watcher = Arc::new(Watcher {
            tell,
            ended: ended.clone(),
        });
        Self { watcher, ended }
    }

    /// For the clock, which calls it.
    pub(super) fn watcher(&self) -> Weak<dyn Driven> {
        Arc::downgrade(&self.watcher)
    }
}

impl fmt::Debug for TimeOfDayWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeOfDayWatch").finish_non_exhaustive()
    }
}

impl Drop for TimeOfDayWatch {
    fn drop(&mut self) {
        // Ordering: Release. Pairs with the Acquire of `wall_was_set`: an `advance` that still has
        // the watch, and loads this from now on, makes no call. One that has loaded it before may
        // begin its call after this drop has returned.
        self.ended.store(1, Ordering::Release);
    }
}

/// What a watch calls. It has no timers, so there is nothing to drive.
struct Watcher<F> {
    tell: F,
    /// 1: the watch was dropped.
    ended: Arc<AtomicU64>,
}

impl<F: Fn() + Send + Sync> Driven for Watcher<F> {
    fn turn(&self) -> Pass {
        Pass::default()
    }

    fn has_messages(&self) -> bool {
        false
    }

    fn next_event_ns(&self) -> Result<Option<u64>, Busy> {
        Ok(None)
    }

    fn wall_was_set(&self) {
        // Ordering: Acquire. Pairs with the Release of the watch's drop.
        if self.ended.load(Ordering::Acquire) == 0 {
            (self.tell)();
        }
    }
}
