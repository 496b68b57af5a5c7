//! Outbox: the calls that are part of the user's own transaction.

use super::blocking::BlockingTransaction;
use super::statements::rows::{durable_id, millis, uuid};
use crate::store::row::{DurableId, StoreTime};
use crate::store::when::{PayloadBytes, When};
use std::fmt;
use std::sync::Arc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, GenericClient};

/// Arms, cancels and moves timers in a transaction of your own: what it does to your rows and to
/// timers is done together, or not at all.
///
/// It calls the functions `wheelwork_schedule_at`, `wheelwork_cancel` and `wheelwork_reschedule` of
/// the schema, as programs in other languages can. A timer that is armed so is seen by its node
/// within a second of the commit, and fires at the millisecond if it is due later.
///
/// # Example
/// ```
/// use std::error::Error;
/// use std::time::Duration;
/// use wheelwork_durable::{Postgres, PostgresOutbox};
///
/// fn place_order(
///     database: &mut postgres::Client,
///     outbox: &PostgresOutbox,
/// ) -> Result<(), Box<dyn Error>> {
///     let mut transaction = database.transaction()?;
///     transaction.execute("INSERT INTO orders (id) VALUES (4711)", &[])?;
///     let half_an_hour = Duration::from_secs(1_800);
///     let mut timers = outbox.within(&mut transaction);
///     timers.key("order-4711").schedule("order.unpaid", half_an_hour, "4711")?;
///     transaction.commit()?; // the order and its timer, or neither
///     Ok(())
/// }
///
/// let store = Postgres::connect("host=127.0.0.1 port=1 user=shop");
/// assert!(store.map(|store| store.outbox()).is_err()); // there is no database here
/// ```
#[derive(Clone)]
pub struct PostgresOutbox {
    schema: Arc<str>,
    calls: Arc<Calls>,
}

/// The statements of the calls.
struct Calls {
    schedule: String,
    reschedule: String,
    reschedule_key: String,
    cancel: String,
    cancel_key: String,
}

impl Calls {
    fn new(schema: &str) -> Self {
        let due = "CASE WHEN $2 THEN {s}.wheelwork_clock() ELSE 0 END + $3";
        let call = |function: &str, values: &str| {
            let call = format!("SELECT {{s}}.wheelwork_{function}({values})");
            call.replace("{due}", due).replace("{s}", schema)
        };
        Self {
            schedule: call("schedule_at", "$1, {due}, $4, $5"),
            reschedule: call("reschedule_at", "$1, {due}"),
            reschedule_key: call("reschedule_key_at", "$1, {due}"),
            cancel: call("cancel", "$1"),
            cancel_key: call("cancel_key", "$1"),
        }
    }
}

/// The texts of the calls, for the tests that keep them.
#[cfg(test)]
pub(super) fn texts(schema: &str) -> [String; 5] {
    let Calls {
        schedule,
        reschedule,
        reschedule_key,
        cancel,
        cancel_key,
    } = Calls::new(schema);
    [schedule, reschedule, reschedule_key, cancel, cancel_key]
}

/// When a timer is due, as the statement takes it: milliseconds, from now or since 1970.
fn due(when: When) -> (bool, i64) {
    match when {
        When::At(time) => (false, millis(StoreTime::due_at(time))),
        When::After(delay) => (true, millis(StoreTime::MIN.after(delay))),
    }
}

impl PostgresOutbox {
    pub(super) fn new(schema: Arc<str>) -> Self {
        let calls = Arc::new(Calls::new(&schema));
        Self { schema, calls }
    }

    /// The calls inside this transaction: one of the crate `postgres`, or the one of a handler of
    /// [`on_in_transaction`](crate::DurableBuilder::on_in_transaction).
    ///
    /// # Example
    /// See [`OutboxWithin`].
    #[must_use]
    pub fn within<'a, T: BlockingTransaction>(
        &'a self,
        transaction: &'a mut T,
    ) -> OutboxWithin<'a, &'a mut T> {
        OutboxWithin {
            outbox: self,
            transaction,
        }
    }

    /// The same calls inside this transaction of tokio-postgres, to be awaited.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{DurableId, PostgresOutbox};
    ///
    /// async fn remind(
    ///     transaction: &tokio_postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    /// ) -> Result<DurableId, tokio_postgres::Error> {
    ///     let day = Duration::from_secs(86_400);
    ///     outbox.within_async(transaction).key("cart-7").schedule("cart.remind", day, "7").await
    /// }
    /// ```
    #[must_use]
    pub fn within_async<'a, C: GenericClient>(
        &'a self,
        transaction: &'a C,
    ) -> OutboxWithin<'a, &'a C> {
        OutboxWithin {
            outbox: self,
            transaction,
        }
    }
}

/// The calls of an outbox inside a transaction. Made by [`PostgresOutbox::within`], and by
/// [`within_async`](PostgresOutbox::within_async), whose calls are to be awaited.
///
/// All calls return the errors of the database.
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
#[derive(Clone, Copy)]
pub struct OutboxWithin<'a, T> {
    outbox: &'a PostgresOutbox,
    transaction: T,
}

/// The calls of an outbox for the timer with a key. Made by `key` of an [`OutboxWithin`].
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
#[derive(Clone, Copy)]
pub struct OutboxKeyed<'a, T> {
    within: OutboxWithin<'a, T>,
    key: &'a str,
}

impl<T: BlockingTransaction> OutboxWithin<'_, &mut T> {
    /// The calls for the timer with this key: one timer a key.
    #[must_use]
    pub fn key<'k>(&'k mut self, key: &'k str) -> OutboxKeyed<'k, &'k mut T> {
        let within = self.outbox.within(self.transaction);
        OutboxKeyed { within, key }
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
    ) -> Result<DurableId, Error> {
        self.arm(None, kind, when.into(), &payload.into())
    }

    /// Cancels a timer. `true`: no handler is given it, once the transaction is committed. Until
    /// then it does not fire, and other calls that would end or move it wait.
    ///
    /// # Errors
    /// Those of the database.
    pub fn cancel(&mut self, id: DurableId) -> Result<bool, Error> {
        self.ask(&self.outbox.calls.cancel, &[&uuid(id)])
    }

    /// Gives a timer another deadline. `false`: it was handed out already, or has ended.
    ///
    /// # Errors
    /// Those of the database.
    pub fn reschedule(&mut self, id: DurableId, when: impl Into<When>) -> Result<bool, Error> {
        let (is_delay, ms) = due(when.into());
        self.ask(&self.outbox.calls.reschedule, &[&uuid(id), &is_delay, &ms])
    }

    fn arm(
        &mut self,
        key: Option<&str>,
        kind: &str,
        when: When,
        payload: &PayloadBytes,
    ) -> Result<DurableId, Error> {
        let (is_delay, ms) = due(when);
        let params: [&(dyn ToSql + Sync); 5] = [&kind, &is_delay, &ms, &&*payload.0, &key];
        let call = self.outbox.calls.schedule.as_str();
        let row = self.transaction.query_one(call, &params)?;
        Ok(durable_id(row.get(0)))
    }

    fn ask(&mut self, call: &str, params: &[&(dyn ToSql + Sync)]) -> Result<bool, Error> {
        Ok(self.transaction.query_one(call, params)?.get(0))
    }
}

impl<T: BlockingTransaction> OutboxKeyed<'_, &mut T> {
    /// Arms the timer with this key, in place of the one that there is, if that was not handed out.
    /// Until the transaction is committed, other calls that use the key wait.
    ///
    /// # Errors
    /// Those of the database.
    pub fn schedule(
        &mut self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, Error> {
        let key = Some(self.key);
        self.within.arm(key, kind, when.into(), &payload.into())
    }

    /// Cancels the timer. `false`: there is none, or it was handed out already.
    ///
    /// # Errors
    /// Those of the database.
    pub fn cancel(&mut self) -> Result<bool, Error> {
        self.within
            .ask(&self.within.outbox.calls.cancel_key, &[&self.key])
    }

    /// Gives the timer another deadline. `false`: there is none, or it was handed out already.
    ///
    /// # Errors
    /// Those of the database.
    pub fn reschedule(&mut self, when: impl Into<When>) -> Result<bool, Error> {
        let (is_delay, ms) = due(when.into());
        self.within.ask(
            &self.within.outbox.calls.reschedule_key,
            &[&self.key, &is_delay, &ms],
        )
    }
}

impl<'a, C: GenericClient> OutboxWithin<'a, &'a C> {
    /// The calls for the timer with this key: one timer a key.
    #[must_use]
    pub fn key(self, key: &'a str) -> OutboxKeyed<'a, &'a C> {
        OutboxKeyed { within: self, key }
    }

    /// Arms a timer. It is there when the transaction is committed.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn schedule(
        self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, Error> {
        let (when, payload) = (when.into(), payload.into());
        self.arm(None, kind, when, &payload).await
    }

    /// Cancels a timer. `true`: no handler is given it, once the transaction is committed. Until
    /// then it does not fire, and other calls that would end or move it wait.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn cancel(self, id: DurableId) -> Result<bool, Error> {
        self.ask(&self.outbox.calls.cancel, &[&uuid(id)]).await
    }

    /// Gives a timer another deadline. `false`: it was handed out already, or has ended.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn reschedule(self, id: DurableId, when: impl Into<When>) -> Result<bool, Error> {
        let (is_delay, ms) = due(when.into());
        self.ask(&self.outbox.calls.reschedule, &[&uuid(id), &is_delay, &ms])
            .await
    }

    async fn arm(
        self,
        key: Option<&str>,
        kind: &str,
        when: When,
        payload: &PayloadBytes,
    ) -> Result<DurableId, Error> {
        let (is_delay, ms) = due(when);
        let params: [&(dyn ToSql + Sync); 5] = [&kind, &is_delay, &ms, &&*payload.0, &key];
        let call = self.outbox.calls.schedule.as_str();
        let row = self.transaction.query_one(call, &params).await?;
        Ok(durable_id(row.get(0)))
    }

    async fn ask(self, call: &str, params: &[&(dyn ToSql + Sync)]) -> Result<bool, Error> {
        Ok(self.transaction.query_one(call, params).await?.get(0))
    }
}

impl<'a, C: GenericClient> OutboxKeyed<'a, &'a C> {
    /// Arms the timer with this key, in place of the one that there is, if that was not handed out.
    /// Until the transaction is committed, other calls that use the key wait.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn schedule(
        self,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, Error> {
        let (key, when, payload) = (Some(self.key), when.into(), payload.into());
        self.within.arm(key, kind, when, &payload).await
    }

    /// Cancels the timer. `false`: there is none, or it was handed out already.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn cancel(self) -> Result<bool, Error> {
        self.within
            .ask(&self.within.outbox.calls.cancel_key, &[&self.key])
            .await
    }

    /// Gives the timer another deadline. `false`: there is none, or it was handed out already.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn reschedule(self, when: impl Into<When>) -> Result<bool, Error> {
        let (is_delay, ms) = due(when.into());
        let params: [&(dyn ToSql + Sync); 3] = [&self.key, &is_delay, &ms];
        self.within
            .ask(&self.within.outbox.calls.reschedule_key, &params)
            .await
    }
}

impl fmt::Debug for PostgresOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOutbox")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OutboxWithin<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxWithin")
            .field("outbox", self.outbox)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OutboxKeyed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxKeyed")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
