//! Outbox: the calls that are part of the user's own transaction.

use super::statements::rows::{durable_id, millis};
use crate::store::row::{DurableId, StoreTime};
use crate::store::when::{PayloadBytes, When};
use std::fmt;
use std::sync::Arc;
use tokio_postgres::GenericClient;
use tokio_postgres::types::ToSql;

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
///     outbox.schedule_in(&mut transaction, "order.unpaid", half_an_hour, "4711")?;
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
        Self { schema }
    }

    fn call(&self, function: &str) -> String {
        let due = "CASE WHEN $2 THEN {s}.wheelwork_clock() ELSE 0 END + $3";
        let call = match function {
            "schedule" => format!("SELECT {{s}}.wheelwork_schedule_at($1, {due}, $4, $5)"),
            "reschedule" => format!("SELECT {{s}}.wheelwork_reschedule_at($1, {due})"),
            "reschedule_key" => format!("SELECT {{s}}.wheelwork_reschedule_key_at($1, {due})"),
            "cancel" => "SELECT {s}.wheelwork_cancel($1)".to_owned(),
            _ => "SELECT {s}.wheelwork_cancel_key($1)".to_owned(),
        };
        call.replace("{s}", &self.schema)
    }

    /// Arms a timer in this transaction. It is there when the transaction is committed.
    ///
    /// # Errors
    /// Those of the database.
    pub fn schedule_in(
        &self,
        transaction: &mut postgres::Transaction<'_>,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, postgres::Error> {
        self.schedule_key_in(transaction, None, kind, when, payload)
    }

    /// The same with a key: a timer that has it and was not handed out is replaced. Until the
    /// transaction is committed, whoever else wants to use the key waits.
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{DurableId, PostgresOutbox};
    ///
    /// fn remind(
    ///     transaction: &mut postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    /// ) -> Result<DurableId, postgres::Error> {
    ///     let day = Duration::from_secs(86_400);
    ///     outbox.schedule_key_in(transaction, Some("cart-7"), "cart.remind", day, "7")
    /// }
    /// ```
    pub fn schedule_key_in(
        &self,
        transaction: &mut postgres::Transaction<'_>,
        key: Option<&str>,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, postgres::Error> {
        let (is_delay, ms) = due(when.into());
        let payload = payload.into();
        let params: [&(dyn ToSql + Sync); 5] = [&kind, &is_delay, &ms, &&*payload.0, &key];
        let row = transaction.query_one(&self.call("schedule"), &params)?;
        Ok(durable_id(row.get(0)))
    }

    /// Cancels a timer in this transaction. `true`: no handler is given it, once the transaction is
    /// committed. Until then it does not fire, and whoever else wants to end or move it waits.
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{DurableId, PostgresOutbox};
    ///
    /// fn paid(
    ///     transaction: &mut postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    ///     timer: DurableId,
    /// ) -> Result<bool, postgres::Error> {
    ///     outbox.cancel_in(transaction, timer)
    /// }
    /// ```
    pub fn cancel_in(
        &self,
        transaction: &mut postgres::Transaction<'_>,
        id: DurableId,
    ) -> Result<bool, postgres::Error> {
        let id = super::statements::rows::uuid(id);
        let row = transaction.query_one(&self.call("cancel"), &[&id])?;
        Ok(row.get(0))
    }

    /// The same for the timer that has this key.
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::PostgresOutbox;
    ///
    /// fn paid(
    ///     transaction: &mut postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    /// ) -> Result<bool, postgres::Error> {
    ///     outbox.cancel_key_in(transaction, "order-4711")
    /// }
    /// ```
    pub fn cancel_key_in(
        &self,
        transaction: &mut postgres::Transaction<'_>,
        key: &str,
    ) -> Result<bool, postgres::Error> {
        let row = transaction.query_one(&self.call("cancel_key"), &[&key])?;
        Ok(row.get(0))
    }

    /// Gives a timer another deadline in this transaction. `false`: it was handed out already, or
    /// has ended.
    ///
    /// # Errors
    /// Those of the database.
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
    ///     outbox.reschedule_in(transaction, timer, Duration::from_secs(60))
    /// }
    /// ```
    pub fn reschedule_in(
        &self,
        transaction: &mut postgres::Transaction<'_>,
        id: DurableId,
        when: impl Into<When>,
    ) -> Result<bool, postgres::Error> {
        let (is_delay, ms) = due(when.into());
        let id = super::statements::rows::uuid(id);
        let row = transaction.query_one(&self.call("reschedule"), &[&id, &is_delay, &ms])?;
        Ok(row.get(0))
    }

    /// The same for the timer that has this key.
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::PostgresOutbox;
    ///
    /// fn extend(
    ///     transaction: &mut postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    /// ) -> Result<bool, postgres::Error> {
    ///     outbox.reschedule_key_in(transaction, "order-4711", Duration::from_secs(60))
    /// }
    /// ```
    pub fn reschedule_key_in(
        &self,
        transaction: &mut postgres::Transaction<'_>,
        key: &str,
        when: impl Into<When>,
    ) -> Result<bool, postgres::Error> {
        let (is_delay, ms) = due(when.into());
        let row = transaction.query_one(&self.call("reschedule_key"), &[&key, &is_delay, &ms])?;
        Ok(row.get(0))
    }

    /// Arms a timer in this transaction of tokio-postgres, with a key or without one.
    ///
    /// # Errors
    /// Those of the database.
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
    ///     outbox.schedule_async_in(transaction, Some("cart-7"), "cart.remind", day, "7").await
    /// }
    /// ```
    pub async fn schedule_async_in(
        &self,
        transaction: &impl GenericClient,
        key: Option<&str>,
        kind: &str,
        when: impl Into<When>,
        payload: impl Into<PayloadBytes>,
    ) -> Result<DurableId, tokio_postgres::Error> {
        let (is_delay, ms) = due(when.into());
        let payload = payload.into();
        let params: [&(dyn ToSql + Sync); 5] = [&kind, &is_delay, &ms, &&*payload.0, &key];
        let row = transaction
            .query_one(&self.call("schedule"), &params)
            .await?;
        Ok(durable_id(row.get(0)))
    }

    /// Cancels a timer in this transaction of tokio-postgres, as [`cancel_in`](Self::cancel_in).
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{DurableId, PostgresOutbox};
    ///
    /// async fn paid(
    ///     transaction: &tokio_postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    ///     timer: DurableId,
    /// ) -> Result<bool, tokio_postgres::Error> {
    ///     outbox.cancel_async_in(transaction, timer).await
    /// }
    /// ```
    pub async fn cancel_async_in(
        &self,
        transaction: &impl GenericClient,
        id: DurableId,
    ) -> Result<bool, tokio_postgres::Error> {
        let id = super::statements::rows::uuid(id);
        let row = transaction.query_one(&self.call("cancel"), &[&id]).await?;
        Ok(row.get(0))
    }

    /// The same for the timer that has this key, as [`cancel_key_in`](Self::cancel_key_in).
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::PostgresOutbox;
    ///
    /// async fn paid(
    ///     transaction: &tokio_postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    /// ) -> Result<bool, tokio_postgres::Error> {
    ///     outbox.cancel_key_async_in(transaction, "order-4711").await
    /// }
    /// ```
    pub async fn cancel_key_async_in(
        &self,
        transaction: &impl GenericClient,
        key: &str,
    ) -> Result<bool, tokio_postgres::Error> {
        let row = transaction
            .query_one(&self.call("cancel_key"), &[&key])
            .await?;
        Ok(row.get(0))
    }

    /// Gives a timer another deadline in this transaction of tokio-postgres, as
    /// [`reschedule_in`](Self::reschedule_in).
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{DurableId, PostgresOutbox};
    ///
    /// async fn extend(
    ///     transaction: &tokio_postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    ///     timer: DurableId,
    /// ) -> Result<bool, tokio_postgres::Error> {
    ///     outbox.reschedule_async_in(transaction, timer, Duration::from_secs(60)).await
    /// }
    /// ```
    pub async fn reschedule_async_in(
        &self,
        transaction: &impl GenericClient,
        id: DurableId,
        when: impl Into<When>,
    ) -> Result<bool, tokio_postgres::Error> {
        let (is_delay, ms) = due(when.into());
        let id = super::statements::rows::uuid(id);
        let row = transaction
            .query_one(&self.call("reschedule"), &[&id, &is_delay, &ms])
            .await?;
        Ok(row.get(0))
    }

    /// The same for the timer that has this key, as
    /// [`reschedule_key_in`](Self::reschedule_key_in).
    ///
    /// # Errors
    /// Those of the database.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::PostgresOutbox;
    ///
    /// async fn extend(
    ///     transaction: &tokio_postgres::Transaction<'_>,
    ///     outbox: &PostgresOutbox,
    /// ) -> Result<bool, tokio_postgres::Error> {
    ///     let minute = Duration::from_secs(60);
    ///     outbox.reschedule_key_async_in(transaction, "order-4711", minute).await
    /// }
    /// ```
    pub async fn reschedule_key_async_in(
        &self,
        transaction: &impl GenericClient,
        key: &str,
        when: impl Into<When>,
    ) -> Result<bool, tokio_postgres::Error> {
        let (is_delay, ms) = due(when.into());
        let row = transaction
            .query_one(&self.call("reschedule_key"), &[&key, &is_delay, &ms])
            .await?;
        Ok(row.get(0))
    }
}

impl fmt::Debug for PostgresOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOutbox")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
