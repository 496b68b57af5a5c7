#![doc = include_str!("README.md")]

mod ahead;
mod allowance;
mod consumer;
mod deferral;
mod directory;
mod inbox;
mod list;
mod pair;
mod producer;
mod segment;
mod slab;
#[cfg(all(test, not(loom)))]
mod tests;
mod track;
mod trim;

pub(crate) use consumer::{Arrival, Drained, MessageSink};
pub(crate) use deferral::Present;
#[cfg(all(test, not(loom)))]
pub(crate) use inbox::SPARE_LANES;
pub(crate) use inbox::{Drain, Inbox, Sender};
pub(crate) use pair::{Backlog, Messages, POSITION_BITS, Sent, Taker};
