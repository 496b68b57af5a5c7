#![doc = include_str!("README.md")]

mod arena;
mod claim;
mod content;
mod depot;
mod gather;
mod magazine;
mod page;
mod pair;
mod pausing;
mod pins;
mod rearm;
mod state;
mod word;

pub(crate) use arena::Arena;
pub(crate) use claim::{Claimed, DueClaim};
pub(crate) use content::{Content, Fill, Payload};
pub(crate) use depot::Depot;
pub(crate) use gather::Maintenance;
pub(crate) use pair::Magazines;
pub(crate) use pausing::{LeftSet, Paused, Resumed};
#[cfg(loom)]
pub(crate) use pins::Limbo;
pub(crate) use pins::{Pinned, Pinner, Pins};
pub(crate) use rearm::{NotFiled, Rearmed, RunBegun};
#[cfg(loom)]
pub(crate) use state::{Cell, PauseSide, Side};
pub(crate) use state::{CellRef, DueAt, Filed, Left, Look, SHARD_BITS, index_after};

#[cfg(all(test, not(loom)))]
mod tests;
