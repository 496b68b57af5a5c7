//! File: the store's file, as redb reads and writes it, and as the store watches it.
//!
//! redb's own backend does the reading, writing and locking. Four things are added. Before redb
//! reads anything, the system forgets what it has cached of the file. A file that a process was
//! about to make, and did not finish, is empty to redb. A write that finds the disk full is made
//! again with the reserve of room (`room.rs`). And once a second the path is looked at: another
//! file there, or none, ends the store.

use super::disk::{drop_pages, hold_room, let_room_go};
use super::error::one_line;
use super::rights::Rights;
use super::room::Room;
use crate::store::row::StoreTime;
use crate::sync::{AtomicBool, Ordering};
use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How often the path is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The bytes that each of redb's files begins with. They are the last that it writes when it makes
/// a file, after a sync; until then they are zeros.
const MAGIC_BYTES: usize = 9;

/// redb's header. A file that is not finished has nothing but zeros behind it.
const HEADER_BYTES: usize = 320;

/// Where redb's header has the size of its pages, and what that is, in bytes.
const PAGE_SIZE_AT: Range<usize> = 12..16;
const PAGE_SIZE: u32 = 4_096;

/// No file that is not finished is longer, in bytes.
const UNFINISHED_MAX: u64 = 1 << 20;

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

    /// What redb reads and writes, and the reserve of room for it.
    pub(super) fn backend(
        &self,
        cache_bytes: usize,
        may_make: bool,
    ) -> Result<StoreFile, DatabaseError> {
        let file = self.file.try_clone()?;
        let hold = Box::new(move |bytes| match bytes {
            0 => let_room_go(&file),
            _ => hold_room(&file, bytes),
        });
        Ok(StoreFile {
            inner: FileBackend::new(self.file.try_clone()?)?,
            file: Some(self.file.try_clone()?),
            is_from_disk: AtomicBool::new(false),
            may_make: AtomicBool::new(may_make),
            room: Some(Arc::new(Room::new(hold, cache_bytes))),
        })
    }

    /// Which file this is.
    pub(super) fn id(&self) -> io::Result<FileId> {
        Ok(FileId::of(&self.file.metadata()?))
    }

    /// What others may do with the file.
    pub(super) fn rights(&self) -> Rights {
        Rights::of(&self.file).unwrap_or(Rights::PRIVATE)
    }

    /// How the file is now.
    pub(super) fn stamp(&self) -> io::Result<FileStamp> {
        Ok(FileStamp::of(&self.file.metadata()?))
    }

    /// The path, from the root.
    pub(super) fn path(&self) -> &Path {
        &self.path
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

/// Which file it is: a copy is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    inode: (u64, u64),
    made: Option<SystemTime>,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            inode: inode(metadata),
            // (The number of a file that is gone may be given again.)
            made: metadata.created().ok(),
        }
    }
}

/// What shows that a file was written: each write changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    pub(super) id: FileId,
    modified: Option<SystemTime>,
    bytes: u64,
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            id: FileId::of(metadata),
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
        }
    }

    /// That of the file that lies at a path.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&fs::metadata(path)?))
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    inode(one) == inode(other)
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// std does not say which file it is.
#[cfg(not(unix))]
fn inode(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// redb's backend, whose first read comes from the disk, and which has a reserve of room.
#[derive(Debug)]
pub(super) struct StoreFile<B = FileBackend> {
    inner: B,
    /// The same file, if it is one.
    file: Option<File>,
    /// The system was told to forget its pages.
    is_from_disk: AtomicBool,
    /// A store may be made here, and nobody has asked for the length yet.
    may_make: AtomicBool,
    room: Option<Arc<Room>>,
}

impl<B: StorageBackend> StoreFile<B> {
    /// Other storage than a file.
    pub(super) fn other(inner: B, room: Option<Room>, may_make: bool) -> Self {
        Self {
            inner,
            file: None,
            is_from_disk: AtomicBool::new(true),
            may_make: AtomicBool::new(may_make),
            room: room.map(Arc::new),
        }
    }

    pub(super) fn room(&self) -> Option<Arc<Room>> {
        self.room.clone()
    }

    /// A write, which may use the reserve.
    fn written(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match &self.room {
            Some(room) => room.write(write),
            None => write(),
        }
    }

    /// FirstRead. redb has locked the file by now, so no other process writes to it.
    fn read_from_disk(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        // Ordering: Relaxed. The file is opened by one thread, and is given to others later.
        if let Some(file) = &self.file
            && !self.is_from_disk.load(Ordering::Relaxed)
        {
            drop_pages(file);
            // Ordering: Relaxed. As above.
            self.is_from_disk.store(true, Ordering::Relaxed);
        }
        self.inner.read(offset, out)
    }

    /// Whether a process has begun to make this file, and was ended before it was done. Such a file
    /// has nothing but zeros, beside a header without its first bytes.
    fn is_unfinished(&self, len: u64) -> io::Result<bool> {
        if len == 0 || len > UNFINISHED_MAX {
            return Ok(false);
        }
        let len = usize::try_from(len).unwrap_or(0);
        let mut header = vec![0; len.min(HEADER_BYTES)];
        self.read_from_disk(0, &mut header)?;
        let is_zeros = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let (magic, fields) = header.split_at(len.min(MAGIC_BYTES));
        let is_redbs = header.get(PAGE_SIZE_AT) == Some(&PAGE_SIZE.to_le_bytes());
        if !(is_zeros(magic) && (is_zeros(fields) || is_redbs)) {
            return Ok(false);
        }
        let mut rest = vec![0; len - header.len()];
        self.inner.read(HEADER_BYTES as u64, &mut rest)?;
        Ok(is_zeros(&rest))
    }

    fn knows_len(&self, len: u64) -> io::Result<()> {
        self.room.as_ref().map_or(Ok(()), |room| room.set_len(len))
    }
}

impl<B: StorageBackend> StorageBackend for StoreFile<B> {
    fn len(&self) -> io::Result<u64> {
        let mut len = self.inner.len()?;
        // redb has locked the file by now: no other process makes it.
        // Ordering: Relaxed. The file is opened by one thread, and is given to others later.
        if self.may_make.swap(false, Ordering::Relaxed) && self.is_unfinished(len)? {
            self.inner.set_len(0)?;
            len = 0;
        }
        self.knows_len(len)?;
        Ok(len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_from_disk(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.written(|| self.inner.set_len(len))?;
        self.knows_len(len)
    }

    /// A sync that has failed is never tried again: the system may have forgotten what it could not
    /// write.
    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.written(|| self.inner.write(offset, data))
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
