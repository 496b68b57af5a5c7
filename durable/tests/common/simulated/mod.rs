//! What the simulations share: that of one process (`simulation`), and that of a fleet
//! (`fleet_simulation`).
//!
//! A simulation has a world under one lock, and in it a ledger. This folder has what the two worlds
//! and the two ledgers have in common; each simulation adds its own nodes, time and trouble.

#![allow(dead_code, reason = "each simulation uses a part")]

mod answers;
mod calls;
mod faults;
mod handlers;
mod records;
mod scene;
pub mod seeds;

pub use answers::{Answers, Pending};
pub use faults::{Call, Fate, Faulty, Plan, struck};
pub use handlers::end_by_chance;
pub use records::{Records, Report, Said, State, Timer, token};
pub use scene::{Counts, Scene, Shared};
