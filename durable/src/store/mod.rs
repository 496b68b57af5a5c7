#![doc = include_str!("README.md")]

pub(crate) mod contract;
pub(crate) mod cursor;
pub(crate) mod done;
pub(crate) mod fault;
pub(crate) mod fleet;
pub(crate) mod grant;
pub(crate) mod id_map;
pub(crate) mod list;
pub(crate) mod row;
pub(crate) mod rule;
pub(crate) mod snapshot;
pub(crate) mod trace;
pub(crate) mod unhandled;
pub(crate) mod when;
pub(crate) mod why;
pub(crate) mod write;
