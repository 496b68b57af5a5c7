#![doc = include_str!("README.md")]

mod consumer;
mod inbox;
mod producer;
mod segment;
mod shared;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use consumer::Arrival;
pub(crate) use inbox::{Drain, Inbox, Sender};
pub(crate) use producer::{POSITION_BITS, Sent};
