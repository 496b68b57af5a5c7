//! Blocking: the calls of the outbox that block the thread.

use super::calls::{Of, Texts};
use super::clients::OutboxClient;
use crate::store::row::DurableId;
use crate::store::when::{PayloadBytes, When};
use crate::stores::postgres::statements::rows::durable_id;
use std::fmt;

/// The calls of an outbox inside a transaction. Made by
/// [`PostgresOutbox::within`](crate::PostgresOutbox::within).
///
/// All calls return the errors of the database, as the client has them.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{DurableId, PostgresOutbox};
///
/// fn extend(
///     transaction: &mut postgres::Transaction<'_>,
///     outbox: &PostgresOutbox,
///     timer: DurableId,
/// ) -> Result<bool, postgres::Error> {
///     outbox.within(transaction).reschedule(timer, Duration::from_secs(60))
/// }
/// ```
pub struct OutboxWithin<'a, T> {
    texts: &'a Texts,
    transaction: T,
}

/// The calls of an outbox for the timer with a key. Made by [`OutboxWithin::key`].
///
/// # Example
/// ```
/// use wheelwork_durable::PostgresOutbox;
///
/// fn paid(
///     transaction: &mut postgres::Transaction<'_>,
///     outbox: &PostgresOutbox,
/// ) -> Result<bool, postgres::Error> {
///     outbox.within(transaction).key("order-4711").cancel()
/// }
/// ```
pub struct OutboxKeyed<'a, T> {
    texts: &'a Texts,
    transaction: &'a mut T,
    key: &'a str,
}

impl<'a, T> OutboxWithin<'a, T> {
    pub(super) fn new(texts: &'a Texts, transaction: T) -> Self {
        Self { texts, transaction }
    }
}

impl<T: OutboxClient> OutboxWithin<'_, T> {
    /// The calls for the timer with this key: one timer a key.
    #[must_use]
    pub fn key<'k>(&'k mut self, key: &'k str) -> OutboxKeyed<'k, T> {
        OutboxKeyed {
            texts: self.texts,
            transaction: &mut self.transaction,
            key,
        }
    }

    /// Arms a timer. It is there when the transaction is committed.
    ///
    /// # Errors
    /// Those of the database.
    pub fn schedule(
        &mut self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, T::Error> {
        let payload = payload.into();
        let call = self.texts.schedule(None, kind, when.into(), &payload);
        self.transaction.id(&call).map(durable_id)
    }

    /// Cancels a timer. `true`: no handler is given it, once the transaction is committed. (A timer
    /// with a calendar may still make the run that was handed out.) Until then it does not fire,
    /// and other calls that would end or move it wait.
    ///
    /// # Errors
    /// Those of the database.
    pub fn cancel(&mut self, id: DurableId) -> Result<bool, T::Error> {
        self.transaction.is_done(&self.texts.cancel(Of::Id(id)))
    }

    /// Gives a timer another deadline. `false`: it was handed out already, or has ended.
    ///
    /// # Errors
    /// Those of the database.
    pub fn reschedule(&mut self, id: DurableId, when: impl Into<When>) -> Result<bool, T::Error> {
        let call = self.texts.reschedule(Of::Id(id), when.into());
        self.transaction.is_done(&call)
    }
}

impl<T: OutboxClient> OutboxKeyed<'_, T> {
    /// Arms the timer with this key, in place of the one that there is, if that was not handed out.
    /// Until the transaction ends, another call that takes the key waits. So does one that would
    /// end or move the timer that had the key before. If there was none, `cancel` and `reschedule`
    /// by the key say `false` at once.
    ///
    /// # Errors
    /// Those of the database.
    pub fn schedule(
        &mut self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, T::Error> {
        let payload = payload.into();
        let key = Some(self.key);
        let call = self.texts.schedule(key, kind, when.into(), &payload);
        self.transaction.id(&call).map(durable_id)
    }

    /// Cancels the timer. `false`: there is none, or it was handed out already.
    ///
    /// # Errors
    /// Those of the database.
    pub fn cancel(&mut self) -> Result<bool, T::Error> {
        let call = self.texts.cancel(Of::Key(self.key));
        self.transaction.is_done(&call)
    }

    /// Gives the timer another deadline. `false`: there is none, or it was handed out already.
    ///
    /// # Errors
    /// Those of the database.
    pub fn reschedule(&mut self, when: impl Into<When>) -> Result<bool, T::Error> {
        let call = self.texts.reschedule(Of::Key(self.key), when.into());
        self.transaction.is_done(&call)
    }
}

impl<T> fmt::Debug for OutboxWithin<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxWithin").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OutboxKeyed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxKeyed")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
