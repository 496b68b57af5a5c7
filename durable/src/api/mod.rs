#![doc = include_str!("README.md")]

pub(crate) mod backup;
pub(crate) mod builder;
pub(crate) mod client;
pub(crate) mod health;
#[cfg(feature = "postgres")]
pub(crate) mod in_transaction;
pub(crate) mod keyed;
#[cfg(feature = "calendar")]
pub(crate) mod recurring;
#[cfg(feature = "metrics")]
pub(crate) mod reporter;
pub(crate) mod timer_builder;
#[cfg(feature = "serde")]
pub(crate) mod typed;
pub(crate) mod unhandled;
pub(crate) mod window_limits;
