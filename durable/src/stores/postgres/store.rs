//! Store: the tables as a store, for a node.

use super::blocking::HandlerDatabase;
use super::clock::DatabaseClock;
use super::grants::HeldUpRules;
use super::leases::Leases;
use super::listen;
use super::migrations::schema::{self, Reached, Wanted};
use super::migrations::steps::Step;
use super::outbox::PostgresOutbox;
use super::session::{Connect, News, Patience, STATEMENT_TIMEOUT, Session, Texts, apart};
use super::statements::dead::Dead;
use super::statements::lease::Leave;
use super::statements::load::{Count, Estimate, Get, GetKey};
use super::statements::rows::{millis, part, partition_of_key, uuid};
use super::statements::rules::{ReadRules, rules_of};
use crate::store::contract::{
    DoneStore, Gate, Lease, LeaseNews, SharedStore, Store, StoreClock, StoreError, StoreSize,
};
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{DeadLetter, DurableId, Partition, Position, Row, StoreTime};
use crate::store::rule::Rule;
use crate::store::write::{Outcome, SliceLimit, Target, Write};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How often the sizes of the tables are asked for, in seconds; and at most this share of the time.
pub(super) const SIZE_EVERY: f64 = 60.0;
pub(super) const SIZE_SHARE: f64 = 1_000.0;

/// How often a step is tried that waits for other nodes to end, in seconds.
const WAITING_EVERY: f64 = 30.0;

/// Rows are counted up to here. If there are more, the database's estimate is taken.
pub(super) const COUNT_MAX: i64 = 10_000;

/// So it is if the count takes longer: nothing is handed out meanwhile.
pub(super) const COUNT_WITHIN: &str = "SET statement_timeout = 20";

/// The largest payload, in bytes: a statement that takes it must end long before it is cancelled.
/// (Of 256 MiB it takes 9 s, of 500 MiB more than 30, on a busy machine with two cores.)
const PAYLOAD_MAX: usize = 64 << 20;

/// A store in a PostgreSQL that nodes share, or in a database that speaks its protocol.
///
/// Each node has a share of its partitions, of which there are 256 unless
/// [set](crate::PostgresBuilder::partitions), by leases that it renews. When a node ends, others
/// take over: at once after a [`stop`](crate::Durable::stop), else when its leases have
/// run out. Nodes need no connection to each other, and their clocks do not matter: the database's
/// clock counts.
///
/// While the database does not answer (it restarts, or a standby is promoted) nothing more is
/// handed out, and calls wait. (What was handed out before may begin until the leases end.) A
/// restart loses nothing. What the promoted standby had not received [is
/// lost](crate::guide::fleet#what-a-failover-loses). After
/// [`patience`](crate::PostgresBuilder::patience) the store has failed: calls are refused
/// ([`DurableError::Unavailable`](crate::DurableError::Unavailable)), and the node tries to come
/// back by itself, unless [`heals`](crate::DurableBuilder::heals) says otherwise.
///
/// # Example
/// ```
/// use std::error::Error;
/// use std::time::Duration;
/// use wheelwork_durable::{Durable, Postgres};
///
/// fn run(database: &str) -> Result<(), Box<dyn Error>> {
///     let timers = Durable::builder(Postgres::connect(database)?)
///         .on("order.unpaid", |order| {
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
    pub(super) session: Session,
    pub(super) connect: Connect,
    pub(super) texts: Arc<Texts>,
    pub(super) schema: Arc<str>,
    pub(super) leases: Leases,
    pub(super) waiting: Waiting,
    pub(super) rules: KnownRules,
    pub(super) clock: Arc<DatabaseClock>,
    /// `ANSWER_MAX`, for the transactions of handlers, but for tests.
    pub(super) handlers_answer_max: Duration,
    /// The number of the last commit.
    pub(super) seq: i64,
    /// Ids so far.
    pub(super) next: u64,
    /// For rows without a key: the next partition, among those that this node owns.
    pub(super) turn: usize,
    pub(super) size: StoreSize,
    /// When it is asked for next, in seconds.
    pub(super) size_at: f64,
    pub(super) done: DoneCount,
    pub(super) listener: Option<listen::Listener>,
    /// What the listener calls.
    pub(super) news: Option<News>,
    pub(super) broken: Option<StoreError>,
}

/// Which rules a node knows, by the number that the store has of all of them; and which of them it
/// could not lock.
#[derive(Default)]
pub(super) struct KnownRules {
    /// The number when the rules were read last. `None`: they have to be read.
    pub(super) read: Option<i64>,
    /// The number as it was seen last.
    pub(super) seen: Option<i64>,
    pub(super) held_up: HeldUpRules,
}

/// A step of the schema that waits until no node is alive that it would break.
pub(super) struct Waiting {
    pub(super) is_so: bool,
    pub(super) steps: &'static [Step],
    /// When it is tried next, in seconds.
    pub(super) again: f64,
}

/// How many records of runs there are, as they were counted last.
#[derive(Default)]
pub(super) struct DoneCount {
    pub(super) count: u64,
    /// When they are counted next, in seconds.
    pub(super) at: f64,
}

impl Postgres {
    /// The calls that are part of a transaction of your own.
    ///
    /// # Example
    /// See [`PostgresOutbox`].
    #[must_use]
    pub fn outbox(&self) -> PostgresOutbox {
        PostgresOutbox::new(self.schema.clone())
    }

    /// The same database, for handlers that work in a transaction.
    pub(crate) fn for_handlers(&self) -> HandlerDatabase {
        let (connect, texts) = (self.connect.clone(), self.texts.clone());
        HandlerDatabase::new(connect, texts, self.leases.lasts, self.handlers_answer_max)
    }
}

impl Postgres {
    /// The border: after an error that is final nothing is done any more.
    pub(super) fn with<T>(
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
    pub(super) fn tell(&mut self) {
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

    /// Counts rows and dead letters. (A count that fails is made another time.)
    fn count(&mut self) {
        let counted = self.session.once(async |live| {
            // (A database without such a setting does without.)
            let is_bound = live.client.batch_execute(COUNT_WITHIN).await.is_ok();
            let counted = live.ask(&Count { limit: COUNT_MAX }).await;
            if is_bound {
                live.client.batch_execute(STATEMENT_TIMEOUT).await?;
            }
            Ok(counted)
        });
        let counted = match counted {
            Some(Ok(counted)) => counted.ok(),
            // The bound may still hold for it.
            Some(Err(_)) => return self.session.forget(),
            None => return,
        };
        let first = |counts: Vec<[Option<u64>; 2]>| counts.first().copied().unwrap_or_default();
        let counted = counted.map(first).unwrap_or_default();
        let is_all = |count: Option<u64>| count.is_some_and(|count| count < COUNT_MAX as u64);
        let mut size = counted;
        if !counted.into_iter().all(is_all) {
            let estimate = self.session.once(async |live| live.ask(&Estimate {}).await);
            let Some(Ok(estimate)) = estimate else {
                return;
            };
            let estimate = first(estimate);
            let former = [self.size.rows, self.size.dead];
            for (at, size) in size
                .iter_mut()
                .enumerate()
                .filter(|(_, size)| !is_all(**size))
            {
                *size = (*size).max(estimate[at].or(Some(former[at])));
            }
        }
        self.size = StoreSize::new(size[0].unwrap_or(0), size[1].unwrap_or(0), None);
    }

    /// Tries to make a step that waits.
    fn make_waiting_step(&mut self) -> Result<(), StoreError> {
        let now = self.clock.elapsed();
        if !self.waiting.is_so || now < self.waiting.again {
            return Ok(());
        }
        self.waiting.again = now + WAITING_EVERY;
        let wanted = wanted(&self.schema, &self.waiting);
        self.waiting.is_so = schema::go_on(&mut self.session, &wanted)? != Reached::All;
        Ok(())
    }

    pub(super) fn change_leases(&mut self) -> Result<LeaseNews, StoreError> {
        let news = match self.leases.renew(&mut self.session, &self.clock) {
            Ok(news) => news,
            Err(error) => {
                let wanted = wanted(&self.schema, &self.waiting);
                return Err(schema::shut_out(&mut self.session, &wanted, error));
            }
        };
        self.make_waiting_step()?;
        self.close_for_held()?;
        if self.leases.renewals == 2 {
            // A node that has just come: others are over their share now.
            self.tell();
        }
        Ok(news)
    }
}

/// The schema, for a node that may make a step that waits.
fn wanted<'a>(schema: &'a str, waiting: &Waiting) -> Wanted<'a> {
    Wanted {
        schema,
        steps: waiting.steps,
        migrates: true,
        partitions: None,
    }
}

#[doc(hidden)]
impl Store for Postgres {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        apart(|| {
            self.with(|store| {
                let mut patience = Patience::new(store.session.patience);
                store.session.ensure_any(true, &mut patience)?;
                schema::check(&mut store.session)?;
                Ok(store.change_leases()?.taken)
            })
        })
    }

    fn can_reopen(&self) -> bool {
        true
    }

    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.open_again()
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
                .run(async |live| live.ask(&Leave { node }).await)?;
            store.tell();
            (store.listener, store.news) = (None, None);
            Ok(())
        })
    }

    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId {
        self.next = self.next.wrapping_add(1);
        let partition = match key {
            Some(key) => partition_of_key(key, self.leases.partitions),
            None => {
                let own = self.leases.own.len() - self.leases.surplus.min(self.leases.own.len());
                self.turn = (self.turn + 1) % own.max(1);
                let own = self.leases.own.keys().nth(self.turn).filter(|_| own > 0);
                own.copied()
                    .unwrap_or((self.next % u64::from(self.leases.partitions)) as Partition)
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
            let partitions = store.leases.partitions;
            for write in &mut writes {
                let (partition, due) = match write {
                    Write::Arm(row) => (row.id.partition(), &mut row.due),
                    Write::Replace(of) => (of.row.id.partition(), &mut of.row.due),
                    Write::Amend(of) if of.moves() => (of.id.partition(), &mut of.due),
                    Write::Move(Target::Id(id), due) => (id.partition(), due),
                    Write::Move(Target::Key(key), due) => (partition_of_key(key, partitions), due),
                    _ => continue,
                };
                if !store.leases.own.contains_key(&partition) {
                    *due = now.max(*due);
                }
            }
            let outcomes = store.transact_above_floor(&writes)?;
            if outcomes.contains(&Outcome::Ruled(true)) {
                store.rules.read = None;
            }
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
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        self.load_many(&[partition], after, until, limit)
    }

    fn list(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        self.list_many(&[partition], after, until, filter, limit)
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        let own = self.leases.own.iter();
        let leases: Vec<_> = own
            .map(|(&partition, &epoch)| Lease { partition, epoch })
            .collect();
        self.claim(&leases, upto).map(drop)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        if let Target::Key(key) = target
            && key.contains('\0')
        {
            // (The database has no such text.)
            return Ok(None);
        }
        self.with(|store| {
            let rows = match target {
                Target::Id(id) => {
                    let get = Get {
                        part: part(id.partition()),
                        id: uuid(*id),
                        due: millis(id.first_due()),
                    };
                    store.session.run(async |live| live.ask(&get).await)?
                }
                Target::Key(key) => {
                    let part = part(partition_of_key(key, store.leases.partitions));
                    let get = GetKey { part, key };
                    store.session.run(async |live| live.ask(&get).await)?
                }
            };
            Ok(rows.into_iter().next())
        })
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.with(|store| {
            let dead = Dead {
                after: after.map_or(Uuid::nil(), uuid),
                limit: i64::try_from(limit.rows).unwrap_or(i64::MAX),
            };
            let letters = store.session.run(async |live| live.ask(&dead).await)?;
            let mut bytes = 0;
            let letters = letters.into_iter().take_while(|letter| {
                let is_taken = !limit.is_reached(0, bytes);
                bytes += letter.row.bytes();
                is_taken
            });
            Ok(letters.collect())
        })
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        let begun = self.clock.elapsed();
        if begun < self.size_at {
            return Ok(self.size);
        }
        let count = |store: &mut Self| {
            store.count();
            let took = store.clock.elapsed() - begun;
            store.size_at = begun + SIZE_EVERY.max(took * SIZE_SHARE);
            Ok(store.size)
        };
        // (It is called once by the thread that starts the node, which may be in async code.)
        apart(|| self.with(count))
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        self.with(|store| {
            let read = store
                .session
                .run(async |live| live.ask(&ReadRules {}).await)?;
            let (number, rules) = rules_of(read);
            store.rules = KnownRules {
                read: number,
                seen: number,
                held_up: HeldUpRules::default(),
            };
            Ok(rules.all())
        })
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.rules.read.is_none() || self.rules.read != self.rules.seen
    }

    fn done(&mut self) -> Option<&mut dyn DoneStore> {
        Some(self)
    }

    fn payload_max(&self) -> usize {
        PAYLOAD_MAX
    }

    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        Some(self)
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
