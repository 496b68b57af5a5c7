//! Recurring: the calls that arm a timer with a calendar.

use super::error::DurableError;
use super::handle::DurableHandle;
use super::keyed::Keyed;
use super::request::Request;
use super::row::DurableId;
use super::store::Target;
use super::when::PayloadBytes;
use crate::calendar::Calendar;

impl DurableHandle {
    /// Arms a timer that runs again and again, at the times of a [`Calendar`]. It is durable when
    /// this returns. It keeps its id from run to run. Each run's handler gets the payload.
    ///
    /// The next run is stored in the commit that ends the last one. A run that fails is tried again
    /// by the [retry policy](super::DurableBuilder::retry), and the next one waits for it. After
    /// the last attempt a copy of the timer becomes a dead letter, and the calendar goes on. What
    /// becomes of runs for which the program was too late, the calendar's
    /// [`MissedRuns`](crate::calendar::MissedRuns) say. `Burst` counts in one run of the program.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and [`DurableError::Invalid`] if the calendar has no run
    /// after now. Cost: that, and some tens of microseconds for each run, to read the calendar.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::ManualClock;
    /// use wheelwork::calendar::Calendar;
    /// use wheelwork::durable::{Durable, Memory};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Durable::open(Memory::new())
    ///     .clock(clock.clone())
    ///     .handle("report", |_| Ok(()))
    ///     .start()?;
    /// let mornings = Calendar::daily(9, 0)?.zone("Europe/Berlin")?;
    /// let id = timers.schedule_calendar("report", mornings, "sales")?;
    /// clock.advance(Duration::from_secs(10 * 86_400));
    /// assert_eq!(timers.stats().done, 10);
    /// assert!(timers.cancel(id)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_calendar(
        &self,
        kind: &str,
        calendar: Calendar,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, DurableError> {
        self.arm_calendar(kind, None, &calendar, payload.into())
    }

    fn arm_calendar(
        &self,
        kind: &str,
        key: Option<&str>,
        calendar: &Calendar,
        payload: PayloadBytes,
    ) -> Result<DurableId, DurableError> {
        let text = calendar.to_string();
        let first = calendar.after(self.shared.now()).next();
        let first = first.ok_or_else(|| {
            DurableError::Invalid(format!("the calendar {text:?} has no run any more"))
        })?;
        let timer = self.new_timer(kind, key, first.into(), payload, Some(text.into()))?;
        if let Some(key) = &timer.key
            && let Some(row) = self.get_target(Target::Key(key.clone()))?
            && (&row.kind, &row.calendar) == (&timer.kind, &timer.calendar)
            && row.payload == timer.payload
        {
            // (Arming it anew would drop a run that was missed, or is tried again.)
            return Ok(row.id);
        }
        self.shared
            .ask_and_wait(|teller| Request::Arm(timer, teller))
    }
}

impl Keyed<'_> {
    /// Arms the timer with this key, in place of the one that there is, as
    /// [`DurableHandle::schedule_calendar`] does. If that one has this kind, calendar and payload
    /// already, it is left as it is: a program that calls this at each start has one timer, and
    /// loses no run.
    ///
    /// # Errors
    /// As [`DurableHandle::schedule_calendar`].
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::{Calendar, MissedRuns};
    /// use wheelwork::durable::{Durable, Memory};
    ///
    /// let timers = Durable::open(Memory::new()).start()?;
    /// let nightly = Calendar::daily(2, 30)?.missed(MissedRuns::Once);
    /// timers.key("cleanup").schedule_calendar("cleanup", nightly, "")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_calendar(
        &self,
        kind: &str,
        calendar: Calendar,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, DurableError> {
        self.handle
            .arm_calendar(kind, Some(self.key), &calendar, payload.into())
    }
}
