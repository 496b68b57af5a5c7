//! Spans of the crate `tracing`, from arm to fire: [`in_current_span`] for closures, [`Traced`] for
//! payloads. And the events of a service itself.
//!
//! A timer's task runs later, on another thread, outside the span in which it was armed. A wrapper
//! carries the span along. It keeps the span open until the timer has run or was cancelled. When
//! the timer fires, the wrapper enters the span, and in it a span `fire` of level DEBUG, for the
//! time of the run. A timer without a wrapper has no span, and costs nothing.
//!
//! The program needs the crate `tracing` too, and a subscriber.
//!
//! Cost of a wrapper: some 40 bytes in the timer's cell, and a count that is shared with the span's
//! other owners. A closure with a span is always boxed (see [`Task`](crate::Task)).
//!
//! # Events of a service
//! All events have the target `wheelwork` and the field `service`, which is the builder's
//! [`name`](crate::Builder::name). The thread that notices an event sends it, to its own subscriber
//! or else to the global one:
//!
//!  - Start, stop, and what a stop fires are told on the calling thread (of a `stop_async` the last
//!    two on its own thread, `wheelwork-stop`).
//!  - A stall is told on the thread of `on_stall`, and a panic of async code on the runtime's.
//!  - All else is told on the thread that runs the task or drops the job, or on the shard's. With a
//!    pool or an executor of yours, threads that run tasks are yours. On a manual clock the thread
//!    that moves the clock takes the place of the shard's.
//!
//! If a subscriber panics, that counts as a panic of a hook.
//!
//! | level | when | fields |
//! |---|---|---|
//! | ERROR | a handler or task panicked | `panic`: its message, if it is text |
//! | WARN | timers fire later than [`on_late`]'s threshold | `lateness`, `timers` |
//! | WARN | nobody took the payloads of timers that fired | `timers` |
//! | WARN | a shard stalls, if [`on_stall`] was called | `shard`, `overdue` |
//! | WARN | a shard's thread could not be pinned | `shard` |
//! | DEBUG | the service starts | `shards`, `tick` |
//! | DEBUG | the service has stopped | `policy`, `fired`, `handed_back` |
//!
//! `lateness` is the greatest lateness; `timers` is a number of timers.
//!
//! [`on_late`]: crate::Builder::on_late
//! [`on_stall`]: crate::Builder::on_stall

use tracing::{Level, Span, span};

/// A payload and the span in which it was made.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::trace::Traced;
/// use wheelwork::{Batch, TimerService};
///
/// let service = TimerService::builder()
///     .on_expire(|sessions: &mut Batch<'_, Traced<u64>>| {
///         for session in sessions {
///             session.in_scope(|session| tracing::info!(session, "timed out"));
///         }
///     })
///     .start()?;
/// let _request = tracing::info_span!("request").entered();
/// service.schedule(Duration::from_secs(30), Traced::new(4711))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Traced<P> {
    span: Span,
    payload: P,
}

impl<P> Traced<P> {
    /// Takes the current span along, if there is one.
    #[must_use]
    pub fn new(payload: P) -> Self {
        Self {
            span: Span::current(),
            payload,
        }
    }

    /// The span. It is disabled if there was none.
    ///
    /// # Example
    /// ```
    /// use wheelwork::trace::Traced;
    ///
    /// assert!(Traced::new(7).span().is_none(), "no span is current here");
    /// ```
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Runs a function with the payload, inside the span, and inside a new span `fire` in that.
    /// Afterwards both spans are released.
    pub fn in_scope<R>(self, run: impl FnOnce(P) -> R) -> R {
        let Self { span, payload } = self;
        // Without a span there is nothing that `fire` would belong to.
        let fire = if span.is_none() {
            Span::none()
        } else {
            span!(target: "wheelwork", parent: &span, Level::DEBUG, "fire")
        };
        span.in_scope(|| fire.in_scope(|| run(payload)))
    }

    /// The payload, without its span.
    ///
    /// # Example
    /// ```
    /// use wheelwork::trace::Traced;
    ///
    /// assert_eq!(Traced::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> P {
        self.payload
    }
}

/// A closure that runs inside the span that is current now, and inside a new span `fire` in that.
/// If no span is current, it just runs.
///
/// A periodic timer runs more than once, so take the span along yourself: `let span =
/// Span::current();` before, and `span.in_scope(..)` in the closure.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::trace::in_current_span;
///
/// let service = wheelwork::TimerService::builder().start()?;
/// let _request = tracing::info_span!("request", id = 4711).entered();
/// let warn = in_current_span(|| tracing::warn!("no answer in 30 s"));
/// service.schedule(Duration::from_secs(30), warn)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn in_current_span<R>(run: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let traced = Traced::new(run);
    move || traced.in_scope(|run| run())
}
