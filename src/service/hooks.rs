//! Hooks: what the owner of a service wants to be told of. Each runs on the thread that notices, and none can harm it.
//!
//! Ground rule: a hook is a user's code. No local is borrowed and no epoch is pinned while one runs.

#[cfg(feature = "tracing")]
use super::events::Events;
use crate::dispatch::job::inside;
use crate::sync::{CountU64, Ordering};
use std::any::Any;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub(super) type OnPanic = dyn Fn(&(dyn Any + Send)) + Send + Sync;
pub(super) type OnLate = dyn Fn(Duration, u64) + Send + Sync;
pub(super) type OnDropped = dyn Fn(u64) + Send + Sync;
pub(super) type OnStall = dyn Fn(usize, Duration) + Send + Sync;

/// A value of the user's that a service keeps. Whichever thread drops it last is inside a task for that, and a panic goes no further: it may be a worker's,
/// a shard's, or one that drops other such values.
pub(super) struct Users<V>(Option<V>);

impl<V> Users<V> {
    pub(super) fn new(value: V) -> Self {
        Self(Some(value))
    }
}

impl<V> Deref for Users<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        self.0.as_ref().expect("it is there until the drop")
    }
}

impl<V> Drop for Users<V> {
    fn drop(&mut self) {
        inside(|| discard(self.0.take()));
    }
}

/// The hooks of a service.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) on_panic: Option<Users<Box<OnPanic>>>,
    /// With the lateness, in nanoseconds, above which a timer is late.
    pub(super) on_late: Option<(u64, Users<Box<OnLate>>)>,
    pub(super) on_dropped: Option<Users<Box<OnDropped>>>,
    /// With the time, in nanoseconds, by which a shard is overdue that stalls.
    pub(super) on_stall: Option<(u64, Users<Box<OnStall>>)>,
    /// What is told without a hook, by `tracing`.
    #[cfg(feature = "tracing")]
    pub(super) events: Events,
    /// Hooks that panicked themselves.
    pub(super) panics: CountU64,
}

impl Hooks {
    /// Tells of a panic that was caught, and drops it.
    pub(super) fn panicked(&self, panic: Box<dyn Any + Send>) {
        #[cfg(feature = "tracing")]
        self.tell(|events| events.panicked(&*panic));
        if let Some(hook) = &self.on_panic {
            self.call(|| hook(&*panic));
        }
        discard(panic);
    }

    /// The lateness above which timers are to be told of, in nanoseconds.
    pub(super) fn late_above_ns(&self) -> u64 {
        self.on_late.as_ref().map_or(u64::MAX, |(above_ns, _)| *above_ns)
    }

    /// Tells of timers that fire late: by how much at the most, and how many.
    pub(super) fn late(&self, lateness_ns_max: u64, timers: u64) {
        if let Some((_, hook)) = &self.on_late {
            let lateness = Duration::from_nanos(lateness_ns_max);
            #[cfg(feature = "tracing")]
            self.tell(|events| events.late(lateness, timers));
            self.call(|| hook(lateness, timers));
        }
    }

    /// Tells of timers that fired, and whose payloads nobody took.
    pub(super) fn dropped(&self, timers: u64) {
        #[cfg(feature = "tracing")]
        self.tell(|events| events.dropped(timers));
        if let Some(hook) = &self.on_dropped {
            self.call(|| hook(timers));
        }
    }

    /// Tells of a shard that takes no turn.
    pub(super) fn stalled(&self, shard: usize, overdue_ns: u64) {
        if let Some((_, hook)) = &self.on_stall {
            let overdue = Duration::from_nanos(overdue_ns);
            #[cfg(feature = "tracing")]
            self.tell(|events| events.stalled(shard, overdue));
            self.call(|| hook(shard, overdue));
        }
    }

    /// Tells by an event. The subscriber is a user's code, too.
    #[cfg(feature = "tracing")]
    pub(super) fn tell(&self, event: impl FnOnce(&Events)) {
        self.call(|| event(&self.events));
    }

    /// Hooks that panicked, so far.
    pub(super) fn panics(&self) -> u64 {
        // Ordering: Relaxed. A counter.
        self.panics.load(Ordering::Relaxed)
    }

    /// Runs a user's code that is no handler. Its panic is counted, and goes no further.
    pub(super) fn call(&self, code: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
            // Ordering: Relaxed. A counter.
            self.panics.fetch_add(1, Ordering::Relaxed);
            discard(panic);
        }
    }
}

/// Drops something that may panic when it is dropped; a panic's own payload may, too.
pub(super) fn discard(value: impl Sized) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(panic);
    }
}
