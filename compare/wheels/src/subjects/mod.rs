//! The subjects: stores of timers for one thread, without a clock, behind one interface. Each in
//! the configuration that serves it best.

pub(crate) mod bitwheel;
pub(crate) mod btree;
pub(crate) mod delay_queue;
pub(crate) mod heap;
pub(crate) mod hhwt;
mod lists;
#[cfg(test)]
mod model;
pub(crate) mod nexus;
pub(crate) mod queue;
pub(crate) mod schemes;
pub(crate) mod wheelwork;

/// Timers with a key each, and a time that the caller moves. A tick is a millisecond for those that
/// think in such.
pub(crate) trait Subject {
    /// Names a timer that stands. One that has fired, or was cancelled, is not named any more.
    type Handle;

    /// Without timers, at tick 0.
    fn new() -> Self;

    /// Arms a timer, for a tick that has not come yet. No two that stand have the same key.
    fn insert(&mut self, deadline: u64, key: u64) -> Self::Handle;

    fn cancel(&mut self, handle: Self::Handle);

    /// Moves a timer to another deadline. Who cannot cancels it and arms another one with `key`, so
    /// that is either the timer's own or a new one.
    fn rearm(&mut self, handle: Self::Handle, deadline: u64, key: u64) -> Self::Handle {
        self.cancel(handle);
        self.insert(deadline, key)
    }

    /// Moves time on to `now` and gives `fire` the keys of what is due then, in any order.
    fn advance(&mut self, now: u64, fire: impl FnMut(u64));
}
