//! Recurring: the calls that arm a timer with a calendar.

use super::client::DurableClient;
use super::keyed::Keyed;
use crate::handler::error::DurableError;
use crate::queue::request::{NewTimer, Request};
use crate::store::row::{DurableId, Row, StoreTime};
use crate::store::when::{PayloadBytes, When};
use crate::store::write::{Amendment, Target, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork::calendar::Calendar;

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

impl DurableClient {
    /// Arms a timer that runs again and again, at the times of a [`Calendar`]. It is durable when
    /// this returns. It keeps its id from run to run. Each run's handler gets the payload.
    ///
    /// The next run is stored in the commit that ends the last one. A run that fails is tried again
    /// by the [retry policy](crate::DurableBuilder::retry_policy), and the next one waits for it.
    /// After the last attempt a copy of the timer becomes a dead letter, and the calendar goes on.
    /// What becomes of runs for which the program was too late, the calendar's
    /// [`Missed`](wheelwork::calendar::Missed) says. `Burst` counts in one run of the program.
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
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let clock = ManualClock::new();
    /// let timers = Durable::builder(Memory::new())
    ///     .clock(clock.clone())
    ///     .on("report", |_| Ok(()))
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
        let text: Arc<str> = calendar.to_string().into();
        let mut last = None;
        loop {
            let next = next_after(calendar, self.shared.now())?;
            let when = When::from(next.system_time());
            let mut timer = self.new_timer(kind, key, when, payload.clone(), None)?;
            timer.calendar = Some(text.clone());
            let Some(key) = &timer.key else {
                return self
                    .shared
                    .ask_and_wait(|teller| Request::arm(timer, teller));
            };
            let row = self.get_target(Target::Key(key.clone()))?;
            let former = row.as_ref().map(|row| row.id);
            let is_same = |row: &Row| row.kind == timer.kind && runs_as(row, calendar);
            let armed = match row.filter(is_same) {
                Some(row) => {
                    // (One that is as it was when it could not be moved was handed out.)
                    let read = Some((row.id, row.due));
                    let stays = std::mem::replace(&mut last, read) == read;
                    let due = match stays {
                        true => row.due,
                        false => self.due_again(&row, calendar, self.shared.now()),
                    };
                    self.amend(&row, timer, due)?
                }
                // KeyReplace: if somebody else has armed the key meanwhile, that timer counts.
                None => self
                    .shared
                    .ask_and_wait(|teller| Request::replace(timer, former, teller))?,
            };
            if let Some(id) = armed {
                return Ok(id);
            }
        }
    }

    /// Gives a row, which has the same runs, the timer's payload. It keeps its run: one that was
    /// missed is made, one that is tried again is tried again, and if it runs just now, it gets its
    /// next run by itself. `None`: it is gone, or is due at another time by now.
    fn amend(
        &self,
        row: &Row,
        timer: NewTimer,
        due: StoreTime,
    ) -> Result<Option<DurableId>, DurableError> {
        let is_as_it_is = (&row.calendar, &row.payload) == (&timer.calendar, &timer.payload);
        let (Some(calendar), false) = (timer.calendar, is_as_it_is && due == row.due) else {
            return Ok(Some(row.id));
        };
        let amendment = Amendment {
            id: row.id,
            calendar,
            payload: timer.payload,
            trace: timer.more.and_then(|more| more.trace),
            former_due: row.due,
            due,
        };
        let write = Write::Amend(Box::new(amendment));
        let is_made = self
            .shared
            .ask_and_wait(|teller| Request::one(write, teller))?;
        Ok(is_made.then_some(row.id))
    }

    /// When a row is to be due that has this calendar already.
    fn due_again(&self, row: &Row, calendar: &Calendar, now: SystemTime) -> StoreTime {
        let due = row.due.system_time();
        let wait = due.duration_since(now).unwrap_or_default();
        let cap = self.shared.kinds.retry_of(&row.kind).longest();
        let is_missed = wait.is_zero();
        let next = next_after(calendar, now);
        // (A wait that is longer than the next run is away was set by a clock that was ahead.)
        let is_before_next = next.as_ref().is_ok_and(|&next| row.due <= next);
        let is_tried_again = row.attempts > 0 && (wait <= cap || is_before_next);
        let is_run = calendar.after(due - MILLISECOND).next() == Some(due);
        // (By a clock that is a little behind that of the node that has made the last run, it is
        // not the next one yet.)
        let soon = calendar.after(now + MINUTE).next();
        let is_next = is_run && soon.is_none_or(|soon| due <= soon);
        // Somebody has moved it, unless it waits for a run of a clock that was ahead, or of the
        // system's former time zone.
        let is_moved = calendar.names_zone() && !is_run && row.attempts == 0;
        match is_missed || is_tried_again || is_next || is_moved {
            true => row.due,
            false => next.unwrap_or(row.due),
        }
    }
}

/// The calendar's next run after this time.
fn next_after(calendar: &Calendar, time: SystemTime) -> Result<StoreTime, DurableError> {
    let next = calendar.after(time).next().map(StoreTime::due_at);
    next.ok_or_else(|| {
        let text = calendar.to_string();
        DurableError::Invalid(format!("the calendar {text:?} has no run any more"))
    })
}

/// Whether a row's calendar has the same runs, however it is written.
fn runs_as(row: &Row, calendar: &Calendar) -> bool {
    let stored = row.calendar.as_deref().map(str::parse::<Calendar>);
    stored.is_some_and(|stored| stored.is_ok_and(|stored| stored.runs_as(calendar)))
}

impl Keyed<'_> {
    /// Arms the timer with this key, in place of the one that there is, as
    /// [`DurableClient::schedule_calendar`] does. If that one has this kind, calendar and payload
    /// already, it is left as it is: a program that calls this at each start has one timer, and
    /// the call loses no run, except one that a handler has put off ([`Later`](crate::Later)). If
    /// the payload is another one, or the same calendar is written otherwise (`MON` for `1`,
    /// another [`Missed`](wheelwork::calendar::Missed)), the timer keeps its id and its run, also
    /// one that was missed, is under way, or is tried again. A run that its handler has already, or
    /// that its node has in memory in a fleet, has the former payload.
    ///
    /// If the timer waits for a run that is not the calendar's next one, it is moved to that: the
    /// clock was ahead, or the system's time zone is another one by now. A timer that somebody has
    /// moved stays where it is, if its calendar names a zone, no attempt has failed, and the new
    /// time is not itself a run of the calendar. (One that was moved to a later run goes back to
    /// the next one. If the next one comes within a minute, a timer that waits for the run after it
    /// stays there.)
    ///
    /// # Errors
    /// As [`DurableClient::schedule_calendar`].
    ///
    /// # Example
    /// ```
    /// use wheelwork::calendar::{Calendar, Missed};
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let nightly = Calendar::daily(2, 30)?.missed(Missed::Once);
    /// timers.key("cleanup").schedule_calendar("cleanup", nightly, "")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_calendar(
        &self,
        kind: &str,
        calendar: Calendar,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, DurableError> {
        self.client
            .arm_calendar(kind, Some(self.key), &calendar, payload.into())
    }
}
