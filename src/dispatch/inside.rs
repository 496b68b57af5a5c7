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
#[inline]
pub(crate) fn inside<R>(f: impl FnOnce() -> R) -> R {
    inside_for_good();
    let result = f();
    leave();
    result
}

/// Whether the calling thread is inside a task: it runs one, a hook (but for a panic of async code,
/// which its runtime's thread tells), or whatever [`run_as_task`] runs; or it takes a shard's
/// turns: a shard's thread, or one that moves a [`ManualClock`](crate::ManualClock); or it is the
/// watchdog's thread.
///
/// Other threads may wait for such a thread. So a `stop` there waits for nobody, and
/// [`cancel_and_wait`](crate::ServiceHandle::cancel_and_wait) returns an
/// [`InsideTaskError`](crate::InsideTaskError). What is built on top of a service asks here before
/// it waits for tasks or threads itself. Costs a look at a thread-local.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{ManualClock, TimerService, is_inside_task};
///
/// let clock = ManualClock::new();
/// let service = TimerService::builder().clock(clock.clone()).start()?;
/// service.schedule(Duration::from_secs(1), || assert!(is_inside_task()))?;
/// clock.advance(Duration::from_secs(1));
/// assert!(!is_inside_task());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn is_inside_task() -> bool {
    inside_job()
}

/// Runs a closure as a task is run: inside it [`is_inside_task`] says yes, so nothing there waits
/// for tasks or threads that may wait for it.
///
/// It is for user code that is called from a thread which others wait for: a hook, a waker, the
/// poll of a future. Costs two changes of a thread-local.
///
/// # Panics
/// If the closure panics, with its panic.
///
/// # Example
/// ```
/// use wheelwork::{TimerService, is_inside_task, run_as_task};
///
/// let service = TimerService::builder().start()?;
/// // The hook may stop the service: that waits for nobody.
/// let hook = || assert!(is_inside_task() && service.stop().is_empty());
/// run_as_task(hook);
/// assert!(!is_inside_task());
/// # Ok::<(), wheelwork::StartError>(())
/// ```
pub fn run_as_task<R>(f: impl FnOnce() -> R) -> R {
    /// Leaves when it is dropped, by a panic too.
    struct Entered;

    impl Drop for Entered {
        fn drop(&mut self) {
            leave();
        }
    }

    inside_for_good();
    let _entered = Entered;
    f()
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
