//! Spans of the crate `tracing`, carried from arm to fire: [`in_current_span`] for closures, [`Traced`] for payloads; and what a service itself tells by events.
//!
//! A timer's task runs on another thread, later, outside the span in which it was armed. Where its events shall be seen in that span, wrap it; nothing is captured unless asked. The wrapper keeps
//! the span open: until the timer has run, or was cancelled. At the fire the span is entered, and in it one of the level DEBUG named `fire`, for the time of the run.
//!
//! The program needs the crate `tracing` too, and a subscriber.
//!
//! A captured span is some 40 bytes more in the timer's cell and a count that is shared with the span's other owners, and a closure with it is always boxed
//! (see [`Task`](crate::Task)). What is not wrapped costs nothing.
//!
//! # Events of a service
//! All have the target `wheelwork` and the field `service`, the builder's [`name`](crate::Builder::name). They come on the thread that notices, and so, but on a manual clock, go to the global subscriber; without one nothing happens.
//! A subscriber that panics is counted as a hook that does.
//!
//! | level | when | fields |
//! |---|---|---|
//! | ERROR | a handler or task panicked | `panic`: its message, if it is text |
//! | WARN | timers fire later than the threshold of [`on_late`](crate::Builder::on_late) | `lateness`: the greatest, `timers`: how many |
//! | WARN | payloads of timers that fired were dropped, since no handler took them | `timers`: how many |
//! | WARN | a shard stalls, if [`on_stall`](crate::Builder::on_stall) is set | `shard`, `overdue` |
//! | WARN | a shard's thread could not be pinned | `shard` |
//! | DEBUG | the service starts | `shards`, `tick` |
//! | DEBUG | the service has stopped | `policy`, `fired`, `handed_back` |

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
    /// Takes the current span along; no span, if there is none.
    ///
    /// # Example
    /// See the [type](Self)'s.
    #[must_use]
    pub fn new(payload: P) -> Self {
        Self { span: Span::current(), payload }
    }

    /// The span.
    ///
    /// # Example
    /// ```
    /// use wheelwork::trace::Traced;
    ///
    /// assert!(Traced::new(7).span().is_none(), "there is none here");
    /// ```
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Hands the payload to a function, inside the span, and a span `fire` in that. Afterwards the timer has let go of both.
    ///
    /// # Example
    /// See the [type](Self)'s.
    pub fn in_scope<R>(self, run: impl FnOnce(P) -> R) -> R {
        let Self { span, payload } = self;
        // No span, no run to tell of.
        let fire = if span.is_none() { Span::none() } else { span!(target: "wheelwork", parent: &span, Level::DEBUG, "fire") };
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

/// A closure that runs inside the span that is current now, and a span `fire` in that. Without a span it just runs.
///
/// For a periodic timer, which runs more than once, take the span along yourself: `let span = Span::current();` and, in the closure, `span.in_scope(..)`.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::trace::in_current_span;
/// # let service = wheelwork::TimerService::builder().start()?;
/// let _request = tracing::info_span!("request", id = 4711).entered();
/// service.schedule(Duration::from_secs(30), in_current_span(|| tracing::warn!("no answer in 30 s")))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn in_current_span<R>(run: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let traced = Traced::new(run);
    move || traced.in_scope(|run| run())
}
