//! Handle: the two types that have a service's calls.
//!
//! [`TimerService`] owns the threads and stops them. [`ServiceHandle`] is a reference to the
//! engine; any thread may have one.

use crate::engine::Engine;
use crate::engine::task::Task;
use crate::engine::threads::Started;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A running timer service. It has all calls of [`ServiceHandle`].
///
/// Dropping it stops it: timers that have not fired are dropped and do not run. So keep it for as
/// long as its timers are needed.
///
/// Without further settings payloads are closures ([`Task`]), which are run. With
/// [`Builder::on_expire`](crate::Builder::on_expire) they are of any type `T`, and the service
/// hands them to a handler in batches. To share a service between threads, borrow it, put it in an
/// `Arc`, or give each thread a [`handle`](Self::handle).
///
/// # Example
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use wheelwork::TimerService;
///
/// let service = TimerService::builder().start()?;
/// let (send, receive) = mpsc::channel();
/// service.schedule(Duration::from_millis(5), move || send.send("due").unwrap())?;
/// assert_eq!(receive.recv()?, "due");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TimerService<T: Send + 'static = Task> {
    pub(super) handle: ServiceHandle<T>,
    pub(crate) started: Started<T>,
}

/// The calls of a service, for any number of owners and threads. Cloning one costs a reference
/// count.
///
/// A handle does not keep the service running: after the service has stopped, each call gives the
/// answer that its documentation states. A handle cannot stop the service either. A task that has
/// to stop it needs an `Arc` of the [`TimerService`].
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let handle = service.handle();
/// let again = handle.clone();
/// handle.schedule(Duration::from_secs(1), move || {
///     let _ = again.schedule(Duration::from_secs(1), || println!("the second"));
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ServiceHandle<T: Send + 'static = Task> {
    pub(crate) engine: Arc<Engine<T>>,
}

impl<T: Send + 'static> TimerService<T> {
    /// A handle to the service. Costs a reference count.
    ///
    /// # Example
    /// See [`ServiceHandle`].
    #[must_use]
    pub fn handle(&self) -> ServiceHandle<T> {
        self.handle.clone()
    }
}

impl<T: Send + 'static> Deref for TimerService<T> {
    type Target = ServiceHandle<T>;

    fn deref(&self) -> &ServiceHandle<T> {
        &self.handle
    }
}

impl<T: Send + 'static> fmt::Debug for TimerService<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerService")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Clone for ServiceHandle<T> {
    fn clone(&self) -> Self {
        Self {
            engine: self.engine.clone(),
        }
    }
}

impl<T: Send + 'static> fmt::Debug for ServiceHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.engine.cells.shared;
        f.debug_struct("ServiceHandle")
            .field("shards", &shared.shards())
            .field("stopped", &shared.is_stopped())
            .finish_non_exhaustive()
    }
}
