#![doc = include_str!("README.md")]

mod builder;
mod bytes;
mod calls;
mod check;
mod codec;
mod commit;
mod compact;
mod copy;
mod disk;
mod done;
mod done_codec;
mod done_store;
mod doubtful;
mod due_key;
mod error;
mod file;
mod load;
mod lost;
mod new_file;
#[cfg(test)]
mod new_file_tests;
mod number_map;
mod number_set;
mod open;
mod open_file;
mod overlay;
mod pages;
mod recent;
mod reopen;
mod rights;
mod room;
#[cfg(any(test, loom, feature = "__internals"))]
pub(crate) mod round_trip;
mod row_changes;
mod rules;
mod salvage;
mod settle;
mod state;
mod steps;
mod sweep;
mod tables;
#[cfg(test)]
mod tests;
mod tombstones;
mod xxh3;

pub use builder::RedbBuilder;
pub use check::CheckReport;
pub use salvage::SalvageReport;

use crate::store::contract::{Lease, Store, StoreError};
use error::{io_error, store_error};
use file::{FileId, OpenPath};
use open_file::OpenFile;
use redb::{Error, ReadableDatabase, ReadableTableMetadata};
use reopen::{Known, LeftFile};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tables::RECENT;

/// redb's cache, in bytes.
const CACHE_BYTES: usize = 32 << 20;

/// A store in one file, for one process at a time.
///
/// Everything is on disk when a call has returned (`fdatasync`). After the first call that fails
/// all later calls give its error, until the file is opened again. Timers that run do that by
/// themselves ([`heals`](crate::DurableBuilder::heals)). What an open reads comes from the disk: on
/// Linux the system forgets first what it has cached of the file, since that may have failed to
/// reach the disk.
///
/// If the file is removed or renamed, or another one takes its place, the store fails within two
/// seconds ([`StoreError::Io`]), on unixes. A store without timers notices it at the next call. It
/// comes back when the same file is there again.
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

impl Redb {
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
