//! Sync: atomics, cells, threads and queues, the real ones (`std.rs`) or loom's stand-ins
//! under `--cfg loom` (`loom.rs`).
//!
//! All rooms use it; it owns no thread. Ground rule: only this room names `std::sync::atomic`, and
//! park and unpark of `std::thread`. Every other room takes them from here, so that the models in
//! `loom-tests/` run the code of the release build. `membarrier.rs` has fences in pairs, `forks.rs`
//! tells processes apart, `fault.rs` has the steps that a model can break, `unless.rs` those of
//! them that are one line in a protocol.
//!
//! Limit: loom does not see into crossbeam-queue. Under loom a queue is a mutex around a `VecDeque`
//! (a linearizable stand-in). A model proves our code around it, not the queue.

mod fault;
mod forks;
#[cfg(loom)]
mod loom_kernel;
#[cfg(loom)]
mod loom_pins;
mod membarrier;
mod unless;

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
pub(crate) use forks::{Process, prepare_forks};
pub(crate) use imp::*;
#[cfg(loom)]
pub use loom_kernel::{forbid_membarrier, interrupt, set_kernel, switch_out};
#[cfg(loom)]
pub use loom_pins::set_pins;
#[cfg(loom)]
pub(crate) use loom_pins::{model_has_failed, pins_count};
pub(crate) use membarrier::{heavy_fence, light_fence, prepare_fences};
pub(crate) use unless::{cas_unless, full_fence_unless, heavy_fence_unless, light_fence_unless};

/// A state of `membarrier`: the kernel does not offer it.
const ABSENT: u8 = 0;

/// A state of `membarrier`: the kernel offers it.
const PRESENT: u8 = 1;

/// A state of `membarrier`: the kernel has withdrawn it, and some threads do not know yet. Heavy
/// fences wait for 10 ms after that: time for those threads to be interrupted.
const LEAVING: u8 = 2;

/// Starts a thread. It takes a box, so that a program has this once.
pub(crate) fn start_thread(
    name: String,
    run: Box<dyn FnOnce() + Send>,
) -> std::io::Result<JoinHandle<()>> {
    ThreadBuilder::new().name(name).spawn(run)
}

/// For statics: loom's atomics cannot be made in a static.
pub(crate) use std::sync::atomic::AtomicU32 as StaticU32;

/// For statics, as above.
#[cfg(feature = "async")]
pub(crate) use std::sync::atomic::AtomicU64 as StaticU64;

/// For counters, which decide nothing. They are no part of a model.
pub(crate) use std::sync::atomic::AtomicU64 as CountU64;

/// For the lock around sets of such counters. It is no part of a model either.
pub(crate) use std::sync::atomic::AtomicBool as CountLock;
