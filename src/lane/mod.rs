#![doc = include_str!("README.md")]

mod consumer;
mod inbox;
mod producer;
mod segment;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use consumer::Told;
pub(crate) use inbox::{Drain, Inbox, Sender};
pub(crate) use producer::{POSITION_BITS, Sent};
