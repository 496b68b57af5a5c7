//! Schema: makes the tables, or finds them. Any number of nodes may do so at one time.

use super::session::{Patience, Session};
use super::sql;
use crate::durable::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The version that is made and used.
const VERSION: i64 = 1;

/// What a look at the schema has found.
enum Found {
    Nothing,
    Version(i64),
}

/// Whether this error says that a table, or the schema, is not there.
fn is_missing(error: &Error) -> bool {
    let missing = [&SqlState::UNDEFINED_TABLE, &SqlState::INVALID_SCHEMA_NAME];
    error.code().is_some_and(|code| missing.contains(&code))
}

/// Whether it says that another node has just made what is to be made.
fn is_made(error: &Error) -> bool {
    let made = [
        &SqlState::DUPLICATE_TABLE,
        &SqlState::DUPLICATE_SCHEMA,
        &SqlState::DUPLICATE_FUNCTION,
        &SqlState::DUPLICATE_OBJECT,
        &SqlState::UNIQUE_VIOLATION,
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
        // "tuple concurrently updated"
        &SqlState::INTERNAL_ERROR,
    ];
    error.code().is_some_and(|code| made.contains(&code))
}

/// Has the schema made, if it is not there.
pub(super) fn prepare(session: &mut Session, schema: &str) -> Result<(), StoreError> {
    let mut patience = Patience::new(session.patience);
    loop {
        session.ensure(false, &mut patience)?;
        let version = sql::VERSION.replace("{s}", schema);
        let found = session.once(
            async |live| match live.client.query_opt(&version, &[]).await {
                Ok(Some(row)) => Ok(Found::Version(row.get(0))),
                Ok(None) => Ok(Found::Nothing),
                Err(error) if is_missing(&error) => Ok(Found::Nothing),
                Err(error) => Err(error),
            },
        );
        match found {
            Some(Ok(Found::Version(VERSION))) => break,
            Some(Ok(Found::Version(other))) => {
                let other = u64::try_from(other).unwrap_or(0);
                let what = format!("{}, schema {schema}", session.what);
                return Err(StoreError::Version(what.into(), other));
            }
            Some(Ok(Found::Nothing)) => match session.once(async |live| make(live, schema).await) {
                Some(Ok(())) => {}
                Some(Err(error)) if is_made(&error) => {
                    if let Some(wait) = patience.next() {
                        session.pause(wait);
                    } else {
                        return Err(session.error(&error));
                    }
                }
                Some(Err(error)) => session.after(Some(&error), &mut patience)?,
                None => session.after(None, &mut patience)?,
            },
            Some(Err(error)) => session.after(Some(&error), &mut patience)?,
            None => session.after(None, &mut patience)?,
        }
    }
    // The next connection has the statements prepared, which need the tables.
    session.forget();
    Ok(())
}

async fn make(live: &super::session::Live, schema: &str) -> Result<(), Error> {
    let has_schema = live
        .client
        .query_one(&sql::SCHEMA.replace("{s}", schema), &[])
        .await?
        .get::<_, i64>(0)
        > 0;
    let mut all = String::from("BEGIN;");
    if !has_schema {
        all.push_str(&sql::CREATE_SCHEMA.replace("{s}", schema));
        all.push(';');
    }
    for statement in sql::CREATE {
        all.push_str(&statement.replace("{s}", schema));
        all.push(';');
    }
    all.push_str("COMMIT");
    let made = live.client.batch_execute(&all).await;
    if made.is_err() {
        live.client.batch_execute("ROLLBACK").await?;
    }
    made?;
    for statement in sql::TUNE {
        // (Not every database has these settings.)
        let _ = live
            .client
            .batch_execute(&statement.replace("{s}", schema))
            .await;
    }
    Ok(())
}
