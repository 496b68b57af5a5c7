//! Window limits: how much of the store is in memory.

use std::time::Duration;

/// Which timers are in memory: those that are due soon, up to a number of rows and of bytes.
///
/// A smaller window costs no promise. A timer that does not fit is loaded later. Timers are read
/// from the disk while less than half of the rows and bytes is taken.
///
/// Unless set otherwise: 5 min, 500,000 rows, 128 MiB.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Memory, WindowLimits};
///
/// let small = WindowLimits::new().ahead(Duration::from_secs(60)).rows(100_000).bytes(16 << 20);
/// let timers = Durable::builder(Memory::new()).window(small).start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowLimits {
    /// Timers that are due within this time are in memory. Not zero.
    pub ahead: Duration,
    /// About the largest number of timers in memory. Not 0.
    pub rows: usize,
    /// About the largest number of bytes of payloads, keys, kinds, calendars and traces in memory.
    /// Not 0.
    pub bytes: usize,
}

impl Default for WindowLimits {
    fn default() -> Self {
        Self::new()
    }
}

impl WindowLimits {
    /// The limits unless set otherwise.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ahead: Duration::from_secs(300),
            rows: 500_000,
            bytes: 128 << 20,
        }
    }

    /// Sets the field `ahead`.
    #[must_use]
    pub const fn ahead(mut self, ahead: Duration) -> Self {
        self.ahead = ahead;
        self
    }

    /// Sets the field `rows`.
    #[must_use]
    pub const fn rows(mut self, rows: usize) -> Self {
        self.rows = rows;
        self
    }

    /// Sets the field `bytes`.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }
}
