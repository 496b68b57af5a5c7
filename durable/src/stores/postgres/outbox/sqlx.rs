//! sqlx: its transactions carry the calls of the outbox.

use super::calls::{Call, Value};
use super::clients::AsyncOutboxClient;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{Error, Postgres, Row};
use uuid::Uuid;

async fn ask(connection: &mut PgConnection, call: &Call<'_>) -> Result<PgRow, Error> {
    let mut query: Query<'_, Postgres, PgArguments> = sqlx::query(call.text);
    for &value in &call.values {
        query = match value {
            Value::Bool(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value),
            Value::Id(value) => query.bind(value),
            Value::Int(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
            Value::TextOrNull(value) => query.bind(value),
        };
    }
    query.fetch_one(connection).await
}

impl AsyncOutboxClient for &mut PgConnection {
    type Error = Error;

    async fn id(&mut self, call: &Call<'_>) -> Result<Uuid, Error> {
        ask(self, call).await?.try_get(0)
    }

    async fn is_done(&mut self, call: &Call<'_>) -> Result<bool, Error> {
        ask(self, call).await?.try_get(0)
    }
}
