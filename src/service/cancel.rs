//! Cancel: the calls that end timers. `engine/life/end.rs` has the steps.

use super::handle::ServiceHandle;
use crate::cell::Content;
use crate::dispatch::inside::inside_job;
use crate::engine::drops::Drops;
use crate::engine::id::TimerId;
use crate::error::InsideTaskError;
use std::fmt;
use std::time::Duration;

impl<T: Send + 'static> ServiceHandle<T> {
    /// Cancels a timer.
    ///
    /// Returns `true` if the timer will never fire. Its payload has then been dropped, on this
    /// thread. Returns `false` if the timer has fired (or is about to), was cancelled, or was
    /// handed back, or if the id belongs to another service.
    ///
    /// For a periodic timer whose run is in progress, `true` means that no further run begins. The
    /// present run goes on and drops the closure at its end. (It is in progress from the moment in
    /// which a worker takes it up; the closure may be called a little later.)
    /// [`cancel_and_wait`](Self::cancel_and_wait) waits for that.
    ///
    /// Any thread may call this. It waits for no task. It takes no lock and waits for no other
    /// thread, with these exceptions:
    ///
    ///  - A thread's first call to each shard takes a lock. It is held for a short time: mostly for
    ///    some nanoseconds, and by `stats` for up to a microsecond for each thread. A call that
    ///    finds it held sleeps for some 0.1 ms at a time, until the thread that holds it goes on.
    ///  - Free cells go from thread to thread through crossbeam's queue, 64 at a time. A thread
    ///    that is preempted in the middle of a push there may hold up others until it goes on.
    ///  - A thread that arms or cancels faster than its shard can follow is paused now and then,
    ///    for up to 25.6 ms.
    ///
    /// Cost: some 20 ns, and a cache miss if the timer is one of a million.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::MAX, || unreachable!())?;
    /// assert!(service.cancel(id));
    /// assert!(!service.cancel(id), "only once");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn cancel(&self, id: TimerId) -> bool {
        let engine = &*self.engine;
        // The payload is dropped after the borrow of the local.
        engine
            .cells
            .with_local(|local| engine.cells.take_first(local, id))
            .is_some()
            || self.cancel_any(id)
    }

    /// Cancels a timer and returns its payload. `None` where [`cancel`](Self::cancel) returns
    /// `false`, and for a periodic timer, which goes on. Cost: as [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{Batch, TimerService};
    ///
    /// let service = TimerService::builder()
    ///     .on_expire(|messages: &mut Batch<'_, String>| messages.for_each(drop))
    ///     .start()?;
    /// let id = service.schedule(Duration::from_secs(5), "message".to_string())?;
    /// assert_eq!(service.take(id).as_deref(), Some("message"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn take(&self, id: TimerId) -> Option<T> {
        let engine = &*self.engine;
        engine.cells.with_local(|local| {
            engine
                .cells
                .take_first(local, id)
                .or_else(|| engine.cells.take(local, id))
        })
    }

    /// Cancels a timer, and waits for its task if that is running. When the call returns, the task
    /// does not run and will not run. `Ok(true)` where [`cancel`](Self::cancel) returns `true`.
    ///
    /// A timer that has not fired is cancelled without waiting. Otherwise the call waits for the
    /// jobs that are in progress now, of all timers. A job has the tasks of up to 1,024 timers;
    /// those of them that have not begun are waited for too. Calls that wait at the same time share
    /// a lock, and each waits until it has that. It does not wait for jobs that begin after that
    /// moment. If another thread cancels the timer at the same time, the call does not wait until
    /// that thread has dropped the payload. In a process that was forked off it waits for no task,
    /// because the tasks run in the parent.
    ///
    /// Two things that a timer has set off are not waited for. Async code that it has spawned
    /// (`schedule_async`, `start_async`) is the runtime's. With
    /// [`on_expire_channel`](crate::Builder::on_expire_channel) the call waits until the payload is
    /// in the channel, and not for the thread that receives it.
    ///
    /// # Errors
    /// [`InsideTaskError`] inside a task, a handler, a hook (but for `on_panic` of async code) or
    /// an executor's function, of this service or another: the call might wait for itself. The
    /// timer is not cancelled then.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.every(Duration::from_millis(1)).start(|| println!("uses a file"))?;
    /// assert!(service.cancel_and_wait(id)?);
    /// // Now the file can be removed.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_and_wait(&self, id: TimerId) -> Result<bool, InsideTaskError> {
        if inside_job() {
            return Err(InsideTaskError);
        }
        let engine = &*self.engine;
        let cancelled = engine
            .cells
            .with_local(|local| engine.cells.cancel(local, id)); // AwaitCancel
        if !matches!(cancelled, Some(Some(_))) && !engine.cells.shared.is_forked() {
            engine.in_flight.wait_for_present();
        }
        Ok(cancelled.is_some())
    }

    /// Cancels all timers that are pending, and returns their number. A timer that is armed at the
    /// same time may be cancelled or not.
    ///
    /// The payloads are dropped on this thread, one after the other. If drops panic, the first
    /// panic goes on when all timers are cancelled.
    ///
    /// Cost: some nanoseconds for each cell that was ever in use, and a `cancel` for each timer.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// service.schedule(Duration::from_secs(1), || ())?;
    /// service.every(Duration::from_secs(1)).start(|| ())?;
    /// assert_eq!(service.cancel_all(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_all(&self) -> usize {
        let engine = &*self.engine;
        let mut cancelled = 0;
        // One by one: each payload is let go before the next timer is claimed.
        let claimed = engine.cells.indices().filter_map(|cell| {
            engine
                .cells
                .with_local(|local| engine.cells.cancel_at(local, cell))
        });
        Drops::all(
            claimed
                .inspect(|_| cancelled += 1)
                .map(|content| match content {
                    Some(Content::Payload(payload)) => (engine.let_go)(payload),
                    periodic => drop(periodic),
                }),
        );
        cancelled
    }

    /// Ties a timer to a scope: when the guard is dropped the timer is cancelled. Costs a reference
    /// count.
    ///
    /// # Example
    /// See [`TimerGuard`].
    pub fn guard(&self, id: TimerId) -> TimerGuard<T> {
        TimerGuard {
            handle: Some(self.clone()),
            id,
        }
    }

    /// Cancels a timer that may have been moved or may be periodic.
    #[cold]
    fn cancel_any(&self, id: TimerId) -> bool {
        let engine = &*self.engine;
        engine
            .cells
            .with_local(|local| engine.cells.cancel(local, id))
            .is_some()
    }
}

/// Cancels a timer when it is dropped. [`ServiceHandle::guard`] makes one. [`keep`](Self::keep)
/// gives it up. If the guard is forgotten (`std::mem::forget`), the timer goes on, too. But then
/// the memory of the service is never freed, because the guard has a handle.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let id = service.schedule(Duration::from_secs(30), || println!("it takes too long"))?;
/// {
///     let _guard = service.guard(id);
///     // Work that must not take longer than 30 s.
/// }
/// assert!(!service.is_pending(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it cancels the timer"]
pub struct TimerGuard<T: Send + 'static> {
    /// `None`: the guard was given up.
    handle: Option<ServiceHandle<T>>,
    id: TimerId,
}

impl<T: Send + 'static> TimerGuard<T> {
    /// The timer's id.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(30), || ())?;
    /// assert_eq!(service.guard(id).id(), id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(&self) -> TimerId {
        self.id
    }

    /// Gives the guard up: the timer goes on. Returns the timer's id.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let guard = service.guard(service.schedule(Duration::from_secs(30), || ())?);
    /// let id = guard.keep();
    /// assert!(service.is_pending(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep(mut self) -> TimerId {
        self.handle = None;
        self.id
    }

    /// Moves the timer's deadline to now + `delay`, as
    /// [`reschedule`](ServiceHandle::reschedule) does.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// let service = wheelwork::TimerService::builder().start()?;
    /// let minute = Duration::from_secs(60);
    /// let idle = service.guard(service.schedule(minute, || println!("nothing for a minute"))?);
    /// // Something came in:
    /// assert!(idle.reschedule(minute));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reschedule(&self, delay: Duration) -> bool {
        let handle = self.handle.as_ref();
        handle.is_some_and(|handle| handle.reschedule(self.id, delay))
    }
}

impl<T: Send + 'static> Drop for TimerGuard<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            // `Drops`, since the thread may be unwinding and the payload's drop may panic too.
            Drops::all(std::iter::once_with(|| handle.cancel(self.id)));
        }
    }
}

impl<T: Send + 'static> fmt::Debug for TimerGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimerGuard").field(&self.id).finish()
    }
}
