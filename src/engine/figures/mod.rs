//! Figures: what threads count, and what a user gets of it.

pub(crate) mod lateness;
mod read_stats;
pub(crate) mod stats;
pub(crate) mod tally;
