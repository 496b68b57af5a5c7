//! Connect: the settings of a store, and how its connections are made.

use super::addresses::{Addresses, connect_first};
use super::clock::DatabaseClock;
use super::leases::{Leases, random_node};
use super::migrations::PARTITIONS;
use super::migrations::schema::{self, Reached, Wanted};
use super::migrations::steps::{STEPS, Step};
use super::session::{ANSWER_MAX, Cancel, Connect, Connected, Patience, Session, Warned, apart};
use super::statements;
use super::store::{KnownRules, Postgres, Waiting};
use crate::random::random;
use crate::store::contract::{StoreCause, StoreError, StoreSize};
use crate::store::why::with_causes;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Config, Error, NoTls, Socket};

/// How long a transaction of the node's own may stand still, at least and at most.
const IDLE_MIN: Duration = Duration::from_millis(100);
const IDLE_MAX: Duration = Duration::from_secs(10);

/// What is said of a pooler that gives a session for a transaction.
const POOLED: &str = "connections share a session there, as with PgBouncer's transaction pooling, \
    and a node needs sessions of its own: connect to the database itself";

/// How a [`Postgres`] is connected: made by [`Postgres::builder`].
///
/// # Example
/// See [`Postgres::builder`].
#[must_use = "nothing is connected before `connect`"]
pub struct PostgresBuilder {
    config: String,
    schema: String,
    name: Option<String>,
    lasts: Duration,
    patience: Duration,
    migrates: bool,
    partitions: Option<u32>,
    /// `STEPS`, but for tests.
    pub(super) steps: &'static [Step],
    connect: Option<Box<dyn FnOnce(Config) -> Connect + Send>>,
}

impl Postgres {
    /// Connects without TLS, to a connection string (`host=.. user=.. dbname=..`) or a URL
    /// (`postgres://..`). If there are several addresses, of several hosts or of one name, they are
    /// tried in turn, each for 10 s at most, and a lookup of a name takes as long at most, unless
    /// `connect_timeout` says otherwise. If the tables are not there, they are made, in the schema
    /// `wheelwork`. If an earlier version of this library has made them, they get what they lack,
    /// while other nodes work with them.
    ///
    /// # Errors
    /// The string makes no sense, the database does not answer or refuses, it can only be read (a
    /// standby, say), its encoding is not `UTF8`, it has no MD5 (in FIPS mode), or a pooler gives
    /// one session to several connections (transaction pooling).
    ///
    /// Tables of a later version are no error here, because a program that only uses the
    /// [`outbox`](Postgres::outbox) works with them. A node does not start with them
    /// ([`StoreError::Version`]).
    ///
    /// [`StoreError::NeedsMigration`]: the tables are of an earlier version, and the role may not
    /// change them, or a transaction has been in the way for as long as
    /// [`patience`](PostgresBuilder::patience) lasts.
    ///
    /// # Example
    /// See [`Postgres`].
    pub fn connect(config: &str) -> Result<Self, StoreError> {
        Self::builder(config).connect()
    }

    /// To connect otherwise than [`connect`](Self::connect) does.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::Postgres;
    ///
    /// // (Here is no database.)
    /// let database = "host=127.0.0.1,127.0.0.2 port=1 user=shop target_session_attrs=read-write";
    /// let store = Postgres::builder(database)
    ///     .schema("shop_timers")
    ///     .node_name("shop-7")
    ///     .lease(Duration::from_secs(5))
    ///     .patience(Duration::from_secs(30))
    ///     .connect();
    /// assert!(store.is_err());
    /// ```
    pub fn builder(config: &str) -> PostgresBuilder {
        PostgresBuilder::new(config)
    }

    /// Returns the SQL that takes a schema from the number `from` to that of this program. An
    /// operator runs it as the owner of the tables, by `psql` say. From 0 it makes the schema. The
    /// SQL is for schemas with 256 partitions. The call needs no connection.
    ///
    /// Each step is a transaction that checks the number first, so the text may be run beside
    /// nodes. If a step fails, those before it stay: go on with the SQL from the number that the
    /// schema has then. (Text that begins with a step which is made already ends there with an
    /// error, and changes nothing.)
    ///
    /// # Errors
    /// The name cannot be that of a schema, or no schema has that number.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::Postgres;
    ///
    /// let sql = Postgres::migrations("wheelwork", 3)?;
    /// assert!(sql.contains("ALTER TABLE wheelwork.timer"));
    /// # Ok::<(), wheelwork_durable::StoreError>(())
    /// ```
    pub fn migrations(schema: &str, from: u64) -> Result<String, StoreError> {
        schema::printed(schema, from, STEPS)
    }
}

impl PostgresBuilder {
    fn new(config: &str) -> Self {
        Self {
            config: config.to_owned(),
            schema: "wheelwork".to_owned(),
            name: None,
            lasts: Duration::from_secs(10),
            patience: Duration::from_secs(300),
            migrates: true,
            partitions: None,
            steps: STEPS,
            connect: None,
        }
    }

    /// Sets the schema that has the tables: up to 50 lower-case letters, digits and underscores. A
    /// word that SQL reserves (`user`, `order`) is refused by [`connect`](Self::connect).
    /// `wheelwork` unless set.
    ///
    /// # Example
    /// See [`Postgres::builder`].
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = schema.to_owned();
        self
    }

    /// Sets the name of this node, for [`fleet`](crate::DurableClient::fleet). The host's
    /// name and the process's number unless set.
    ///
    /// # Example
    /// See [`Postgres::builder`].
    pub fn node_name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets how long a lease lasts, 1 s to 1 h: so long may timers of a node that was killed have
    /// to wait for another one. A node that cannot reach the database for so long hands nothing
    /// out. 10 s unless set.
    ///
    /// # Example
    /// See [`Postgres::builder`].
    pub fn lease(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// Sets how long calls wait for a database that does not answer. Then the store has failed, and
    /// calls are refused until it is back. 5 min unless set. A statement or a connection that gets
    /// no answer at all is waited for 30 s, even if this is less.
    ///
    /// # Example
    /// See [`Postgres::builder`].
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets whether this program may make the tables, and may change those that an earlier version
    /// has made. `true` unless set. With `false`, [`connect`](Self::connect) returns
    /// [`StoreError::NeedsMigration`] where that is to be done, and an operator does it by
    /// [`Postgres::migrations`].
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::Postgres;
    ///
    /// // (Here is no database.)
    /// let store = Postgres::builder("host=127.0.0.1 port=1 user=shop")
    ///     .migrate(false)
    ///     .connect();
    /// assert!(store.is_err());
    /// ```
    pub fn migrate(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// Sets how many partitions the tables get when they are made: a power of two, 256 to 65,536.
    /// 256 unless set. The number cannot be changed afterwards. Nodes share timers by partition, so
    /// at most this many nodes can have timers. Each load asks each partition of a node, so plan
    /// for 16 to 1,024 of them for each node. `cancel_kind` asks all partitions, one after the
    /// other.
    ///
    /// Tables that are there keep their number, and [`connect`](Self::connect) returns an error if
    /// it is not this one. Programs of earlier versions know 256 alone, and refuse other tables.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::Postgres;
    ///
    /// let store = Postgres::builder("host=127.0.0.1 port=1 user=shop")
    ///     .partitions(1_000)
    ///     .connect();
    /// let error = store.unwrap_err().to_string();
    /// assert!(error.contains("a power of two of partitions, 256 to 65,536"), "{error}");
    /// ```
    pub fn partitions(mut self, number: u32) -> Self {
        self.partitions = Some(number);
        self
    }

    /// Sets what makes connections secure: a connector for tokio-postgres, of the crate
    /// `postgres-native-tls` or `tokio-postgres-rustls`, say.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::Postgres;
    ///
    /// // Here: the connector that secures nothing, and no database.
    /// let store = Postgres::builder("host=127.0.0.1 port=1 user=shop")
    ///     .tls(tokio_postgres::NoTls)
    ///     .connect();
    /// assert!(store.is_err());
    /// ```
    pub fn tls<T>(mut self, connector: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.connect = Some(Box::new(move |config| connecting(config, connector)));
        self
    }

    /// Connects, and makes the tables if they are not there.
    ///
    /// # Errors
    /// As [`Postgres::connect`].
    ///
    /// # Example
    /// See [`Postgres::builder`].
    pub fn connect(self) -> Result<Postgres, StoreError> {
        apart(|| self.connect_here())
    }

    /// Whether the settings make sense.
    fn check(&self) -> Result<(), StoreError> {
        if let Some(why) = schema::wrong_name(&self.schema) {
            return Err(setting(why));
        }
        if self.name.as_ref().is_some_and(|name| name.contains('\0')) {
            return Err(setting("the name of a node has a NUL".to_owned()));
        }
        let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
        if !range.contains(&self.lasts) {
            let why = format!("a lease lasts 1 s to 1 h, not {:?}", self.lasts);
            return Err(setting(why));
        }
        match self.partitions {
            Some(number) if !schema::can_have(number.into()) => Err(setting(format!(
                "a schema has a power of two of partitions, 256 to 65,536, and not {number}"
            ))),
            _ => Ok(()),
        }
    }

    fn connect_here(self) -> Result<Postgres, StoreError> {
        self.check()?;
        let schema = self.schema;
        let config = read(&self.config)?;
        let what = describe(&config);
        let connect = match self.connect {
            Some(connect) => connect(config),
            None => connecting(config, NoTls),
        };
        // The first time it is there, or it is an error.
        let idle = idle_of(self.lasts, self.patience);
        let texts = Arc::new(statements::texts(&schema));
        let mut session = Session::new(connect.clone(), what, texts.clone(), Duration::ZERO, idle)?;
        session.ensure_any(false, &mut Patience::new(Duration::ZERO))?;
        if session.shares_its_session() {
            let why = format!("{}: {POOLED}", session.what);
            return Err(StoreError::Io(why.into()));
        }
        schema::check(&mut session)?;
        session.patience = self.patience;
        let wanted = Wanted {
            schema: &schema,
            steps: self.steps,
            migrates: self.migrates,
            partitions: self.partitions,
        };
        // (A program that only uses the outbox calls functions, which are there still.)
        let (found, broken) = match schema::prepare(&mut session, &wanted) {
            Ok(found) => (found, None),
            Err(error @ StoreError::Version(..)) => ((Reached::All, PARTITIONS), Some(error)),
            Err(error) => return Err(error),
        };
        let (reached, partitions) = found;
        let differs = |wanted: &u32| broken.is_none() && *wanted != partitions;
        if let Some(wanted) = self.partitions.filter(differs) {
            let what = &session.what;
            let why = format!(
                "{what}, schema {schema}: it has {partitions} partitions, and not {wanted}, and \
                 keeps them"
            );
            return Err(StoreError::Io(why.into()));
        }
        let waiting = Waiting {
            is_so: reached == Reached::AllButWaiting,
            steps: self.steps,
            again: 0.0,
        };
        let name = self.name.unwrap_or_else(own_name);
        Ok(Postgres {
            session,
            connect,
            texts,
            schema: schema.into(),
            leases: Leases::new(
                random_node(),
                name,
                self.lasts,
                schema::number_of(self.steps),
                partitions,
            ),
            waiting,
            rules: KnownRules::default(),
            clock: Arc::new(DatabaseClock::new()),
            handlers_answer_max: ANSWER_MAX,
            seq: 0,
            next: random() >> 1,
            turn: 0,
            size: StoreSize::default(),
            size_at: 0.0,
            done: Default::default(),
            listener: None,
            news: None,
            broken,
        })
    }
}

/// The driver's setting for connections that are never asked whether they are alive.
const IDLE_UNSET: Duration = Duration::from_secs(2 * 60 * 60);

/// Has the system notice connections that have died silently, within half a minute: unless the
/// connection string says something else.
pub(super) fn notice_dead(config: &mut Config) {
    let half_a_minute = Duration::from_secs(30);
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(half_a_minute);
    }
    if config.get_keepalives_idle() == IDLE_UNSET {
        config.keepalives_idle(Duration::from_secs(15));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(Duration::from_secs(5));
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
}

/// What a session sets for its server to notice a client that has died silently, in the time in
/// which the client notices the server: the server's system takes two hours otherwise, on Linux.
/// The greatest numbers are those that Linux takes.
fn keepalives_of(config: &Config) -> Vec<String> {
    if !config.get_keepalives() {
        return Vec::new();
    }
    let seconds = |time: Duration| time.as_secs().clamp(1, 32_767);
    let all = [
        ("idle", Some(seconds(config.get_keepalives_idle()))),
        ("interval", config.get_keepalives_interval().map(seconds)),
        (
            "count",
            config
                .get_keepalives_retries()
                .map(|count| u64::from(count).clamp(1, 127)),
        ),
    ];
    all.into_iter()
        .filter_map(|(name, number)| Some(format!("SET tcp_keepalives_{name} = {}", number?)))
        .collect()
}

/// The error about a setting.
fn setting(why: String) -> StoreError {
    StoreError::Io(format!("PostgreSQL: {why}").into())
}

/// Reads a connection string.
fn read(config: &str) -> Result<Config, StoreError> {
    let mut config: Config = config.parse().map_err(|error: Error| {
        let causes = with_causes(&error);
        let why = format!("PostgreSQL: the connection string makes no sense: {causes}");
        StoreError::Io(StoreCause::new(why, error))
    })?;
    notice_dead(&mut config);
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(setting("the connection string has no host".to_owned()));
    }
    Ok(config)
}

/// The name of a node that was given none.
fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let host = host.unwrap_or_else(|_| "node".to_owned());
    format!("{}-{}", host.trim(), std::process::id())
}

/// What errors call the database.
fn describe(config: &Config) -> Arc<str> {
    use tokio_postgres::config::Host;
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts = hosts.reduce(|all, host| all + "," + &host);
    let port = config.get_ports().first().copied().unwrap_or(5_432);
    format!("PostgreSQL at {}, port {port}", hosts.unwrap_or_default()).into()
}

/// Connects by this connector.
pub(super) fn connecting<T>(config: Config, tls: T) -> Connect
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (addresses, keepalives) = (Addresses::default(), keepalives_of(&config));
    Arc::new(move |news, each_max| {
        let (config, tls, addresses) = (config.clone(), tls.clone(), addresses.clone());
        let keepalives = keepalives.clone();
        Box::pin(async move {
            let connected = connect_first(&config, &tls, each_max, &addresses).await?;
            let ((client, mut connection), let_in) = match connected {
                Ok(connected) => connected,
                Err(error) => return Some(Err(error)),
            };
            let token = client.cancel_token();
            let cancel: Cancel = Box::new(move || {
                let (token, tls) = (token.clone(), tls.clone());
                Box::pin(async move {
                    // (Whether it is heard does not matter.)
                    let _ = token.cancel_query(tls).await;
                })
            });
            let warned = Warned::default();
            let noted = warned.clone();
            let driver = async move {
                while let Some(message) = poll_fn(|context| connection.poll_message(context)).await
                {
                    match message? {
                        AsyncMessage::Notification(_) => news(),
                        AsyncMessage::Notice(notice) => noted.note(&notice),
                        _ => {}
                    }
                }
                Ok(())
            };
            Some(Ok(Connected {
                client,
                driver: Box::pin(driver),
                cancel,
                keepalives,
                let_in,
                warned,
            }))
        })
    })
}

impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBuilder")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// How long a transaction of the node's own may stand still. If its connection has died silently,
/// the node's next one waits for it: not until patience ends. Without patience nothing waits.
pub(super) fn idle_of(lasts: Duration, patience: Duration) -> Duration {
    let wait = if patience.is_zero() {
        IDLE_MAX
    } else {
        patience / 4
    };
    (lasts / 2).min(wait).clamp(IDLE_MIN, IDLE_MAX)
}
