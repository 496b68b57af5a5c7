//! Trace: settings by which a timer's handler runs in the trace in which the timer was armed.

use super::builder::DurableBuilder;
use crate::store::contract::Store;

impl<S: Store> DurableBuilder<S> {
    /// Sets where the calls that arm timers get their trace from: the header `traceparent` of W3C's
    /// Trace Context, or `None`. The hook is called on the caller's thread, once for each timer,
    /// and its answer is stored with the timer. A trace that was set by
    /// [`TimerBuilder::traceparent`](crate::TimerBuilder::traceparent) is stored in its place. A
    /// text that is no such header is left out, and so is the answer of a hook that panics.
    ///
    /// A timer keeps its trace when it is moved and tried again, and one with a calendar has that
    /// of the call that armed it. If a later call for its key changes the timer but keeps its id,
    /// the timer has the trace of that call, or none. Its handler gets it from
    /// [`Delivery::traceparent`](crate::Delivery::traceparent), and the feature `tracing` puts it
    /// into the span in which the handler runs. Unless set, timers have no trace, and it costs
    /// nothing. Once a file has a timer with a trace, programs of the format before cannot open it.
    ///
    /// # Example
    /// ```
    /// use std::cell::RefCell;
    /// use std::time::Duration;
    /// use wheelwork::ManualClock;
    /// use wheelwork_durable::{Delivery, Durable, Memory};
    ///
    /// thread_local! {
    ///     /// The trace of the request that this thread serves.
    ///     static TRACE: RefCell<Option<String>> = const { RefCell::new(None) };
    /// }
    ///
    /// let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let clock = ManualClock::new();
    /// let timers = Durable::builder(Memory::new())
    ///     .clock(clock.clone())
    ///     .trace_context(|| TRACE.with_borrow(Clone::clone))
    ///     .on("mail", move |mail: &Delivery| {
    ///         assert_eq!(mail.traceparent(), Some(trace));
    ///         Ok(())
    ///     })
    ///     .start()?;
    /// TRACE.set(Some(trace.to_owned()));
    /// timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// TRACE.set(None);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(timers.stats().done, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace_context(
        mut self,
        hook: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.trace_context = Some(Box::new(hook));
        self
    }

    /// Sets what restores a timer's trace. It is called with the trace before the handler of a
    /// timer that has one, on the handler's thread, and what it returns is dropped after the
    /// handler. For a future it is called around each poll. A batch has many traces, so none is
    /// restored.
    ///
    /// With the feature `tracing` the handler's span is made inside it. So a layer that takes a
    /// span's parent from a context of its own, as the crate `tracing-opentelemetry` does, finds it
    /// there ([the guide](crate::guide::operating#traces) has the lines for it).
    ///
    /// # Example
    /// ```
    /// use std::cell::RefCell;
    /// use std::time::Duration;
    /// use wheelwork::ManualClock;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// thread_local! {
    ///     static TRACE: RefCell<Option<String>> = const { RefCell::new(None) };
    /// }
    ///
    /// /// Takes the trace away again.
    /// struct Restored;
    /// impl Drop for Restored {
    ///     fn drop(&mut self) {
    ///         TRACE.set(None);
    ///     }
    /// }
    ///
    /// let clock = ManualClock::new();
    /// let timers = Durable::builder(Memory::new())
    ///     .clock(clock.clone())
    ///     .restore_trace(|trace| {
    ///         TRACE.set(Some(trace.to_owned()));
    ///         Restored
    ///     })
    ///     .on("mail", |_| {
    ///         assert!(TRACE.with_borrow(Option::is_some)); // What this logs has the trace.
    ///         Ok(())
    ///     })
    ///     .start()?;
    /// let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// timers.timer("mail", Duration::from_secs(60), "hello").traceparent(trace).schedule()?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!((timers.stats().done, TRACE.take()), (1, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore_trace<R: 'static>(
        mut self,
        hook: impl Fn(&str) -> R + Send + Sync + 'static,
    ) -> Self {
        self.hooks.restore_trace = Some(Box::new(move |trace| Box::new(hook(trace))));
        self
    }
}
