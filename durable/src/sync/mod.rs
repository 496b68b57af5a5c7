//! Sync: atomics, locks and threads, the real ones (`std.rs`) or loom's stand-ins under
//! `--cfg loom` (`loom.rs`).
//!
//! Ground rule: only this room names `std::sync::atomic`. All others take them from here, so that
//! the models in `loom-tests/` run the code of the release build. `fault.rs` has the steps that a
//! model can break.

mod fault;

#[cfg(loom)]
#[path = "loom.rs"]
mod imp;
#[cfg(not(loom))]
#[path = "std.rs"]
mod imp;

pub use fault::Fault;
#[cfg(loom)]
pub use fault::set_fault;
pub(crate) use fault::{broken, ordering};
pub(crate) use imp::*;

/// For counters, which decide nothing. They are no part of a model.
pub(crate) use std::sync::atomic::AtomicU64 as CountU64;

/// A process, by its number.
///
/// A process that was forked off has a copy of all memory, and none of its parent's threads but the
/// one that has forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The process of the caller.
    pub(crate) fn current() -> Self {
        if cfg!(all(any(unix, windows), not(any(loom, miri)))) {
            Self(std::process::id())
        } else {
            Self(0)
        }
    }

    /// Whether the caller is in a process that was forked off this one.
    pub(crate) fn is_forked(self) -> bool {
        self != Self::current()
    }
}
