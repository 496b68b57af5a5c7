#![doc = include_str!("README.md")]

mod ahead;
mod consumer;
mod deferral;
mod directory;
mod inbox;
mod pair;
mod producer;
mod segment;
mod slab;
#[cfg(all(test, not(loom)))]
mod tests;
mod track;

pub(crate) use consumer::{Arrival, Drained, MessageSink};
pub(crate) use deferral::Present;
pub(crate) use inbox::{Drain, Inbox, Sender};
pub(crate) use pair::{Backlog, Messages, POSITION_BITS, Sent, Taker};
