//! Promises that are tried in very many steps, a module each. `scripts/test` optimizes this
//! program.

mod calendar;
mod intervals;
mod never_early;
mod payload_sizes;
mod periodic;
mod periodic_model;
#[path = "../common/quiet.rs"]
mod quiet;
mod spans;
#[path = "../common/tasks.rs"]
mod tasks;
mod wheel;
