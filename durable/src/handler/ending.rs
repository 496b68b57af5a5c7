//! Ending: what becomes of a row when its delivery has ended.
//!
//! All ways to acknowledge a delivery use `Settlement::ending`. The writer stores the ending. If a
//! handler works in a transaction of the database and answers `Ok`, that transaction stores it.

use super::delivery::{Settlement, Verdict};
use super::recurrence::{NextRun, begun, next_run};
use super::retry::RetryPolicy;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{Cause, StoreTime};
use crate::store::when::When;
use crate::store::why::stored_why;
use std::time::Duration;

/// What becomes of a row.
pub(crate) enum Ending {
    /// Its handler has done its work. The row is deleted, or waits for the next run of its
    /// calendar.
    Acked(NextRun),
    /// A run of its calendar was left out. The row is deleted, or waits for the run at this time.
    LeftOut(Option<StoreTime>),
    /// It is tried again at this time.
    Retried(StoreTime),
    /// It is handed out again at this time, and no attempt is counted.
    Snoozed(StoreTime),
    /// It becomes a dead letter. If its calendar has a next run, the row also stays, and waits for
    /// that run.
    Buried(Cause, NextRun),
}

impl Settlement {
    /// The attempts so far. An attempt in which the process ended is not among them: it counts as a
    /// crash. Nor is one whose handler said that it is to come later.
    pub(crate) fn attempts_made(&self) -> u32 {
        match self.verdict {
            Verdict::Crashed | Verdict::Expired => self.attempts,
            Verdict::Later(_) if !is_broken(DurableFault::LaterCounted) => self.attempts,
            _ => self.attempts.saturating_add(1),
        }
    }

    /// Whether it would have expired by then.
    fn is_over_at(&self, time: StoreTime) -> bool {
        self.expires.is_some_and(|expires| expires < time)
            && !is_broken(DurableFault::ExpiryIgnored)
    }

    /// What becomes of the row. `retry` returns the retry policy of the row's kind. `now` is the
    /// store's time.
    pub(crate) fn ending(&self, retry: impl FnOnce() -> RetryPolicy, now: StoreTime) -> Ending {
        let due = self.of.due;
        let next_run = || -> Result<NextRun, String> {
            let begun = self.lateness_ns.map_or(now, |late| begun(due, late));
            let next = next_run(self.calendar.as_deref(), due, begun, self.made_up)?;
            // (An expiry is that of all runs.)
            let at = next.at.filter(|at| !self.is_over_at(*at));
            Ok(NextRun { at, ..next })
        };
        let cause = match &self.verdict {
            Verdict::Done => match next_run() {
                Ok(next) => return Ending::Acked(next),
                Err(why) => Cause::Undecodable(stored_why(&why)),
            },
            Verdict::LeftOut(next) => return Ending::LeftOut(*next),
            Verdict::Failed(why) => {
                if let Some(wait) = retry().wait_after(self.attempts_made(), self.of.id) {
                    // (With a slow store, the row's deadline may be after the time at which the
                    // clock was read.)
                    let at = now.max(due).after(wait);
                    if !self.is_over_at(at) {
                        return Ending::Retried(at);
                    }
                }
                Cause::Failed(why.clone())
            }
            Verdict::Later(when) => {
                // (It has another deadline at any rate, so that this delivery is over.)
                let first = now.max(due).after(Duration::from_millis(1));
                let at = match *when {
                    When::After(wait) => now.after(wait),
                    When::At(time) => StoreTime::due_at(time),
                };
                let at = at.max(first);
                if !self.is_over_at(at) {
                    return Ending::Snoozed(at);
                }
                Cause::Expired
            }
            Verdict::GivenUp(why) => Cause::GivenUp(why.clone()),
            Verdict::Undecodable(why) => Cause::Undecodable(why.clone()),
            Verdict::UnknownKind => Cause::UnknownKind,
            Verdict::Crashed => Cause::Crashed,
            // (No run comes any more.)
            Verdict::Expired => return Ending::Buried(Cause::Expired, NextRun::default()),
        };
        // (A row whose calendar cannot be read becomes the dead letter itself.)
        Ending::Buried(cause, next_run().unwrap_or_default())
    }
}
