//! Clients: whose transactions the outbox takes, and how each carries a call to the database.

use super::calls::{Call, Value};
use crate::stores::postgres::blocking::BlockingTransaction;
use std::future::Future;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, GenericClient, Row};
use uuid::Uuid;

/// A transaction that carries the calls of the outbox to the database, and blocks the thread: a
/// [`BlockingTransaction`], or a connection of diesel. Programs do not implement it.
///
/// # Example
/// ```
/// use wheelwork_durable::{DurableId, OutboxClient, OutboxWithin};
///
/// // The same for every client.
/// fn cancel_both<T: OutboxClient>(
///     timers: &mut OutboxWithin<'_, T>,
///     [one, other]: [DurableId; 2],
/// ) -> Result<bool, T::Error> {
///     Ok(timers.cancel(one)? & timers.cancel(other)?)
/// }
/// ```
pub trait OutboxClient {
    /// The errors of the database, as the client has them.
    type Error;

    #[doc(hidden)]
    fn id(&mut self, call: &Call<'_>) -> Result<Uuid, Self::Error>;

    #[doc(hidden)]
    fn is_done(&mut self, call: &Call<'_>) -> Result<bool, Self::Error>;
}

/// A transaction that carries the calls of the outbox to the database, and is awaited: one of
/// tokio-postgres or of sqlx. Programs do not implement it.
///
/// # Example
/// ```
/// use wheelwork_durable::{AsyncOutboxClient, AsyncOutboxWithin, DurableId};
///
/// // The same for every client.
/// async fn cancel_both<T: AsyncOutboxClient>(
///     timers: &mut AsyncOutboxWithin<'_, T>,
///     [one, other]: [DurableId; 2],
/// ) -> Result<bool, T::Error> {
///     Ok(timers.cancel(one).await? & timers.cancel(other).await?)
/// }
/// ```
pub trait AsyncOutboxClient {
    /// The errors of the database, as the client has them.
    type Error;

    #[doc(hidden)]
    fn id(&mut self, call: &Call<'_>) -> impl Future<Output = Result<Uuid, Self::Error>>;

    #[doc(hidden)]
    fn is_done(&mut self, call: &Call<'_>) -> impl Future<Output = Result<bool, Self::Error>>;
}

fn values<'a>(call: &'a Call<'_>) -> Vec<&'a (dyn ToSql + Sync)> {
    let value = |value: &'a Value<'_>| -> &'a (dyn ToSql + Sync) {
        match value {
            Value::Bool(value) => value,
            Value::Bytes(value) => value,
            Value::Id(value) => value,
            Value::Int(value) => value,
            Value::Text(value) => value,
            Value::TextOrNull(value) => value,
        }
    };
    call.values.iter().map(value).collect()
}

fn ask<T: BlockingTransaction>(transaction: &mut T, call: &Call<'_>) -> Result<Row, Error> {
    transaction.query_one(call.text, &values(call))
}

impl<T: BlockingTransaction> OutboxClient for &mut T {
    type Error = Error;

    fn id(&mut self, call: &Call<'_>) -> Result<Uuid, Error> {
        ask(*self, call)?.try_get(0)
    }

    fn is_done(&mut self, call: &Call<'_>) -> Result<bool, Error> {
        ask(*self, call)?.try_get(0)
    }
}

impl<C: GenericClient> AsyncOutboxClient for &C {
    type Error = Error;

    async fn id(&mut self, call: &Call<'_>) -> Result<Uuid, Error> {
        self.query_one(call.text, &values(call)).await?.try_get(0)
    }

    async fn is_done(&mut self, call: &Call<'_>) -> Result<bool, Error> {
        self.query_one(call.text, &values(call)).await?.try_get(0)
    }
}
