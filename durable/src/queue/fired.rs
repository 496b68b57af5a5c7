//! Fired: what the wheel hands out, from the writer to the runner.

use crate::handler::delivery::Delivery;

/// What the window's service has as payloads.
pub(crate) enum Fired {
    /// A row is due.
    Row(Box<Delivery>),
    /// On a manual clock: the writer has something to do.
    Turn,
    /// Timers wait for calls of their kinds, and a thread of the pool may have nothing to do.
    Help,
    /// A hook is to be told of something.
    Hook(Box<dyn FnOnce() + Send>),
}
