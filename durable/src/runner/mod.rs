#![doc = include_str!("README.md")]

pub(crate) mod run;
