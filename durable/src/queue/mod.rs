#![doc = include_str!("README.md")]

mod bucket;
pub(crate) mod bulk;
pub(crate) mod claims;
pub(crate) mod counted;
pub(crate) mod counter;
#[cfg(feature = "tracing")]
pub(crate) mod events;
pub(crate) mod fired;
pub(crate) mod futures;
mod granted;
pub(crate) mod lanes;
pub(crate) mod link;
pub(crate) mod outage;
pub(crate) mod paging;
pub(crate) mod pauses;
pub(crate) mod request;
pub(crate) mod rights;
pub(crate) mod stats;
pub(crate) mod throttle;
pub(crate) mod ticket;
