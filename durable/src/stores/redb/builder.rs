//! Builder: opens a store in a file, or in other storage.

use super::codec::Names;
use super::error::{self, io_error, one_line, store_error};
use super::file::{OpenPath, StoreFile};
use super::open_file::OpenFile;
use super::overlay::Overlay;
use super::room::{Room, Tries};
use super::row_changes::Scratch;
use super::sweep::{SweepLimits, Sweeper};
use super::{CACHE_BYTES, OpenAgain, Redb, open};
use crate::store::contract::StoreError;
use redb::{Database, StorageBackend};
use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

impl Redb {
    /// Opens the store in this file, or makes it, if there is none or it is empty
    /// ([`must_exist`](RedbBuilder::must_exist) forbids that). Its directory must be there. The
    /// process may be killed while it makes the file: the next open makes it.
    ///
    /// It reads the whole file, unless [told](RedbBuilder::check_at_open) otherwise.
    ///
    /// # Errors
    /// Another process has it open, or this one has; it is something else; a later version has
    /// written it in a format that this one does not read, or something in it that this one does
    /// not know ([`StoreError::Later`]); it is damaged; or the system refuses.
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
}

impl RedbBuilder {
    /// Memory for pages of the file, in bytes. 32 MiB unless set. The reserve on the disk, for when
    /// that is full, follows it: half of this and 8 MiB, at most twice the file's length.
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
                waits_for_room: HashSet::new(),
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
