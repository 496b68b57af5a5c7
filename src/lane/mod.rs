#![doc = include_str!("README.md")]

mod inbox;
mod segment;

pub(crate) use inbox::{Drain, Inbox, Sender};
pub(crate) use segment::{POSITION_BITS, Sent, Told};
