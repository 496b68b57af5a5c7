//! tokio's runtime, as the subjects need it.

use std::future::pending;
use std::thread;
use tokio::runtime::{Builder, Handle, Runtime};

/// One whose timers are driven by whoever blocks on it.
pub(super) fn new() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().build().expect("a runtime starts")
}

/// One with a thread that drives its timers, and does nothing else but its tasks.
pub(super) fn driven() -> Handle {
    let runtime = new();
    let handle = runtime.handle().clone();
    spawn("tokio", move || runtime.block_on(pending::<()>()));
    handle
}

/// A thread that lives as long as the process.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let builder = thread::Builder::new().name(name.to_string());
    builder.spawn(work).expect("a thread can be spawned");
}
