//! Time: what has passed on this node, and the time of day.

use std::time::{Duration, Instant, SystemTime};
use wheelwork::{ManualClock, boot_time};

/// A clock of the system. Nobody sets it.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    Monotonic {
        origin: Instant,
    },
    /// Counts the time for which the machine is suspended, too.
    Boot {
        origin: Duration,
    },
}

impl Clock {
    pub(crate) fn monotonic() -> Self {
        let origin = Instant::now();
        Self::Monotonic { origin }
    }

    /// The clock that counts suspended time. `None` if the system has none.
    pub(crate) fn boot() -> Option<Self> {
        boot_time().map(|origin| Self::Boot { origin })
    }

    /// Nanoseconds since it was made. Rounds down.
    pub(crate) fn now_ns(&self) -> u64 {
        let passed = match self {
            Self::Monotonic { origin } => origin.elapsed(),
            Self::Boot { origin } => boot_time().unwrap_or_default().saturating_sub(*origin),
        };
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The time of day by a manual clock, or by the system's. Somebody may set it.
pub(crate) fn system_time(manual: Option<&ManualClock>) -> SystemTime {
    manual.map_or_else(SystemTime::now, ManualClock::system_time)
}
