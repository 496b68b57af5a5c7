//! Handle: the two types that have a service's calls.
//!
//! [`TimerService`] owns the threads and stops them. [`ServiceHandle`] is a reference to the
//! engine; any thread may have one.

use crate::engine::Engine;
use crate::engine::life::batch::Batch;
use crate::engine::start::threads::Started;
use crate::engine::task::Task;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A running timer service, with all calls of [`ServiceHandle`]. Dropping it stops it: timers that
/// have not fired are dropped and do not run, and the drop waits for the tasks that run at the
/// moment. In an async task it blocks the executor's thread for as long as these tasks take, and
/// for some 0.1 us for each timer that waits, beside the drop of its payload; after an awaited
/// [`stop_async`](Self::stop_async) the drop waits for nobody.
///
/// Keep it for as long as its timers are needed. Inside one of its own tasks the drop waits for
/// nobody: see [`stop`](Self::stop).
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
    /// Shared with the thread of a `stop_async`.
    pub(crate) started: Arc<Started<T>>,
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

impl<T: Send + 'static> Batch<'_, T> {
    /// A handle to the service whose timers these are: to arm a timer anew from inside the handler,
    /// for example. Costs a reference count.
    ///
    /// A handler that captures a handle of its own service keeps that service's memory for ever:
    /// the service has the handler. It needs none with this call.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::{Batch, TimerService};
    ///
    /// // Messages that are sent again until they have been sent three times.
    /// let send_again = |messages: &mut Batch<'_, (u32, String)>| {
    ///     let service = messages.service();
    ///     for (times, text) in messages {
    ///         println!("{text}");
    ///         if times < 3 {
    ///             // Refused if the service stops meanwhile.
    ///             let _ = service.schedule(Duration::from_millis(5), (times + 1, text));
    ///         }
    ///     }
    /// };
    /// let service = TimerService::builder().on_expire(send_again).start()?;
    /// service.schedule(Duration::from_millis(5), (1, "hello".to_string()))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn service(&self) -> ServiceHandle<T> {
        let engine: Option<&Arc<Engine<T>>> = self.engine.downcast_ref();
        ServiceHandle {
            engine: engine.expect("an engine of this payload made it").clone(),
        }
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
