//! The subjects: timers behind one trait, driven step by step.

#[cfg(feature = "rivals")]
pub(crate) mod alt;
pub(crate) mod heap;
#[cfg(feature = "rivals")]
pub(crate) mod pingora;
#[cfg(feature = "rivals")]
mod polled;
#[cfg(feature = "rivals")]
pub(crate) mod tokio;
pub(crate) mod wheelwork;

use std::time::Duration;
use wheelwork_coherence::{Seat, Start};

/// The time that passes between two turns of what fires timers.
pub(crate) const TURN: Duration = Duration::from_millis(2);

/// A timer service that lives as long as the process. Threads that act as cores call it.
pub(crate) trait Subject: Sync + Sized + 'static {
    type Timer: 'static;

    /// What a thread has as long as it calls.
    type Entered: 'static;

    /// Whether nothing keeps callers out while it takes a turn.
    const IS_OPEN: bool;

    /// Whether a timer that is dropped is cancelled.
    const DROP_CANCELS: bool;

    /// Starts it for this number of threads, with as many shards as it has at most. What fires its
    /// timers: each takes a turn in each step, in which all is done that there is to do.
    fn start(threads: usize, shards: usize) -> (&'static Self, Vec<Start>);

    /// Has a thread take the seat of the caller with this number.
    fn seat(&'static self, _: usize, seat: Seat) {
        seat.on_a_thread();
    }

    /// A thread begins to call.
    fn enter(&'static self) -> Self::Entered;

    /// [`TURN`] passes.
    fn pass(&self);

    fn arm(&self, delay: Duration) -> Self::Timer;

    fn cancel(&self, timer: Self::Timer);

    fn rearm(&self, timer: &mut Self::Timer, delay: Duration);
}
