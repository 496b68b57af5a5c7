//! Blocking: transactions for code that blocks. A handler's transaction is one of tokio-postgres,
//! on a connection with a runtime of its own. The outbox takes such a transaction, and also one of
//! the crate `postgres`.

use super::acknowledge::{AckError, AckSettings, acknowledge, answered};
use super::addresses::LetIn;
use super::session::{ANSWER_MAX, Access, CLIENT_CHECK, Connect, Texts, access_of, set_all};
use crate::store::write::Write;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, IsolationLevel, Row, ToStatement, Transaction};

/// So long is waited for a connection, with all addresses that are tried.
const CONNECT_MAX: Duration = Duration::from_secs(120);

/// How often it is looked whether a transaction that has not begun is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// So long is waited for a rollback. After that the connection is closed, which rolls back too.
const ROLLBACK_MAX: Duration = Duration::from_secs(5);

/// A transaction whose calls block the thread: a [`PostgresTransaction`], which handlers get, or a
/// transaction of the crate `postgres` 0.19.
///
/// A handler can call a function that takes either of them, and so can a program or a test that has
/// begun a transaction itself. The calls do what those of `postgres::Transaction` with the same
/// names do.
///
/// # Example
/// ```
/// use wheelwork_durable::BlockingTransaction;
///
/// fn end_order(
///     transaction: &mut impl BlockingTransaction,
///     id: i64,
/// ) -> Result<bool, postgres::Error> {
///     let end = "UPDATE orders SET state = 'cancelled' WHERE id = $1 AND state = 'open'";
///     Ok(transaction.execute(end, &[&id])? == 1)
/// }
/// ```
pub trait BlockingTransaction: Sealed {
    /// Runs a statement. Returns how many rows it has changed.
    ///
    /// # Errors
    /// Those of the database.
    fn execute(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Error>;

    /// Runs a statement. Returns the rows of its answer.
    ///
    /// # Errors
    /// Those of the database.
    fn query(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error>;

    /// Runs a statement whose answer has one row.
    ///
    /// # Errors
    /// Those of the database, and an error if the answer has another number of rows.
    fn query_one(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error>;

    /// Runs a statement whose answer has one row, or none.
    ///
    /// # Errors
    /// Those of the database, and an error if the answer has more rows.
    fn query_opt(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error>;

    /// Runs statements that are separated by semicolons, without values.
    ///
    /// # Errors
    /// Those of the database.
    fn batch_execute(&mut self, statements: &str) -> Result<(), Error>;
}

/// Keeps [`BlockingTransaction`] to this crate.
#[doc(hidden)]
pub trait Sealed {}

impl Sealed for PostgresTransaction<'_> {}

impl Sealed for postgres::Transaction<'_> {}

/// The transaction in which a handler of
/// [`on_in_transaction`](crate::DurableBuilder::on_in_transaction) works. The handler's work and
/// the end of its timer are committed together.
///
/// Its calls block, as those of the crate `postgres` do. [`block_on`](Self::block_on) gives access
/// to all calls of a transaction of tokio-postgres.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork_durable::{Delivery, HandlerResult, PostgresOutbox, PostgresTransaction};
///
/// // The order's end and the timer of its next step are committed together.
/// fn unpaid(
///     order: &Delivery,
///     transaction: &mut PostgresTransaction<'_>,
///     outbox: &PostgresOutbox,
/// ) -> HandlerResult {
///     let id: i64 = order.payload_text().parse()?;
///     transaction.execute("UPDATE orders SET state = 'late' WHERE id = $1", &[&id])?;
///     let day = Duration::from_secs(86_400);
///     outbox.within(transaction).schedule("order.remind", day, order.payload())?;
///     Ok(())
/// }
/// ```
pub struct PostgresTransaction<'a> {
    runtime: &'a Runtime,
    inner: Transaction<'a>,
    texts: &'a Texts,
    ack: &'a AckSettings,
    ended: &'a mut Ended,
}

impl<'a> PostgresTransaction<'a> {
    /// Runs a statement. Returns how many rows it has changed.
    ///
    /// # Errors
    /// Those of the database.
    pub fn execute(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Error> {
        self.runtime.block_on(self.inner.execute(statement, values))
    }

    /// Runs a statement. Returns the rows of its answer.
    ///
    /// # Errors
    /// Those of the database.
    pub fn query(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.runtime.block_on(self.inner.query(statement, values))
    }

    /// Runs a statement whose answer has one row.
    ///
    /// # Errors
    /// Those of the database, and an error if the answer has another number of rows.
    pub fn query_one(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error> {
        self.runtime
            .block_on(self.inner.query_one(statement, values))
    }

    /// Runs a statement whose answer has one row, or none.
    ///
    /// # Errors
    /// Those of the database, and an error if the answer has more rows.
    pub fn query_opt(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        self.runtime
            .block_on(self.inner.query_opt(statement, values))
    }

    /// Runs statements that are separated by semicolons, without values.
    ///
    /// # Errors
    /// Those of the database.
    pub fn batch_execute(&mut self, statements: &str) -> Result<(), Error> {
        self.runtime.block_on(self.inner.batch_execute(statements))
    }

    /// Calls an async function with the transaction of tokio-postgres, and blocks until it has
    /// ended. Use this for what has no call here, such as a prepared statement, a savepoint or a
    /// `COPY`, and for crates that take a transaction of tokio-postgres. The runtime of this
    /// connection polls the function's future.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::PostgresTransaction;
    ///
    /// fn try_to_note(
    ///     transaction: &mut PostgresTransaction<'_>,
    /// ) -> Result<bool, tokio_postgres::Error> {
    ///     transaction.block_on(async |transaction| {
    ///         let part = transaction.savepoint("part").await?;
    ///         if part.execute("INSERT INTO notes VALUES (1)", &[]).await.is_err() {
    ///             part.rollback().await?;
    ///             return Ok(false);
    ///         }
    ///         part.commit().await?;
    ///         Ok(true)
    ///     })
    /// }
    /// ```
    pub fn block_on<T>(&mut self, call: impl AsyncFnOnce(&mut Transaction<'a>) -> T) -> T {
        self.runtime.block_on(call(&mut self.inner))
    }

    /// Asks the database for something that the handler does not wait for. An error if the answer
    /// does not come in time.
    pub(crate) fn ask<T>(
        &mut self,
        asked: impl AsyncFnOnce(&mut Transaction<'a>) -> Result<T, Error>,
    ) -> Result<T, AckError> {
        let answer_max = self.ack.answer_max;
        let inner = &mut self.inner;
        let answer = (self.runtime).block_on(async { answered(answer_max, asked(inner)).await });
        Ok(answer.inspect_err(|_| *self.ended = Ended::NoGood)??)
    }

    /// Makes this change, as a node's commit does, and commits the transaction. Returns `false` if
    /// the row no longer belongs to the delivery. Then all is rolled back, and after an error too.
    /// `has_right`: whether the node still has the row's lease, as far as it knows.
    pub(crate) fn commit_with(
        self,
        write: &Write,
        has_right: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, AckError> {
        let Self {
            runtime,
            inner,
            texts,
            ack,
            ended,
        } = self;
        runtime.block_on(async {
            match acknowledge(&inner, texts, ack, write, has_right).await {
                Ok(true) => {
                    let done = answered(ack.answer_max, inner.commit()).await;
                    done.inspect_err(|_| *ended = Ended::NoGood)??;
                    *ended = Ended::Yes;
                    Ok(true)
                }
                // (A rollback would have no answer either. The connection is closed.)
                Err(silent @ AckError::Silent(_)) => {
                    *ended = Ended::NoGood;
                    Err(silent)
                }
                answer => {
                    roll_back(inner, ended).await;
                    answer
                }
            }
        })
    }

    /// Rolls the transaction back. (If the connection is gone, the database has done so.)
    pub(crate) fn rollback(self) {
        self.runtime.block_on(roll_back(self.inner, self.ended));
    }
}

/// Rolls back, and waits until that is done: a `ROLLBACK` that is only queued goes out when
/// somebody uses the connection again, and until then the rows of the handler are locked.
async fn roll_back(transaction: Transaction<'_>, ended: &mut Ended) {
    if *ended != Ended::NoGood {
        *ended = Ended::of(timeout(ROLLBACK_MAX, transaction.rollback()).await);
    }
}

impl BlockingTransaction for PostgresTransaction<'_> {
    fn execute(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Error> {
        self.execute(statement, values)
    }

    fn query(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.query(statement, values)
    }

    fn query_one(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error> {
        self.query_one(statement, values)
    }

    fn query_opt(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        self.query_opt(statement, values)
    }

    fn batch_execute(&mut self, statements: &str) -> Result<(), Error> {
        self.batch_execute(statements)
    }
}

impl BlockingTransaction for postgres::Transaction<'_> {
    fn execute(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Error> {
        self.execute(statement, values)
    }

    fn query(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.query(statement, values)
    }

    fn query_one(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error> {
        self.query_one(statement, values)
    }

    fn query_opt(
        &mut self,
        statement: &(impl ToStatement + ?Sized),
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        self.query_opt(statement, values)
    }

    fn batch_execute(&mut self, statements: &str) -> Result<(), Error> {
        self.batch_execute(statements)
    }
}

impl fmt::Debug for PostgresTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTransaction")
            .finish_non_exhaustive()
    }
}

/// No transaction is wanted any more: the service stops, or its store has failed.
#[derive(Debug)]
pub(crate) struct Unwanted;

impl fmt::Display for Unwanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no transaction is wanted any more")
    }
}

impl StdError for Unwanted {}

/// Waits for an answer for as long as it is wanted.
async fn while_wanted<T>(
    is_wanted: &dyn Fn() -> bool,
    answer: impl Future<Output = T>,
) -> Result<T, Unwanted> {
    let mut answer = pin!(answer);
    while is_wanted() {
        if let Ok(answer) = timeout(LOOK_EVERY, &mut answer).await {
            return Ok(answer);
        }
    }
    Err(Unwanted)
}

/// Makes the connections of handlers to the database.
pub(crate) struct HandlerDatabase {
    connect: Connect,
    texts: Arc<Texts>,
    ack: Arc<AckSettings>,
}

impl HandlerDatabase {
    /// `lasts`: how long a lease lasts.
    pub(super) fn new(
        connect: Connect,
        texts: Arc<Texts>,
        lasts: Duration,
        answer_max: Duration,
    ) -> Self {
        Self {
            connect,
            texts,
            ack: Arc::new(AckSettings::new(lasts, answer_max)),
        }
    }

    /// Connects, for as long as a transaction is wanted.
    pub(crate) fn connect(
        &self,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<HandlerConnection, Box<dyn StdError + Send + Sync>> {
        let runtime = OwnRuntime::new()?;
        let connect = async {
            // (An address has as long as for a node: so one that is dead leaves time for others.)
            let connected = (self.connect)(Arc::new(|| {}), ANSWER_MAX).await;
            let connected = connected.ok_or("no address of PostgreSQL has answered")??;
            let driver = tokio::spawn(connected.driver);
            let access = set_all(&connected.client, [CLIENT_CHECK], &connected.keepalives)
                .await
                .inspect_err(|_| driver.abort())?;
            if access == Access::OnlyReads {
                driver.abort();
                connected.let_in.avoid();
                return Err("PostgreSQL can only be read: it is a standby, say".into());
            }
            Ok::<_, Box<dyn StdError + Send + Sync>>((connected.client, connected.let_in))
        };
        let connected = while_wanted(is_wanted, answered(CONNECT_MAX, connect));
        let (client, let_in) = runtime.get()?.block_on(connected)???;
        Ok(HandlerConnection {
            runtime,
            client,
            let_in,
            texts: self.texts.clone(),
            ack: self.ack.clone(),
            ended: Ended::Yes,
        })
    }
}

/// The runtime of a connection. The socket is closed with it, because a task of it has the socket.
/// So the database ends a transaction that is still open.
struct OwnRuntime(
    /// `None` once it is being dropped.
    Option<Runtime>,
);

impl OwnRuntime {
    fn new() -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Ok(Self(Some(runtime.enable_all().build()?)))
    }

    fn get(&self) -> Result<&Runtime, &'static str> {
        self.0.as_ref().ok_or("the connection has ended")
    }
}

/// It must not wait for its tasks: it may be dropped in async code, and a resolver may take long to
/// look up a name, which a connection that has failed does not need any more.
impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection of handlers, of which one at a time uses it.
pub(crate) struct HandlerConnection {
    runtime: OwnRuntime,
    client: Client,
    let_in: LetIn,
    texts: Arc<Texts>,
    ack: Arc<AckSettings>,
    ended: Ended,
}

/// Whether the database has said that the last transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Yes,
    /// It was rolled back. Perhaps the server can only be read by now.
    RolledBack,
    No,
    /// Nor will it: the server does not answer, or can only be read. The connection is no good any
    /// more.
    NoGood,
}

impl Ended {
    /// What the answer to a `ROLLBACK` says.
    fn of(done: Result<Result<(), Error>, Elapsed>) -> Self {
        match done {
            Ok(Ok(())) => Self::RolledBack,
            Ok(Err(_)) => Self::No,
            Err(_) => Self::NoGood,
        }
    }
}

impl HandlerConnection {
    /// Begins a transaction at `READ COMMITTED`, whatever the role's default is, because the
    /// acknowledgement is written for this level. The handler may set another level. It is waited
    /// for as long as it is wanted.
    pub(crate) fn begin(
        &mut self,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<PostgresTransaction<'_>, Box<dyn StdError + Send + Sync>> {
        let runtime = self.runtime.get()?;
        let answer_max = self.ack.answer_max;
        let begin = self.client.build_transaction();
        let begin = begin.isolation_level(IsolationLevel::ReadCommitted);
        let begun = while_wanted(is_wanted, answered(answer_max, begin.start()));
        // (Until there is an answer.)
        self.ended = Ended::NoGood;
        let begun = runtime.block_on(begun)??;
        self.ended = Ended::No;
        Ok(PostgresTransaction {
            runtime,
            inner: begun?,
            texts: &self.texts,
            ack: &self.ack,
            ended: &mut self.ended,
        })
    }

    /// Sees that the last transaction has ended. `false`: that is not known, and the connection is
    /// no good any more.
    pub(crate) fn end(&mut self) -> bool {
        if let Ok(runtime) = self.runtime.get()
            && self.ended == Ended::No
            && !self.client.is_closed()
        {
            // Its COMMIT has failed, say.
            let rollback = self.client.batch_execute("ROLLBACK");
            self.ended =
                Ended::of(runtime.block_on(async { timeout(ROLLBACK_MAX, rollback).await }));
        }
        if let Ok(runtime) = self.runtime.get()
            && self.ended == Ended::RolledBack
        {
            let access = access_of(&self.client);
            let access = runtime.block_on(async { timeout(ROLLBACK_MAX, access).await });
            if matches!(access, Ok(Ok(Access::OnlyReads))) {
                self.let_in.avoid();
            }
            self.ended = match access {
                Ok(Ok(Access::Writes)) => Ended::Yes,
                _ => Ended::NoGood,
            };
        }
        self.ended == Ended::Yes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};
    use std::thread;

    /// Long enough to mean that something hangs.
    const HANGS: Duration = Duration::from_secs(60);

    /// A database whose address is looked up until the sender is dropped. The connection fails when
    /// the lookup has begun.
    fn slow_to_look_up() -> (HandlerDatabase, mpsc::Sender<()>) {
        let (ends, end) = mpsc::channel();
        let end = Arc::new(Mutex::new(end));
        let connect: Connect = Arc::new(move |_, _| {
            let end = end.clone();
            Box::pin(async move {
                let (begins, begun) = mpsc::channel();
                tokio::task::spawn_blocking(move || {
                    begins.send(()).unwrap();
                    end.lock().unwrap().recv()
                });
                begun.recv().unwrap();
                None
            })
        });
        let (lasts, answer_max) = (Duration::from_secs(10), Duration::from_secs(30));
        let database = HandlerDatabase::new(connect, Arc::default(), lasts, answer_max);
        (database, ends)
    }

    #[test]
    fn a_connection_that_fails_waits_for_no_resolver() {
        let (database, ends) = slow_to_look_up();
        let (tells, told) = mpsc::channel();
        thread::spawn(move || tells.send(database.connect(&|| true).is_err()));
        let failed = told.recv_timeout(HANGS);
        drop(ends);
        assert_eq!(failed, Ok(true));
    }
}
