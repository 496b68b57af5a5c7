//! New file: a file that gets what another one has. A backup is one, a file that was compacted, and
//! what was salvaged.
//!
//! It is written under its name with `.partial` behind it, a slice of a table after the other, each
//! of which is synced. `meta` comes last, so a file that was not finished is no store of timers.
//! When all is on the disk it gets its name. A file that is there is not touched, unless it comes
//! between the last check and the renaming.

#[cfg(unix)]
use super::disk::copy_acl;
use super::error::{io_error, one_line, store_error};
use super::file::FileId;
use super::open;
use super::rights::Rights;
use crate::store::contract::StoreError;
use crate::sync::sleep;
use crate::time::Clock;
use redb::backends::FileBackend;
use redb::{CursorError, Database, Error, Key, StorageBackend, TableDefinition, Value};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a slice. What is dirty of a file delays the syncs of others on its disk, and a commit
/// of a store is one.
const SLICE_BYTES: usize = 1 << 20;

/// redb's cache for the file, in bytes. It is written in order, so little is read again.
const CACHE_BYTES: usize = 8 << 20;

/// Whether there is a pause after each slice, as long as the slice took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speed {
    /// Nobody else needs the disk.
    Full,
    /// A store has to make its commits meanwhile.
    Half,
}

/// Takes an entry of a table.
pub(super) type Put<'a, K, V> = &'a mut dyn for<'e> FnMut(
    &<K as Value>::SelfType<'e>,
    &<V as Value>::SelfType<'e>,
) -> Result<(), StoreError>;

/// A file that is being written. Dropped before its end, nothing of it stays.
pub(super) struct NewFile {
    /// What stands for the file in errors.
    what: Arc<str>,
    path: PathBuf,
    partial: PathBuf,
    /// Which file is written. Another process may put another one there.
    id: FileId,
    speed: Speed,
    /// `None`: it is closed.
    database: Option<Database>,
    is_ended: bool,
}

impl NewFile {
    /// Begins a file that is to have this name, which no file has. `rights`: those of the file that
    /// it is made of, as far as this process gives any to new files.
    pub(super) fn begin(path: &Path, rights: Rights, speed: Speed) -> Result<Self, StoreError> {
        let what: Arc<str> = one_line(path).into();
        open::look(&what, path, false)?;
        if fs::symlink_metadata(path).is_ok() {
            return Err(StoreError::Io(
                format!("{what}: it is there already").into(),
            ));
        }
        Self::make(path, what, rights, speed)
    }

    /// So, if the name may be taken. It is replaced in the end: the new file gets the rights of the
    /// one that has the name then, and nobody else reads it before.
    pub(super) fn beside(path: &Path, what: Arc<str>, speed: Speed) -> Result<Self, StoreError> {
        Self::make(path, what, Rights::PRIVATE, speed)
    }

    fn make(path: &Path, what: Arc<str>, rights: Rights, speed: Speed) -> Result<Self, StoreError> {
        let io = |error| io_error(&what, error);
        let path = std::path::absolute(path).map_err(io)?;
        let partial = partial_of(&path);
        remove_left(&partial).map_err(io)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        rights.set(&mut options);
        let file = options.open(&partial).map_err(io)?;
        rights.keep_from_others(&file).map_err(io)?;
        let id = FileId::of(&file.metadata().map_err(io)?);
        let backend = FileBackend::new(file);
        let backend = backend.map_err(|error| store_error(&what, error.into()))?;
        Self::over(backend, id, path, what, speed)
    }

    /// So, over this file, which lies at `path` with `.partial` behind it.
    pub(super) fn over(
        backend: impl StorageBackend,
        id: FileId,
        path: PathBuf,
        what: Arc<str>,
        speed: Speed,
    ) -> Result<Self, StoreError> {
        let mut new = Self {
            what,
            id,
            partial: partial_of(&path),
            path,
            speed,
            database: None,
            is_ended: false,
        };
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(backend);
        new.database = Some(database.map_err(|error| new.error(error))?);
        // (redb has locked it by now. Another process may have removed it before, and have put its
        // own there. From now on none does.)
        let there = fs::metadata(&new.partial).map_err(|error| io_error(&new.what, error))?;
        match FileId::of(&there) == id {
            true => Ok(new),
            false => Err(io_error(&new.what, is_written())),
        }
    }

    fn error(&self, error: impl Into<Error>) -> StoreError {
        store_error(&self.what, error.into())
    }

    /// Writes a table, whose entries come in the order of their keys. `next` puts one entry, or
    /// none, and says whether there may be more.
    pub(super) fn table<K: Key + 'static, V: Value + 'static>(
        &mut self,
        table: TableDefinition<'_, K, V>,
        mut next: impl FnMut(Put<'_, K, V>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        loop {
            let clock = Clock::monotonic();
            let is_more = self.slice(table, &mut next)?;
            if !is_more {
                return Ok(());
            }
            if self.speed == Speed::Half {
                sleep(Duration::from_nanos(clock.now_ns()));
            }
        }
    }

    fn slice<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'_, K, V>,
        next: &mut impl FnMut(Put<'_, K, V>) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let Some(database) = &self.database else {
            return Ok(false);
        };
        let transaction = database.begin_write().map_err(|error| self.error(error))?;
        let mut is_more = true;
        let mut table = transaction
            .open_table(table)
            .map_err(|error| self.error(error))?;
        let end = table.upper_bound_mut(Bound::<K::SelfType<'_>>::Unbounded);
        let mut end = end.map_err(|error| self.error(error))?;
        let mut bytes = 0;
        while is_more && bytes < SLICE_BYTES {
            is_more = next(&mut |key, value| {
                bytes += K::as_bytes(key).as_ref().len() + V::as_bytes(value).as_ref().len();
                match end.insert_before(key, value) {
                    Ok(()) => Ok(()),
                    Err(CursorError::Storage(error)) => Err(self.error(error)),
                    Err(_) => Err(StoreError::Damaged(
                        format!("{}: a table is out of order", self.what).into(),
                    )),
                }
            })?;
        }
        end.close().map_err(|error| self.error(error))?;
        drop(table);
        transaction.commit().map_err(|error| self.error(error))?;
        Ok(is_more)
    }

    /// Ends the file, and gives it its name. Returns its length, in bytes.
    pub(super) fn end(mut self) -> Result<u64, StoreError> {
        if fs::symlink_metadata(&self.path).is_ok() {
            let why = format!("{}: it is there already", self.what);
            return Err(StoreError::Io(why.into()));
        }
        self.take_name()
    }

    /// So, and replaces the file that has the name, whose owner, mode and ACL it gets.
    pub(super) fn replace(mut self) -> Result<u64, StoreError> {
        let like = || be_like(&self.partial, &self.path);
        like().map_err(|error| io_error(&self.what, error))?;
        self.take_name()
    }

    fn take_name(&mut self) -> Result<u64, StoreError> {
        drop(self.database.take());
        let named = || {
            let file = open_to_lock(&self.partial)?;
            // (redb has let go of its lock. With this one nobody removes the file, or puts another
            // one there.)
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock))
                || FileId::of(&file.metadata()?) != self.id
            {
                return Err(is_written());
            }
            file.sync_all()?;
            fs::rename(&self.partial, &self.path)?;
            open::sync_name(&self.path)?;
            Ok(file.metadata()?.len())
        };
        let bytes = named().map_err(|error| io_error(&self.what, error))?;
        self.is_ended = true;
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_ended {
            drop(self.database.take());
            let _ = remove(&self.partial, Some(self.id));
        }
    }
}

#[cfg(unix)]
fn be_like(path: &Path, other: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let (file, other) = (File::open(path)?, File::open(other)?);
    let (own, wanted) = (file.metadata()?, other.metadata()?);
    if (own.uid(), own.gid()) != (wanted.uid(), wanted.gid()) {
        fchown(&file, Some(wanted.uid()), Some(wanted.gid()))?;
    }
    // (This comes before the mode, which would give the group the rights of the mask.)
    copy_acl(&other, &file)?;
    file.set_permissions(wanted.permissions())
}

#[cfg(not(unix))]
fn be_like(path: &Path, other: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::metadata(other)?.permissions())
}

/// What a file is written as, before it gets its name.
pub(super) fn partial_of(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}

/// Another process writes a file of the same name.
fn is_written() -> io::Error {
    io::Error::other("it is being written already")
}

/// Removes what a process has left that was killed. What another one is writing stays.
fn remove_left(partial: &Path) -> io::Result<()> {
    remove(partial, None)
}

/// Opens a file for writing if that is allowed: a network's file system may lock no other.
fn open_to_lock(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => File::open(path),
        other => other,
    }
}

/// Removes a file that nobody has locked. `id`: if it is this one. This process has made it then,
/// so it goes also where nothing can be locked.
fn remove(partial: &Path, id: Option<FileId>) -> io::Result<()> {
    let file = match open_to_lock(partial) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(is_written()),
        Err(TryLockError::Error(error)) if id.is_none() => Err(error),
        _ => {
            // (Another process may have removed it before it was locked here, and have put its own
            // there. While it is locked, nobody does.)
            let own = FileId::of(&file.metadata()?);
            let is_there = own == FileId::of(&fs::metadata(partial)?);
            match is_there && id.is_none_or(|id| id == own) {
                true => fs::remove_file(partial),
                false => Err(is_written()),
            }
        }
    }
}
