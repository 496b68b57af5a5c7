//! Store: where durable timers are kept, as the writer sees it.
//!
//! One thread, the writer, owns a store. It takes what callers and handlers want, hands it over in
//! one [`commit`](Store::commit), and tells them when that has returned. So an implementation needs
//! no locks. It decides a timer's outcome: whoever deletes the row ends the timer.
//! The trait [`Store`] has its ground rules.

use super::done::{DoneForgotten, DoneListed, DoneRange};
use super::fleet::Fleet;
use super::grant::{Grant, Want};
use super::list::{Listed, RowFilter};
use super::row::{DeadLetter, DurableId, Partition, Position, Row, StoreTime};
use super::rule::Rule;
use super::snapshot::BackupReport;
use super::write::{Outcome, SliceLimit, Target, Write};
use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The right to hand out the rows of a partition.
///
/// # Example
/// See [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The partition.
    pub partition: Partition,
    /// Raised whenever the lease is taken. It is the fence that handlers pass on.
    pub epoch: u64,
}

/// Knows which rows were handed out.
///
/// # Example
/// See [`Store`].
pub trait Gate {
    /// Whether this row may be ended, moved or replaced. After `true` it will not be handed out,
    /// until the outcome of the commit is known.
    fn let_go(&mut self, id: DurableId) -> bool;
}

/// How large a store is.
///
/// # Example
/// See [`Store`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSize {
    /// Timers that are to fire, and those that are being handled.
    pub rows: u64,
    /// Dead letters.
    pub dead: u64,
    /// Bytes on disk, if it is known.
    pub disk_bytes: Option<u64>,
}

impl StoreSize {
    /// A size.
    ///
    /// # Example
    /// See [`Store::size`].
    pub const fn new(rows: u64, dead: u64, disk_bytes: Option<u64>) -> Self {
        Self {
            rows,
            dead,
            disk_bytes,
        }
    }
}

/// Keeps durable timers. [`Redb`](crate::Redb) is the one on disk, [`Memory`](crate::Memory) the
/// one for tests.
///
/// The writer alone calls it. What an implementation promises:
///
///  - What `commit` has done when it returns `Ok` survives a crash. It does all of it, or nothing,
///    but for changes whose outcome says that they were not made.
///  - After an error of `commit` or `hand_out` the outcome is unknown. The writer calls nothing but
///    [`reopen`](Self::reopen) then, or it ends, and the program opens the store anew.
///  - Before `commit` ends, moves or replaces a row it asks the [`Gate`] whether the row was handed
///    out. A store that other nodes write to decides that by itself, by the watermark: no gate
///    knows what other nodes have handed out.
///  - An ack, a retry and a burial carry the epoch of the lease under which the row was handed out.
///    Under another epoch they do nothing.
///
/// # Example
/// ```
/// use wheelwork_durable::contract::{Gate, Outcome, Store, Target, Write};
/// use wheelwork_durable::{DurableId, Memory, Row, StoreTime};
///
/// /// Nothing was handed out.
/// struct Open;
///
/// impl Gate for Open {
///     fn let_go(&mut self, _: DurableId) -> bool {
///         true
///     }
/// }
///
/// let mut store = Memory::new();
/// let leases = store.acquire()?;
/// let due = StoreTime::from_millis(1_000);
/// let id = store.new_id(None, due);
/// let row = Row::new(id, due, "mail".into(), b"hello".as_slice().into());
/// store.commit(vec![Write::Arm(row.clone())], &mut Open)?;
/// assert_eq!(store.get(&Target::Id(id))?, Some(row));
/// let outcomes = store.commit(vec![Write::Cancel(Target::Id(id))], &mut Open)?;
/// assert_eq!(outcomes, [Outcome::Cancelled(Some(id))]);
/// # Ok::<(), wheelwork_durable::StoreError>(())
/// ```
pub trait Store: Send + 'static {
    /// Takes the leases that this node may have, each with a new epoch. Called once, before all
    /// other calls but `clock`.
    ///
    /// A row that may have been handed out under an earlier epoch (it was due by that epoch's
    /// watermark) is a [suspect](Row::suspect) from now on, until it is settled: also when it is
    /// moved, when this epoch ends too, and when the lease is given back.
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError>;

    /// Whether [`reopen`](Self::reopen) can do something. If not, a store that has failed stays so.
    fn can_reopen(&self) -> bool {
        false
    }

    /// Opens the store again after an error, in the same process. It drops all that it has read or
    /// was about to write, and has what is stored: of the call that has failed all or nothing.
    /// Returns the leases that this node has now. A lease that nobody has taken meanwhile goes on
    /// under its epoch, and its rows are no suspects by that. Others are as after
    /// [`acquire`](Self::acquire).
    ///
    /// An error says that the store is not to be had yet: it is tried again later. A store that
    /// lacks what this node has stored, an older copy for instance, is such an error.
    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        Err(StoreError::Io("this store cannot be opened again".into()))
    }

    /// Gives the leases back. Nothing is handed out any more and all that was is settled, so no
    /// row becomes a suspect by this epoch's watermark.
    fn release(&mut self) -> Result<(), StoreError>;

    /// A new id, for a row with this key and deadline. No other row has it or had it.
    fn new_id(&mut self, key: Option<&str>, due: StoreTime) -> DurableId;

    /// Makes the changes in their order, all of them or none, and says of each what became of it.
    /// When it has returned they survive a crash. (A store may make several transactions of them,
    /// if each but the first begins with a change of a row that was handed out: then an error may
    /// leave the first ones made.) A change that is [blocked](Outcome::Blocked) or
    /// [refused](Outcome::Refused) is left out, and so are later ones of the same row or key.
    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError>;

    /// The next rows of a partition, in the order of their positions: those after `after` and due
    /// at `until` or before. There are no more, if the `limit` is not
    /// [reached](SliceLimit::is_reached).
    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError>;

    /// A look at the next rows of a partition, in the order of their positions: those after `after`
    /// and due at `until` or before that the filter takes. Nothing of it is handed out. `limit` is
    /// for the rows that are looked at. A look that has found nothing may still have more to look
    /// at.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::contract::{Gate, Position, RowFilter, SliceLimit, Store, Write};
    /// use wheelwork_durable::{DurableId, Memory, Row, StoreTime};
    ///
    /// struct AllMayGo;
    /// impl Gate for AllMayGo {
    ///     fn let_go(&mut self, _: DurableId) -> bool {
    ///         true
    ///     }
    /// }
    ///
    /// let mut store = Memory::new();
    /// store.acquire()?;
    /// let due = StoreTime::from_millis(1_000);
    /// for kind in ["mail", "report", "mail"] {
    ///     let row = Row::new(store.new_id(None, due), due, kind.into(), [].into());
    ///     store.commit(vec![Write::Arm(row)], &mut AllMayGo)?;
    /// }
    /// let filter = RowFilter { kind: Some("mail".into()), ..RowFilter::ALL };
    /// let limit = SliceLimit::rows(2);
    /// let first = store.list(0, Position::MIN, due, &filter, limit)?;
    /// let after = first.next.expect("there is another row");
    /// let second = store.list(0, after, due, &filter, limit)?;
    /// assert_eq!((first.rows.len(), second.rows.len(), second.next), (1, 1, None));
    /// # Ok::<(), wheelwork_durable::StoreError>(())
    /// ```
    fn list(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let rows = self.load(partition, after, until, limit)?;
        Ok(Listed::of(rows, limit, filter))
    }

    /// Commits that rows due at `upto` or before may be handed out from now on: the watermark. It
    /// only rises while the leases are held.
    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError>;

    /// The store's clock. A store without a clock of its own takes the node's.
    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        Ok(StoreTime::reading(node))
    }

    /// A row by id or key. Dead letters are none.
    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError>;

    /// The next dead letters with an id after `after`, by id. There are no more, if the `limit` is
    /// not [reached](SliceLimit::is_reached).
    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError>;

    /// The rules, in the order of what they are for.
    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        Ok(Vec::new())
    }

    /// Whether [`rules`](Self::rules) may return others than it has returned last. It reads
    /// nothing: a store notes this when it makes changes. One that other nodes write to learns it
    /// from what it reads at each [`claim`](SharedStore::claim) and
    /// [`next_due`](SharedStore::next_due).
    fn has_news_of_rules(&mut self) -> bool {
        false
    }

    /// The largest payload that it can keep, in bytes. The service takes none that is larger,
    /// whatever its [`max_payload`](crate::DurableBuilder::max_payload) says.
    fn payload_max(&self) -> usize {
        usize::MAX
    }

    /// How large it is, as far as the store knows it without a count: an estimate is right, where
    /// counting takes long. Cost: some microseconds.
    fn size(&mut self) -> Result<StoreSize, StoreError>;

    /// What it holds now, for a copy that is made while it goes on. `None`: it is in no file. Cost:
    /// some microseconds.
    fn snapshot(&mut self) -> Result<Option<Box<dyn Snapshot>>, StoreError> {
        Ok(None)
    }

    /// Does a slice of the work that it has put off, in some milliseconds. Returns whether there is
    /// more.
    fn upkeep(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// What a store has that can keep records of runs that are done. `None`: it cannot.
    fn done(&mut self) -> Option<&mut dyn DoneStore> {
        None
    }

    /// What a store has that other nodes write to as well. `None`: this is the only one.
    fn shared(&mut self) -> Option<&mut dyn SharedStore> {
        None
    }
}

/// What a store held at one instant. It belongs to the thread that copies it, and the store goes
/// on meanwhile.
///
/// # Example
/// See [`DurableClient::backup`](crate::DurableClient::backup).
pub trait Snapshot: Send {
    /// Writes a store with the same rows and dead letters to a new file.
    ///
    /// # Errors
    /// Those of the new file, and damage of a row that is copied. The store goes on.
    fn copy(self: Box<Self>, path: &Path) -> Result<BackupReport, StoreError>;
}

/// What a store can do that keeps records of runs that are done
/// ([`Write::AckKept`]). The writer alone calls it.
///
/// # Example
/// ```
/// use wheelwork_durable::contract::{DoneRange, Store};
/// use wheelwork_durable::{Memory, StoreTime};
///
/// let mut store = Memory::new();
/// store.acquire()?;
/// let done = store.done().expect("it keeps records");
/// assert!(done.look(&DoneRange::ALL, 100)?.done.is_empty());
/// assert!(!done.forget(StoreTime::from_millis(1_000), 100)?.has_more);
/// assert_eq!(done.count()?, 0);
/// # Ok::<(), wheelwork_durable::StoreError>(())
/// ```
pub trait DoneStore {
    /// The name of this node, as its records have it. Empty: the store has one process alone.
    fn node(&self) -> Arc<str>;

    /// Reads the next records of a range, and about `limit` of them: of all nodes. A record that
    /// cannot be read is left out, and counted: it is no reason to fail.
    fn look(&mut self, range: &DoneRange, limit: usize) -> Result<DoneListed, StoreError>;

    /// Removes about `limit` records that have ended before a time, the oldest first. Where nodes
    /// share the store, those of the partitions that this node owns. A store without room removes
    /// nothing.
    fn forget(&mut self, before: StoreTime, limit: usize) -> Result<DoneForgotten, StoreError>;

    /// How many there are. An estimate is right, where counting takes long.
    fn count(&mut self) -> Result<u64, StoreError>;
}

/// What a store that several nodes share can do beside [`Store`]. The writer alone calls it, but
/// for the clock of [`clock`](Self::clock).
///
/// All agreement is in the store: which node owns which partition, and until when; up to which
/// deadline a partition's rows may have been handed out. A node keeps what the store has said, and
/// counts time by its own clock from *before* it has asked.
///
/// What an implementation promises:
///
///  - A partition has one owner at a time, by a lease with an epoch. Taking one raises the epoch.
///  - A row is handed out by the owner of its partition, when it is due, after
///    [`claim`](Self::claim) has stored a watermark at or after its deadline.
///  - A row due at the watermark of its partition, or before it, is not cancelled, moved or
///    replaced by any node.
///  - A row that was due by the watermark when its partition was taken over is a
///    [suspect](Row::suspect) until it is settled, unless the owner before has
///    [given the partition back](Self::give_back), and it was none before.
///
/// # Example
/// A store shows it by [`Store::shared`].
/// ```
/// use wheelwork_durable::Memory;
/// use wheelwork_durable::contract::Store;
///
/// assert!(Memory::new().shared().is_none()); // one process alone
/// ```
pub trait SharedStore {
    /// How many partitions there are, numbered from 0: 65,536 at most.
    fn partitions(&self) -> u32;

    /// Which kinds this node hands out, by name and in order. A node without any only looks: it
    /// owns no partition, and others do not count it when they share them out. Called before
    /// [`Store::acquire`], and without a kind when the node begins to stop: what it owns then is
    /// over its share.
    fn handles(&mut self, kinds: &[Arc<str>]) {
        let _ = kinds;
    }

    /// How far ahead of a row's deadline its watermark is stored: more than a commit takes.
    fn claim_ahead(&self) -> Duration;

    /// Renews the leases, takes those that are free up to this node's share, and says which are
    /// over its share.
    fn renew(&mut self) -> Result<LeaseNews, StoreError>;

    /// Gives partitions back of which nothing is being handled. A lease that is lost already is
    /// left as it is.
    fn give_back(&mut self, leases: &[Lease]) -> Result<(), StoreError>;

    /// Gives partitions back as [`give_back`](Self::give_back) does, each for nodes that hand out
    /// one of these kinds: such a node takes it even over its share, and others leave it alone for
    /// a moment.
    fn give_away(&mut self, leases: &[(Lease, Vec<Arc<str>>)]) -> Result<(), StoreError> {
        let leases: Vec<_> = leases.iter().map(|(lease, _)| *lease).collect();
        self.give_back(&leases)
    }

    /// The nodes that are alive and do not only look, and the kinds that each hands out.
    fn node_kinds(&mut self) -> Result<Vec<NodeKinds>, StoreError> {
        Ok(Vec::new())
    }

    /// Commits the watermark of these partitions: it only rises. Returns leases that are known to
    /// be lost: nothing may be handed out under them. Others are told of by [`renew`](Self::renew).
    fn claim(&mut self, leases: &[Lease], upto: StoreTime) -> Result<Vec<Lease>, StoreError>;

    /// As [`Store::load`], of many partitions, in one order.
    fn load_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError>;

    /// As [`Store::list`], of many partitions, in one order. It also finds rows that are locked.
    fn list_many(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError>;

    /// The first deadline of these partitions at or after `from`.
    fn next_due(
        &mut self,
        partitions: &[Partition],
        from: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError>;

    /// Tokens and calls of rules, for the next moments of this node: one grant for each want. If
    /// the answer is lost, so are the tokens. The calls are those that the node has in all, so to
    /// ask once more changes nothing. What a node had is free when it is not alive.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::RuleFor;
    /// use wheelwork_durable::contract::{SharedStore, Want, WantedCalls};
    ///
    /// /// A call for mail, if there is one.
    /// fn one(store: &mut dyn SharedStore) -> Result<bool, wheelwork_durable::StoreError> {
    ///     let (of, calls) = (RuleFor::Kind("mail".into()), WantedCalls { most: 1, running: 0 });
    ///     let grants = store.grant(&[Want { of, tokens: 1, calls: Some(calls) }])?;
    ///     Ok(grants.first().is_some_and(|grant| grant.tokens == 1 && grant.calls == 1))
    /// }
    /// ```
    fn grant(&mut self, wants: &[Want]) -> Result<Vec<Grant>, StoreError> {
        Ok(vec![Grant::default(); wants.len()])
    }

    /// The store's clock, which all nodes go by.
    fn clock(&self) -> Arc<dyn StoreClock>;

    /// Whether the node may have a clock that is moved by hand.
    #[doc(hidden)]
    fn takes_clock(&self) -> bool {
        false
    }

    /// Sets what to call, on any thread, when another node may have done something that concerns
    /// this one. A hint: it makes things sooner.
    fn on_news(&mut self, wake: Arc<dyn Fn() + Send + Sync>);

    /// Who owns what.
    fn fleet(&mut self) -> Result<Fleet, StoreError>;
}

/// What a node hands out.
///
/// # Example
/// See [`SharedStore::node_kinds`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeKinds {
    /// Its name.
    pub name: String,
    /// `None`: it does not tell. It may have any.
    pub kinds: Option<Vec<Arc<str>>>,
    /// Whether it is the one that was asked.
    pub is_this: bool,
}

impl NodeKinds {
    /// Whether it says that it hands out this kind.
    pub fn has(&self, kind: &str) -> bool {
        let kinds = self.kinds.iter().flatten();
        kinds.into_iter().any(|own| &**own == kind)
    }
}

/// The clock of a store, as a node knows it: two bounds for what it shows now.
///
/// # Example
/// See [`SharedStore::clock`].
pub trait StoreClock: Send + Sync {
    /// The time that the clock shows, or a little less. Deadlines are compared with this.
    fn at_least(&self) -> SystemTime;

    /// The time that the clock shows, or a little more. Delays begin then.
    fn at_most(&self) -> SystemTime;
}

/// What has become of the leases of a node.
///
/// # Example
/// See [`SharedStore`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseNews {
    /// Partitions that are this node's from now on.
    pub taken: Vec<Lease>,
    /// Partitions that were this node's.
    pub lost: Vec<Partition>,
    /// How many partitions are over its share: to be given back when nothing of them is being
    /// handled.
    pub surplus: usize,
    /// How long the leases last, less a margin: from before the call on.
    pub lasts: Duration,
    /// When to renew them: so long after the call began.
    pub again: Duration,
}

impl LeaseNews {
    /// Leases that last so long, and are to be renewed after `again`.
    ///
    /// # Example
    /// See [`SharedStore`].
    pub fn new(lasts: Duration, again: Duration) -> Self {
        Self {
            lasts,
            again,
            ..Self::default()
        }
    }
}

/// What a [`StoreError`] says: one line, and the error behind it, if there is one.
///
/// The line says what that error says, too. [`StoreError`] has it as its `source`, for programs
/// that look at it: the system's error of a file, the database's error with its SQLSTATE.
///
/// # Example
/// ```
/// use std::error::Error;
/// use std::io;
/// use wheelwork_durable::{StoreCause, StoreError};
///
/// let full = io::Error::from(io::ErrorKind::StorageFull);
/// let cause = StoreCause::new(format!("timers.redb: {full}"), full);
/// assert!(cause.starts_with("timers.redb: "));
/// let error = StoreError::Io(cause);
/// let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
/// assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::StorageFull));
/// assert!(StoreError::Io("a text alone".into()).source().is_none());
/// ```
#[derive(Clone, Debug)]
pub struct StoreCause {
    line: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreCause {
    /// A line, and the error behind it. A cause without one is made of a text by `From`.
    pub fn new(line: impl Into<Arc<str>>, source: impl Error + Send + Sync + 'static) -> Self {
        Self {
            line: line.into(),
            source: Some(Arc::new(source)),
        }
    }
}

impl Deref for StoreCause {
    type Target = str;

    fn deref(&self) -> &str {
        &self.line
    }
}

impl fmt::Display for StoreCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl From<&str> for StoreCause {
    fn from(line: &str) -> Self {
        String::from(line).into()
    }
}

impl From<String> for StoreCause {
    fn from(line: String) -> Self {
        Self {
            line: line.into(),
            source: None,
        }
    }
}

/// Why a store cannot go on, or could not be opened.
///
/// # Example
/// See [`StoreCause`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// It is open already, in another process or in this one.
    InUse(StoreCause),
    /// It is no store of timers.
    Foreign(StoreCause),
    /// It was written by another version of this library: the version of its format. (Or of the
    /// format of redb, which keeps the file; then the text says so.)
    Version(StoreCause, u64),
    /// It was written by an earlier version of this library, and this program may not, or could
    /// not, take it further: the number that it has.
    NeedsMigration(StoreCause, u64),
    /// It is damaged: where, and how.
    Damaged(StoreCause),
    /// It has something that a later version of this library has written, and that this version
    /// does not know: what, and where. It is not damaged. A program of that version reads it.
    Later(StoreCause),
    /// The system or the database refused: a full disk, no rights, an I/O error.
    Io(StoreCause),
}

impl StoreError {
    fn cause(&self) -> &StoreCause {
        match self {
            Self::InUse(cause)
            | Self::Foreign(cause)
            | Self::Version(cause, _)
            | Self::NeedsMigration(cause, _)
            | Self::Damaged(cause)
            | Self::Later(cause)
            | Self::Io(cause) => cause,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(what) => {
                write!(f, "{what}: it is open already, here or in another process")
            }
            Self::Foreign(what) => write!(f, "{what}: this is no store of timers"),
            Self::Version(what, version) => write!(
                f,
                "{what}: its format has version {version}, which this version of wheelwork does \
                 not read"
            ),
            Self::Damaged(what) => write!(f, "{what}: the store is damaged"),
            Self::NeedsMigration(what, _) | Self::Later(what) | Self::Io(what) => f.write_str(what),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let source = self.cause().source.as_deref()?;
        Some(source)
    }
}
