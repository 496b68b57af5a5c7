//! What a timer service must offer to be flown.

use crate::system;
use std::time::Duration;

/// A timer service.
pub trait InFlight: Send + Sync {
    /// A timer, to whom wants to cancel it. Any thread may.
    type Handle: Send;

    /// A thread's way to the service.
    type Timers<'a>: Timers<Handle = Self::Handle>
    where
        Self: 'a;

    /// The clock of `due_ns`. It never reads 0.
    fn now_ns() -> u64;

    /// Runs `work` with what a thread needs.
    fn within(&self, work: impl FnOnce(&mut Self::Timers<'_>) + Send);

    /// Waits until everything that was handed over has been taken in.
    fn settle(&self) {}

    /// Resident memory a second after the end.
    fn resident_bytes_after(&self) -> u64 {
        system::resident_bytes()
    }
}

/// A thread's way to a service.
pub trait Timers {
    /// See [`InFlight::Handle`].
    type Handle: Send;

    /// Arms a timer. If `due_ns` is not 0 its handler notes how much later than that it ran.
    fn arm(&mut self, delay: Duration, due_ns: u64) -> Self::Handle;

    /// Cancels one, whose handle may be from another thread.
    fn cancel(&mut self, handle: Self::Handle);

    /// Takes in what the thread has handed over to itself, where timers are its own.
    fn settle(&mut self) {}
}
