//! File: the store's file, as redb reads and writes it, and as the store watches it.
//!
//! redb's own backend does the reading, writing and locking. Two things are added. Before redb
//! reads anything, the system forgets what it has cached of the file. And once a second the path
//! is looked at: another file there, or none, ends the store.

use super::error::one_line;
use crate::disk::drop_pages;
use crate::durable::StoreTime;
use crate::sync::{AtomicBool, Ordering};
use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the path is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A file that is open, and the path by which it was opened.
pub(super) struct OpenPath {
    /// From the root: the program may change its directory.
    path: PathBuf,
    file: File,
    /// When the path was last looked at, by the store's clock.
    looked: Option<StoreTime>,
}

impl OpenPath {
    /// Opens the file, or makes it.
    pub(super) fn open(path: &Path, must_exist: bool) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(!must_exist)
            .truncate(false)
            .open(path)?;
        Ok(Self {
            path: std::path::absolute(path)?,
            file,
            looked: None,
        })
    }

    /// What redb reads and writes.
    pub(super) fn backend(&self) -> Result<CheckedFile, DatabaseError> {
        Ok(CheckedFile {
            inner: FileBackend::new(self.file.try_clone()?)?,
            file: self.file.try_clone()?,
            is_from_disk: AtomicBool::new(false),
        })
    }

    /// The length of the file, in bytes.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Looks at the path, if a second has passed. An error says that the file is there no more:
    /// what is written to it goes nowhere.
    pub(super) fn look(&mut self, now: Option<StoreTime>) -> io::Result<()> {
        if let (Some(now), Some(looked)) = (now, self.looked) {
            // (The clock may have been set back.)
            if now.since(looked).max(looked.since(now)) < LOOK_EVERY {
                return Ok(());
            }
        }
        self.looked = now;
        let gone = |why: &str| {
            let path = one_line(&self.path);
            Err(io::Error::other(format!("{why} ({path})")))
        };
        match fs::metadata(&self.path) {
            Ok(there) if is_same(&there, &self.file.metadata()?) => Ok(()),
            Ok(_) => gone("another file has taken the place of the one that is open"),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                gone("the file was removed or renamed while it was open")
            }
            // Nothing is known: the directory may not be read any more, for instance.
            Err(_) => Ok(()),
        }
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// std does not say which file it is.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// redb's backend, whose first read comes from the disk.
#[derive(Debug)]
pub(super) struct CheckedFile {
    inner: FileBackend,
    /// The same file.
    file: File,
    /// The system was told to forget its pages.
    is_from_disk: AtomicBool,
}

impl StorageBackend for CheckedFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        // FirstRead. redb has locked the file by now, so no other process writes to it.
        // Ordering: Relaxed. The file is opened by one thread, and is given to others later.
        if !self.is_from_disk.load(Ordering::Relaxed) {
            drop_pages(&self.file);
            // Ordering: Relaxed. As above.
            self.is_from_disk.store(true, Ordering::Relaxed);
        }
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}
