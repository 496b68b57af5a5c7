#![doc = include_str!("README.md")]

mod admit;
mod batch;
mod future;
mod one;
pub(crate) mod run;
mod settle;
