//! Pausing: all timers of a kind are paused and resumed, or all whose key begins alike.

use super::rules::Ruled;
use crate::handler::error::DurableError;
use crate::queue::ticket::Ticket;
use crate::store::row::StoreTime;
use crate::store::rule::RuleChange;

impl Ruled<'_> {
    /// Pauses them: none of them is handed out until they are [resumed](Self::resume). `false`:
    /// they were paused already.
    ///
    /// It is durable when this returns, and from then on this process begins with none of them.
    /// Handlers that have begun go on. Another node of a fleet hands out none that comes due later,
    /// and none at all from a second later on, as long as it reaches the database. A node that does
    /// not reach it may still begin with timers that were due before, until its lease has run out.
    ///
    /// A timer that comes due meanwhile waits: [`Row::held`](crate::Row::held) says so, and
    /// [`stats`](crate::DurableClient::stats) counts it as `paused`. It can be cancelled and moved
    /// as before. It is never buried for having waited, but it
    /// [expires](crate::TimerBuilder::not_after) as others do.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`](crate::DurableClient::cancel). [`DurableError::Refused`]: there
    /// are 1,000 rules already, or the kind or the beginning of keys has more than 1,024 bytes, or
    /// is the empty beginning. In a fleet also if a node of an earlier version is alive, which
    /// would not obey.
    ///
    /// Cost: a commit. In a file all that is due within the next minutes is loaded anew, and what
    /// is paused of it is written once, and once more when it is resumed.
    ///
    /// # Example
    /// See [`Ruled`].
    pub fn pause(&self) -> Result<bool, DurableError> {
        self.change(self.pause_now())
    }

    /// As [`pause`](Self::pause), and returns at once.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let tenant = timers.keys_with("tenant-7/");
    /// let (paused, resumed) = (tenant.pause_ticket()?, tenant.resume_ticket()?);
    /// assert!(paused.wait()? && resumed.wait()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause_ticket(&self) -> Result<Ticket<bool>, DurableError> {
        self.change_ticket(self.pause_now())
    }

    /// Resumes them. `false`: they were not paused. What has come due meanwhile is handed out now,
    /// in the order of the deadlines. A timer stays paused that another rule pauses, too.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`](crate::DurableClient::cancel).
    ///
    /// # Example
    /// See [`Ruled`].
    pub fn resume(&self) -> Result<bool, DurableError> {
        self.change(RuleChange::Resume)
    }

    /// As [`resume`](Self::resume), and returns at once.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    ///
    /// # Example
    /// See [`pause_ticket`](Self::pause_ticket).
    pub fn resume_ticket(&self) -> Result<Ticket<bool>, DurableError> {
        self.change_ticket(RuleChange::Resume)
    }

    fn pause_now(&self) -> RuleChange {
        RuleChange::Pause(StoreTime::reading(self.client.shared.now()))
    }
}
