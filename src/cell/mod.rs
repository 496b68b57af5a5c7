#![doc = include_str!("README.md")]

mod arena;
mod magazine;
mod state;

pub(crate) use arena::{Arena, Maintenance};
pub(crate) use magazine::{Depot, Magazines};
pub(crate) use state::{Cell, Place, SHARD_BITS};
