//! diesel: its connections carry the calls of the outbox.

use super::calls::{Call, Value};
use super::clients::OutboxClient;
use diesel::connection::LoadConnection;
use diesel::deserialize::{self, QueryableByName};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Bool, Nullable, Text};
use diesel::{QueryResult, RunQueryDsl, sql_query};
use std::fmt;
use uuid::Uuid;

/// A connection of diesel, as the outbox has it. Made by
/// [`PostgresOutbox::within_diesel`](crate::PostgresOutbox::within_diesel).
///
/// # Example
/// ```
/// use diesel::connection::LoadConnection;
/// use diesel::{QueryResult, pg::Pg};
/// use wheelwork_durable::{DieselConnection, DurableId, OutboxWithin};
///
/// type Timers<'a, C> = OutboxWithin<'a, DieselConnection<'a, C>>;
///
/// // With `C` a `PgConnection`, or another connection to PostgreSQL.
/// fn paid<C>(timers: &mut Timers<'_, C>, timer: DurableId) -> QueryResult<bool>
/// where
///     C: LoadConnection<Backend = Pg>,
/// {
///     timers.cancel(timer)
/// }
/// ```
pub struct DieselConnection<'a, C>(pub(super) &'a mut C);

impl<C> fmt::Debug for DieselConnection<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DieselConnection").finish_non_exhaustive()
    }
}

/// The name of the only column of an answer.
const ANSWER: &str = "answer";

struct Id(Uuid);

impl QueryableByName<Pg> for Id {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        NamedRow::get::<diesel::sql_types::Uuid, _>(row, ANSWER).map(Self)
    }
}

struct IsDone(bool);

impl QueryableByName<Pg> for IsDone {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        NamedRow::get::<Bool, _>(row, ANSWER).map(Self)
    }
}

fn ask<C, U>(connection: &mut C, call: &Call<'_>) -> QueryResult<U>
where
    C: LoadConnection<Backend = Pg>,
    U: QueryableByName<Pg> + 'static,
{
    let mut query = sql_query(format!("{} AS {ANSWER}", call.text)).into_boxed::<Pg>();
    for &value in &call.values {
        query = match value {
            Value::Bool(value) => query.bind::<Bool, _>(value),
            Value::Bytes(value) => query.bind::<Binary, _>(value),
            Value::Id(value) => query.bind::<diesel::sql_types::Uuid, _>(value),
            Value::Int(value) => query.bind::<BigInt, _>(value),
            Value::Text(value) => query.bind::<Text, _>(value),
            Value::TextOrNull(value) => query.bind::<Nullable<Text>, _>(value),
        };
    }
    query.get_result(connection)
}

impl<C: LoadConnection<Backend = Pg>> OutboxClient for DieselConnection<'_, C> {
    type Error = diesel::result::Error;

    fn id(&mut self, call: &Call<'_>) -> QueryResult<Uuid> {
        ask(self.0, call).map(|Id(id)| id)
    }

    fn is_done(&mut self, call: &Call<'_>) -> QueryResult<bool> {
        ask(self.0, call).map(|IsDone(is_done)| is_done)
    }
}
