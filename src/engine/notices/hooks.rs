//! Hooks: user functions that a service calls when something happens that its owner wants to know.
//!
//! Owned by the engine. A hook runs on the thread that notices. Its panic is caught and counted.
//!
//! Ground rule: a hook is user code. No local is borrowed and no thread is pinned while a hook
//! runs.

#[cfg(feature = "tracing")]
use super::events::Events;
use super::news::{Dropped, Late, Stall};
use crate::dispatch::inside::inside;
use crate::sync::{CountU64, Ordering};
use std::any::Any;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub(super) type OnPanic = dyn Fn(&(dyn Any + Send)) + Send + Sync;
pub(super) type OnLate = dyn Fn(&Late) + Send + Sync;
pub(super) type OnDropped = dyn Fn(&Dropped) + Send + Sync;
pub(super) type OnStall = dyn Fn(&Stall) + Send + Sync;

/// A user's value that a service keeps. Any thread may drop it: a worker, a shard, or a thread that
/// drops other such values. So the drop counts as inside a task, and its panic is caught.
pub(crate) struct Users<V>(Option<V>);

impl<V> Users<V> {
    pub(crate) fn new(value: V) -> Self {
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
        drop_inside(&mut || drop(self.0.take()));
    }
}

/// The hooks of a service.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) on_panic: Option<Users<Box<OnPanic>>>,
    /// The hook, and the lateness in nanoseconds above which a timer is late.
    pub(crate) on_late: Option<(u64, Users<Box<OnLate>>)>,
    pub(crate) on_dropped: Option<Users<Box<OnDropped>>>,
    /// The hook, and the time in nanoseconds after which an overdue shard stalls.
    pub(crate) on_stall: Option<(u64, Users<Box<OnStall>>)>,
    /// Reports to `tracing`, with or without hooks.
    #[cfg(feature = "tracing")]
    pub(crate) events: Events,
    /// How many hooks have panicked.
    pub(crate) panics: CountU64,
}

impl Hooks {
    /// Reports a panic that was caught, and drops it.
    pub(crate) fn panicked(&self, panic: Box<dyn Any + Send>) {
        #[cfg(feature = "tracing")]
        self.tell(|events| events.panicked(&*panic));
        if let Some(hook) = &self.on_panic {
            self.call(|| hook(&*panic));
        }
        discard(panic);
    }

    /// The lateness above which timers are reported, in nanoseconds.
    #[inline]
    pub(in crate::engine) fn late_above_ns(&self) -> u64 {
        self.on_late
            .as_ref()
            .map_or(u64::MAX, |(above_ns, _)| *above_ns)
    }

    /// Reports timers that fire late: the greatest lateness, and how many timers.
    pub(crate) fn late(&self, lateness_ns_max: u64, timers: u64) {
        if let Some((_, hook)) = &self.on_late {
            let late = Late {
                max_lateness: Duration::from_nanos(lateness_ns_max),
                timers,
            };
            #[cfg(feature = "tracing")]
            self.tell(|events| events.late(&late));
            self.call(|| hook(&late));
        }
    }

    /// Reports timers that fired, and whose payloads nobody took.
    pub(crate) fn dropped(&self, timers: u64) {
        #[cfg(feature = "tracing")]
        self.tell(|events| events.dropped(timers));
        if let Some(hook) = &self.on_dropped {
            self.call(|| hook(&Dropped { timers }));
        }
    }

    /// Reports a shard that takes no turn.
    pub(super) fn stalled(&self, shard: usize, overdue_ns: u64) {
        if let Some((_, hook)) = &self.on_stall {
            let overdue = Duration::from_nanos(overdue_ns);
            let stall = Stall { shard, overdue };
            #[cfg(feature = "tracing")]
            self.tell(|events| events.stalled(&stall));
            self.call(|| hook(&stall));
        }
    }

    /// Reports an event. The subscriber is user code, too.
    #[cfg(feature = "tracing")]
    pub(crate) fn tell(&self, event: impl FnOnce(&Events)) {
        self.call(|| event(&self.events));
    }

    /// How many hooks have panicked so far.
    pub(crate) fn panics(&self) -> u64 {
        // Ordering: Relaxed. A counter.
        self.panics.load(Ordering::Relaxed)
    }

    /// Runs user code that is no handler. Its panic is caught and counted.
    pub(crate) fn call(&self, code: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
            // Ordering: Relaxed. A counter.
            self.panics.fetch_add(1, Ordering::Relaxed);
            discard(panic);
        }
    }
}

/// Drops a value, and catches a panic of the drop.
pub(crate) fn discard(value: impl Sized) {
    let mut value = Some(value);
    drop_caught(&mut || drop(value.take()));
}

/// Calls what drops a user's value, inside a task, and catches its panic.
fn drop_inside(drop: &mut dyn FnMut()) {
    inside(|| drop_caught(drop));
}

/// Calls what drops a value, and catches its panic. The payload of that panic is forgotten: its
/// drop may panic, too. (It takes a trait object, so that a program has this once.)
fn drop_caught(drop: &mut dyn FnMut()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(drop)) {
        std::mem::forget(panic);
    }
}
