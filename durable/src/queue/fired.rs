//! Fired: what the wheel hands out, from the writer to the runner.

use super::ticket::Teller;
use crate::handler::delivery::Delivery;

/// What the window's service has as payloads.
pub(crate) enum Fired {
    /// A row is due.
    Row(Box<Delivery>),
    /// On a manual clock: the writer has something to do.
    Turn,
    /// Timers wait for calls of their kinds, and a thread of the pool may have nothing to do.
    Help,
    /// The time limit of an attempt is over, whose future waits for this ticket.
    Limit(Teller<()>),
    /// A hook is to be told of something.
    Hook(Box<dyn FnOnce() + Send>),
}
