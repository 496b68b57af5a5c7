//! Ending: the ways in which timers are ended, but for `cancel` and `take`.

use super::TimerHandle;
use super::hooks::discard;
use super::id::TimerId;
use crate::cell::Content;
use crate::dispatch::job::inside_job;
use crate::error::InsideTask;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Cancels a timer when it is dropped: made by [`TimerHandle::guard`]. Forgotten (`std::mem::forget`), it does nothing.
///
/// # Example
/// ```
/// use std::time::Duration;
/// # let service = wheelwork::TimerService::builder().start()?;
/// let id = service.schedule(Duration::from_secs(30), || println!("it takes too long"))?;
/// {
///     let _guard = service.guard(id);
///     // What must not take longer than 30 s.
/// }
/// assert!(!service.is_pending(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it cancels the timer"]
pub struct TimerGuard<T: Send + 'static> {
    /// `None`: it was kept.
    handle: Option<TimerHandle<T>>,
    id: TimerId,
}

impl<T: Send + 'static> TimerGuard<T> {
    /// The timer's id.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.schedule(Duration::from_secs(30), || ())?;
    /// assert_eq!(service.guard(id).id(), id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(&self) -> TimerId {
        self.id
    }

    /// Leaves the timer alone.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let guard = service.guard(service.schedule(Duration::from_secs(30), || ())?);
    /// let id = guard.keep();
    /// assert!(service.is_pending(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep(mut self) -> TimerId {
        self.handle = None;
        self.id
    }
}

impl<T: Send + 'static> Drop for TimerGuard<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            // Perhaps the thread is unwinding, and the payload's drop panics too.
            Drops::all(std::iter::once_with(|| handle.cancel(self.id)));
        }
    }
}

impl<T: Send + 'static> fmt::Debug for TimerGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimerGuard").field(&self.id).finish()
    }
}

/// Drops payloads one after the other, though some of their drops panic: of two that panic in one `Vec` the second would abort the process.
#[derive(Default)]
pub(super) struct Drops {
    /// What the first of them panicked with.
    panic: Option<Box<dyn Any + Send>>,
}

impl Drops {
    /// Drops all values, and then panics if one of them did.
    pub(super) fn all(values: impl Iterator) {
        let mut drops = Self::default();
        drops.add(values);
        drops.finish();
    }

    /// Drops all values. An iterator's own panics are those of its values.
    pub(super) fn add(&mut self, mut values: impl Iterator) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| values.by_ref().for_each(drop))) {
            match self.panic {
                None => self.panic = Some(panic),
                Some(_) => discard(panic),
            }
        }
    }

    /// Panics as the first of them did, unless the thread does already.
    pub(super) fn finish(mut self) {
        match self.panic.take() {
            Some(panic) if std::thread::panicking() => discard(panic),
            Some(panic) => resume_unwind(panic),
            None => {}
        }
    }
}

impl Drop for Drops {
    /// Of those that are not finished, since the thread is unwinding: what a panic was made with may panic.
    fn drop(&mut self) {
        self.panic.take().into_iter().for_each(discard);
    }
}

impl<T: Send + 'static> TimerHandle<T> {
    /// Ties a timer to a scope: it is cancelled when the guard is dropped. Costs a reference count.
    ///
    /// # Example
    /// See [`TimerGuard`].
    pub fn guard(&self, id: TimerId) -> TimerGuard<T> {
        TimerGuard { handle: Some(self.clone()), id }
    }

    /// Cancels a timer, and waits: when it returns the timer's task does not run, and will not. `Ok(true)` where [`cancel`](Self::cancel) says `true`.
    ///
    /// A timer that has not fired is cancelled without waiting. Else it waits for the handlers that are in progress: for those of all timers that fire at
    /// the time, up to 1,024 with each, not for later ones. It takes a lock that others who wait share. If another thread cancels the timer at the same time,
    /// it does not wait until that one has dropped the payload.
    ///
    /// # Errors
    /// [`InsideTask`] if it is called from a task, a handler, a hook or an executor's function, of this service or another: that might wait for itself.
    /// Nothing was cancelled then.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// let id = service.every(Duration::from_millis(1)).start(|| println!("uses what is about to go"))?;
    /// assert!(service.cancel_and_wait(id)?);
    /// // Now it may go.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_and_wait(&self, id: TimerId) -> Result<bool, InsideTask> {
        if inside_job() {
            return Err(InsideTask);
        }
        let inner = &*self.inner;
        let cancelled = inner.cells.with_local(|local| inner.cells.cancel(local, id)); // W1
        if !matches!(cancelled, Some(Some(_))) {
            inner.running.wait_for_present();
        }
        Ok(cancelled.is_some())
    }

    /// Cancels all timers that wait, and returns how many those were. Their payloads are dropped here, one after the other; if drops panic, the first
    /// panic goes on when all are cancelled. One that is armed at the same time may be cancelled or not.
    ///
    /// Cost: some nanoseconds for each cell that was ever in use, and that of a `cancel` for each timer.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// # let service = wheelwork::TimerService::builder().start()?;
    /// service.schedule(Duration::from_secs(1), || ())?;
    /// service.every(Duration::from_secs(1)).start(|| ())?;
    /// assert_eq!(service.cancel_all(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_all(&self) -> usize {
        let inner = &*self.inner;
        let mut cancelled = 0;
        // One by one: each payload is let go before the next is claimed.
        let claimed = inner.cells.indices().filter_map(|cell| inner.cells.with_local(|local| inner.cells.cancel_at(local, cell)));
        Drops::all(claimed.inspect(|_| cancelled += 1).map(|content| match content {
            Some(Content::Payload(payload)) => (inner.let_go)(payload),
            periodic => drop(periodic),
        }));
        cancelled
    }
}
