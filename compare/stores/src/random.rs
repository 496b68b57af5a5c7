//! Payloads and deadlines.

use fastrand::Rng;
use std::time::Duration;
pub(crate) use wheelwork_kit::clock::{now_ms, now_ns};

/// What each timer carries.
pub(crate) type Payload = [u8; 64];

/// Far enough that nothing fires while it is measured.
const FAR: Duration = Duration::from_secs(3600);
const SPREAD_MS: u64 = 3_600_000;

/// A source of timers.
pub(crate) struct Timers {
    rng: Rng,
    from_ms: u64,
    spread_ms: u64,
}

impl Timers {
    /// Due at random milliseconds of an hour, an hour from now.
    pub(crate) fn far(seed: u64) -> Self {
        Self::within(seed, now_ms() + FAR.as_millis() as u64, SPREAD_MS)
    }

    /// Due at random milliseconds of this time.
    pub(crate) fn within(seed: u64, from_ms: u64, spread_ms: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            from_ms,
            spread_ms,
        }
    }

    /// The deadline of the next one.
    pub(crate) fn due(&mut self) -> u64 {
        self.from_ms + self.rng.u64(..self.spread_ms.max(1))
    }

    /// A payload that does not compress.
    pub(crate) fn payload(&mut self) -> Payload {
        let mut payload = [0; 64];
        for bytes in payload.chunks_exact_mut(8) {
            bytes.copy_from_slice(&self.rng.u64(..).to_le_bytes());
        }
        payload
    }

    /// True this number of times in a hundred.
    pub(crate) fn percent(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }
}
