//! Inside: whether the calling thread is inside a task, where it must not wait for jobs or threads.
//!
//! Thread-local: each thread reads and writes its own depth.

use crate::sync::per_thread;
use std::cell::Cell;

per_thread! {
    /// How many jobs, and turns of shards, this thread is inside of. More than one if a task runs
    /// tasks, inline.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread runs a job or takes a shard's turns. It must not wait for jobs or
/// threads to end then.
pub(crate) fn inside_job() -> bool {
    DEPTH.with(Cell::get) > 0
}

/// Runs `f`, which must not unwind, as something for which other threads may wait.
pub(crate) fn inside<R>(f: impl FnOnce() -> R) -> R {
    inside_for_good();
    let result = f();
    leave();
    result
}

/// The calling thread takes a shard's turns, or `stop` waits for it. It is inside until it has
/// ended, with the destructors of its thread-locals.
#[inline]
pub(crate) fn inside_for_good() {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
}

#[inline]
fn leave() {
    DEPTH.with(|depth| depth.set(depth.get() - 1));
}
