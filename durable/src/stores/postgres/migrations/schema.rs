//! Schema: makes the tables, or finds them, and takes them to this program's number. Any number of
//! nodes may do so at one time.

use super::apply::{self, Made, PARTITIONS, PROGRAM};
use super::steps::Step;
use super::tables;
use crate::store::contract::{StoreCause, StoreError};
use crate::stores::postgres::session::{Live, Patience, Session, Trouble, trouble};
use std::time::Duration;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Between two tries to make a step that others are in the way of: the first wait and the longest.
const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(5);

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

/// Says so at once if the database can only be read, does not have its texts in UTF-8, or does not
/// hash. A database that does not know a setting is asked no further about it.
pub(in crate::stores::postgres) fn check(session: &mut Session) -> Result<(), StoreError> {
    if session.only_reads() {
        session.avoid_address();
        return Err(session.only_reads_error());
    }
    // The functions hash keys as the database has them, and nodes hash them in UTF-8.
    match shown(session, "server_encoding")? {
        Some(encoding) if encoding != "UTF8" => {
            let why = format!("the database's encoding is {encoding}: only UTF8 is taken");
            Err(StoreError::Io(format!("{}: {why}", session.what).into()))
        }
        _ => check_hash(session),
    }
}

/// The functions have the partition of a key by its MD5, which a server in FIPS mode refuses.
fn check_hash(session: &mut Session) -> Result<(), StoreError> {
    let hashed = session.once(async |live| live.client.batch_execute("SELECT md5(''::text)").await);
    match hashed {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) if trouble(&error) == Trouble::Refused => {
            let why = error.as_db_error().map_or("", |error| error.message());
            let line = format!(
                "{}: no md5(), by which keys have partitions: {why}",
                session.what
            );
            let line = line.replace(char::is_control, " ");
            Err(StoreError::Io(StoreCause::new(line, error)))
        }
        Some(Err(error)) => Err(session.error(error)),
        None => Err(StoreError::Io(
            format!("{}: no answer", session.what).into(),
        )),
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

/// A schema as a program sees it.
pub(in crate::stores::postgres) struct Wanted<'a> {
    pub(in crate::stores::postgres) schema: &'a str,
    /// The steps that this program knows.
    pub(in crate::stores::postgres) steps: &'a [Step],
    /// Whether it may make those that are missing.
    pub(in crate::stores::postgres) migrates: bool,
    /// How many partitions it gets, if it is made.
    pub(in crate::stores::postgres) partitions: Option<u32>,
}

/// Whether a schema may have this many partitions.
pub(in crate::stores::postgres) fn can_have(partitions: i64) -> bool {
    (256..=65_536).contains(&partitions) && partitions.count_ones() == 1
}

/// Whether a schema has come as far as a program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stores::postgres) enum Reached {
    All,
    /// A step waits until no node is alive that it would break.
    AllButWaiting,
}

/// The SQL that takes a schema from a number to that of a program that knows these steps.
pub(in crate::stores::postgres) fn printed(
    schema: &str,
    from: u64,
    steps: &[Step],
) -> Result<String, StoreError> {
    if let Some(why) = wrong_name(schema) {
        return Err(StoreError::Io(format!("PostgreSQL: {why}").into()));
    }
    let known = i64::try_from(from).ok().filter(|&from| {
        let is_made = (apply::FIRST..=number_of(steps)).contains(&from);
        from == 0 || is_made
    });
    match known {
        Some(from) => Ok(apply::printed(schema, from, steps)),
        None => {
            let what = format!("PostgreSQL, schema {schema}");
            Err(StoreError::Version(what.into(), from))
        }
    }
}

/// What a look at the schema has found.
enum Found {
    Nothing,
    /// The lowest number of a program that may work with it; the number that it has reached and the
    /// number of its partitions, unless the role may not see them.
    Numbers(i64, Option<(i64, i64)>),
}

/// Whether this error says that a table, or the schema, is not there.
fn is_missing(error: &Error) -> bool {
    let missing = [&SqlState::UNDEFINED_TABLE, &SqlState::INVALID_SCHEMA_NAME];
    error.code().is_some_and(|code| missing.contains(&code))
}

/// Whether it says that the role has no right to do this.
fn is_refused(error: &Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
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

/// The number of a program that knows these steps.
pub(in crate::stores::postgres) fn number_of(steps: &[Step]) -> i64 {
    steps.last().map_or(apply::FIRST, |step| step.to)
}

/// Has the schema made, if it is not there, and the steps that it lacks. Returns how many
/// partitions it has, too.
pub(in crate::stores::postgres) fn prepare(
    session: &mut Session,
    wanted: &Wanted<'_>,
) -> Result<(Reached, u32), StoreError> {
    let mut patience = Patience::new(session.patience);
    let mut blocked = Patience::waiting(session.patience, WAIT_MIN..=WAIT_MAX);
    let reached = loop {
        session.ensure(false, &mut patience)?;
        let error = match advance(session, wanted)? {
            Tried::Again => continue,
            Tried::Reached(reached, partitions) => break (reached, partitions),
            Tried::Lost => None,
            Tried::Failed(error, _) if trouble(&error) == Trouble::Lost => Some(error),
            Tried::Failed(error, step) => {
                let is_later = apply::is_in_the_way(&error) || is_made(&error);
                if !is_later {
                    return Err(session.error(error));
                }
                if let Some(wait) = blocked.next() {
                    session.pause(wait);
                    continue;
                }
                return Err(gave_up(session, wanted, error, step));
            }
        };
        session.after(error, &mut patience)?;
    };
    // The next connection has the statements prepared, which need the tables.
    session.forget();
    Ok(reached)
}

/// Makes the next step, if it breaks nobody any more and nobody is in its way. For a node that
/// works: what does not go well is tried again later.
pub(in crate::stores::postgres) fn go_on(
    session: &mut Session,
    wanted: &Wanted<'_>,
) -> Result<Reached, StoreError> {
    loop {
        match advance(session, wanted) {
            Ok(Tried::Again) => {}
            Ok(Tried::Reached(reached, _)) => return Ok(reached),
            Ok(Tried::Lost | Tried::Failed(..)) | Err(StoreError::NeedsMigration(..)) => {
                return Ok(Reached::AllButWaiting);
            }
            Err(error) => return Err(error),
        }
    }
}

/// What has come of a look and, at most, one step.
enum Tried {
    /// It is made, or there was nothing to do. The number of its partitions.
    Reached(Reached, u32),
    /// There may be more to do.
    Again,
    /// There was no answer.
    Lost,
    /// The number that the schema has.
    Failed(Error, i64),
}

fn advance(session: &mut Session, wanted: &Wanted<'_>) -> Result<Tried, StoreError> {
    let schema = wanted.schema;
    let (floor, numbers) = match session.once(async |live| look(live, schema).await) {
        None => return Ok(Tried::Lost),
        Some(Err(error)) => return Ok(Tried::Failed(error, 0)),
        Some(Ok(Found::Nothing)) if !wanted.migrates => {
            return Err(needs(session, wanted, 0, None));
        }
        Some(Ok(Found::Nothing)) => {
            return Ok(match session.once(async |live| make(live, wanted).await) {
                None => Tried::Lost,
                Some(Err(error)) => Tried::Failed(error, 0),
                Some(Ok(())) => Tried::Again,
            });
        }
        Some(Ok(Found::Numbers(floor, numbers))) => (floor, numbers),
    };
    if floor > number_of(wanted.steps) {
        return Err(newer(session, schema, floor));
    }
    let Some((step, partitions)) = numbers else {
        return sees_no_number(session, wanted);
    };
    let partitions = u32::try_from(partitions).unwrap_or(0);
    if !can_have(partitions.into()) {
        let what = what_of(session, schema);
        let what = format!("{what}: it has {partitions} partitions");
        return Err(StoreError::Version(
            what.into(),
            u64::try_from(step).unwrap_or(0),
        ));
    }
    let Some(next) = wanted.steps.iter().find(|next| next.to > step) else {
        return Ok(Tried::Reached(Reached::All, partitions));
    };
    // (A program works without its breaking step: others may make that later.)
    let is_breaking = next.breaks.is_some();
    if !wanted.migrates && is_breaking {
        return without(
            session,
            wanted,
            step,
            next,
            (Reached::All, partitions),
            None,
        );
    }
    if !wanted.migrates {
        return refused(session, wanted, step, None);
    }
    match session.once(async |live| apply::make(live, schema, next, partitions).await) {
        None => Ok(Tried::Lost),
        Some(Ok(Made::Done)) => Ok(Tried::Again),
        Some(Ok(Made::Breaks(node))) => {
            let node = Some(node);
            without(
                session,
                wanted,
                step,
                next,
                (Reached::AllButWaiting, partitions),
                node,
            )
        }
        Some(Err(error)) if is_refused(&error) && is_breaking => without(
            session,
            wanted,
            step,
            next,
            (Reached::AllButWaiting, partitions),
            None,
        ),
        Some(Err(error)) if is_refused(&error) => refused(session, wanted, step, Some(error)),
        Some(Err(error)) => Ok(Tried::Failed(error, step)),
    }
}

/// The program does without its breaking step, unless it needs a step that comes after that one.
/// `node`: the node in its way.
fn without(
    session: &Session,
    wanted: &Wanted<'_>,
    step: i64,
    breaking: &Step,
    reached: (Reached, u32),
    node: Option<String>,
) -> Result<Tried, StoreError> {
    let mut behind = wanted.steps.iter().filter(|behind| behind.to > breaking.to);
    if behind.all(|behind| behind.breaks.is_some()) {
        return Ok(Tried::Reached(reached.0, reached.1));
    }
    let Some(node) = node else {
        return Err(needs(session, wanted, step, None));
    };
    let (what, to) = (what_of(session, wanted.schema), number_of(wanted.steps));
    let below = breaking.to;
    let line = format!(
        "{what}: it has number {step}, and {PROGRAM} needs {to}: node {node} is alive, whose \
         program is below number {below}"
    );
    let line = line.replace(char::is_control, " ");
    Err(StoreError::NeedsMigration(
        line.into(),
        u64::try_from(step).unwrap_or(0),
    ))
}

/// The role may not see how far the schema has come. If it may not read timers either, it works by
/// the functions alone, and those are there.
fn sees_no_number(session: &mut Session, wanted: &Wanted<'_>) -> Result<Tried, StoreError> {
    let schema = wanted.schema;
    if let Some(tried) = only_calls(session, schema, 0) {
        return Ok(tried);
    }
    let what = what_of(session, schema);
    let line = format!(
        "{what}: the role may read {schema}.timer, and not {schema}.setting: grant it the same \
         rights on all tables of the schema"
    );
    Err(StoreError::Io(line.into()))
}

/// Reads its numbers.
async fn look(live: &Live, schema: &str) -> Result<Found, Error> {
    let floor = tables::FLOOR.replace("{s}", schema);
    let floor = match live.client.query_opt(&floor, &[]).await {
        Ok(Some(row)) => row.get(0),
        Ok(None) => return Ok(Found::Nothing),
        Err(error) if is_missing(&error) => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    let mut numbers = [apply::FIRST, i64::from(PARTITIONS)];
    for (sql, number) in [tables::STEP, tables::PARTITIONS].iter().zip(&mut numbers) {
        match live
            .client
            .query_opt(&sql.replace("{s}", schema), &[])
            .await
        {
            Ok(row) => *number = row.map_or(*number, |row| row.get(0)),
            Err(error) if is_missing(&error) => match partitions_of_3(live, schema).await {
                Ok(partitions) => {
                    return Ok(Found::Numbers(floor, Some((apply::FIRST, partitions))));
                }
                Err(error) if is_refused(&error) => return Ok(Found::Numbers(floor, None)),
                Err(error) => return Err(error),
            },
            Err(error) if is_refused(&error) => return Ok(Found::Numbers(floor, None)),
            Err(error) => return Err(error),
        }
    }
    let [step, partitions] = numbers;
    Ok(Found::Numbers(floor, Some((step, partitions))))
}

/// How many partitions a schema has that has no table of numbers yet: one that a program is just
/// making may have more than 256.
async fn partitions_of_3(live: &Live, schema: &str) -> Result<i64, Error> {
    let count = format!("SELECT count(*) FROM {schema}.lease");
    Ok(live.client.query_one(&count, &[]).await?.get(0))
}

/// The role makes no steps. If it may not read timers, it does without: it only calls functions.
fn refused(
    session: &mut Session,
    wanted: &Wanted<'_>,
    step: i64,
    error: Option<Error>,
) -> Result<Tried, StoreError> {
    match only_calls(session, wanted.schema, step) {
        Some(tried) => Ok(tried),
        None => Err(needs(session, wanted, step, error)),
    }
}

/// What comes of a role that may not read timers. `None`: it may.
fn only_calls(session: &mut Session, schema: &str, step: i64) -> Option<Tried> {
    let reads = tables::READS.replace("{s}", schema);
    match session.once(async |live| live.client.batch_execute(&reads).await) {
        None => Some(Tried::Lost),
        // (It asks for no partition.)
        Some(Err(error)) if is_refused(&error) => Some(Tried::Reached(Reached::All, PARTITIONS)),
        Some(Err(error)) => Some(Tried::Failed(error, step)),
        Some(Ok(())) => None,
    }
}

/// Why a node may not come in: if the floor has risen meanwhile, its program is too old.
pub(in crate::stores::postgres) fn shut_out(
    session: &mut Session,
    wanted: &Wanted<'_>,
    error: StoreError,
) -> StoreError {
    let source = std::error::Error::source(&error).and_then(|error| error.downcast_ref::<Error>());
    if source.and_then(Error::code) != Some(&SqlState::CHECK_VIOLATION) {
        return error;
    }
    match session.once(async |live| look(live, wanted.schema).await) {
        Some(Ok(Found::Numbers(floor, _))) if floor > number_of(wanted.steps) => {
            newer(session, wanted.schema, floor)
        }
        _ => error,
    }
}

/// The database in an error about a schema.
fn what_of(session: &Session, schema: &str) -> String {
    format!("{}, schema {schema}", session.what)
}

/// The schema is of a number that this program does not know.
fn newer(session: &mut Session, schema: &str, floor: i64) -> StoreError {
    let what = what_of(session, schema);
    let writer = tables::WRITER.replace("{s}", schema);
    let writer = session.once(async |live| live.client.query_opt(&writer, &[]).await);
    let what = match writer {
        Some(Ok(Some(row))) => format!("{what}, last changed by {}", row.get::<_, &str>(0)),
        _ => what,
    };
    StoreError::Version(what.into(), u64::try_from(floor).unwrap_or(0))
}

/// The schema lacks steps that this program does not make.
fn needs(session: &Session, wanted: &Wanted<'_>, step: i64, error: Option<Error>) -> StoreError {
    let (what, to) = (what_of(session, wanted.schema), number_of(wanted.steps));
    let why = match &error {
        Some(error) => {
            let why = error
                .as_db_error()
                .map_or("refused", |error| error.message());
            format!("the role may not take it there ({why})")
        }
        None => "`migrate(false)` is set".to_owned(),
    };
    let line = format!(
        "{what}: it has number {step}, and {PROGRAM} needs {to}: {why}. Run the SQL of \
         `Postgres::migrations({:?}, {step})` as the owner of the tables",
        wanted.schema
    );
    let line = line.replace(char::is_control, " ");
    let cause = match error {
        Some(error) => StoreCause::new(line, error),
        None => line.into(),
    };
    StoreError::NeedsMigration(cause, u64::try_from(step).unwrap_or(0))
}

/// Others were in the way of a step for as long as the user is patient.
fn gave_up(session: &mut Session, wanted: &Wanted<'_>, error: Error, step: i64) -> StoreError {
    // (A step that took too long, say, was in nobody's way.)
    if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) {
        return session.error(error);
    }
    let schema = wanted.schema;
    // (0: the schema was to be made, or could not be read.)
    let tried = wanted.steps.iter().find(|next| step > 0 && next.to > step);
    let way = session.once(async |live| Ok(apply::in_the_way(live, schema, tried).await));
    let way = match way {
        Some(Ok(Some(way))) => way,
        // (Short ones may have been in the way, in turn.)
        _ => "other transactions have used its tables".to_owned(),
    };
    let what = what_of(session, schema);
    let to = number_of(wanted.steps);
    let line = format!("{what}: it has number {step}, and {PROGRAM} needs {to}: {way}");
    StoreError::NeedsMigration(
        StoreCause::new(line, error),
        u64::try_from(step).unwrap_or(0),
    )
}

/// Makes a schema of the first number, whole or not at all.
async fn make(live: &Live, wanted: &Wanted<'_>) -> Result<(), Error> {
    let made = make_within(live, wanted).await;
    if made.is_err() {
        // (If this fails, the connection is lost, and the transaction with it.)
        let _ = live.client.batch_execute("ROLLBACK").await;
    }
    made
}

async fn make_within(live: &Live, wanted: &Wanted<'_>) -> Result<(), Error> {
    let (schema, partitions) = (wanted.schema, wanted.partitions.unwrap_or(PARTITIONS));
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
    if partitions > PARTITIONS {
        for statement in apply::texts(schema, partitions, tables::MORE_PARTITIONS) {
            all.push_str(&statement);
            all.push(';');
        }
    }
    live.client.batch_execute(&all).await?;
    apply::passed_over(live, &apply::texts(schema, PARTITIONS, tables::TUNE)).await?;
    live.client.batch_execute("COMMIT").await
}
