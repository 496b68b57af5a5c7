//! Ending: what becomes of a row when its delivery has ended.
//!
//! All ways to acknowledge ask here. The writer stores what comes of it. A handler that works in a
//! transaction of the database stores it there, if its answer is `Ok`.

use super::delivery::{Settlement, Verdict};
use super::recurrence::{NextRun, begun, next_run};
use super::retry::RetryPolicy;
use crate::store::row::{Cause, StoreTime};
use crate::store::why::stored_why;

/// What becomes of a row.
pub(crate) enum Ending {
    /// Its handler has done its work: it goes, or waits for the next run of its calendar.
    Acked(NextRun),
    /// A run of its calendar is not made: it goes, or waits for this one.
    LeftOut(Option<StoreTime>),
    /// It is tried again then.
    Retried(StoreTime),
    /// It becomes a dead letter. If it has a calendar, it waits for the next run as well.
    Buried(Cause, NextRun),
}

impl Settlement {
    /// The attempts so far. A process that has ended meanwhile is counted apart.
    pub(crate) const fn attempts_made(&self) -> u32 {
        match self.verdict {
            Verdict::Crashed => self.attempts,
            _ => self.attempts.saturating_add(1),
        }
    }

    /// What becomes of the row. `retry` gives the policy of its kind, `now` is the store's time.
    pub(crate) fn ending(&self, retry: impl FnOnce() -> RetryPolicy, now: StoreTime) -> Ending {
        let due = self.of.due;
        let next_run = || {
            let begun = self.lateness_ns.map_or(now, |late| begun(due, late));
            next_run(self.calendar.as_deref(), due, begun, self.made_up)
        };
        let cause = match &self.verdict {
            Verdict::Done => match next_run() {
                Ok(next) => return Ending::Acked(next),
                Err(why) => Cause::Undecodable(stored_why(&why)),
            },
            Verdict::LeftOut(next) => return Ending::LeftOut(*next),
            Verdict::Failed(why) => {
                if let Some(wait) = retry().wait_after(self.attempts_made(), self.of.id) {
                    // (With a slow store the row is due after the clock was read.)
                    return Ending::Retried(now.max(due).after(wait));
                }
                Cause::Failed(why.clone())
            }
            Verdict::Undecodable(why) => Cause::Undecodable(why.clone()),
            Verdict::UnknownKind => Cause::UnknownKind,
            Verdict::Crashed => Cause::Crashed,
        };
        // (A row whose calendar cannot be read becomes the dead letter itself.)
        Ending::Buried(cause, next_run().unwrap_or_default())
    }
}
