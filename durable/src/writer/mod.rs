//! Writer: the one that owns the store.

pub(crate) mod aside;
pub(crate) mod fleet_watch;
pub(crate) mod large;
pub(crate) mod load;
pub(crate) mod manual;
pub(crate) mod measure;
pub(crate) mod nodes;
pub(crate) mod outcomes;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod serve;
pub(crate) mod settle;
pub(crate) mod slices;
pub(crate) mod stall;
pub(crate) mod suspects;
pub(crate) mod trials;
pub(crate) mod turn;
pub(crate) mod window;
