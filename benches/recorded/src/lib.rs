//! Recorded: counts of calls, held against those that lie in the repository.
//!
//! For whatever is counted and not timed: instructions, and cache lines between cores. A [`Record`]
//! says how such counts are written and by how much they may rise.

mod gate;
mod numbers;

pub use gate::{Margin, Record};
pub use numbers::{Numbers, toolchain};
