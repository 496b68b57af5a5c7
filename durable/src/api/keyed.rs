//! Keyed: the calls for the timer with a key.

use super::client::DurableClient;
use crate::handler::error::DurableError;
use crate::queue::request::Request;
use crate::queue::ticket::Ticket;
use crate::store::row::{DurableId, Row};
use crate::store::when::{PayloadBytes, When};
use crate::store::write::{Target, Write};

/// Calls for the timer with a key. Made by [`DurableClient::key`].
///
/// A key has at most one timer. Scheduling again replaces it: the former timer will not fire. If it
/// was handed out already, it goes on beside the new one; should its handler fail, it ends
/// nevertheless. (In a fleet a timer counts as handed out from 25 to 75 ms before its deadline, or
/// from earlier on if the database's clock was set back.)
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Memory};
///
/// let timers = Durable::builder(Memory::new()).start()?;
/// let order = timers.key("order-4711");
/// order.schedule("order.unpaid", Duration::from_secs(1_800), "4711")?;
/// order.reschedule(Duration::from_secs(3_600))?;
/// assert!(order.get()?.is_some());
/// assert!(order.cancel()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Keyed<'a> {
    pub(super) client: &'a DurableClient,
    pub(super) key: &'a str,
}

impl Keyed<'_> {
    /// Arms the timer with this key, in place of the one that there is. It is durable when this
    /// returns.
    ///
    /// # Errors
    /// As [`DurableClient::schedule`].
    pub fn schedule(
        &self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, DurableError> {
        let (when, payload) = (when.into(), payload.into());
        let timer = self
            .client
            .new_timer(kind, Some(self.key), when, payload, None)?;
        self.client
            .shared
            .ask_and_wait(|teller| Request::arm(timer, teller))
    }

    /// As [`schedule`](Self::schedule), and returns at once.
    ///
    /// # Errors
    /// As [`DurableClient::schedule`].
    ///
    /// # Example
    /// See [`Ticket`].
    pub fn schedule_ticket(
        &self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<Ticket<DurableId>, DurableError> {
        let (when, payload) = (when.into(), payload.into());
        let timer = self
            .client
            .new_timer(kind, Some(self.key), when, payload, None)?;
        self.client.shared.ask(|teller| Request::arm(timer, teller))
    }

    /// Cancels the timer. `false`: there is none, or it was handed out already. While a timer with
    /// a calendar runs, it is as with [`DurableClient::cancel`], and the key is free.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`].
    pub fn cancel(&self) -> Result<bool, DurableError> {
        self.client.cancel_target(self.target())
    }

    /// As [`cancel`](Self::cancel), and returns at once. What it answers is durable when the ticket
    /// is ready.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`].
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Memory};
    ///
    /// let timers = Durable::builder(Memory::new()).start()?;
    /// let order = timers.key("order-4711");
    /// order.schedule("order.unpaid", Duration::from_secs(1_800), "4711")?;
    /// let later = order.reschedule_ticket(Duration::from_secs(3_600))?;
    /// let cancelled = order.cancel_ticket()?;
    /// assert!(later.wait()? && cancelled.wait()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_ticket(&self) -> Result<Ticket<bool>, DurableError> {
        let target = self.target();
        self.client
            .shared
            .ask(|teller| Request::one(Write::Cancel(target), teller))
    }

    /// Gives the timer another deadline. `false`: there is none, or it was handed out already.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`].
    pub fn reschedule(&self, when: impl Into<When>) -> Result<bool, DurableError> {
        self.client.move_target(self.target(), when.into())
    }

    /// As [`reschedule`](Self::reschedule), and returns at once. What it answers is durable when
    /// the ticket is ready.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`].
    ///
    /// # Example
    /// See [`cancel_ticket`](Self::cancel_ticket).
    pub fn reschedule_ticket(&self, when: impl Into<When>) -> Result<Ticket<bool>, DurableError> {
        self.client.move_ticket(self.target(), when.into())
    }

    /// The timer as it is stored.
    ///
    /// # Errors
    /// As [`DurableClient::cancel`].
    pub fn get(&self) -> Result<Option<Row>, DurableError> {
        self.client.get_target(self.target())
    }

    fn target(&self) -> Target {
        Target::Key(self.key.into())
    }
}

impl DurableClient {
    /// Calls for the timer with this key: one timer a key. A key has at most 1,024 bytes.
    ///
    /// # Example
    /// See [`Keyed`].
    #[must_use]
    pub fn key<'a>(&'a self, key: &'a str) -> Keyed<'a> {
        Keyed { client: self, key }
    }
}
