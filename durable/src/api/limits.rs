//! Limits: how fast timers of a rule are handed out, and how many of them are handled at one time.

use super::rules::Ruled;
use crate::handler::error::DurableError;
use crate::queue::ticket::Ticket;
use crate::store::rule::{Rate, RuleChange};
use std::num::NonZeroU32;

impl Ruled<'_> {
    /// Sets how fast these timers are handed out. In any time `T`, in seconds, at most
    /// `burst + per_second * T` of them are let through to their handlers; where nodes share the
    /// store, at most `burst + per_second * (T + 1)` on all of them, as long as the database's
    /// clock is not stepped forward (then up to twice the burst at one moment). A retry counts as
    /// another one. Those that are due and not let through wait in the store, in the order of their
    /// deadlines, and can be cancelled, moved and listed meanwhile
    /// ([`HeldWhy::Limited`](crate::HeldWhy)).
    /// Timers of other kinds do not wait for them.
    ///
    /// The rate is durable when this returns. `false`: the timers have this rate already. In a file
    /// the first timer is let through `1 / per_second` seconds after the rate was set or changed,
    /// or after a program was started. Where nodes share the store, these seconds begin when a node
    /// needs the first token of the rate. What has been counted there stays when nodes start, and
    /// begins anew when the rate is changed.
    ///
    /// Cost: a commit. Then all timers that are held are read, in slices. Below the rate, a lock
    /// and a few lookups before a handler is called; where nodes share the store, a transaction for
    /// the tokens of some timers. A timer that has to wait for more than 100 ms costs two more
    /// changes of its row, and so does one for which its node has not been granted a token or call
    /// yet.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Example
    /// ```
    /// use std::num::NonZeroU32;
    /// use std::time::Duration;
    /// use wheelwork::ManualClock;
    /// use wheelwork_durable::{Durable, Memory, Rate};
    ///
    /// let clock = ManualClock::new();
    /// let builder = Durable::builder(Memory::new()).clock(clock.clone());
    /// let timers = builder.on("mail", |_| Ok(())).start()?;
    /// let two_each_second = Rate::new(2.0, NonZeroU32::MIN).ok_or("no rate")?;
    /// timers.kind("mail").set_rate(two_each_second)?;
    /// for number in 0..10 {
    ///     timers.schedule("mail", Duration::ZERO, format!("mail {number}"))?;
    /// }
    /// clock.advance(Duration::from_millis(1_100));
    /// assert_eq!(timers.stats().done, 2);
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!(timers.stats().done, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_rate(&self, rate: Rate) -> Result<bool, DurableError> {
        self.change(RuleChange::Rate(Some(rate)))
    }

    /// As [`set_rate`](Self::set_rate), and returns at once.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn set_rate_ticket(&self, rate: Rate) -> Result<Ticket<bool>, DurableError> {
        self.change_ticket(RuleChange::Rate(Some(rate)))
    }

    /// Removes the rate. What has waited for it is handed out. `false`: there was none.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    ///
    /// Cost: as with [`resume`](Self::resume).
    pub fn clear_rate(&self) -> Result<bool, DurableError> {
        self.change(RuleChange::Rate(None))
    }

    /// As [`clear_rate`](Self::clear_rate), and returns at once.
    ///
    /// # Errors
    /// As [`clear_rate`](Self::clear_rate).
    pub fn clear_rate_ticket(&self) -> Result<Ticket<bool>, DurableError> {
        self.change_ticket(RuleChange::Rate(None))
    }

    /// Sets how many of these timers are handled at one time, on all nodes together. Others wait in
    /// the store, as with [`set_rate`](Self::set_rate). A batch of several timers counts as
    /// several, so it has as many as are let through. An async handler counts until its future has
    /// ended. Handlers that run already are not counted if this rule had neither a rate nor a limit
    /// of calls when they began, whatever other rules were for their timers.
    ///
    /// The limit is durable when this returns. `false`: the timers have this limit already. It may
    /// be for timers of several kinds. [`max_calls`](crate::DurableBuilder::max_calls) is for one
    /// kind in one process, costs no change of a row, and holds beside it.
    ///
    /// Cost: as with [`set_rate`](Self::set_rate). Where nodes share the store, a node that has
    /// calls of the limit asks the database each quarter of a second.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Example
    /// ```
    /// use std::num::NonZeroU32;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).on("mail", |_| Ok(())).start()?;
    /// let tenant = timers.keys_with("tenant-7/");
    /// assert!(tenant.set_calls(NonZeroU32::MIN)?); // one at a time
    /// assert!(!tenant.set_calls(NonZeroU32::MIN)?); // it is so already
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_calls(&self, calls: NonZeroU32) -> Result<bool, DurableError> {
        self.change(RuleChange::Calls(Some(calls)))
    }

    /// As [`set_calls`](Self::set_calls), and returns at once.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn set_calls_ticket(&self, calls: NonZeroU32) -> Result<Ticket<bool>, DurableError> {
        self.change_ticket(RuleChange::Calls(Some(calls)))
    }

    /// Removes the limit of calls. What has waited for it is handed out. `false`: there was none.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    ///
    /// Cost: as with [`resume`](Self::resume).
    pub fn clear_calls(&self) -> Result<bool, DurableError> {
        self.change(RuleChange::Calls(None))
    }

    /// As [`clear_calls`](Self::clear_calls), and returns at once.
    ///
    /// # Errors
    /// As [`clear_calls`](Self::clear_calls).
    pub fn clear_calls_ticket(&self) -> Result<Ticket<bool>, DurableError> {
        self.change_ticket(RuleChange::Calls(None))
    }
}
