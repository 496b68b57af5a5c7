#![doc = include_str!("README.md")]

pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redb")]
pub(crate) mod redb;
