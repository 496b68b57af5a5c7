//! Outbox: the calls that are part of the user's own transaction.

mod awaited;
mod blocking;
mod calls;
mod clients;
#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "sqlx")]
mod sqlx;

pub use awaited::{AsyncOutboxKeyed, AsyncOutboxWithin};
pub use blocking::{OutboxKeyed, OutboxWithin};
#[cfg(test)]
pub(super) use calls::texts;
pub use clients::{AsyncOutboxClient, OutboxClient};
#[cfg(feature = "diesel")]
pub use diesel::DieselConnection;

use super::blocking::BlockingTransaction;
use calls::Texts;
use std::fmt;
use std::sync::Arc;
use tokio_postgres::GenericClient;

/// Arms, cancels and moves timers in a transaction of your own: what it does to your rows and to
/// timers is done together, or not at all.
///
/// It calls the functions `wheelwork_schedule_at`, `wheelwork_cancel` and `wheelwork_reschedule` of
/// the schema, as programs in other languages can. A timer that is armed so is seen by its node
/// within a second of the commit, or within ten times as long as the node's look for such timers
/// takes, if that is longer. It fires as other timers do if it is due later.
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
    texts: Arc<Texts>,
}

impl PostgresOutbox {
    pub(super) fn new(schema: Arc<str>) -> Self {
        let texts = Arc::new(Texts::new(&schema));
        Self { schema, texts }
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
        OutboxWithin::new(&self.texts, transaction)
    }

    /// The same calls inside this transaction of tokio-postgres, to be awaited. A `Client` is taken
    /// too: outside of a transaction each call is committed by itself.
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
    ) -> AsyncOutboxWithin<'a, &'a C> {
        AsyncOutboxWithin::new(&self.texts, transaction)
    }

    /// The same calls inside a transaction of sqlx 0.8, to be awaited. A `sqlx::Transaction` is
    /// given as `&mut *transaction`, or as `&mut transaction`. A connection is taken too: outside
    /// of a transaction each call is committed by itself.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{DurableId, PostgresOutbox};
    ///
    /// async fn place_order(
    ///     pool: &sqlx::PgPool,
    ///     outbox: &PostgresOutbox,
    /// ) -> Result<DurableId, sqlx::Error> {
    ///     let mut transaction = pool.begin().await?;
    ///     sqlx::query("INSERT INTO orders (id) VALUES (4711)").execute(&mut *transaction).await?;
    ///     let half_an_hour = Duration::from_secs(1_800);
    ///     let mut timers = outbox.within_sqlx(&mut transaction);
    ///     let timer = timers.schedule("order.unpaid", half_an_hour, "4711").await?;
    ///     transaction.commit().await?; // the order and its timer, or neither
    ///     Ok(timer)
    /// }
    /// ```
    #[cfg(feature = "sqlx")]
    #[must_use]
    pub fn within_sqlx<'a>(
        &'a self,
        transaction: &'a mut ::sqlx::PgConnection,
    ) -> AsyncOutboxWithin<'a, &'a mut ::sqlx::PgConnection> {
        AsyncOutboxWithin::new(&self.texts, transaction)
    }

    /// The same calls on a connection of diesel 2, inside its `transaction`. It may be any
    /// connection to PostgreSQL: a `PgConnection`, one of a pool, or one that is not made of
    /// PostgreSQL's C library.
    ///
    /// # Example
    /// ```
    /// use diesel::pg::Pg;
    /// use diesel::{QueryResult, RunQueryDsl, connection::LoadConnection, sql_query};
    /// use std::time::Duration;
    /// use wheelwork_durable::PostgresOutbox;
    ///
    /// // A `PgConnection`, for example.
    /// fn place_order(
    ///     connection: &mut impl LoadConnection<Backend = Pg>,
    ///     outbox: &PostgresOutbox,
    /// ) -> QueryResult<()> {
    ///     connection.transaction(|connection| {
    ///         sql_query("INSERT INTO orders (id) VALUES (4711)").execute(connection)?;
    ///         let half_an_hour = Duration::from_secs(1_800);
    ///         let mut timers = outbox.within_diesel(connection);
    ///         timers.key("order-4711").schedule("order.unpaid", half_an_hour, "4711")?;
    ///         Ok(()) // the order and its timer, or neither
    ///     })
    /// }
    /// ```
    #[cfg(feature = "diesel")]
    #[must_use]
    pub fn within_diesel<'a, C>(
        &'a self,
        connection: &'a mut C,
    ) -> OutboxWithin<'a, DieselConnection<'a, C>>
    where
        C: ::diesel::connection::LoadConnection<Backend = ::diesel::pg::Pg>,
    {
        OutboxWithin::new(&self.texts, DieselConnection(connection))
    }
}

impl fmt::Debug for PostgresOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOutbox")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
