//! Spawned: async code that a timer starts on a runtime.

use crate::engine::Engine;
use crate::engine::id::TimerId;
use crate::error::ScheduleError;
use crate::service::{Periodic, ServiceHandle};
use crate::sync::{AtomicBool, Ordering};
use pin_project_lite::pin_project;
use std::any::Any;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Where a panic of the async code is told: the service whose timer has started it.
trait TellPanic: Send + Sync {
    fn tell(&self, panic: Box<dyn Any + Send>);
}

impl<T: Send + 'static> TellPanic for Engine<T> {
    fn tell(&self, panic: Box<dyn Any + Send>) {
        self.panicked(panic);
    }
}

pin_project! {
    /// Async code on its way to a runtime, as
    /// [`schedule_async`](crate::ServiceHandle::schedule_async) and
    /// [`start_async`](crate::Periodic::start_async) hand it to the closure that spawns it. It is a
    /// future without a result.
    ///
    /// Its polls never panic: a panic of the async code ends it, and counts as one of the service's
    /// tasks ([`Stats::panics`](crate::Stats::panics), [`on_panic`](crate::Builder::on_panic)).
    ///
    /// # Example
    /// See [`schedule_async`](crate::ServiceHandle::schedule_async).
    #[must_use = "a future does nothing until it is polled"]
    pub struct AsyncTask<F> {
        // `None`: it has ended.
        #[pin]
        future: Option<F>,
        service: Arc<dyn TellPanic>,
        // Of a periodic timer.
        running: Option<Running>,
    }
}

/// As long as it lives, the timer begins no further run.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        // Ordering: Release. Pairs with the Acquire in `start_async`: the next run sees what this
        // one did.
        self.0.store(false, Ordering::Release);
    }
}

impl<F: Future> Future for AsyncTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            return Poll::Ready(());
        };
        // The output is dropped here, too: its drop is the user's code.
        match catch_unwind(AssertUnwindSafe(|| future.poll(context).map(drop))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => {}
            Err(panic) => this.service.tell(panic),
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| this.future.set(None))) {
            this.service.tell(panic);
        }
        drop(this.running.take());
        Poll::Ready(())
    }
}

impl<F> fmt::Debug for AsyncTask<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncTask")
            .field("has_ended", &self.future.is_none())
            .finish_non_exhaustive()
    }
}

impl ServiceHandle {
    /// Arms a timer that starts async code. When `delay` has passed, the closure `spawn` gets the
    /// code as an [`AsyncTask`], and hands it to a runtime. Otherwise like
    /// [`schedule`](Self::schedule): the closure runs where tasks run. Only services of closures
    /// have this call.
    ///
    /// | | what happens |
    /// |---|---|
    /// | [`cancel`](Self::cancel) before the timer fires | the async code is dropped, and does not begin |
    /// | `cancel` after that | `false`; the async code goes on, on its runtime |
    /// | the async code panics | the panic is counted and reported as one of a task, and does not reach the runtime |
    /// | `spawn` panics (tokio's `spawn` outside of a runtime does) | the same; the async code is dropped |
    /// | the runtime has been shut down, or is later | the runtime drops the async code; to the service, the timer has fired |
    /// | the service stops before the timer fires | as with other timers: handed back, dropped or fired |
    /// | the service stops after that | the async code goes on; no stop waits for it |
    ///
    /// Async code that only has to wait needs no service of closures: `sleep(delay).await` in a
    /// task of the runtime does the same.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule). The future is dropped.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    ///
    /// # let tokio = tokio::runtime::Runtime::new()?;
    /// # tokio.block_on(async {
    /// let service = TimerService::builder().start()?;
    /// let (send, received) = tokio::sync::oneshot::channel();
    /// let runtime = tokio::runtime::Handle::current();
    /// let ask = async { send.send("from a task of tokio") };
    /// service.schedule_async(Duration::from_millis(2), ask, move |task| {
    ///     runtime.spawn(task);
    /// })?;
    /// assert_eq!(received.await?, "from a task of tokio");
    ///
    /// let (send, received) = smol::channel::bounded(1);
    /// let ask = async move { send.send("from a task of smol").await };
    /// service.schedule_async(Duration::from_millis(2), ask, |task| smol::spawn(task).detach())?;
    /// assert_eq!(received.recv().await?, "from a task of smol");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_async<F>(
        &self,
        delay: Duration,
        future: F,
        spawn: impl FnOnce(AsyncTask<F::IntoFuture>) + Send + 'static,
    ) -> Result<TimerId, ScheduleError<()>>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
    {
        let task = AsyncTask {
            future: Some(future.into_future()),
            service: self.engine.clone(),
            running: None,
        };
        self.schedule(delay, move || spawn(task))
            .map_err(|refused| refused.map(drop))
    }
}

impl<T: Send + 'static> Periodic<'_, T> {
    /// Starts the timer with async code: `run` makes the code of each run, and `spawn` hands it to
    /// a runtime, as in [`schedule_async`](ServiceHandle::schedule_async), which also says what
    /// becomes of panics and shutdowns. Otherwise like [`start`](Self::start).
    ///
    /// A `cancel` between the runs ends the timer and returns `true`. Async code that was spawned
    /// goes on, and no call waits for it.
    ///
    /// Two runs are never in progress at once: a run that comes while the async code of an earlier
    /// one has not ended is left out, and counts as one of [`times`](Self::times). A fixed delay
    /// ([`every_after`](ServiceHandle::every_after)) counts from the spawn. Where each run is to
    /// begin some time after the one before it has ended, use a loop over
    /// [`interval`](super::interval()) or [`sleep`](super::sleep()) in one task.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::TimerService;
    ///
    /// let service = TimerService::builder().start()?;
    /// let (send, received) = smol::channel::unbounded();
    /// let beat = move || {
    ///     let send = send.clone();
    ///     async move { send.send("a beat").await }
    /// };
    /// let beats = service.every(Duration::from_millis(2)).times(3);
    /// beats.start_async(beat, |task| smol::spawn(task).detach())?;
    /// # smol::block_on(async {
    /// assert_eq!(received.recv().await?, "a beat");
    /// # Ok::<(), smol::channel::RecvError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_async<F>(
        self,
        mut run: impl FnMut() -> F + Send + 'static,
        mut spawn: impl FnMut(AsyncTask<F::IntoFuture>) + Send + 'static,
    ) -> Result<TimerId, ScheduleError<()>>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
    {
        let service: Arc<dyn TellPanic> = self.handle().engine.clone();
        let is_running = Arc::new(AtomicBool::new(false));
        self.start(move || {
            // Ordering: Acquire. Pairs with the Release in the drop of `Running`. Only this timer
            // sets it, and its runs come one after the other.
            if is_running.load(Ordering::Acquire) {
                return;
            }
            // Ordering: Relaxed. As above.
            is_running.store(true, Ordering::Relaxed);
            let running = Running(is_running.clone());
            spawn(AsyncTask {
                future: Some(run().into_future()),
                service: service.clone(),
                running: Some(running),
            });
        })
    }
}
