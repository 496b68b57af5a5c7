#![doc = include_str!("README.md")]

mod check;
pub(crate) mod codec;
mod commit;
mod compact;
mod copy;
mod disk;
mod done;
mod done_codec;
mod done_store;
mod due_key;
mod error;
mod file;
mod load;
mod new_file;
#[cfg(test)]
mod new_file_tests;
mod number_map;
mod open;
mod overlay;
mod pages;
mod recent;
mod reopen;
mod room;
mod rules;
mod salvage;
mod steps;
mod sweep;
mod tables;
#[cfg(test)]
mod tests;
mod tombstones;
mod xxh3;

pub use check::CheckReport;
pub use salvage::SalvageReport;

use crate::store::contract::{DoneStore, Gate, Lease, Snapshot, Store, StoreError, StoreSize};
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{DeadLetter, DurableId, Partition, Position, Row, StoreTime};
use crate::store::rule::Rule;
use crate::store::write::{Outcome, SliceLimit, Target, Write};
use codec::{Names, StoreState};
use commit::{RowChanges, Scratch};
use copy::FileSnapshot;
use disk::DROPS_PAGES;
use error::{io_error, one_line, store_error};
use file::{FileId, OpenPath, StoreFile};
use load::Loading;
use overlay::Overlay;
use recent::RecentIndex;
use redb::{
    Database, Error, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageBackend,
};
use reopen::{Known, LeftFile};
use room::{Room, Tries};
use rules::{FileRules, RULES_SINCE};
use std::fmt;
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use sweep::{Sweep, SweepLimits, Sweeper};
use tables::{BY_DUE, DEAD, KEYS, RECENT, WriteTables};
use tombstones::EndedLog;

/// redb's cache, in bytes.
const CACHE_BYTES: usize = 32 << 20;

/// The largest payload, in bytes. redb takes no value above 3 GiB, and a value has a row, or a dead
/// letter, beside its payload.
const PAYLOAD_MAX: usize = 1 << 30;

/// A store in one file, for one process at a time.
///
/// Everything is on disk when a call has returned (`fdatasync`). After the first call that fails
/// all later calls give its error, until the file is opened again. Timers that run do that by
/// themselves ([`heals`](crate::DurableBuilder::heals)). What an open reads comes from the disk: on
/// Linux the system forgets first what it has cached of the file, since that may have failed to
/// reach the disk.
///
/// If the file is removed or renamed, or another one takes its place, the store fails within a
/// second ([`StoreError::Io`]), on unixes. It comes back when the same file is there again.
///
/// A row is found by its deadline and its number alone, so memory does not grow with the rows:
/// redb's cache (32 MiB unless [set](RedbBuilder::cache_bytes)), and some 30 to 60 bytes for each
/// of the newest 250,000 rows or so; of a million, while arms come faster than they can be swept.
///
/// # Example
/// ```
/// use wheelwork_durable::Redb;
///
/// # let folder = std::env::temp_dir().join(format!("wheelwork-redb-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("timers.redb");
/// let store = Redb::open(&path)?;
/// let second = Redb::open(&path).unwrap_err();
/// assert!(second.to_string().ends_with("it is open already, here or in another process"));
/// # drop(store);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Redb {
    /// The path, or what stands for it, in errors.
    what: Arc<str>,
    /// The file itself, if it is one.
    opened: Option<OpenPath>,
    /// `None` once it is being dropped.
    file: Option<OpenFile>,
    /// Why it cannot go on.
    broken: Option<StoreError>,
    /// Opens the file anew. `None`: it cannot be.
    again: Option<OpenAgain>,
    /// What the file is known to have, since the lease was taken.
    known: Option<Known>,
    /// Which file it is.
    id: Option<FileId>,
    /// The file as it was left, since the store has failed.
    left: Option<LeftFile>,
}

/// Opens a file again.
type OpenAgain = Box<dyn Fn() -> Result<Redb, StoreError> + Send + Sync>;

/// All of a store but its end.
struct OpenFile {
    database: Database,
    /// The lowest format that a program has to know to work with the file.
    floor: u64,
    state: StoreState,
    index: RecentIndex,
    tombstones: EndedLog,
    rules: FileRules,
    sweeper: Sweeper,
    names: Names,
    scratch: Scratch,
    /// The number of the next row.
    next: u64,
    /// The clock, as it was read last.
    now: Option<StoreTime>,
    /// The reserve of room on the disk, and the tries to make it whole.
    room: Option<Arc<Room>>,
    tries: Tries,
}

/// How a [`Redb`] is opened: made by [`Redb::builder`].
///
/// # Example
/// See [`Redb::builder`].
#[derive(Clone, Debug)]
pub struct RedbBuilder {
    cache_bytes: usize,
    check: bool,
    must_exist: bool,
    limits: SweepLimits,
}

impl RedbBuilder {
    /// Memory for pages of the file, in bytes. 32 MiB unless set.
    ///
    /// # Example
    /// See [`Redb::builder`].
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Whether opening reads the whole file, and compares all checksums. Yes, unless set. After a
    /// crash it is done in any case.
    ///
    /// It takes about 0.2 s for a million timers. Without it, damage that the disk has done to a
    /// file that was closed well is noticed when a timer is read, or not at all, if it hides
    /// timers.
    ///
    /// # Example
    /// See [`Redb::builder`].
    #[must_use]
    pub fn check_at_open(mut self, check: bool) -> Self {
        self.check = check;
        self
    }

    /// Whether the store must be there already. No, unless set: where there is no file, or an empty
    /// one, a new store is made.
    ///
    /// Set it once the store has been made. Then a volume that was not mounted, or a path that is
    /// mistyped, is an error; without it the program begins with no timers, in silence.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::Redb;
    ///
    /// # let folder = std::env::temp_dir().join(format!("wheelwork-exist-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("timers.redb");
    /// let missing = Redb::builder().must_exist(true).open(&path).unwrap_err().to_string();
    /// assert!(missing.ends_with("the file does not exist, and no new store is to be made"));
    ///
    /// drop(Redb::open(&path)?);
    /// assert!(Redb::builder().must_exist(true).open(&path).is_ok());
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn must_exist(mut self, must_exist: bool) -> Self {
        self.must_exist = must_exist;
        self
    }

    /// Rows of `recent` from which on it is swept.
    #[doc(hidden)]
    #[must_use]
    pub fn sweep_at(mut self, many: usize, too_many: usize) -> Self {
        self.limits = SweepLimits { many, too_many };
        self
    }

    /// Opens the store in this file, or makes it.
    ///
    /// # Errors
    /// As [`Redb::open`].
    ///
    /// # Example
    /// See [`Redb::builder`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Redb, StoreError> {
        let path = path.as_ref();
        let what: Arc<str> = one_line(path).into();
        open::look(&what, path, self.must_exist)?;
        let mut store = self.start_file(&what, path)?;
        open::sync_name(path).map_err(|error| io_error(&what, error))?;
        store.id = store.opened.as_ref().and_then(|opened| opened.id().ok());
        store.again = store
            .opened
            .as_ref()
            .map(|opened| self.opens_again(what, opened.path().to_owned()));
        Ok(store)
    }

    /// Opens the store in other storage than a file. For tests: of crashes, for instance.
    ///
    /// # Errors
    /// As [`Redb::open`].
    #[doc(hidden)]
    pub fn open_backend(self, backend: impl StorageBackend) -> Result<Redb, StoreError> {
        let backend = StoreFile::other(backend, None, !self.must_exist);
        self.start("a backend".into(), backend)
    }

    /// Opens the store in other storage, with a reserve. `hold` has the storage hold at least this
    /// number of bytes beyond what is stored; 0 gives them back.
    ///
    /// # Errors
    /// As [`Redb::open`].
    #[doc(hidden)]
    pub fn open_backend_with_room(
        self,
        backend: impl StorageBackend,
        hold: impl Fn(u64) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Redb, StoreError> {
        let room = Room::new(Box::new(hold), self.cache_bytes);
        let backend = StoreFile::other(backend, Some(room), !self.must_exist);
        self.start("a backend".into(), backend)
    }

    /// Opens the store in other storage, and does so again when the store is to come back.
    ///
    /// # Errors
    /// As [`Redb::open`].
    #[doc(hidden)]
    pub fn open_backends<B: StorageBackend>(
        mut self,
        backend: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Redb, StoreError> {
        let first = StoreFile::other(backend(), None, !self.must_exist);
        let mut store = self.start("a backend".into(), first)?;
        self.must_exist = true;
        store.again = Some(Box::new(move || {
            self.start("a backend".into(), StoreFile::other(backend(), None, false))
        }));
        Ok(store)
    }

    /// What opens this file again. It makes none: that there is none is an error.
    fn opens_again(mut self, what: Arc<str>, path: PathBuf) -> OpenAgain {
        self.must_exist = true;
        Box::new(move || {
            open::look(&what, &path, true)?;
            self.start_file(&what, &path)
        })
    }

    fn start_file(&self, what: &Arc<str>, path: &Path) -> Result<Redb, StoreError> {
        let io = |error: io::Error| io_error(what, error);
        let mut opened = OpenPath::open(path, self.must_exist).map_err(io)?;
        let backend = opened.backend(self.cache_bytes, !self.must_exist);
        let backend = backend.map_err(|error| store_error(what, error.into()))?;
        let mut store = self.start(what.clone(), backend)?;
        // It may have been replaced since.
        opened.look(None).map_err(io)?;
        store.opened = Some(opened);
        Ok(store)
    }

    fn start<B: StorageBackend>(
        &self,
        what: Arc<str>,
        backend: StoreFile<B>,
    ) -> Result<Redb, StoreError> {
        let mut builder = Database::builder();
        builder
            .set_cache_size(self.cache_bytes)
            .set_check_integrity_on_open(self.check);
        let room = backend.room();
        let overlay = Overlay::new(backend);
        let open = || {
            let database = builder.create_with_backend(overlay.clone());
            let database = database.map_err(|error| store_error(&what, error.into()))?;
            let opened = open::read(&what, &database, || overlay.let_through())?;
            let file = OpenFile {
                next: open::first_number(opened.state.next_number),
                database,
                floor: opened.floor,
                state: opened.state,
                index: opened.index,
                tombstones: opened.tombstones,
                rules: opened.rules,
                sweeper: Sweeper::new(self.limits),
                names: Names::default(),
                scratch: Scratch::default(),
                now: None,
                room,
                tries: Tries::default(),
            };
            Ok((opened.what, file))
        };
        let (what, file) = catch_unwind(AssertUnwindSafe(open))
            .unwrap_or_else(|panic| Err(error::panicked(&what, &*panic)))?;
        Ok(Redb {
            what,
            opened: None,
            file: Some(file),
            broken: None,
            again: None,
            known: None,
            id: None,
            left: None,
        })
    }
}

impl Redb {
    /// Opens the store in this file, or makes it, if there is none or it is empty
    /// ([`must_exist`](RedbBuilder::must_exist) forbids that). Its directory must be there. The
    /// process may be killed while it makes the file: the next open makes it.
    ///
    /// It reads the whole file, unless [told](RedbBuilder::check_at_open) otherwise.
    ///
    /// # Errors
    /// Another process has it open, or this one has; it is something else; a later version has
    /// written it in a format that this one does not read; it is damaged; or the system refuses.
    /// In all but the last of these cases the file is as it was, byte for byte.
    ///
    /// # Example
    /// See [`Redb`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::builder().open(path)
    }

    /// To open a store otherwise than [`open`](Self::open) does.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Redb};
    ///
    /// # let folder = std::env::temp_dir().join(format!("wheelwork-build-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let store = Redb::builder()
    ///     .cache_bytes(8 << 20)
    ///     .check_at_open(false)
    ///     .open(folder.join("timers.redb"))?;
    /// let timers = Durable::builder(store).start()?;
    /// assert_eq!(timers.stats().rows, 0);
    /// # drop(timers);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> RedbBuilder {
        RedbBuilder {
            cache_bytes: CACHE_BYTES,
            check: true,
            must_exist: false,
            limits: SweepLimits::default(),
        }
    }

    /// Rows that were not swept yet. For tests.
    #[doc(hidden)]
    pub fn recent_rows(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.index.len())
    }

    /// Rows that have ended, and were not taken out of their table yet. For tests.
    ///
    /// # Errors
    /// Those of the store.
    #[doc(hidden)]
    pub fn ended_rows(&mut self) -> Result<u64, StoreError> {
        self.with(|file| {
            let stored = file.database.begin_read()?.open_table(RECENT)?.len()?;
            Ok(stored - file.index.len() as u64)
        })
    }

    /// The border: nothing gets past an error, and redb's panics are errors too.
    fn with<T>(
        &mut self,
        call: impl FnOnce(&mut OpenFile) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let Some(file) = &mut self.file else {
            return Err(StoreError::Io(
                format!("{}: it is closed", self.what).into(),
            ));
        };
        if let Some(opened) = &mut self.opened
            && let Err(gone) = opened.look(file.now)
        {
            let gone = io_error(&self.what, gone);
            self.break_down(&gone);
            return Err(gone);
        }
        let result = match catch_unwind(AssertUnwindSafe(|| call(file))) {
            Ok(result) => result.map_err(|error| store_error(&self.what, error)),
            Err(panic) => Err(error::panicked(&self.what, &*panic)),
        };
        match &result {
            // (Before the lease is taken nothing is known.)
            Ok(_) if self.known.is_some() => self.known = Some(Known::of(&file.state, file.next)),
            Ok(_) => {}
            Err(error) => self.break_down(error),
        }
        result
    }

    /// The store has failed.
    fn break_down(&mut self, why: &StoreError) {
        self.broken = Some(why.clone());
        self.left = self.opened.as_ref().map(LeftFile::of);
    }

    /// Closes the file, and opens it again.
    fn open_again(&mut self) -> Result<Vec<Lease>, StoreError> {
        let Some(again) = &self.again else {
            let why = io::Error::other("this cannot be opened again");
            return Err(io_error(&self.what, why));
        };
        if let (Some(known), Some(file)) = (&mut self.known, &self.file) {
            known.next = known.next.max(file.next);
        }
        if let Some(left) = &mut self.left {
            left.look(self.opened.as_ref());
        }
        close(self.file.take());
        let opened = self.opened.take();
        if let Some(left) = &mut self.left {
            left.leave(opened.as_ref());
        }
        drop(opened);
        let opened = again().and_then(|store| self.with_all_known(store));
        let mut store = match opened {
            Ok(store) => store,
            Err(error) => {
                self.broken = Some(error.clone());
                if let Some(left) = &mut self.left {
                    left.leave(None);
                }
                return Err(error);
            }
        };
        (self.file, self.opened) = (store.file.take(), store.opened.take());
        (self.broken, self.left) = (None, None);
        let (Some(known), Some(file)) = (self.known, &mut self.file) else {
            return self.acquire();
        };
        file.next = file.next.max(known.next);
        if file.state.epoch > known.epoch {
            return self.acquire();
        }
        // (So a disk that takes no writes is noticed now.)
        self.with(OpenFile::put_state)?;
        Ok(Self::lease(known.epoch))
    }

    /// The store, if it is the same file, and has all that this process has stored.
    fn with_all_known(&self, store: Self) -> Result<Self, StoreError> {
        let id = store.opened.as_ref().and_then(|opened| opened.id().ok());
        if id != self.id {
            let why = "another file is there, or a copy of the one that was open: it may lack what \
                       was acknowledged, so it is used only by a program that starts";
            return Err(io_error(&self.what, io::Error::other(why)));
        }
        let state = store.file.as_ref().map(|file| &file.state);
        match (&self.known, state) {
            (Some(known), Some(state)) if !known.is_in(state) => {
                let why = "this is another store, or an older copy of the one that was open: what \
                           was acknowledged is not in it";
                Err(io_error(&self.what, io::Error::other(why)))
            }
            // (A store that has had the file has begun an epoch.)
            (Some(known), Some(state)) if state.epoch == known.epoch && self.is_changed() => {
                let why = "the file was written meanwhile, and by no store: it may be an older \
                           copy, so it is used only by a program that starts";
                Err(io_error(&self.what, io::Error::other(why)))
            }
            _ => Ok(store),
        }
    }

    /// Whether somebody else has written to the file since the store has failed.
    fn is_changed(&self) -> bool {
        self.left.as_ref().is_some_and(|left| left.is_changed)
    }

    fn lease(epoch: u64) -> Vec<Lease> {
        vec![Lease {
            partition: 0,
            epoch,
        }]
    }
}

impl OpenFile {
    fn put_state(&mut self) -> Result<(), Error> {
        let transaction = self.database.begin_write()?;
        let mut tables = WriteTables::open(&transaction)?;
        tables.put_state(&self.state)?;
        drop(tables);
        transaction.commit()?;
        Ok(())
    }

    fn commit(&mut self, writes: Vec<Write>, gate: &mut dyn Gate) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = Vec::with_capacity(writes.len());
        if let Some(now) = self.now {
            self.sweeper.mark(now, self.next);
        }
        let room = self.room.as_ref();
        let bound = room.map(|room| room.rewrite_bound(&self.tries));
        let transaction = self.database.begin_write()?;
        let mut changes = RowChanges::begin(
            &transaction,
            bound.unwrap_or_default(),
            &mut self.index,
            &mut self.tombstones,
            &mut self.state,
            &mut self.names,
            &mut self.scratch,
        )?;
        for write in writes {
            outcomes.push(match write {
                Write::Rule(of, change) => {
                    let outcome = self.rules.change(&transaction, &of, change)?;
                    if outcome.is_made() {
                        changes.note_format(RULES_SINCE);
                    }
                    outcome
                }
                write => changes.make(write, gate)?,
            });
        }
        if changes.end(&mut self.floor)? {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(outcomes)
    }

    fn loading(&mut self) -> Loading<'_> {
        Loading {
            database: &self.database,
            index: &mut self.index,
            state: &self.state,
            names: &mut self.names,
        }
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, Error> {
        let transaction = self.database.begin_read()?;
        let (id, key) = match target {
            Target::Id(id) => (*id, None),
            Target::Key(key) => {
                let keys = transaction.open_table(KEYS)?;
                let Some(id) = ReadableTable::get(&keys, key.as_bytes())? else {
                    return Ok(None);
                };
                (DurableId::from_bits(id.value()), Some(key))
            }
        };
        let row = tables::read(&transaction, &self.index, &self.state, &mut self.names, id)?;
        // A key names a row that has it.
        if key.is_some() && row.as_ref().and_then(|row| row.key.as_ref()) != key {
            return Err(tables::damaged(
                "keys",
                id.number(),
                "its row has not this key",
            ));
        }
        Ok(row)
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, Error> {
        let dead = self.database.begin_read()?.open_table(DEAD)?;
        let begin = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.to_bits()));
        let mut entries = ReadableTable::range(&dead, (begin, Bound::Unbounded))?;
        let (mut letters, mut bytes) = (Vec::new(), 0);
        while !limit.is_reached(letters.len(), bytes)
            && let Some(entry) = entries.next()
        {
            let (id, value) = entry?;
            let letter = codec::decode_dead(id.value(), value.value(), &mut self.names);
            let number = DurableId::from_bits(id.value()).number();
            let letter = letter.map_err(|flaw| tables::damaged("dead", number, flaw))?;
            bytes += letter.row.bytes();
            letters.push(letter);
        }
        Ok(letters)
    }

    fn size(&self) -> Result<(u64, u64), Error> {
        let transaction = self.database.begin_read()?;
        let rows = self.index.len() as u64 + transaction.open_table(BY_DUE)?.len()?;
        Ok((rows, transaction.open_table(DEAD)?.len()?))
    }
}

#[doc(hidden)]
impl Store for Redb {
    fn acquire(&mut self) -> Result<Vec<Lease>, StoreError> {
        let epoch = self.with(|file| {
            file.state.begin_epoch();
            file.put_state()?;
            Ok(file.state.epoch)
        })?;
        let file = self.file.as_ref();
        self.known = file.map(|file| Known::of(&file.state, file.next));
        Ok(Self::lease(epoch))
    }

    /// (Where the system keeps what it has cached of a file, a file that is opened again may look
    /// sound and not be on the disk.)
    fn can_reopen(&self) -> bool {
        self.again.is_some() && (DROPS_PAGES || self.id.is_none())
    }

    fn reopen(&mut self) -> Result<Vec<Lease>, StoreError> {
        self.open_again()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        if let Some(known) = &mut self.known {
            known.release();
        }
        self.with(|file| {
            file.state.claimed_upto = None;
            file.put_state()
        })
    }

    fn new_id(&mut self, _key: Option<&str>, due: StoreTime) -> DurableId {
        let Some(file) = &mut self.file else {
            return DurableId::from_bits(0);
        };
        file.next += 1;
        DurableId::new(0, due, file.next - 1)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        gate: &mut dyn Gate,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.with(|file| file.commit(writes, gate))
    }

    fn load(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        if partition != 0 {
            return Ok(Vec::new());
        }
        self.with(|file| file.loading().load(after, until, limit))
    }

    fn list(
        &mut self,
        partition: Partition,
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        if partition != 0 {
            return Ok(Listed::default());
        }
        self.with(|file| file.loading().list(after, until, filter, limit))
    }

    fn hand_out(&mut self, upto: StoreTime) -> Result<(), StoreError> {
        self.with(|file| {
            if file.state.claimed_upto.is_none_or(|claimed| claimed < upto) {
                file.state.claimed_upto = Some(upto);
                file.put_state()?;
            }
            Ok(())
        })
    }

    fn clock(&mut self, node: SystemTime) -> Result<StoreTime, StoreError> {
        let now = StoreTime::reading(node);
        if let Some(file) = &mut self.file {
            file.now = Some(now);
        }
        Ok(now)
    }

    fn get(&mut self, target: &Target) -> Result<Option<Row>, StoreError> {
        self.with(|file| file.get(target))
    }

    fn dead(
        &mut self,
        after: Option<DurableId>,
        limit: SliceLimit,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.with(|file| file.dead(after, limit))
    }

    fn rules(&mut self) -> Result<Vec<Rule>, StoreError> {
        self.with(|file| {
            file.rules.has_news = false;
            Ok(file.rules.rules.all())
        })
    }

    fn has_news_of_rules(&mut self) -> bool {
        self.file.as_ref().is_some_and(|file| file.rules.has_news)
    }

    fn payload_max(&self) -> usize {
        PAYLOAD_MAX
    }

    fn snapshot(&mut self) -> Result<Option<Box<dyn Snapshot>>, StoreError> {
        let what = self.what.clone();
        let snapshot = self.with(|file| FileSnapshot::of(&what, &file.database))?;
        Ok(Some(Box::new(snapshot)))
    }

    fn done(&mut self) -> Option<&mut dyn DoneStore> {
        Some(self)
    }

    fn size(&mut self) -> Result<StoreSize, StoreError> {
        let (rows, dead) = self.with(|file| file.size())?;
        let opened = self.opened.as_ref();
        let disk_bytes = opened.and_then(|opened| opened.bytes().ok());
        Ok(StoreSize::new(rows, dead, disk_bytes))
    }

    fn upkeep(&mut self) -> Result<bool, StoreError> {
        self.with(|file| {
            if let Some(now) = file.now {
                file.sweeper.mark(now, file.next);
            }
            if let Some(room) = &file.room
                && !room.is_whole(&mut file.tries, file.now)?
            {
                return Ok(false);
            }
            file.sweeper.step(Sweep {
                database: &file.database,
                index: &mut file.index,
                tombstones: &mut file.tombstones,
                now: file.now,
                next: file.next,
            })
        })
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        close(self.file.take());
    }
}

/// Closes a file. On damage redb may panic here too.
fn close(file: Option<OpenFile>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(file)));
}

impl fmt::Debug for Redb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redb")
            .field("path", &self.what)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}
