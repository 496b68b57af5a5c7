//! Wall: on a manual clock, the timers that go by the time of day. Whoever sets that time has their
//! next looks at it brought forward, so none of them looks without a reason.
//!
//! Owned by the engine of a service on a manual clock. `engine/manual.rs` uses it; README.md of
//! this room has the protocol (SetStore to SetRecheck).

use crate::cold_drop::ColdDrop;
use crate::engine::id::TimerId;
use crate::repeat::NextLook;
use crate::sync::Mutex;
use std::sync::{Arc, PoisonError};

/// Up to this number of timers, those that are over are kept.
const KEPT_MIN: usize = 64;

/// The timers that go by the wall clock.
pub(in crate::engine) struct WallTimers(Mutex<WallList>);

struct WallList {
    timers: Vec<(TimerId, Arc<NextLook>)>,
    /// At this number of timers, those that are over are removed.
    tidy_at: usize,
}

impl WallTimers {
    pub(in crate::engine) fn new() -> ColdDrop<Self> {
        ColdDrop::new(Self(Mutex::new(WallList {
            timers: Vec::new(),
            tidy_at: KEPT_MIN,
        })))
    }

    /// Takes a timer in.
    pub(in crate::engine) fn add(
        &self,
        id: TimerId,
        next_look: Arc<NextLook>,
        is_pending: &dyn Fn(TimerId) -> bool,
    ) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.timers.len() >= kept.tidy_at {
            kept.timers.retain(|&(id, _)| is_pending(id));
            kept.tidy_at = KEPT_MIN.max(2 * kept.timers.len());
        }
        kept.timers.push((id, next_look));
    }

    /// Gives `f` the timers that are pending.
    pub(in crate::engine) fn for_each(
        &self,
        is_pending: &dyn Fn(TimerId) -> bool,
        f: &dyn Fn(TimerId, &NextLook),
    ) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.timers.retain(|&(id, _)| is_pending(id));
        for (id, next_look) in &kept.timers {
            f(*id, next_look);
        }
    }
}
