#![doc = include_str!("README.md")]

mod admit;
mod batch;
mod future;
#[cfg(feature = "postgres")]
mod in_transaction;
mod limit;
mod one;
mod passes;
pub(crate) mod run;
mod settle;
mod traced;
