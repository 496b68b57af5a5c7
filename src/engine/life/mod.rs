//! A timer's life: from its arming to its end, whoever ends it.

pub(crate) mod arm;
pub(crate) mod batch;
mod claim;
mod end;
mod fire;
pub(crate) mod in_flight;
mod look;
mod pausing;
pub(crate) mod periodic_run;
pub(super) mod wall;
