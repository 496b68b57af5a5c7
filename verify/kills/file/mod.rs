//! File: timers in a store that one process has at a time, while it is killed and started again.
//!
//! The parent starts this program anew as its child, which opens the store, arms, cancels and
//! handles, and tells of each step. The parent keeps the ledger, kills the child, and judges at the
//! end.

mod args;
mod child;
#[cfg(test)]
mod fake;
mod folder;
mod job;
mod limits;
mod parent;
mod plan;
mod progress;
mod report;
mod store;

pub(crate) use args::Args;
pub(crate) use job::run;
