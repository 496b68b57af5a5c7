//! Clock: what the database's clock shows, between two readings of it.
//!
//! A reading says: between the sending of a statement and its answer the database's clock showed
//! this. So two bounds for the offset to the node's monotonic clock are known. Readings are
//! intersected, and between them the bounds part by what two clocks drift.

use crate::durable::StoreClock;
use crate::time::Clock;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How much two clocks drift apart: 500 microseconds in a second.
const DRIFT: f64 = 500e-6;

/// The database's clock, for any thread.
pub(super) struct DatabaseClock {
    ticking: Clock,
    bounds: Mutex<ClockBounds>,
}

/// In seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ClockBounds {
    /// When they were known, by the node's clock.
    at: f64,
    /// The database's time less the node's: at least this.
    low: f64,
    /// At most this.
    high: f64,
}

impl ClockBounds {
    /// The bounds at a later time.
    fn later(self, at: f64) -> Self {
        let drift = (at - self.at).max(0.0) * DRIFT;
        Self {
            at: self.at.max(at),
            low: self.low - drift,
            high: self.high + drift,
        }
    }

    /// With a reading `time` that was sent at `sent` and answered at `answered`.
    pub(super) fn with(self, sent: f64, answered: f64, time: f64) -> Self {
        let known = self.later(answered);
        let read = Self {
            at: answered,
            low: time - answered,
            high: time - sent,
        };
        let both = Self {
            at: answered,
            low: known.low.max(read.low),
            high: known.high.min(read.high),
        };
        // If they contradict each other, the database's clock was set, or it is another database.
        if both.low <= both.high { both } else { read }
    }
}

impl DatabaseClock {
    pub(super) fn new() -> Self {
        Self {
            ticking: Clock::boot().unwrap_or_else(Clock::monotonic),
            bounds: Mutex::new(ClockBounds {
                at: 0.0,
                low: f64::NEG_INFINITY,
                high: f64::INFINITY,
            }),
        }
    }

    fn bounds(&self) -> MutexGuard<'_, ClockBounds> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the node's clock shows, in seconds.
    pub(super) fn elapsed(&self) -> f64 {
        self.ticking.now_ns() as f64 / 1e9
    }

    /// Notes a reading, in seconds since the Unix epoch.
    pub(super) fn read(&self, sent: f64, answered: f64, time: f64) {
        let mut bounds = self.bounds();
        *bounds = bounds.with(sent, answered, time);
    }

    fn time(&self, of: impl FnOnce(ClockBounds) -> f64) -> SystemTime {
        let now = self.elapsed();
        let offset = of(self.bounds().later(now));
        let since = Duration::try_from_secs_f64(now + offset).unwrap_or_default();
        SystemTime::UNIX_EPOCH + since
    }
}

impl StoreClock for DatabaseClock {
    fn at_least(&self) -> SystemTime {
        self.time(|bounds| bounds.low)
    }

    fn at_most(&self) -> SystemTime {
        self.time(|bounds| bounds.high)
    }
}
