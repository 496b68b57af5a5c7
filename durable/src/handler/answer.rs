//! Answer: what a handler may say besides `Ok` and an error: not yet, and never again.
//!
//! Both are errors, so every form of handler can return them, and a transaction in which the
//! handler works is rolled back. The runner looks for them in what a handler returned.

use crate::store::when::When;
use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

/// A handler's answer "not yet": the timer is handed out again later, and no attempt is counted.
///
/// A handler returns it as its error: `Err(Later::after(wait).into())`. It is no failure. The hook
/// of [`on_failed`](crate::DurableBuilder::on_failed) is not called, the retry policy is not asked,
/// and a timer may be put off any number of times. [`stats`](crate::DurableClient::stats) counts
/// it as `snoozed`.
///
/// - The new time is at least a millisecond ahead. It counts by the store's clock from when the
///   answer is stored.
/// - A run of a calendar is put off. Runs of the calendar that come before the new time are left
///   out, as with a run that failed. If the calendar names no zone and the program arms the timer
///   again by its key before the new time, as it may at each start, the timer moves to the
///   calendar's next run, and the run that was put off is lost. So name a zone. Even then it is
///   lost so if the new time is itself one of the calendar's times.
/// - A timer whose key another timer has taken meanwhile ends.
/// - Only the error itself is looked at, not what caused it. So `Later` must not be wrapped in
///   another error.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::ManualClock;
/// use wheelwork_durable::{Delivery, Durable, Later, Memory, RetryPolicy};
///
/// let clock = ManualClock::new();
/// let opens = clock.system_time() + Duration::from_secs(3_600);
/// let time = clock.clone();
/// let timers = Durable::builder(Memory::new())
///     .clock(clock.clone())
///     .retry_policy(RetryPolicy::never())
///     .on("call", move |call: &Delivery| {
///         if time.system_time() < opens {
///             return Err(Later::at(opens).into());
///         }
///         assert_eq!(call.attempt(), 1); // It was put off, and did not fail.
///         Ok(())
///     })
///     .start()?;
/// timers.schedule("call", Duration::from_secs(60), "Ada")?;
/// clock.advance(Duration::from_secs(60));
/// assert_eq!((timers.stats().snoozed, timers.stats().done), (1, 0));
/// clock.advance(Duration::from_secs(3_600));
/// assert_eq!(timers.stats().done, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Later(When);

impl Later {
    /// The timer is handed out again after this wait.
    #[must_use]
    pub const fn after(wait: Duration) -> Self {
        Self(When::After(wait))
    }

    /// The timer is handed out again at this time of the store's clock.
    #[must_use]
    pub const fn at(time: SystemTime) -> Self {
        Self(When::At(time))
    }

    /// When it is to be handed out again.
    pub(crate) const fn when(self) -> When {
        self.0
    }
}

impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the handler has put the timer off")
    }
}

impl Error for Later {}

/// A handler's answer "never again": the timer becomes a dead letter now, whatever its retry policy
/// says.
///
/// A handler returns it as its error: `Err(GiveUp::because("no such order").into())`. The dead
/// letter has the [`Cause::GivenUp`](crate::Cause::GivenUp) with the reason, and counts this
/// attempt. The hook of [`on_dead`](crate::DurableBuilder::on_dead) is called, and that of
/// [`on_failed`](crate::DurableBuilder::on_failed) is not.
/// [`stats`](crate::DurableClient::stats) counts it as `given_up`, and as `died`.
///
/// - Of a calendar only this run becomes a dead letter. The calendar goes on.
/// - Only the error itself is looked at, not what caused it. So `GiveUp` must not be wrapped in
///   another error.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::ManualClock;
/// use wheelwork_durable::{Cause, Delivery, Durable, GiveUp, Memory};
///
/// let clock = ManualClock::new();
/// let timers = Durable::builder(Memory::new())
///     .clock(clock.clone())
///     .on("order.unpaid", |order: &Delivery| {
///         let number: u64 = order.payload_text().parse().map_err(GiveUp::because)?;
///         println!("order {number} was not paid");
///         Ok(())
///     })
///     .start()?;
/// timers.schedule("order.unpaid", Duration::from_secs(60), "what?")?;
/// clock.advance(Duration::from_secs(60));
/// let dead = timers.dead_letters(None, 1)?;
/// assert_eq!(dead[0].cause, Cause::GivenUp("invalid digit found in string".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GiveUp(Box<dyn Error + Send + Sync>);

impl GiveUp {
    /// The timer is given up for this reason: a text, or an error. Of the text of the reason and
    /// its causes up to 4 KiB are stored.
    #[must_use]
    pub fn because(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(why.into())
    }

    /// The reason.
    pub(crate) fn into_why(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handler has given the timer up: {}", self.0)
    }
}

impl Error for GiveUp {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
