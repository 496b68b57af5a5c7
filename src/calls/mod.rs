//! Calls: what is called often, and is to run seldom. [`Coalesced`] is a closure that many calls
//! run once; [`KeepAlive`] is one that runs when nothing has come for a while.
//!
//! Both are on top of the public calls of a service. `due.rs` has the protocol of a [`Coalesced`].

mod coalesced;
pub(crate) mod due;
mod keep_alive;

pub use coalesced::Coalesced;
pub use keep_alive::KeepAlive;
