//! Tests of the judge: tales of timers, as nodes would have told them. Of each promise there is a
//! tale that breaks it and no other, and beside that the nearest one that breaks none.

mod cancels;
mod ends;
mod file;
mod leases;
mod lives;
mod moves;
mod take_overs;
pub(crate) mod tale;
mod times;
