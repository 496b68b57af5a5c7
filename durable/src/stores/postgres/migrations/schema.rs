//! Schema: makes the tables, or finds them. Any number of nodes may do so at one time.

use super::tables;
use crate::store::contract::StoreError;
use crate::stores::postgres::session::{Patience, Session, Trouble, trouble};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The number of the schema that is made and used.
pub(in crate::stores::postgres) const NUMBER: i64 = 3;

/// The longest name of a schema.
const NAME_MAX: usize = 50;

/// Words that SQL reserves, so that they are no names: those that `pg_get_keywords` counts as
/// reserved, or as names of functions and types alone, up to PostgreSQL 18.
const RESERVED: &str = " all analyse analyze and any array as asc asymmetric authorization binary \
     both case cast check collate collation column concurrently constraint create cross \
     current_catalog current_date current_role current_schema current_time current_timestamp \
     current_user default deferrable desc distinct do else end except false fetch for foreign \
     freeze from full grant group having ilike in initially inner intersect into is isnull join \
     lateral leading left like limit localtime localtimestamp natural not notnull null offset on \
     only or order outer overlaps placing primary references returning right select session_user \
     similar some symmetric system_user table tablesample then to trailing true union unique user \
     using variadic verbose when where window with ";

/// Why a schema cannot have this name. `None`: it can.
pub(in crate::stores::postgres) fn wrong_name(schema: &str) -> Option<String> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name = !schema.is_empty()
        && schema.len() <= NAME_MAX
        && schema.chars().all(is_of_name)
        && !schema.starts_with(|c: char| c.is_ascii_digit());
    if !is_name {
        return Some(format!(
            "a schema has up to {NAME_MAX} lower-case letters, digits and underscores, and begins \
             with no digit, unlike {schema:?}"
        ));
    }
    let is_reserved = schema.starts_with("pg_") || RESERVED.contains(&format!(" {schema} "));
    is_reserved.then(|| format!("the database reserves the word {schema:?}: name another schema"))
}

/// Says so at once if the database can only be read, or does not have its texts in UTF-8. A
/// database that does not know these settings is asked no further.
pub(in crate::stores::postgres) fn check(session: &mut Session) -> Result<(), StoreError> {
    if shown(session, "transaction_read_only")?.is_some_and(|is_so| is_so == "on") {
        let why = "it can only be read: it is a standby, or `default_transaction_read_only` is set";
        return Err(StoreError::Io(format!("{}: {why}", session.what).into()));
    }
    // The functions hash keys as the database has them, and nodes hash them in UTF-8.
    match shown(session, "server_encoding")? {
        Some(encoding) if encoding != "UTF8" => {
            let why = format!("the database's encoding is {encoding}: only UTF8 is taken");
            Err(StoreError::Io(format!("{}: {why}", session.what).into()))
        }
        _ => Ok(()),
    }
}

/// What a setting is. `None`: there is no such setting.
fn shown(session: &mut Session, setting: &str) -> Result<Option<String>, StoreError> {
    let show = format!("SHOW {setting}");
    let shown = session.once(async |live| live.client.query_one(&show, &[]).await);
    match shown {
        Some(Ok(row)) => Ok(row.try_get(0).ok()),
        Some(Err(error)) if trouble(&error) == Trouble::Refused => Ok(None),
        Some(Err(error)) => Err(session.error(error)),
        None => Err(StoreError::Io(
            format!("{}: no answer", session.what).into(),
        )),
    }
}

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
pub(in crate::stores::postgres) fn prepare(
    session: &mut Session,
    schema: &str,
) -> Result<(), StoreError> {
    let mut patience = Patience::new(session.patience);
    loop {
        session.ensure(false, &mut patience)?;
        let version = tables::VERSION.replace("{s}", schema);
        let found = session.once(
            async |live| match live.client.query_opt(&version, &[]).await {
                Ok(Some(row)) => Ok(Found::Version(row.get(0))),
                Ok(None) => Ok(Found::Nothing),
                Err(error) if is_missing(&error) => Ok(Found::Nothing),
                Err(error) => Err(error),
            },
        );
        match found {
            Some(Ok(Found::Version(NUMBER))) => break,
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
                        return Err(session.error(error));
                    }
                }
                Some(Err(error)) => session.after(Some(error), &mut patience)?,
                None => session.after(None, &mut patience)?,
            },
            Some(Err(error)) => session.after(Some(error), &mut patience)?,
            None => session.after(None, &mut patience)?,
        }
    }
    // The next connection has the statements prepared, which need the tables.
    session.forget();
    Ok(())
}

async fn make(live: &crate::stores::postgres::session::Live, schema: &str) -> Result<(), Error> {
    let has_schema = live
        .client
        .query_one(&tables::SCHEMA.replace("{s}", schema), &[])
        .await?
        .get::<_, i64>(0)
        > 0;
    let mut all = String::from("BEGIN;");
    if !has_schema {
        all.push_str(&tables::CREATE_SCHEMA.replace("{s}", schema));
        all.push(';');
    }
    for statement in tables::CREATE {
        all.push_str(&statement.replace("{s}", schema));
        all.push(';');
    }
    all.push_str("COMMIT");
    let made = live.client.batch_execute(&all).await;
    if made.is_err() {
        live.client.batch_execute("ROLLBACK").await?;
    }
    made?;
    for statement in tables::TUNE {
        // (Not every database has these settings.)
        let _ = live
            .client
            .batch_execute(&statement.replace("{s}", schema))
            .await;
    }
    Ok(())
}
