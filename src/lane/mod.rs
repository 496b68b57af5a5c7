#![doc = include_str!("README.md")]

mod ahead;
mod consumer;
mod deferral;
mod directory;
mod inbox;
mod producer;
mod segment;
mod slab;
#[cfg(all(test, not(loom)))]
mod tests;
mod track;

pub(crate) use consumer::Arrival;
pub(crate) use consumer::{Drained, MessageSink};
pub(crate) use deferral::Present;
pub(crate) use inbox::{Backlog, Drain, Inbox, Messages, POSITION_BITS, Sender, Sent, Taker};
