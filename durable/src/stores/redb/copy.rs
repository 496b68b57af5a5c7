//! Copy: what a file held at one instant, written to a new one.
//!
//! The instant is a read transaction of redb. Commits of the store go on beside it; the pages that
//! it sees are not used again until it ends. Rows of `recent` that have ended are left out, and so
//! are the tombstones, which then tell of nothing. All values are held against their checksums on
//! the way.

use super::codec::{self, Names};
use super::done::{self, DONE};
use super::due_key::DueKey;
use super::error::{self, io_error, store_error};
use super::new_file::{NewFile, Speed};
use super::open;
use super::overlay::Overlay;
use super::rights::Rights;
use super::rules::{self, RULES};
use super::tables::{
    BY_DUE, DEAD, KEYS, META, MOVED, RECENT, TOMBSTONES, damaged, recent_row, row_by_due,
};
use super::tombstones::EndedLog;
use crate::store::contract::{Snapshot, StoreError};
use crate::store::row::DurableId;
use crate::store::snapshot::BackupReport;
use crate::time::Clock;
use redb::{
    AccessGuard, Database, Error, Key, MultimapTableHandle, ReadTransaction, ReadableDatabase,
    TableDefinition, TableHandle, Value,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a file holds.
pub(super) struct FileSnapshot {
    /// What stands for the file in errors.
    what: Arc<str>,
    transaction: ReadTransaction,
    rights: Rights,
}

impl FileSnapshot {
    /// `rights`: those of the file.
    pub(super) fn of(
        what: &Arc<str>,
        database: &impl ReadableDatabase,
        rights: Rights,
    ) -> Result<Self, Error> {
        Ok(Self {
            what: what.clone(),
            transaction: database.begin_read()?,
            rights,
        })
    }

    fn error(&self, error: impl Into<Error>) -> StoreError {
        store_error(&self.what, error.into())
    }

    /// Writes all of it to a file, whose end is left to the caller.
    pub(super) fn fill(&self, new: &mut NewFile) -> Result<BackupReport, StoreError> {
        self.knows_all_tables()?;
        let mut report = BackupReport::default();
        let tombstones = self.transaction.open_table(TOMBSTONES);
        let tombstones = tombstones.map_err(|error| self.error(error))?;
        let (_, ended) = EndedLog::read(&tombstones).map_err(|error| self.error(error))?;
        self.copy(new, RECENT, |&number, value| {
            if ended.contains(number) {
                return Ok(false);
            }
            recent_row(number, value)?;
            report.rows += 1;
            Ok(true)
        })?;
        self.copy(new, BY_DUE, |key, value| {
            row_by_due(DueKey::from_bytes(**key), value)?;
            report.rows += 1;
            Ok(true)
        })?;
        let mut names = Names::default();
        self.copy(new, DEAD, |&id, value| {
            let number = DurableId::from_bits(id).number();
            codec::decode_dead(id, value, &mut names)
                .map_err(|flaw| damaged("dead", number, flaw))?;
            report.dead += 1;
            Ok(true)
        })?;
        let table = done::read(&self.transaction).map_err(|error| self.error(error))?;
        if table.is_some() {
            self.copy(new, DONE, |key, value| {
                // (Of a later program too, with all that it has.)
                done::is_sound(key, value)?;
                report.done += 1;
                Ok(true)
            })?;
        }
        self.copy(new, TOMBSTONES, |_, _| Ok(false))?;
        self.copy(new, MOVED, |_, _| Ok(true))?;
        self.copy(new, KEYS, |_, _| Ok(true))?;
        if self.has_rules()? {
            self.copy(new, RULES, |name, value| {
                rules::decode(name, value).map_err(rules::damaged_rule)?;
                Ok(true)
            })?;
        }
        self.copy(new, META, |_, _| Ok(true))?;
        Ok(report)
    }

    /// Whether the file has the table of rules.
    fn has_rules(&self) -> Result<bool, StoreError> {
        let tables = self.transaction.list_tables();
        let mut tables = tables.map_err(|error| self.error(error))?;
        Ok(tables.any(|table| table.name() == RULES.name()))
    }

    /// A table that a later program has added would not be copied. (Tables with several values for
    /// a key are in a list of their own.)
    fn knows_all_tables(&self) -> Result<(), StoreError> {
        let tables = self.transaction.list_tables();
        let tables = tables.map_err(|error| self.error(error))?;
        let unknown = tables
            .map(|table| table.name().to_string())
            .find(|table| !open::is_ours(table));
        let others = self.transaction.list_multimap_tables();
        let mut others = others.map_err(|error| self.error(error))?;
        let unknown = unknown.or_else(|| Some(others.next()?.name().to_string()));
        match unknown {
            None => Ok(()),
            Some(table) => Err(StoreError::Later(
                format!(
                    "{}: it has a table {}, which this program does not know, so it cannot be \
                     copied",
                    self.what,
                    table.replace(char::is_control, "\u{fffd}")
                )
                .into(),
            )),
        }
    }

    /// Copies the entries of a table that are to be kept.
    fn copy<K: Key + 'static, V: Value + 'static>(
        &self,
        new: &mut NewFile,
        table: TableDefinition<'_, K, V>,
        mut keep: impl for<'e> FnMut(&K::SelfType<'e>, &V::SelfType<'e>) -> Result<bool, Error>,
    ) -> Result<(), StoreError> {
        let source = self.transaction.open_table(table);
        let source = source.map_err(|error| self.error(error))?;
        let mut entries = source
            .range::<K::SelfType<'_>>(..)
            .map_err(|error| self.error(error))?;
        new.table(table, |put| {
            let Some(entry) = entries.next() else {
                return Ok(false);
            };
            let (key, value): (AccessGuard<'_, K>, AccessGuard<'_, V>) =
                entry.map_err(|error| self.error(error))?;
            let (key, value) = (key.value(), value.value());
            if keep(&key, &value).map_err(|error| self.error(error))? {
                put(&key, &value)?;
            }
            Ok(true)
        })
    }
}

/// Copies a file that is closed and sound to a new one. It stays as it is, also after a crash.
pub(super) fn whole(
    what: &Arc<str>,
    path: &Path,
    cache_bytes: usize,
    new: &Path,
) -> Result<BackupReport, StoreError> {
    let backend = open::storage(what, path, cache_bytes)?;
    let rights = Rights::at(path).map_err(|error| io_error(what, error))?;
    let copy = || {
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create_with_backend(Overlay::new(backend))
            .map_err(|error| store_error(what, error.into()))?;
        let snapshot = FileSnapshot::of(what, &database, rights);
        let snapshot = snapshot.map_err(|error| store_error(what, error))?;
        let mut new = NewFile::begin(new, rights, Speed::Full)?;
        let mut report = snapshot.fill(&mut new)?;
        report.bytes = new.end()?;
        Ok(report)
    };
    catch_unwind(AssertUnwindSafe(copy)).unwrap_or_else(|panic| Err(error::panicked(what, &*panic)))
}

impl Snapshot for FileSnapshot {
    fn copy(self: Box<Self>, path: &Path) -> Result<BackupReport, StoreError> {
        let clock = Clock::monotonic();
        let what = self.what.clone();
        let copy = || {
            let mut new = NewFile::begin(path, self.rights, Speed::Half)?;
            let mut report = self.fill(&mut new)?;
            // (The store may use the pages again.)
            drop(self);
            report.bytes = new.end()?;
            report.took = Duration::from_nanos(clock.now_ns());
            Ok(report)
        };
        catch_unwind(AssertUnwindSafe(copy))
            .unwrap_or_else(|panic| Err(error::panicked(&what, &*panic)))
    }
}
