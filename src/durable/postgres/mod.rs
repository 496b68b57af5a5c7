#![doc = include_str!("README.md")]

mod clock;
mod commit;
mod handler;
mod leases;
mod listen;
mod outbox;
mod rows;
mod schema;
mod session;
pub(crate) mod sql;

use crate::durable::builder::DurableBuilder;
use crate::durable::{
    DeadLetter, Delivery, DurableId, Fleet, FleetNode, FleetPartition, Gate, HandlerResult, Lease,
    LeaseNews, Outcome, Partition, Position, Row, SharedStore, Store, StoreClock, StoreError,
    StoreSize, StoreTime, Target, Write,
};
pub use outbox::PostgresOutbox;

use clock::DatabaseClock;
use handler::ConnectClient;
use leases::{Leases, PARTITIONS, epoch, part, partition};
use rows::{letter_of, millis, partition_of_key, row_of, uuid};
use session::{Connect, Patience, Session};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hasher};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Config, NoTls, Socket};
use uuid::Uuid;

/// How often the sizes of the tables are asked for, in seconds; and at most this share of the time.
const SIZE_EVERY: f64 = 60.0;
const SIZE_SHARE: f64 = 1_000.0;

/// Rows of a partition that a load asks for at least.
const SLICE_MIN: usize = 16;

/// A row that is armed into another node's partition is told of, if it is due so soon.
const TELL_WITHIN: Duration = Duration::from_secs(2);

/// A store in a PostgreSQL that nodes share, or in a database that speaks its protocol.
///
/// Each node has 256 / number of nodes of its partitions, by leases that it renews. When a node
/// ends, others take over: at once after a [`stop`](crate::durable::Durable::stop), else when its
/// leases have run out. Nodes need no connection to each other, and their clocks do not matter:
/// the database's clock counts.
///
/// While the database does not answer (it restarts, or a standby is promoted) nothing fires, calls
/// wait, and nothing is lost. After [`patience`](PostgresBuilder::patience) the store has failed.
///
/// # Example
/// ```
/// use std::error::Error;
/// use std::time::Duration;
/// use wheelwork::durable::{Durable, Postgres};
///
/// fn run(database: &str) -> Result<(), Box<dyn Error>> {
///     let timers = Durable::open(Postgres::connect(database)?)
///         .handle("order.unpaid", |order| {
///             println!("order {} was not paid", order.payload_text());
///             Ok(())
///         })
///         .start()?;
///     timers.schedule("order.unpaid", Duration::from_secs(1_800), "4711")?;
///     Ok(())
/// }
///
/// // There is no database here:
/// let error = run("host=127.0.0.1 port=1 user=shop dbname=shop").unwrap_err();
/// assert!(error.to_string().starts_with("PostgreSQL at 127.0.0.1, port 1: "));
/// ```
pub struct Postgres {
    session: Session,
    connect: Connect,
    connect_client: ConnectClient,
    schema: Arc<str>,
    leases: Leases,
    clock: Arc<DatabaseClock>,
    /// The number of the last commit.
    seq: i64,
    /// Ids so far.
    next: u64,
    /// For rows without a key: the next partition, among those that this node owns.
    turn: usize,
    size: StoreSize,
    /// When it is asked for next, in seconds.
    size_at: f64,
    listener: Option<listen::Listener>,
    broken: Option<StoreError>,
}

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
    connect: Option<Box<dyn FnOnce(Config) -> Connects + Send>>,
}

impl Postgres {
    /// Connects without TLS, to a connection string (`host=.. user=.. dbname=..`) or a URL
    /// (`postgres://..`). Several hosts are tried in turn. If the tables are not there, they are
    /// made, in the schema `wheelwork`.
    ///
    /// # Errors
    /// The string makes no sense, the database does not answer or refuses, or its tables are of
    /// another version.
    ///
    /// # Example
    /// See [`Postgres`].
    pub fn connect(config: &str) -> Result<Self, StoreError> {
        Self::builder(config).connect()
    }

    /// The calls that are part of a transaction of your own.
    ///
    /// # Example
    /// See [`PostgresOutbox`].
    #[must_use]
    pub fn outbox(&self) -> PostgresOutbox {
        PostgresOutbox::new(self.schema.clone())
    }

    /// To connect otherwise than [`connect`](Self::connect) does.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork::durable::Postgres;
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
        PostgresBuilder {
            config: config.to_owned(),
            schema: "wheelwork".to_owned(),
            name: None,
            lasts: Duration::from_secs(10),
            patience: Duration::from_secs(300),
            connect: None,
        }
    }
}

impl PostgresBuilder {
    /// Sets the schema that has the tables: lower-case letters, digits and underscores. `wheelwork`
    /// unless set.
    ///
    /// # Example
    /// See [`Postgres::builder`].
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = schema.to_owned();
        self
    }

    /// Sets the name of this node, for [`fleet`](crate::durable::DurableHandle::fleet). The host's
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

    /// Sets how long calls wait for a database that does not answer. Then the store has failed.
    /// 5 min unless set.
    ///
    /// # Example
    /// See [`Postgres::builder`].
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets what makes connections secure: a connector for tokio-postgres, of the crate
    /// `postgres-native-tls` or `tokio-postgres-rustls`, say.
    ///
    /// # Example
    /// ```
    /// use wheelwork::durable::Postgres;
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

    fn connect_here(self) -> Result<Postgres, StoreError> {
        let setting = |why: String| StoreError::Io(format!("PostgreSQL: {why}").into());
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let schema = self.schema;
        if schema.is_empty()
            || schema.len() > 50
            || !schema.chars().all(is_name)
            || schema.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(setting(format!(
                "a schema has up to 50 lower-case letters, digits and underscores, not {schema:?}"
            )));
        }
        let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
        if !range.contains(&self.lasts) {
            return Err(setting(format!(
                "a lease lasts 1 s to 1 h, not {:?}",
                self.lasts
            )));
        }
        let config: Config = self
            .config
            .parse()
            .map_err(|error| setting(format!("the connection string makes no sense: {error}")))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(setting("the connection string has no host".to_owned()));
        }
        let what = describe(&config);
        let (connect, connect_client) = match self.connect {
            Some(connect) => connect(config),
            None => connecting(config, NoTls),
        };
        // The first time it is there, or it is an error.
        let idle = self.lasts / 2;
        let mut session = Session::new(connect.clone(), what, &schema, Duration::ZERO, idle)?;
        session.ensure(false, &mut Patience::new(Duration::ZERO))?;
        session.patience = self.patience;
        schema::prepare(&mut session, &schema)?;
        let name = self.name.unwrap_or_else(|| {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
            let host = host.unwrap_or_else(|_| "node".to_owned());
            format!("{}-{}", host.trim(), std::process::id())
        });
        let node = Uuid::from_u128(u128::from(random()) << 64 | u128::from(random()));
        Ok(Postgres {
            session,
            connect,
            connect_client,
            schema: schema.into(),
            leases: Leases::new(node, name, self.lasts),
            clock: Arc::new(DatabaseClock::new()),
            seq: 0,
            next: random() >> 1,
            turn: 0,
            size: StoreSize::default(),
            size_at: 0.0,
            listener: None,
            broken: None,
        })
    }
}

/// How connections are made: for the store, and for handlers.
type Connects = (Connect, ConnectClient);

/// Calls this on a thread that waits for the database: in async code another one than the caller's.
fn apart<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    if tokio::runtime::Handle::try_current().is_err() {
        return call();
    }
    let called = crossbeam_utils::thread::scope(|scope| scope.spawn(|_| call()).join());
    match called {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) | Err(panic) => resume_unwind(panic),
    }
}

/// A number that nobody can guess.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
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
fn connecting<T>(config: Config, tls: T) -> Connects
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (own_config, own_tls) = (postgres::Config::from(config.clone()), tls.clone());
    let connect: Connect = Arc::new(move |news| {
        let (config, tls) = (config.clone(), tls.clone());
        Box::pin(async move {
            let (client, mut connection) = config.connect(tls).await?;
            let driver = async move {
                while let Some(message) = poll_fn(|context| connection.poll_message(context)).await
                {
                    if let AsyncMessage::Notification(_) = message? {
                        news();
                    }
                }
                Ok(())
            };
            let driver: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(driver);
            Ok((client, driver))
        })
    });
    (
        connect,
        Arc::new(move || own_config.connect(own_tls.clone())),
    )
}

impl Postgres {
    /// The border: after an error that is final nothing is done any more.
    fn with<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let answer = call(self);
        if let Err(error) = &answer {
            self.broken = Some(error.clone());
        }
        answer
    }

    /// Tells other nodes that there is something for them. A hint.
    fn tell(&mut self) {
        if self
            .listener
            .as_ref()
            .is_none_or(|listener| !listener.is_heard())
        {
            return;
        }
        let channel = listen::channel(&self.schema);
        // Whether it is heard does not matter.
        let _ = self.session.once(async |live| {
            live.client
                .batch_execute(&format!("NOTIFY {channel}"))
                .await
        });
    }

    fn change_leases(&mut self) -> Result<LeaseNews, StoreError> {
        let news = self.leases.renew(&mut self.session, &self.clock)?;
        if self.leases.renewals == 2 {
            // A node that has just come: others are over their share now.
            self.tell();
        }
        Ok(news)
    }

    /// The transaction of a commit, until it is known what became of it.
    fn transact(&mut self, writes: &[Write]) -> Result<Vec<Outcome>, StoreError> {
        let (node, seq) = (self.leases.node, self.seq + 1);
        let begin = format!(
            "BEGIN; UPDATE {}.node SET seq = {seq} WHERE node = '{node}'",
            self.schema
        );
        let own = &self.leases.own;
        let mut patience = Patience::new(self.session.patience);
        // What was answered before a COMMIT whose answer was lost.
        let mut unknown: Option<Vec<Outcome>> = None;
        loop {
            self.session.ensure(true, &mut patience)?;
            if let Some(outcomes) = unknown.take() {
                let settled = self
                    .session
                    .once(async |live| live.rows(sql::SETTLED_SEQ, &[&node]).await);
                match settled {
                    Some(Ok(rows)) => {
                        let stored = rows.first().map(|row| row.get::<_, i64>(0));
                        if stored == Some(seq) {
                            self.seq = seq;
                            return Ok(outcomes);
                        }
                    }
                    other => {
                        unknown = Some(outcomes);
                        let error = other.and_then(Result::err);
                        self.session.after(error.as_ref(), &mut patience)?;
                        continue;
                    }
                }
            }
            let mut answered = None;
            let done = self.session.once(async |live| {
                live.client.batch_execute(&begin).await?;
                let outcomes = commit::make(live, writes, own).await?;
                answered = Some(outcomes);
                live.client.batch_execute("COMMIT").await
            });
            let error = match done {
                Some(Ok(())) => {
                    self.seq = seq;
                    return Ok(answered.unwrap_or_default());
                }
                Some(Err(error)) => Some(error),
                None => None,
            };
            let is_lost = error
                .as_ref()
                .is_none_or(|error| session::trouble(error) == session::Trouble::Lost);
            if is_lost {
                // (If COMMIT was not sent, the row of this node says so, too.)
                unknown = answered;
            } else {
                let _ = self
                    .session
                    .once(async |live| live.client.batch_execute("ROLLBACK").await);
            }
            self.session.after(error.as_ref(), &mut patience)?;
        }
    }

    /// Whether a row was put where its owner does not see it, and is due soon.
    fn is_news(&self, writes: &[Write]) -> bool {
        let soon = StoreTime::reading(self.clock.at_most()).after(TELL_WITHIN);
        writes.iter().any(|write| match write {
            Write::Arm(row) => {
                row.due <= soon && !self.leases.own.contains_key(&row.id.partition())
            }
            Write::Move(Target::Id(id), due) => {
                *due <= soon && !self.leases.own.contains_key(&id.partition())
            }
            Write::Move(Target::Key(key), due) => {
                *due <= soon && !self.leases.own.contains_key(&partition_of_key(key))
            }
            Write::Revive(id, due) => {
                *due <= soon && !self.leases.own.contains_key(&id.partition())
            }
            _ => false,
        })
    }
}

impl DurableBuilder<Postgres> {
    /// Sets a handler that works in a transaction: what it does there and the end of its timer are
    /// committed together. So that work is done exactly once, however often a node ends meanwhile.
    /// If it says `Err`, or panics, the transaction is rolled back, and the timer is tried again.
    ///
    /// Each call that runs at one time has a connection of its own, which is kept. Handlers must
    /// not run inside a tokio runtime.
    ///
    /// # Example
    /// ```
    /// use std::error::Error;
    /// use wheelwork::durable::{Durable, Postgres};
    ///
    /// fn run(database: &str) -> Result<(), Box<dyn Error>> {
    ///     let timers = Durable::open(Postgres::connect(database)?)
    ///         .handle_in("order.unpaid", |order, transaction| {
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
    pub fn handle_in(
        mut self,
        kind: &str,
        handler: impl Fn(&Delivery, &mut postgres::Transaction<'_>) -> HandlerResult
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let (connect, schema) = (self.store.connect_client.clone(), self.store.schema.clone());
        let idle = self.store.leases.lasts / 2;
        let handler = handler::in_transaction(connect, schema, idle, handler);
        self.kinds.entry(kind).handler = Some(handler);
        self
    }
}

impl Store for Postgres {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        apart(|| self.with(|store| Ok(store.change_leases()?.taken)))
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.with(|store| {
            let own = store.leases.own.iter();
            let leases: Vec<_> = own
                .map(|(&partition, &epoch)| Lease { partition, epoch })
                .collect();
            store.give_back_now(&leases)?;
            let node = store.leases.node;
            store
                .session
                .run(async |live| live.rows(sql::LEAVE, &[&node]).await)?;
            store.tell();
            store.listener = None;
            Ok(())
        })
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.next = self.next.wrapping_add(1);
        let partition = match key {
            Some(key) => partition_of_key(key),
            None => {
                let own =
                    self.leases.own.len() - self.leases.surplus.len().min(self.leases.own.len());
                self.turn = (self.turn + 1) % own.max(1);
                let own = self.leases.own.keys().nth(self.turn).filter(|_| own > 0);
                own.copied().unwrap_or((self.next % 256) as Partition)
            }
        };
        DurableId::new(partition, due, self.next)
    }

    fn commit(
        &mut self,
        mut writes: Vec<Write>,
        _gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.with(|store| {
            // Other nodes look for what is due, not for what was.
            let now = StoreTime::reading(store.clock.at_most());
            for write in &mut writes {
                let (partition, due) = match write {
                    Write::Arm(row) => (row.id.partition(), &mut row.due),
                    Write::Move(Target::Id(id), due) => (id.partition(), due),
                    Write::Move(Target::Key(key), due) => (partition_of_key(key), due),
                    _ => continue,
                };
                if !store.leases.own.contains_key(&partition) {
                    *due = now.max(*due);
                }
            }
            let outcomes = store.transact(&writes)?;
            if store.is_news(&writes) {
                store.tell();
            }
            Ok(outcomes)
        })
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.load_many(&[partition], after, until, limit)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        let own = self.leases.own.iter();
        let leases: Vec<_> = own
            .map(|(&partition, &epoch)| Lease { partition, epoch })
            .collect();
        self.claim(&leases, upto).map(drop)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.with(|store| {
            let rows = store.session.run(async |live| match target {
                Target::Id(id) => {
                    let (number, first_due) = (part(id.partition()), millis(id.first_due()));
                    live.rows(sql::GET, &[&number, &uuid(*id), &first_due])
                        .await
                }
                Target::Key(key) => {
                    let number = part(partition_of_key(key));
                    live.rows(sql::GET_KEY, &[&number, &&**key]).await
                }
            })?;
            Ok(rows.first().map(row_of))
        })
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.with(|store| {
            let after = after.map_or(Uuid::nil(), uuid);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = store
                .session
                .run(async |live| live.rows(sql::DEAD, &[&after, &limit]).await)?;
            Ok(rows.iter().map(letter_of).collect())
        })
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        let begun = self.clock.elapsed();
        if begun < self.size_at {
            return Ok(self.size);
        }
        self.with(|store| {
            // (A count that fails, or takes too long, is made another time.)
            let counted = store
                .session
                .once(async |live| live.rows(sql::SIZE, &[]).await);
            if let Some(Ok(rows)) = counted
                && let Some(row) = rows.first()
            {
                let count = |at| u64::try_from(row.get::<_, i64>(at)).unwrap_or(0);
                store.size = StoreSize::new(count(0), count(1), None);
            }
            let took = store.clock.elapsed() - begun;
            store.size_at = begun + SIZE_EVERY.max(took * SIZE_SHARE);
            Ok(store.size)
        })
    }

    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        Some(self)
    }
}

impl Postgres {
    /// Reads up to `slice` rows of each partition. Notes up to where those are read that have more.
    fn read_slice(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        slice: usize,
        read: &mut BTreeMap<Position, Row>,
        more: &mut BTreeMap<Partition, Position>,
    ) -> Result<(), StoreError> {
        if slice == 0 {
            return Ok(());
        }
        let parts: Vec<_> = partitions.iter().map(|&number| part(number)).collect();
        let (due, id) = (millis(after.due), uuid(after.id));
        let limit = i64::try_from(slice).unwrap_or(i64::MAX);
        let loaded = self.session.run(async |live| {
            live.rows(sql::LOAD, &[&parts, &due, &id, &millis(until), &limit])
                .await
        })?;
        // (Rows count that end when they are raised, too.)
        let mut counts = BTreeMap::new();
        for row in loaded.iter().map(row_of) {
            let count: &mut usize = counts.entry(row.id.partition()).or_default();
            *count += 1;
            if *count == slice {
                more.insert(row.id.partition(), row.position());
            }
        }
        let loaded = self.raise(loaded.iter())?;
        read.extend(loaded.into_iter().map(|row| (row.position(), row)));
        Ok(())
    }

    /// TakeOverRaise: adds an attempt to those rows that an owner before may have handed out.
    /// Leaves those out whose key another row has taken: they end.
    fn raise<'a>(
        &mut self,
        loaded: impl Iterator<Item = &'a tokio_postgres::Row>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        let (mut parts, mut dues, mut ids, mut epochs) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut at = Vec::new();
        for columns in loaded {
            let row = row_of(columns);
            let number = row.id.partition();
            let own = self.leases.own.get(&number).map_or(0, |&own| epoch(own));
            let owed = self.leases.owed.get(&number).copied().unwrap_or(-1);
            if millis(row.due) <= owed && columns.get::<_, i64>(8) < own {
                at.push(rows.len());
                parts.push(part(number));
                dues.push(millis(row.due));
                ids.push(uuid(row.id));
                epochs.push(own);
            }
            rows.push(row);
        }
        if ids.is_empty() {
            return Ok(rows);
        }
        let ended = self.session.run(async |live| {
            let params: [&(dyn ToSql + Sync); 4] = [&parts, &dues, &ids, &epochs];
            let ended = live.rows(sql::ACK_SUPERSEDED, &params).await?;
            live.rows(sql::RAISE, &params).await?;
            Ok(ended)
        })?;
        // (One that was not raised just now was raised before, by a call whose answer was lost.)
        for number in at {
            rows[number].attempts = rows[number].attempts.saturating_add(1);
        }
        let ended: Vec<Uuid> = ended.iter().map(|columns| columns.get(0)).collect();
        rows.retain(|row| !ended.contains(&uuid(row.id)));
        Ok(rows)
    }

    fn give_back_now(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        let node = self.leases.node;
        let parts: Vec<_> = leases.iter().map(|lease| part(lease.partition)).collect();
        let epochs: Vec<_> = leases.iter().map(|lease| epoch(lease.epoch)).collect();
        self.session
            .run(async |live| live.rows(sql::GIVE_BACK, &[&node, &parts, &epochs]).await)?;
        for lease in leases {
            self.leases.own.remove(&lease.partition);
            self.leases.owed.remove(&lease.partition);
        }
        self.leases.surplus.clear();
        Ok(())
    }
}

impl SharedStore for Postgres {
    fn partitions(&self) -> Partition {
        PARTITIONS
    }

    fn claim_ahead(&self) -> Duration {
        Duration::from_millis(25)
    }

    fn renew(&mut self) -> Result<LeaseNews, StoreError> {
        self.with(Self::change_leases)
    }

    fn give_back(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        self.with(|store| {
            store.give_back_now(leases)?;
            store.tell();
            Ok(())
        })
    }

    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError> {
        self.with(|store| {
            let node = store.leases.node;
            let parts: Vec<_> = leases.iter().map(|lease| part(lease.partition)).collect();
            let epochs: Vec<_> = leases.iter().map(|lease| epoch(lease.epoch)).collect();
            let claimed = store.session.run(async |live| {
                let params: [&(dyn ToSql + Sync); 4] = [&node, &parts, &epochs, &millis(upto)];
                live.rows_unlocked(sql::CLAIM, sql::CLAIM_UNLOCKED, &params)
                    .await
            })?;
            let claimed: Vec<_> = claimed.iter().map(|row| partition(row.get(0))).collect();
            let is_lost = |lease: &&Lease| !claimed.contains(&lease.partition);
            let lost: Vec<_> = leases.iter().filter(is_lost).copied().collect();
            for lease in &lost {
                // One that was only locked is found, and told of, by the next renewal.
                if store.leases.own.get(&lease.partition) == Some(&lease.epoch) {
                    store.leases.own.remove(&lease.partition);
                }
            }
            Ok(lost)
        })
    }

    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.with(|store| {
            let each = limit.div_ceil(partitions.len().max(1));
            let slice = each.saturating_mul(2).max(SLICE_MIN).min(limit);
            let mut rows = Vec::new();
            // Rows that were read, in order; and up to where of the partitions that have more.
            let mut read = BTreeMap::new();
            let mut more = BTreeMap::new();
            store.read_slice(partitions, after, until, slice, &mut read, &mut more)?;
            while rows.len() < limit {
                let first_more = more
                    .iter()
                    .map(|(&number, &position)| (position, number))
                    .min();
                let next = read.first_entry();
                let is_known = |position: Position| first_more.is_none_or(|(to, _)| position <= to);
                match (next, first_more) {
                    (Some(next), _) if is_known(*next.key()) => rows.push(next.remove()),
                    (_, Some((position, number))) => {
                        // Rows of one deadline go by partition: the rest of this one.
                        more.remove(&number);
                        let slice = (limit - rows.len()).max(SLICE_MIN);
                        let number = [number];
                        store.read_slice(&number, position, until, slice, &mut read, &mut more)?;
                    }
                    _ => break,
                }
            }
            Ok(rows)
        })
    }

    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.with(|store| {
            let parts: Vec<_> = partitions.iter().map(|&number| part(number)).collect();
            let sent = store.clock.elapsed();
            let rows = store
                .session
                .run(async |live| live.rows(sql::NEXT_DUE, &[&parts, &millis(from)]).await)?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            store.clock.read(sent, store.clock.elapsed(), row.get(1));
            Ok(row.get::<_, Option<i64>>(0).map(rows::time))
        })
    }

    fn clock(&self) -> Arc<dyn StoreClock> {
        self.clock.clone()
    }

    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.listener = listen::Listener::start(&self.schema, self.connect.clone(), wake);
    }

    fn fleet(&mut self) -> Result<Fleet, StoreError> {
        self.with(|store| {
            let this = store.leases.node;
            let (nodes, partitions) = store.session.run(async |live| {
                let nodes = live.rows(sql::NODES, &[]).await?;
                Ok((nodes, live.rows(sql::FLEET, &[]).await?))
            })?;
            let mut fleet = Fleet::default();
            let mut owners = Vec::new();
            for row in &partitions {
                let now = row.get::<_, f64>(5) * 1_000.0;
                let oldest = row.get::<_, Option<i64>>(4);
                let lag_ms = oldest.map_or(0.0, |due| (now - due as f64).max(0.0));
                owners.push(row.get::<_, Option<Uuid>>(3));
                fleet.partitions.push(FleetPartition {
                    number: partition(row.get(0)),
                    owner: row.get(2),
                    epoch: u64::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
                    lag: Duration::from_secs_f64(lag_ms / 1_000.0),
                });
            }
            for row in &nodes {
                let node: Uuid = row.get(0);
                fleet.nodes.push(FleetNode {
                    name: row.get(1),
                    partitions: owners.iter().filter(|owner| **owner == Some(node)).count(),
                    is_this: node == this,
                });
            }
            Ok(fleet)
        })
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("database", &self.session.what)
            .field("schema", &self.schema)
            .field("node", &self.leases.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBuilder")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
