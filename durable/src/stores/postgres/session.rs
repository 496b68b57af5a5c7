//! Session: the connection of a node, made anew when it is lost.
//!
//! The writer's thread owns it. A call runs until it has its answer, or for as long as the user is
//! patient: while the database restarts, or a standby is promoted, calls wait.

use super::addresses::LetIn;
use super::statements::statement::Statement;
use crate::store::contract::{StoreCause, StoreError};
use crate::store::why::with_causes;
use crate::sync::{AtomicBool, Ordering};
use crate::time::Clock;
use futures_util::future::{try_join, try_join_all};
use std::collections::HashMap;
use std::future::Future;
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement as Prepared};

/// The first wait before something is tried again.
const BACKOFF: Duration = Duration::from_millis(2);

/// The longest wait.
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// A statement that has had no answer for so long is taken for lost.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// So long is waited for it to be cancelled, before it is sent again.
const CANCEL_MAX: Duration = Duration::from_secs(2);

/// How long a statement may take: less than `ANSWER_MAX`.
pub(super) const STATEMENT_TIMEOUT: &str = "SET statement_timeout = 25000";

/// A statement whose client is gone is ended, though it waits for a lock.
pub(super) const CLIENT_CHECK: &str = "SET client_connection_check_interval = 2000";

/// Of a session. Nobody waits for a lock for long. A statement that takes very long is ended by the
/// database, before it is taken for lost here. So is one whose session is gone. The server sends
/// its warnings, whatever the role's settings say: one of them is that no standby may have a
/// commit. Rows are found by their keys, whatever the statistics say: those of a table that has
/// just been filled say that it is empty, and a look at all of it is fast.
const SETTINGS: [&str; 9] = [
    "SET default_transaction_isolation = 'read committed'",
    "SET client_min_messages = warning",
    STATEMENT_TIMEOUT,
    CLIENT_CHECK,
    "SET lock_timeout = 20",
    "SET enable_seqscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
    "SET jit = off",
];

/// Sets a setting of a session. A database that has no such setting, or lets nobody set it, does
/// without.
async fn set(client: &Client, setting: &str) -> Result<(), Error> {
    let refused = [
        &SqlState::INSUFFICIENT_PRIVILEGE,
        &SqlState::CANT_CHANGE_RUNTIME_PARAM,
    ];
    match client.batch_execute(setting).await {
        Err(error) if error.code().is_some_and(|code| refused.contains(&code)) => Ok(()),
        Err(error) if !is_unknown(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether a server takes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Writes,
    /// It is a standby, or `default_transaction_read_only` is set. A standby may not have what the
    /// primary has acknowledged. So nothing is read there either.
    OnlyReads,
}

/// Whether this server takes changes. One that does not know of such a setting does.
pub(super) async fn access_of(client: &Client) -> Result<Access, Error> {
    match client.simple_query("SHOW transaction_read_only").await {
        Ok(answer) if first_of(&answer) == Some("on") => Ok(Access::OnlyReads),
        Err(error) if trouble(&error) == Trouble::Lost => Err(error),
        _ => Ok(Access::Writes),
    }
}

/// Sets all of these, and asks whether the server takes changes, in one round trip. Whatever the
/// server says to the keepalives, the session does without.
pub(super) async fn set_all<'a>(
    client: &Client,
    settings: impl IntoIterator<Item = &'a str>,
    keepalives: &[String],
) -> Result<Access, Error> {
    let settings = settings.into_iter().map(|setting| set(client, setting));
    let keepalives = keepalives.iter().map(|setting| async move {
        let is_set = client.batch_execute(setting).await;
        is_set.or_else(|error| error.code().map(|_| ()).ok_or(error))
    });
    let set = try_join(try_join_all(settings), try_join_all(keepalives));
    let (_, access) = try_join(set, access_of(client)).await?;
    Ok(access)
}

/// Whether a database has no such statement, setting or function: it is not PostgreSQL, or an older
/// one.
pub(super) fn is_unknown(error: &Error) -> bool {
    let unknown = [
        &SqlState::FEATURE_NOT_SUPPORTED,
        // A setting that its system does not have, or one of a table.
        &SqlState::INVALID_PARAMETER_VALUE,
        &SqlState::SYNTAX_ERROR,
        &SqlState::UNDEFINED_FUNCTION,
        &SqlState::UNDEFINED_OBJECT,
        &SqlState::UNDEFINED_PARAMETER,
    ];
    error.code().is_some_and(|code| unknown.contains(&code))
}

/// A connection that was made.
pub(super) struct Connected {
    pub(super) client: Client,
    /// What has to be polled for it.
    pub(super) driver: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
    pub(super) cancel: Cancel,
    /// What its session sets, besides what is its own.
    pub(super) keepalives: Vec<String>,
    /// The address that it was made to.
    pub(super) let_in: LetIn,
    pub(super) warned: Warned,
}

/// Whether the server has warned of something on a connection, since that was asked last.
#[derive(Clone, Default)]
pub(super) struct Warned(Arc<AtomicBool>);

impl Warned {
    /// Notes a notice of the server's. Those that only inform have another code.
    pub(super) fn note(&self, notice: &DbError) {
        if notice.code() == &SqlState::WARNING {
            // Ordering: Relaxed. The connection's driver notes it before it hands on the answer
            // that comes behind it, and the channel for answers publishes both.
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self) -> bool {
        // Ordering: Relaxed. It is read when the answer is there, as above.
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Asks the database, on a connection of its own, to end the statement that runs on another one.
pub(super) type Cancel = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What is called of a notification.
pub(super) type News = Arc<dyn Fn() + Send + Sync>;

/// A connection that is being made. `None`: no address of the database has answered.
type Connecting = Pin<Box<dyn Future<Output = Option<Result<Connected, Error>>> + Send>>;

/// Makes a connection, whose notifications go there. No address has longer than this for it.
pub(super) type Connect = Arc<dyn Fn(News, Duration) -> Connecting + Send + Sync>;

/// The statements as the database takes them, by their texts with names.
pub(super) type Texts = HashMap<&'static str, String>;

/// A connection that is open.
pub(super) struct Live {
    pub(super) client: Client,
    driver: JoinHandle<Result<(), Error>>,
    cancel: Cancel,
    let_in: LetIn,
    warned: Warned,
    access: Access,
    prepared: HashMap<&'static str, Prepared>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What the answer to `COMMIT` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// It is made.
    Made,
    /// It is made, with a warning. The server gives one if somebody has ended its wait for a
    /// standby, which may not have the commit then.
    Warned,
}

impl Live {
    /// Commits the transaction that is open.
    pub(super) async fn commit(&self) -> Result<Commit, Error> {
        self.warned.take();
        self.client.batch_execute("COMMIT").await?;
        Ok(match self.warned.take() {
            true => Commit::Warned,
            false => Commit::Made,
        })
    }

    /// The connection, as statements see it.
    pub(super) fn asking(&self) -> Asking<'_> {
        Asking {
            client: &self.client,
            known: Known::Prepared(&self.prepared),
        }
    }

    /// Runs one of the prepared statements. Returns what its reader makes of the rows.
    pub(super) async fn ask<S: Statement>(&self, statement: &S) -> Result<Vec<S::Answer>, Error> {
        self.asking().ask(statement).await
    }
}

/// A connection, as statements see it: that of a node, or of a handler.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) client: &'a Client,
    known: Known<'a>,
}

/// What a connection has of the statements.
#[derive(Clone, Copy)]
enum Known<'a> {
    Prepared(&'a HashMap<&'static str, Prepared>),
    /// Prepared anew each time: handlers may change settings there, and forget what is prepared.
    Texts(&'a Texts),
}

impl<'a> Asking<'a> {
    /// The connection of a handler.
    pub(super) const fn of_texts(client: &'a Client, texts: &'a Texts) -> Self {
        Self {
            client,
            known: Known::Texts(texts),
        }
    }

    /// Runs a statement. Returns what its reader makes of the rows.
    pub(super) async fn ask<S: Statement>(self, statement: &S) -> Result<Vec<S::Answer>, Error> {
        let (text, values) = (S::SQL.text, statement.values());
        let prepared = match self.known {
            Known::Prepared(all) => all.get(text).ok_or(text),
            Known::Texts(all) => Err(all.get(text).map_or(text, String::as_str)),
        };
        let rows = match prepared {
            Ok(prepared) => self.client.query(prepared, values.as_ref()).await?,
            Err(text) => self.client.query(text, values.as_ref()).await?,
        };
        Ok(rows.iter().map(S::read).collect())
    }
}

/// How a call ended that did not go well.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Others were in its way: nothing was done, and it may be tried again.
    Conflict,
    /// The connection is gone, or nothing is to be done on it.
    Lost,
    /// Neither.
    Refused,
}

/// Whether this error is that of one change alone, and what it means for it.
pub(super) fn trouble_of_one(error: &Error) -> Option<OneTrouble> {
    let code = error.code()?;
    let blocked = [&SqlState::LOCK_NOT_AVAILABLE, &SqlState::UNIQUE_VIOLATION];
    if blocked.contains(&code) {
        return Some(OneTrouble::Blocked);
    }
    // Class 22: bad data. 23: a constraint.
    let is_own = ["22", "23"]
        .iter()
        .any(|class| code.code().starts_with(class));
    is_own.then_some(OneTrouble::Refused)
}

/// What an error of one change alone means for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OneTrouble {
    /// Somebody's transaction is in its way.
    Blocked,
    /// It is no good.
    Refused,
}

/// What an error means for a call.
pub(super) fn trouble(error: &Error) -> Trouble {
    let Some(code) = error.code() else {
        return Trouble::Lost;
    };
    let conflicts = [
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
        // Two nodes have put in a row with one key, or made the tables.
        &SqlState::UNIQUE_VIOLATION,
        &SqlState::LOCK_NOT_AVAILABLE,
        // A statement that somebody has cancelled, or that took too long.
        &SqlState::QUERY_CANCELED,
    ];
    if conflicts.contains(&code) {
        return Trouble::Conflict;
    }
    let lost = [
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
        // It stood still in a transaction.
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        // A former primary that is a standby now.
        &SqlState::READ_ONLY_SQL_TRANSACTION,
        &SqlState::TOO_MANY_CONNECTIONS,
    ];
    // Class 08: the connection. 53: a full disk, or no memory. 57P: the server ends.
    let is_class = |class| code.code().starts_with(class);
    if lost.contains(&code) || ["08", "53", "57P"].into_iter().any(is_class) {
        Trouble::Lost
    } else {
        Trouble::Refused
    }
}

/// Waits that grow, until patience is at its end.
pub(super) struct Patience {
    ticking: Clock,
    max: Duration,
    wait: Duration,
    wait_max: Duration,
}

impl Patience {
    pub(super) fn new(max: Duration) -> Self {
        Self::waiting(max, BACKOFF..=BACKOFF_MAX)
    }

    /// With other waits: the first one and the longest one.
    pub(super) fn waiting(max: Duration, waits: RangeInclusive<Duration>) -> Self {
        Self {
            ticking: Clock::monotonic(),
            max,
            wait: *waits.start(),
            wait_max: *waits.end(),
        }
    }

    /// The next wait. `None`: it is at its end.
    pub(super) fn next(&mut self) -> Option<Duration> {
        let wait = self.wait;
        self.wait = (wait * 2).min(self.wait_max);
        (Duration::from_nanos(self.ticking.now_ns()) + wait < self.max).then_some(wait)
    }
}

/// The connection of a node.
pub(super) struct Session {
    /// `None` once it is being dropped.
    runtime: Option<Runtime>,
    connect: Connect,
    live: Option<Live>,
    /// The database in errors.
    pub(super) what: Arc<str>,
    /// The statements that are prepared, as the database takes them.
    texts: Arc<Texts>,
    pub(super) patience: Duration,
    /// A transaction that stands still for so long is rolled back by the database.
    idle: Duration,
    /// `ANSWER_MAX`, but for tests.
    pub(super) answer_max: Duration,
}

/// The setting for it.
pub(super) fn idle_setting(idle: Duration) -> String {
    let millis = idle.as_millis();
    format!("SET idle_in_transaction_session_timeout = {millis}")
}

/// A runtime that goes in async code must not wait there.
impl Drop for Session {
    fn drop(&mut self) {
        self.live = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Session {
    pub(super) fn new(
        connect: Connect,
        what: Arc<str>,
        texts: Arc<Texts>,
        patience: Duration,
        idle: Duration,
    ) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Io(StoreCause::new(format!("{what}: {error}"), error)))?;
        Ok(Self {
            runtime: Some(runtime),
            connect,
            live: None,
            texts,
            what,
            patience,
            idle,
            answer_max: ANSWER_MAX,
        })
    }

    pub(super) fn error(&self, error: Error) -> StoreError {
        let why = match error.as_db_error() {
            Some(error) => error.message().to_owned(),
            None => with_causes(&error),
        };
        let line = why.replace(char::is_control, " ");
        StoreError::Io(StoreCause::new(format!("{}: {line}", self.what), error))
    }

    /// A connection, prepared if it is to be. `None`: there was no answer.
    fn open(&mut self, is_prepared: bool) -> Option<Result<Live, Error>> {
        let connect = self.connect.clone();
        let (texts, idle) = (&self.texts, idle_setting(self.idle));
        let answer_max = self.answer_max;
        self.runtime.as_ref()?.block_on(async {
            let connected = match connect(Arc::new(|| {}), answer_max).await? {
                Ok(connected) => connected,
                Err(error) => return Some(Err(error)),
            };
            // (From here on the connection ends with this.)
            let mut live = Live {
                client: connected.client,
                driver: tokio::spawn(connected.driver),
                cancel: connected.cancel,
                let_in: connected.let_in.clone(),
                warned: connected.warned,
                access: Access::Writes,
                prepared: HashMap::new(),
            };
            let opened = async {
                // A node that stands still in a transaction has leases locked, which others want.
                let settings = SETTINGS.into_iter().chain([idle.as_str()]);
                live.access = set_all(&live.client, settings, &connected.keepalives).await?;
                // (A standby may not have all tables yet, and is asked for nothing.)
                if is_prepared && live.access == Access::Writes {
                    let prepare = texts.iter().map(|(&sql, text)| {
                        let client = &live.client;
                        async move { Ok::<_, Error>((sql, client.prepare(text).await?)) }
                    });
                    let prepared = try_join_all(prepare).await?;
                    live.prepared = prepared.into_iter().collect();
                }
                Ok(live)
            };
            let opened = tokio::time::timeout(answer_max, opened).await.ok();
            if opened.is_none() {
                connected.let_in.avoid();
            }
            opened
        })
    }

    /// Waits.
    pub(super) fn pause(&self, wait: Duration) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async { tokio::time::sleep(wait).await });
        }
    }

    /// Drops a connection that is no good any more.
    fn drop_if_lost(&mut self, trouble: &Trouble) {
        let is_closed = self
            .live
            .as_ref()
            .is_some_and(|live| live.client.is_closed());
        if *trouble == Trouble::Lost || is_closed {
            self.live = None;
        }
    }

    /// Connects if that is to be done, with patience, to a server that takes changes. One that can
    /// only be read is as one that does not answer: it may be a standby which lets in while the
    /// primary is away.
    pub(super) fn ensure(
        &mut self,
        is_prepared: bool,
        patience: &mut Patience,
    ) -> Result<(), StoreError> {
        loop {
            self.ensure_any(is_prepared, patience)?;
            if !self.only_reads() {
                return Ok(());
            }
            self.avoid_address();
            self.live = None;
            let Some(wait) = patience.next() else {
                return Err(self.only_reads_error());
            };
            self.pause(wait);
        }
    }

    /// Whether the server of the connection can only be read, as far as it has said.
    pub(super) fn only_reads(&self) -> bool {
        let live = self.live.as_ref();
        live.is_some_and(|live| live.access == Access::OnlyReads)
    }

    /// The error about such a server.
    pub(super) fn only_reads_error(&self) -> StoreError {
        let why = "it can only be read: it is a standby, or `default_transaction_read_only` is set";
        StoreError::Io(format!("{}: {why}", self.what).into())
    }

    /// Connects if that is to be done, with patience, to any server. For a caller that then has
    /// the schema checked, which says at once that a server can only be read.
    pub(super) fn ensure_any(
        &mut self,
        is_prepared: bool,
        patience: &mut Patience,
    ) -> Result<(), StoreError> {
        if self
            .live
            .as_ref()
            .is_some_and(|live| !live.client.is_closed())
        {
            return Ok(());
        }
        loop {
            let error = match self.open(is_prepared) {
                Some(Ok(live)) => {
                    self.live = Some(live);
                    return Ok(());
                }
                Some(Err(error)) => Some(error),
                None => None,
            };
            self.after(error, patience)?;
        }
    }

    /// Whether this connection and another one have one session in turn, as they have behind a
    /// pooler that gives a session for a transaction. (If that cannot be found out now, it does not
    /// count.) The settings are taken back then: other programs get the session.
    pub(super) fn shares_its_session(&self) -> bool {
        let (Some(live), Some(runtime)) = (&self.live, &self.runtime) else {
            return false;
        };
        let asked = async {
            let own = answered(pid_of(&live.client)).await??;
            let other = (self.connect)(Arc::new(|| {}), ANSWER_MAX).await?.ok()?;
            let driver = tokio::spawn(other.driver);
            // (A pooler gives the session that has just become free.)
            let other = answered(pid_of(&other.client)).await;
            driver.abort();
            let is_shared = other?? == own;
            if is_shared {
                answered(live.client.batch_execute("RESET ALL")).await?.ok();
            }
            Some(is_shared)
        };
        runtime.block_on(asked) == Some(true)
    }

    /// The database can only be read where it has let in. Another address may have the primary.
    pub(super) fn avoid_address(&self) {
        if let Some(live) = &self.live {
            live.let_in.avoid();
        }
    }

    /// Forgets the connection: the next one is prepared anew.
    pub(super) fn forget(&mut self) {
        self.live = None;
    }

    /// Does something once. `None`: it had no answer in time. Then it does not run on, if the
    /// database can be reached: it may hold locks that the next try needs.
    pub(super) fn once<T>(
        &mut self,
        call: impl AsyncFnOnce(&Live) -> Result<T, Error>,
    ) -> Option<Result<T, Error>> {
        let live = self.live.as_ref()?;
        let answer_max = self.answer_max;
        let answer = self.runtime.as_ref()?.block_on(async {
            let answer = tokio::time::timeout(answer_max, call(live)).await;
            if answer.is_err() {
                let _ = tokio::time::timeout(CANCEL_MAX, (live.cancel)()).await;
            }
            answer
        });
        if answer.is_err() {
            live.let_in.avoid();
            self.live = None;
        }
        answer.ok()
    }

    /// Does something that may be done twice, until it is done.
    pub(super) fn run<T>(
        &mut self,
        mut call: impl AsyncFnMut(&Live) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let mut patience = Patience::new(self.patience);
        loop {
            self.ensure(true, &mut patience)?;
            let error = match self.once(async |live| call(live).await) {
                None => None,
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(error)) => Some(error),
            };
            self.after(error, &mut patience)?;
        }
    }

    /// Waits after an error, if that makes sense. `None`: there was no answer.
    pub(super) fn after(
        &mut self,
        error: Option<Error>,
        patience: &mut Patience,
    ) -> Result<(), StoreError> {
        let trouble = error.as_ref().map_or(Trouble::Lost, trouble);
        let code = error.as_ref().and_then(Error::code);
        if code == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
            self.avoid_address();
        }
        self.drop_if_lost(&trouble);
        let wait = match trouble {
            Trouble::Refused if self.live.is_some() => None,
            _ => patience.next(),
        };
        match (wait, error) {
            (Some(wait), _) => {
                self.pause(wait);
                Ok(())
            }
            (None, Some(error)) => Err(self.error(error)),
            (None, None) => {
                let why = format!("{}: no answer", self.what);
                Err(StoreError::Io(why.into()))
            }
        }
    }
}

/// What the database answers. `None`: nothing, for too long.
async fn answered<T>(asked: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(ANSWER_MAX, asked).await.ok()
}

/// Which process of the server has this session. (A pooler may have nothing prepared.)
async fn pid_of(client: &Client) -> Option<String> {
    let answer = client
        .simple_query("SELECT pg_catalog.pg_backend_pid()")
        .await;
    first_of(&answer.ok()?).map(str::to_owned)
}

/// The first value of an answer.
fn first_of(answer: &[SimpleQueryMessage]) -> Option<&str> {
    answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

/// Calls this on a thread that waits for the database: in async code another one than the caller's.
pub(crate) fn apart<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    if tokio::runtime::Handle::try_current().is_err() {
        return call();
    }
    let called = crossbeam_utils::thread::scope(|scope| scope.spawn(|_| call()).join());
    match called {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) | Err(panic) => resume_unwind(panic),
    }
}
