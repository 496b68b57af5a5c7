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
    /// The pause is durable when this returns, and from then on this process begins with none of
    /// them, except for a call that a thread is just about to make. Handlers that have begun go on.
    /// Another node of a fleet hands out none that comes due more than 75 ms later. Of those that
    /// were due before, and wait for a place or a thread there, it begins with none after a second,
    /// or after ten times as long as its look for changes takes, if that is longer. A node that
    /// does not reach the database may begin with such timers until its lease has run out.
    ///
    /// A timer that comes due meanwhile waits: [`Row::held`](crate::Row::held) says so, and
    /// [`stats`](crate::DurableClient::stats) counts it as `paused`. It can be cancelled and moved
    /// as before. While it is paused, it never becomes a dead letter for having waited. But if its
    /// [expiry](crate::TimerBuilder::not_after) is over when it is resumed, it becomes one then. A
    /// timer whose kind has no handler counts as `unhandled` instead. If its
    /// [week](crate::DurableBuilder::bury_unhandled_after) is over when it is resumed, it becomes a
    /// dead letter, too.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`](crate::DurableClient::cancel). [`DurableError::Refused`]: there
    /// are 1,000 rules already; the kind or the beginning of keys has more than 1,024 bytes; the
    /// beginning of keys is empty. In a fleet also: it has a NUL; a node of an earlier version is
    /// alive, which would not obey; the schema has had neither a rule nor an expiry before, and
    /// something holds its table `node`, as `pg_dump` does until it ends.
    ///
    /// Cost: a commit. In a file all timers that are due within the next minutes are loaded anew.
    /// Each of them that is paused is written once, and once more when it is resumed. While there
    /// is any pause, each timer that is handed out costs a lock, which readers share, and a few
    /// lookups.
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
    /// in the order of the deadlines. A timer that another rule pauses, too, stays paused.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`](crate::DurableClient::cancel). [`DurableError::Refused`]: there
    /// can be no such rule, as with [`pause`](Self::pause).
    ///
    /// Cost: a commit. Then all timers that wait are read, and each that was paused is written
    /// once, in slices. Other calls are served between the slices.
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
