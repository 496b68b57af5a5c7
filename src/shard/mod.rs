#![doc = include_str!("README.md")]

mod arrivals;
mod budget;
mod counters;
mod elimination;
mod prefetch_queue;
pub(crate) mod turn;
mod upkeep;
pub(crate) mod wakes;
pub(crate) mod worker;

pub(crate) use arrivals::LINGER_NS;
pub(crate) use counters::{Count, Counters};
