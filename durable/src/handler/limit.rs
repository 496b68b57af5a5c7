//! Limit: how long one attempt may take.
//!
//! The runner begins it just before it calls the handler, so that the wait for a place, an executor
//! or a trial does not count. The delivery that the handler gets has it.

use crate::time::Clock;
use std::time::Duration;
use wheelwork::ManualClock;

/// The limit of an attempt that has begun.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The time that it has.
    pub(crate) lasts: Duration,
    /// When it is over.
    ends: Duration,
    clock: LimitClock,
}

/// The time that has passed on this node.
#[derive(Clone, Debug)]
pub(crate) struct LimitClock {
    pub(crate) manual: Option<ManualClock>,
    pub(crate) ticking: Clock,
}

impl LimitClock {
    /// The time since its origin.
    pub(crate) fn elapsed(&self) -> Duration {
        match &self.manual {
            Some(clock) => clock.elapsed(),
            None => Duration::from_nanos(self.ticking.now_ns()),
        }
    }
}

impl Limit {
    /// An attempt begins now that may last so long.
    pub(crate) fn begin(lasts: Duration, clock: LimitClock) -> Self {
        Self {
            lasts,
            ends: clock.elapsed().saturating_add(lasts),
            clock,
        }
    }

    /// Whether its clock is moved by hand.
    pub(crate) const fn is_manual(&self) -> bool {
        self.clock.manual.is_some()
    }

    /// The time that is left. Zero: it is over.
    pub(crate) fn left(&self) -> Duration {
        self.ends.saturating_sub(self.clock.elapsed())
    }
}
