//! Tests of async code without real time: [`block_on`] moves a [`ManualClock`] to the next deadline
//! whenever no task is ready. tokio has the same with `start_paused = true`.
//!
//! [`future::sleep`](crate::future::sleep()) and the other functions of [`future`](crate::future)
//! run on that clock, on this thread. So the code under test needs no change, and tests can run in
//! parallel. A day takes no time, and every run is the same, unless the code uses other threads or
//! random times.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use wheelwork::future::{sleep, timeout};
//! use wheelwork::testing;
//!
//! const DAY: Duration = Duration::from_secs(24 * 3_600);
//!
//! testing::block_on(async {
//!     let backup = testing::spawn(async {
//!         sleep(30 * DAY).await;
//!         "done"
//!     });
//!     assert!(timeout(DAY, std::future::pending::<()>()).await.is_err());
//!     assert_eq!(testing::clock().elapsed(), DAY);
//!     assert_eq!(backup.await, "done");
//!     assert_eq!(testing::clock().elapsed(), 30 * DAY);
//! });
//! ```
//!
//! # When time moves
//!
//! - While a task is ready, time stands still. Tasks are polled in the order in which they were
//!   woken. A task that wakes itself comes after the others.
//! - When no task is ready, time moves to the next deadline of all services on the clock, and the
//!   timers that are due fire on this thread. Time stops at each deadline and never goes past one.
//!   It may also stop at the old deadline of a timer that was cancelled or moved, where none fires.
//! - Tasks that only yield, as in `while !flag.get() { yield_now().await }`, hold time up for
//!   100,000 polls of each. Then it moves. Tasks that wake each other for ever hold it up for ever.
//! - A task may move the clock itself: `testing::clock().advance(..)`.
//! - Deadlines round up to a tick of their service: with 1 ms, a sleep of 1.5 ms ends at 2 ms.
//!
//! # Other threads
//!
//! A task that waits for another thread is not ready. So time moves on meanwhile, as it does in
//! tokio, and a timeout around the task is over at once. To prevent this, call [`hold`]: it makes a
//! value that keeps the clock from moving as long as the value lives. The thread that works for the
//! test drops the value when it has sent its result.
//!
//! # When nothing can happen
//!
//! With no task ready and no timer pending, `block_on` waits for a wake from another thread. If no
//! waker of its tasks is left anywhere, no wake can come: it panics, and says how many tasks wait.
//! While a [`Hold`] lives it waits for the hold's end, whatever else is left.
//!
//! # Limits
//!
//! - `Instant::now()` is real time. Code that computes with instants takes them from
//!   [`Timers::current`](crate::future::Timers::current), or from [`clock`].
//! - Services on the clock should fire inline, as they do unless the builder has another
//!   [`dispatch`](crate::Builder::dispatch). A pool wakes a task some time after its deadline, and
//!   time may have moved on by then.
//! - A periodic timer on the clock is always pending. With one, a test that waits for what never
//!   comes does not end.
//! - One `block_on` at a time for a clock. With two, on two threads, each moves the other's time.
//! - The clock does not know of sockets, nor of a runtime's own timers: see
//!   [the guide](crate::guide::testing#under-tokio).

mod executor;
mod paused;
mod ready;
mod spawned;

pub use paused::Paused;
pub use ready::Hold;
pub use spawned::JoinHandle;

use crate::time::ManualClock;
use executor::{TestExecutor, current};
use spawned::pair;
use std::future::IntoFuture;

/// Runs a future, and the tasks that it [`spawn`]s, on a clock of its own. It moves the clock to
/// the next deadline whenever nothing is ready: the [module](self) says when time moves.
///
/// Make futures inside of it: `block_on(async { sleep(delay).await })`. The sleep of
/// `block_on(sleep(delay))` is made before, and waits for the service that is used outside.
///
/// Everything runs on the calling thread, so nothing has to be `Send`. When the future is ready,
/// the tasks that still run are dropped, in the order in which they were spawned. Then it returns.
///
/// # Panics
/// - If the future or a task panics: with that panic, after the tasks were dropped.
/// - If nothing can wake its tasks any more.
/// - Inside another `block_on` of this module; and if a timer of the same clock calls it, once
///   time would have to move.
///
/// # Example
/// See the [module](self)'s.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    Paused::new().block_on(future)
}

/// Starts a task, on this thread. It runs until its future is ready, or until [`block_on`] ends.
/// The function may also be called by a timer of the clock, and while tasks are dropped.
///
/// # Panics
/// Outside of [`block_on`]. A task that panics ends `block_on` with its panic.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{future::sleep, testing};
///
/// let sum = testing::block_on(async {
///     let tasks: Vec<_> = (1..=100u64)
///         .map(|number| {
///             testing::spawn(async move {
///                 sleep(Duration::from_secs(number)).await;
///                 number
///             })
///         })
///         .collect();
///     let mut sum = 0;
///     for task in tasks {
///         sum += task.await;
///     }
///     assert_eq!(testing::clock().elapsed(), Duration::from_secs(100));
///     sum
/// });
/// assert_eq!(sum, 5_050);
/// ```
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: IntoFuture,
    F::IntoFuture: 'static,
    F::Output: 'static,
{
    let (task, handle) = pair(future.into_future());
    current().spawn(task);
    handle
}

/// The clock of the [`block_on`] that runs on this thread.
///
/// # Panics
/// Outside of [`block_on`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{future::sleep, testing};
///
/// testing::block_on(async {
///     let start = testing::clock().now();
///     sleep(Duration::from_secs(60)).await;
///     assert_eq!(testing::clock().now() - start, Duration::from_secs(60));
/// });
/// ```
#[must_use]
pub fn clock() -> ManualClock {
    current().clock().clone()
}

/// Keeps `block_on` from moving the clock, until the value that is returned is dropped: for tasks
/// that wait for another thread. Drop it after what the thread sends was sent.
///
/// # Panics
/// Outside of [`block_on`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{future::timeout, testing};
///
/// testing::block_on(async {
///     let (send, receive) = smol::channel::bounded(1);
///     let hold = testing::hold();
///     std::thread::spawn(move || {
///         send.send_blocking("the answer").unwrap();
///         drop(hold);
///     });
///     let answer = timeout(Duration::from_millis(1), receive.recv()).await;
///     assert_eq!(answer, Ok(Ok("the answer")));
/// });
/// ```
pub fn hold() -> Hold {
    current().hold()
}

impl Paused {
    /// Runs a future on this clock: see [`block_on`](block_on()).
    ///
    /// # Panics
    /// As [`block_on`](block_on()).
    pub fn block_on<F: IntoFuture>(&self, future: F) -> F::Output {
        let _entered = self.timers().enter();
        TestExecutor::run(self.clock().clone(), future.into_future())
    }
}
