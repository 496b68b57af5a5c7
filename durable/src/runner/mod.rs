//! Runner: calls handlers.

pub(crate) mod run;
