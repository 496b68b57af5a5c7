#![doc = include_str!("README.md")]

pub(crate) mod answer;
pub(crate) mod caught;
#[cfg(feature = "serde")]
pub(crate) mod codec;
pub(crate) mod delivery;
pub(crate) mod ending;
pub(crate) mod error;
pub(crate) mod kinds;
pub(crate) mod limit;
pub(crate) mod places;
pub(crate) mod recurrence;
pub(crate) mod retry;
#[cfg(feature = "serde")]
pub(crate) mod typed_kind;
