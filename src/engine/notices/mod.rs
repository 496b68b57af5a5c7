//! Notices: what a service tells its user without being asked.

#[cfg(feature = "tracing")]
pub(super) mod events;
pub(crate) mod hooks;
pub(crate) mod news;
pub(crate) mod watchdog;
