//! Compact: makes a file that is closed as short as what it holds.
//!
//! Its rows are written to a new file beside it, which then takes its name. The old file is locked
//! until then, so no program writes to it meanwhile. A process that is killed leaves the old file
//! or the new one under the name, each of them whole. If the disk has no room for the new one, redb
//! moves the pages of the old one to its front.

use super::copy::FileSnapshot;
use super::error::{self, io_error, one_line, store_error};
use super::new_file::{NewFile, Speed};
use super::open_file::OpenFile;
use super::rights::Rights;
use super::{Redb, open, room};
use crate::store::contract::StoreError;
use redb::Error;
use std::error::Error as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

impl Redb {
    /// Makes a file that no program has open as short as what it holds. Returns its length before
    /// and afterwards, in bytes.
    ///
    /// A file uses its free pages again, but gives room back to the disk only if the pages at its
    /// end are free. So a file that has had very many timers stays long. Run this before the
    /// program is started again. It writes a new file beside the old one, under its name with
    /// `.partial` behind it, and renames it: a process that is killed leaves one of them whole. If
    /// the disk has no room for both, the pages of the old file are moved to its front, which frees
    /// less.
    ///
    /// Owner and mode of the file stay, and on Linux its POSIX ACL, too. (Other systems are not
    /// asked for an ACL: it is lost there, and the file's group may have the rights of the mask
    /// afterwards.) It takes about 4 s for a million timers.
    ///
    /// # Errors
    /// As [`open`](Self::open), for a file that must be there; a table that this version does not
    /// know ([`StoreError::Later`]); and those of the new file, which is then removed. The old file
    /// has its timers as before.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::Redb;
    ///
    /// # let folder = std::env::temp_dir().join(format!("wheelwork-short-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("timers.redb");
    /// drop(Redb::open(&path)?);
    /// let (before, after) = Redb::compact(&path)?;
    /// println!("{before} bytes before, {after} now");
    /// assert_eq!(std::fs::metadata(&path)?.len(), after);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact(path: impl AsRef<Path>) -> Result<(u64, u64), StoreError> {
        let path = path.as_ref();
        let what: Arc<str> = one_line(path).into();
        let io = |error| io_error(&what, error);
        open::look(&what, path, true)?;
        let before = fs::metadata(path).map_err(io)?.len();
        let mut store = Self::builder().must_exist(true).open(path)?;
        // (Where the path is a link, the file gets another one beside it.)
        let real = fs::canonicalize(path).map_err(io)?;
        let new = NewFile::beside(&real, what.clone(), Speed::Full);
        store.compact_to(new)?;
        drop(store);
        Ok((before, fs::metadata(path).map_err(io)?.len()))
    }

    /// So, by way of this file.
    pub(super) fn compact_to(
        &mut self,
        new: Result<NewFile, StoreError>,
    ) -> Result<(), StoreError> {
        let what = self.what.clone();
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let compact = || match new.and_then(|new| replace(&what, file, new)) {
            // (This needs little room.)
            Err(error) if is_full(&error) => {
                in_place(file).map_err(|error| store_error(&what, error))
            }
            replaced => replaced,
        };
        catch_unwind(AssertUnwindSafe(compact))
            .unwrap_or_else(|panic| Err(error::panicked(&what, &*panic)))
    }
}

fn replace(what: &Arc<str>, file: &OpenFile, mut new: NewFile) -> Result<(), StoreError> {
    // (The new file gets those of the old one.)
    let snapshot = FileSnapshot::of(what, &file.database, Rights::PRIVATE);
    let snapshot = snapshot.map_err(|error| store_error(what, error))?;
    snapshot.fill(&mut new)?;
    new.replace()?;
    Ok(())
}

fn in_place(file: &mut OpenFile) -> Result<(), Error> {
    while file.database.compact()? {}
    Ok(())
}

fn is_full(error: &StoreError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref());
    source.is_some_and(room::is_full)
}
