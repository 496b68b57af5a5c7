//! Time: the store's clock, as a node of a simulated fleet has it.

use super::super::shared_memory::MemoryClock;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::StoreClock;

/// How much two clocks drift apart at most, in millionths: what the bounds reckon with.
const DRIFT_MAX_PPM: i128 = 500;

const MILLION: i128 = 1_000_000;

/// In nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// When they were known, by the node's clock.
    at: i128,
    /// The store's time less the node's: at least this.
    low: i128,
    /// At most this.
    high: i128,
}

/// A node's clock, which drifts, and what it knows of the store's.
pub struct NodeTime {
    clock: ManualClock,
    /// What the store's clock showed when the node began.
    begin: SystemTime,
    /// How much faster the node's clock is than the store's, in millionths.
    drift_ppm: i128,
    bounds: Mutex<Option<Bounds>>,
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap()
}

fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap())
}

fn since_epoch(time: SystemTime) -> i128 {
    nanos(time.duration_since(SystemTime::UNIX_EPOCH).unwrap())
}

impl NodeTime {
    pub fn new(clock: ManualClock, begin: SystemTime, drift_ppm: i128) -> Self {
        Self {
            clock,
            begin,
            drift_ppm,
            bounds: Mutex::new(None),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// What the store's clock shows when the node's shows what it does.
    pub fn now_exactly(&self) -> SystemTime {
        let passed = nanos(self.clock.elapsed()) * MILLION / (MILLION + self.drift_ppm);
        self.begin + duration(passed)
    }

    /// How far the node's clock is behind this time of the store's.
    pub fn behind(&self, time: SystemTime) -> Duration {
        let passed = nanos(time.duration_since(self.begin).unwrap_or_default());
        let shows = (passed * (MILLION + self.drift_ppm) + MILLION - 1) / MILLION;
        duration(shows - nanos(self.clock.elapsed()))
    }

    fn bounds(&self) -> MutexGuard<'_, Option<Bounds>> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn later(bounds: Bounds, at: i128) -> Bounds {
        let drift = (at - bounds.at).max(0) * DRIFT_MAX_PPM / MILLION + 1;
        Bounds {
            at,
            low: bounds.low - drift,
            high: bounds.high + drift,
        }
    }

    /// Notes a reading: between `sent` and now the store's clock showed `time`.
    pub fn read(&self, sent: Duration, time: SystemTime) {
        let (sent, answered) = (nanos(sent), nanos(self.clock.elapsed()));
        let time = since_epoch(time);
        let mut bounds = self.bounds();
        let (mut low, mut high) = (time - answered, time - sent);
        // (What the clocks drift apart between the reading and the answer.)
        let drift = (answered - sent) * DRIFT_MAX_PPM / MILLION + 1;
        (low, high) = (low - drift, high + drift);
        if let Some(known) = *bounds {
            let known = Self::later(known, answered);
            (low, high) = (low.max(known.low), high.min(known.high));
        }
        assert!(low <= high, "the readings contradict each other");
        *bounds = Some(Bounds {
            at: answered,
            low,
            high,
        });
    }

    fn time(&self, of: impl FnOnce(Bounds) -> i128) -> SystemTime {
        let now = nanos(self.clock.elapsed());
        let offset = self
            .bounds()
            .map_or(0, |bounds| of(Self::later(bounds, now)));
        SystemTime::UNIX_EPOCH + duration(now + offset)
    }
}

impl StoreClock for NodeTime {
    fn at_least(&self) -> SystemTime {
        self.time(|bounds| bounds.low)
    }

    fn at_most(&self) -> SystemTime {
        self.time(|bounds| bounds.high)
    }
}

impl MemoryClock for NodeTime {
    fn now(&self) -> SystemTime {
        self.now_exactly()
    }
}
