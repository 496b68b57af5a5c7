//! Counter: the processor's counter of cycles, for the time between two readings of `Instant`.
//!
//! It is used on Linux, where it was held against `Instant`. Elsewhere the two may differ by more
//! than the bias makes up for: `quanta` takes the period of the counter of Windows for a whole
//! number of nanoseconds, for example. There each reading of the time is one of `Instant`.

/// The counter of a clock.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
#[derive(Clone, Debug)]
pub(crate) struct CycleCounter(quanta::Clock);

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
impl CycleCounter {
    pub(super) fn new() -> Self {
        Self(quanta::Clock::new())
    }

    /// The counter now.
    #[inline]
    pub(super) fn reading(&self) -> u64 {
        self.0.raw()
    }

    /// Nanoseconds between two readings.
    #[inline]
    pub(super) fn nanos_between(&self, earlier: u64, later: u64) -> u64 {
        self.0.delta_as_nanos(earlier, later)
    }
}

/// No counter: the last reading is always too long ago.
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
#[derive(Clone, Debug)]
pub(crate) struct CycleCounter;

#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
impl CycleCounter {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn reading(&self) -> u64 {
        0
    }

    pub(super) fn nanos_between(&self, _: u64, _: u64) -> u64 {
        u64::MAX
    }
}
