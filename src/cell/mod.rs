#![doc = include_str!("README.md")]

mod arena;
mod claim;
mod magazine;
mod page;
mod rearm;
mod state;
mod word;

pub(crate) use arena::{Arena, Maintenance};
pub(crate) use claim::{Claimed, Due};
pub(crate) use magazine::{Depot, Magazines};
pub(crate) use rearm::Rearmed;
#[cfg(loom)]
pub(crate) use state::{Cell, Side};
pub(crate) use state::{Content, Filed, Fill, Payload, Place, SHARD_BITS, Slot};

#[cfg(all(test, not(loom)))]
mod tests;
