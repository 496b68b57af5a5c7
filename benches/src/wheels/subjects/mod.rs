//! The subjects: stores of timers for one thread, without a clock, behind one interface. Each in the configuration that serves it best.

mod bitwheel;
mod btree;
mod delay_queue;
mod hashed_wheel;
mod heap;
mod hhwt;
mod linked_wheel;
mod lists;
mod nexus;
mod one_wheel;
mod ordered_list;
mod unordered_list;
mod wheelwork;

pub(crate) use bitwheel::BitWheel;
pub(crate) use btree::Btree;
pub(crate) use delay_queue::Queue;
pub(crate) use hashed_wheel::HashedWheel;
pub(crate) use heap::Heap;
pub(crate) use hhwt::Hhwt;
pub(crate) use linked_wheel::LinkedWheel;
pub(crate) use nexus::Nexus;
pub(crate) use one_wheel::OneWheel;
pub(crate) use ordered_list::OrderedList;
pub(crate) use unordered_list::UnorderedList;
pub(crate) use wheelwork::Wheelwork;

/// Timers with a key each, and a time that the caller moves. A tick is a millisecond for those that think in such.
pub(crate) trait Subject {
    /// Names a timer that stands. One that has fired, or was cancelled, is not named any more.
    type Handle;

    /// Without timers, at tick 0.
    fn new() -> Self;

    /// Arms a timer, for a tick that has not come yet. No two that stand have the same key.
    fn insert(&mut self, deadline: u64, key: u64) -> Self::Handle;

    fn cancel(&mut self, handle: Self::Handle);

    /// Moves time on to `now` and gives `fire` the keys of what is due then, in any order.
    fn advance(&mut self, now: u64, fire: impl FnMut(u64));
}
