//! Handler: one that works in a transaction of the database, in which its timer is acknowledged.

use super::builder::DurableBuilder;
use crate::handler::answer::{GiveUp, Later};
use crate::handler::delivery::{Delivery, HandlerResult};
use crate::handler::kinds::{KindHandler, TransactionCall};
use crate::stores::postgres::acknowledge::AckError;
use crate::stores::postgres::blocking::{
    HandlerConnection, HandlerDatabase, PostgresTransaction, Unwanted,
};
use crate::stores::postgres::session::apart;
use crate::stores::postgres::store::Postgres;
use crossbeam_channel::never;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;

/// The connections of a kind.
struct Connections {
    database: HandlerDatabase,
    /// Those that no handler has just now.
    free: Mutex<Vec<HandlerConnection>>,
}

/// Why an acknowledgement was not made.
const STALE: &str = "the timer was handed to another node meanwhile";

/// The waits, in milliseconds, before a handler is called again whose transaction met others.
const CONFLICT_WAITS_MS: [u64; 8] = [1, 2, 5, 10, 20, 50, 100, 200];

impl Connections {
    /// A connection that a handler had before.
    fn take(&self) -> Option<HandlerConnection> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop()
    }

    fn give_back(&self, connection: HandlerConnection) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(connection);
    }
}

impl DurableBuilder<Postgres> {
    /// Sets a handler that works in a transaction: what it does there and the end of its timer are
    /// committed together. So that work is done exactly once, however often a node ends meanwhile.
    /// If it says `Err`, or panics, the transaction is rolled back, and the timer is tried again.
    /// [`Later`] and [`GiveUp`] are such answers: they roll back too.
    ///
    /// Each call that runs at one time has a connection of its own, which is kept for later ones.
    /// Handlers block. In a task of tokio each call has a thread of its own.
    ///
    /// The transaction begins at `READ COMMITTED`, whatever the role's default is. The handler may
    /// set another level first. If the transaction fails with 40001 or 40P01 (it met another one),
    /// the handler is called again in a new one, up to 8 times, with waits of 0.4 s in all: that is
    /// no attempt. A stop waits for these calls. If the timer was paused meanwhile, or has expired,
    /// it is put off without an attempt, as by [`Later`]: it is held, or becomes a dead letter.
    ///
    /// A transaction of yours may have the timer or its key locked when the handler has returned.
    /// Then the handler's transaction waits for it with its work done, for up to a second (half a
    /// lease, if that is shorter). If yours lasts longer, the attempt has failed. If another
    /// transaction waits for the handler's meanwhile, the handler's is rolled back at once, and the
    /// handler is called again, as after 40001.
    ///
    /// The handler must not end the transaction by SQL (`COMMIT`, `ROLLBACK`). The attempt has
    /// failed then, and what it has so committed stays. Settings of the session (`SET` without
    /// `LOCAL`) and session advisory locks stay on the connection, which later calls get.
    ///
    /// # Example
    /// ```
    /// use std::error::Error;
    /// use wheelwork_durable::{Durable, Postgres};
    ///
    /// fn run(database: &str) -> Result<(), Box<dyn Error>> {
    ///     let timers = Durable::builder(Postgres::connect(database)?)
    ///         .on_in_transaction("order.unpaid", |order, transaction| {
    ///             let id: i64 = order.payload_text().parse()?;
    ///             let cancel = "UPDATE orders SET cancelled = true WHERE id = $1 AND NOT paid";
    ///             transaction.execute(cancel, &[&id])?;
    ///             Ok(())
    ///         })
    ///         .start()?;
    ///     timers.stop()?;
    ///     Ok(())
    /// }
    ///
    /// assert!(run("host=127.0.0.1 port=1 user=shop").is_err()); // there is no database here
    /// ```
    pub fn on_in_transaction(
        mut self,
        kind: &str,
        handler: impl Fn(&Delivery, &mut PostgresTransaction<'_>) -> HandlerResult
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let connections = Connections {
            database: self.store.for_handlers(),
            free: Mutex::default(),
        };
        let run = move |call: &mut dyn TransactionCall| {
            // (In a task of tokio no thread may block on another runtime.)
            match apart(|| run_in(&connections, call, &handler)) {
                Ok(done) => done,
                Err(error) if error.is::<Unwanted>() => {
                    call.give_back();
                    None
                }
                Err(error) => Some(Err(error)),
            }
        };
        self.kinds.entry(kind).handler = Some(KindHandler::InTransaction(Box::new(run)));
        self
    }
}

/// LimitBegin, in the database: each statement of the handler may take the time that is left, or
/// what its session allows, if that is less. Neither statement takes a snapshot, so the handler may
/// still set the level of isolation. They may take long, so they come before RunAdmit.
fn limit_statements(
    transaction: &mut PostgresTransaction<'_>,
    left: Duration,
) -> Result<(), AckError> {
    let left_ms = left.as_millis().clamp(1, i32::MAX as u128) as u64;
    transaction.ask(async |transaction| {
        let answer = transaction.simple_query("SHOW statement_timeout").await?;
        let former_ms = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).and_then(shown_ms),
            _ => None,
        });
        let limit_ms = former_ms.map_or(left_ms, |former_ms| former_ms.min(left_ms));
        let set = format!("SET LOCAL statement_timeout = {limit_ms}");
        transaction.batch_execute(&set).await
    })
}

/// A time as `SHOW` writes it, in ms: "2s". `None`: there is none ("0").
fn shown_ms(text: &str) -> Option<u64> {
    let units = [
        ("ms", 1),
        ("s", 1_000),
        ("min", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
    ];
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let (_, ms) = (units.iter()).find(|(unit, _)| *unit == &text[number.len()..])?;
    number
        .parse::<u64>()
        .ok()
        .filter(|&n| n > 0)
        .map(|n| n * ms)
}

/// Calls the handler in a new transaction. `None`: the timer may not be handed out any more. An
/// error: there was no transaction.
fn try_in(
    connection: &mut HandlerConnection,
    call: &mut dyn TransactionCall,
    handler: &impl Fn(&Delivery, &mut PostgresTransaction<'_>) -> HandlerResult,
) -> Result<Option<HandlerResult>, Box<dyn Error + Send + Sync>> {
    let transaction = connection.begin(&|| call.is_wanted())?;
    Ok(work_in(transaction, call, handler))
}

/// What a handler has said in the last transaction in which it was called. `None`: it was not
/// called, because the timer may not be handed out any more. An error: there was no transaction.
fn run_in(
    connections: &Connections,
    call: &mut dyn TransactionCall,
    handler: &impl Fn(&Delivery, &mut PostgresTransaction<'_>) -> HandlerResult,
) -> Result<Option<HandlerResult>, Box<dyn Error + Send + Sync>> {
    let mut connection = match connections.take() {
        Some(connection) => connection,
        None => connections.database.connect(&|| call.is_wanted())?,
    };
    let mut done = try_in(&mut connection, call, handler);
    if done.is_err() {
        // The server was restarted while no handler had this connection, say.
        connection = connections.database.connect(&|| call.is_wanted())?;
        done = try_in(&mut connection, call, handler);
    }
    // What others were in the way of was rolled back: it is no attempt yet.
    for wait_ms in CONFLICT_WAITS_MS {
        let met_others = matches!(&done, Ok(Some(Err(error))) if is_conflict(error.as_ref()));
        if !met_others {
            break;
        }
        if !connection.end() {
            connection = connections.database.connect(&|| call.is_wanted())?;
        }
        let _ = never::<()>().recv_timeout(Duration::from_millis(wait_ms));
        done = match try_in(&mut connection, call, handler) {
            // It may not be called again now: it is paused, say. A conflict is no attempt, so the
            // timer is put off, and the writer sees what is to be done with it.
            Ok(None) => Ok(Some(Err(Later::after(Duration::ZERO).into()))),
            again => again,
        };
    }
    // A transaction that may be open has rows locked: its connection is closed.
    if connection.end() {
        connections.give_back(connection);
    }
    done
}

/// Whether an error, or what has caused it, is a conflict with another transaction: 40001, 40P01,
/// or a transaction in the way of the acknowledgement while another one was waiting for this one.
fn is_conflict(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    // The handler has made up its mind, whatever was the reason.
    if error.is::<Later>() || error.is::<GiveUp>() {
        return false;
    }
    let conflicts = [
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
    ];
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(AckError::Yielded(_)) = error.downcast_ref() {
            return true;
        }
        let code = error
            .downcast_ref::<tokio_postgres::Error>()
            .and_then(tokio_postgres::Error::code);
        if code.is_some_and(|code| conflicts.contains(&code)) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Calls the handler, acknowledges its timer, and commits both. `None`: the timer may not be handed
/// out any more.
fn work_in(
    mut transaction: PostgresTransaction<'_>,
    call: &mut dyn TransactionCall,
    handler: &impl Fn(&Delivery, &mut PostgresTransaction<'_>) -> HandlerResult,
) -> Option<HandlerResult> {
    if let Some(left) = call.time_left()
        && let Err(error) = limit_statements(&mut transaction, left)
    {
        transaction.rollback();
        return Some(Err(error.into()));
    }
    // RunAdmit, once more: the connection, or the wait after a conflict, may have taken long.
    if !call.begin() {
        transaction.rollback();
        return None;
    }
    let worked = AssertUnwindSafe(|| handler(call.delivery(), &mut transaction));
    match catch_unwind(worked) {
        Ok(Ok(())) => Some(
            match transaction.commit_with(&call.ack(), &|| call.has_right()) {
                Ok(true) => Ok(()),
                Ok(false) => Err(STALE.into()),
                Err(error) => Err(error.into()),
            },
        ),
        // (All is rolled back before the writer hears of it.)
        Ok(Err(error)) => {
            transaction.rollback();
            Some(Err(error))
        }
        Err(panic) => {
            transaction.rollback();
            resume_unwind(panic)
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_postgresql_shows_them() {
        let times = [
            ("40ms", 40),
            ("2s", 2_000),
            ("1min", 60_000),
            ("3h", 10_800_000),
            ("1d", 86_400_000),
        ];
        for (text, ms) in times {
            assert_eq!(shown_ms(text), Some(ms), "{text}");
        }
        for none in ["0", "0ms", "", "s", "1w", "-1ms", "1.5s"] {
            assert_eq!(shown_ms(none), None, "{none}");
        }
    }
}
