//! Paused: a manual clock with a service for futures on it, and the way to run futures there.

use crate::error::StartError;
use crate::future::Timers;
use crate::service::{Builder, TimerService};
use crate::time::ManualClock;
use std::time::Duration;

/// A [`ManualClock`] and a service for futures on it, for tests that choose its settings, or that
/// use the clock outside of [`block_on`](Self::block_on).
///
/// # Example
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
/// use wheelwork::testing::Paused;
/// use wheelwork::{TimerService, future::sleep};
///
/// let paused = Paused::new();
/// // Another service on the same clock.
/// let service = TimerService::builder().clock(paused.clock().clone()).start()?;
/// let log = Arc::new(Mutex::new(Vec::new()));
/// let entry = log.clone();
/// service.schedule(Duration::from_secs(2), move || entry.lock().unwrap().push("a closure"))?;
///
/// paused.block_on(async {
///     sleep(Duration::from_secs(3)).await;
///     log.lock().unwrap().push("a task");
/// });
/// assert_eq!(*log.lock().unwrap(), ["a closure", "a task"]);
/// assert_eq!(paused.clock().elapsed(), Duration::from_secs(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Paused {
    clock: ManualClock,
    timers: Timers,
}

impl Default for Paused {
    fn default() -> Self {
        Self::new()
    }
}

impl Paused {
    /// A new clock, and a service with a tick of 1 ms.
    #[must_use]
    pub fn new() -> Self {
        let tick = Duration::from_millis(1);
        Self::start(TimerService::builder().shards(1).tick(tick))
            .unwrap_or_else(|_| unreachable!("it needs no thread, and no setting is out of range"))
    }

    /// A service with these settings, on the clock that the builder has, or else on a new one.
    ///
    /// # Errors
    /// As [`Builder::start`].
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::testing::Paused;
    /// use wheelwork::{TimerService, future::sleep};
    ///
    /// let paused = Paused::start(TimerService::builder().tick(Duration::from_micros(10)))?;
    /// paused.block_on(async { sleep(Duration::from_micros(25)).await });
    /// assert_eq!(paused.clock().elapsed(), Duration::from_micros(30));
    /// # Ok::<(), wheelwork::StartError>(())
    /// ```
    pub fn start(builder: Builder) -> Result<Self, StartError> {
        let (builder, clock) = builder.manual_clock();
        let timers = Timers::start(builder)?;
        Ok(Self { clock, timers })
    }

    /// The clock. Time may be moved by it at any time, also inside a task.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// The service, which is that of [`future::sleep`](crate::future::sleep()) and the other
    /// functions inside of [`block_on`](Self::block_on).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{future::sleep, testing::Paused};
    ///
    /// let paused = Paused::new();
    /// paused.block_on(async { sleep(Duration::from_secs(1)).await });
    /// assert_eq!(paused.timers().handle().stats().timers.fired, 1);
    /// ```
    #[must_use]
    pub fn timers(&self) -> &Timers {
        &self.timers
    }
}
