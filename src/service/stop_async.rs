//! Stop async: a stop that does not block its caller.
//!
//! # How it works
//!
//! - The call itself marks the service as stopped. A thread of its own takes the further steps,
//!   and does all the waiting: `stop.rs` has them.
//! - The thread leaves the outcome in a place that it shares with the future (StopTell), and wakes
//!   the task that polled last (StopPoll).
//! - Whichever of the two goes last drops what nobody takes. If the future goes first, it says so
//!   in that place (StopForget).
//!
//! Ground rule: no user code runs under the lock of that place: wakers and payloads are cloned,
//! woken and dropped outside of it.

use super::handle::TimerService;
use super::stop::{StopPolicy, Unfired};
use crate::dispatch::inside::inside_job;
use crate::engine::drops::Drops;
use crate::engine::start::threads::Started;
use crate::sync::{Fault, Mutex, broken, start_thread};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

/// What has become of a stop.
enum StopOutcome<T> {
    /// It goes on. The waker of the task that polled last.
    Pending(Option<Waker>),
    /// It is over, with what it hands back.
    Ready(Vec<Unfired<T>>),
    /// The future is gone.
    Forgotten,
}

/// Where the thread of a stop leaves the outcome for the future.
struct Handover<T>(Mutex<StopOutcome<T>>);

impl<T> Handover<T> {
    /// Changes the outcome, under the lock. `f` runs no user code.
    fn with<R>(&self, f: impl FnOnce(&mut StopOutcome<T>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A stop that goes on by itself. It is ready when the service has stopped, with what
/// [`stop`](TimerService::stop) returns. Made by [`TimerService::stop_async`].
///
/// It needs no polls to go on. If it is dropped, the stop goes on nevertheless, and what it would
/// have handed back is dropped. Polled again after it was ready, it gives an empty list. It works
/// under any runtime, and needs no Cargo feature.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::{StopFuture, TimerService};
///
/// let service = TimerService::builder().start()?;
/// service.schedule(Duration::from_secs(30), || println!("timed out"))?;
/// let stop: StopFuture<_> = service.stop_async();
/// assert!(service.is_stopped(), "as soon as the call returns");
/// assert_eq!(smol::block_on(stop).len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "what has not fired is dropped with it"]
pub struct StopFuture<T: Send + 'static> {
    handover: Arc<Handover<T>>,
}

impl<T: Send + 'static> TimerService<T> {
    /// Stops the service without blocking the caller: [`stop`](Self::stop) for async code. The
    /// future yields every timer that has not fired.
    ///
    /// When the call returns, the service accepts no timer any more. A thread of its own does the
    /// waiting: for the tasks that run, and for the shards' threads. So the stop goes on whether
    /// the future is polled or not, and if the future is dropped.
    ///
    /// - Of several stops the first one hands back; the others yield nothing, and end when it has
    ///   ended. A stop during the drain of another one ends that drain, and is the first, unless it
    ///   drains too: then the first one whose drain is over is the first.
    /// - The drop of the service is a stop that does not drain. It may come at any time, and then
    ///   waits. During a drain it ends the drain: what has not fired is dropped with the service,
    ///   and the future yields nothing. So keep the service until a drain is over.
    /// - Inside a task the call works as outside: the future is ready after that task has ended. A
    ///   task that blocks its thread on the future waits for itself for ever.
    ///
    /// Cost: a thread for as long as the stop takes, named `wheelwork-stop`. If the system has none
    /// to give, the call itself stops the service, as `stop` does.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{Batch, TimerService};
    ///
    /// # smol::block_on(async {
    /// let service = TimerService::builder()
    ///     .on_expire(|sessions: &mut Batch<'_, u64>| sessions.for_each(drop))
    ///     .start()?;
    /// service.schedule(Duration::from_secs(3600), 4711)?;
    /// let unfired = service.stop_async().await;
    /// assert_eq!(unfired[0].payload, 4711);
    /// // It has stopped: its drop waits for nobody.
    /// drop(service);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn stop_async(&self) -> StopFuture<T> {
        self.stop_async_with(StopPolicy::HandBack)
    }

    /// Stops the service without blocking the caller, and does with its timers what the policy
    /// says. Otherwise like [`stop_async`](Self::stop_async). [`StopPolicy::FireAll`] fires on the
    /// stop's thread; a drain inside a task is a drain.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{StopPolicy, TimerService};
    ///
    /// # smol::block_on(async {
    /// let service = TimerService::builder().start()?;
    /// service.schedule(Duration::from_millis(5), || println!("still in time"))?;
    /// let limit = Duration::from_secs(1);
    /// assert!(service.stop_async_with(StopPolicy::Drain(limit)).await.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn stop_async_with(&self, policy: StopPolicy) -> StopFuture<T> {
        // StopAsync: the thread is inside no task, so it waits.
        let waits = !broken(Fault::StopAsyncWaitsForNobody);
        let mut begun = self.started.begin_stop(policy, waits);
        let handover = Arc::new(Handover(Mutex::new(StopOutcome::Pending(None))));
        let stop = {
            let (started, handover) = (self.started.clone(), handover.clone());
            move || tell(&started, &handover, started.end_stop(begun))
        };
        if start_thread("wheelwork-stop".to_string(), Box::new(stop)).is_err() {
            begun.waits &= !inside_job();
            let unfired = self.started.end_stop(begun);
            handover.with(|outcome| *outcome = StopOutcome::Ready(unfired));
        }
        StopFuture { handover }
    }
}

/// StopTell. Leaves the outcome of a stop, and wakes who waits for it.
fn tell<T: Send + 'static>(started: &Started<T>, handover: &Handover<T>, unfired: Vec<Unfired<T>>) {
    let mut early = None;
    if broken(Fault::StopToldTooEarly) {
        early = handover.with(|outcome| match outcome {
            StopOutcome::Pending(waker) => Some(waker.take()),
            _ => None,
        });
    }
    // At one instant: a poll that comes before leaves its waker here, one that comes after finds
    // the outcome.
    let mut left = Some(unfired);
    let waker = handover.with(|outcome| match outcome {
        StopOutcome::Pending(waker) => {
            let waker = waker.take();
            *outcome = StopOutcome::Ready(left.take().unwrap_or_default());
            waker
        }
        StopOutcome::Ready(_) | StopOutcome::Forgotten => None,
    });
    let waker = early.unwrap_or(waker);
    // A waker and payloads are the user's. Nobody waits for this thread.
    started.engine.hooks.call(|| {
        if let Some(waker) = waker {
            waker.wake();
        }
        Drops::all(left.into_iter().flatten());
    });
}

impl<T: Send + 'static> Future for StopFuture<T> {
    type Output = Vec<Unfired<T>>;

    /// StopPoll.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Unfired<T>>> {
        let mut waker = Some(context.waker().clone());
        // What was there before is dropped after the lock.
        self.handover.with(|outcome| match outcome {
            StopOutcome::Pending(before) => {
                std::mem::swap(before, &mut waker);
                Poll::Pending
            }
            StopOutcome::Ready(unfired) => Poll::Ready(std::mem::take(unfired)),
            StopOutcome::Forgotten => Poll::Ready(Vec::new()),
        })
    }
}

impl<T: Send + 'static> Drop for StopFuture<T> {
    /// StopForget.
    fn drop(&mut self) {
        let outcome = self
            .handover
            .with(|outcome| std::mem::replace(outcome, StopOutcome::Forgotten));
        if let StopOutcome::Ready(unfired) = outcome {
            Drops::all(unfired.into_iter());
        }
    }
}

impl<T: Send + 'static> fmt::Debug for StopFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopFuture").finish_non_exhaustive()
    }
}
