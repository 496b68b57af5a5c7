//! tokio's runtime, as the subjects need it.

use std::thread;
use tokio::runtime::{Builder, Handle, Runtime};

/// One whose timers are driven by whoever blocks on it.
pub(super) fn new() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().build().expect("a runtime starts")
}

/// One with the alternative timer and one worker, whose thread begins with `begin`. It lives as
/// long as the process.
#[cfg(tokio_unstable)]
pub(super) fn with_alternative_timer(begin: impl Fn() + Send + Sync + 'static) -> &'static Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(1).enable_alt_timer();
    let runtime = builder.on_thread_start(begin).build();
    Box::leak(Box::new(runtime.expect("a runtime starts")))
}

/// One with a thread that drives its timers, and does nothing else but its tasks. In the build that
/// has the alternative timer that is a worker.
#[cfg(tokio_unstable)]
pub(super) fn driven() -> Handle {
    with_alternative_timer(|| ()).handle().clone()
}

/// One with a thread that drives its timers, and does nothing else but its tasks.
#[cfg(not(tokio_unstable))]
pub(super) fn driven() -> Handle {
    let runtime = new();
    let handle = runtime.handle().clone();
    spawn("tokio", move || {
        runtime.block_on(std::future::pending::<()>())
    });
    handle
}

/// A thread that lives as long as the process.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let builder = thread::Builder::new().name(name.to_string());
    builder.spawn(work).expect("a thread can be spawned");
}
