//! Open: a file that is a store, or is to become one.

use super::due_key::DueKey;
use super::error::{damage, io_error, one_line, store_error};
use super::file::{OpenPath, StoreFile};
use super::recent::RecentIndex;
use super::rules::FileRules;
use super::state::StoreState;
use super::steps::{self, FLOOR_MIN, FORMAT, Numbers};
use super::tables::{META, RECENT, STATE, STEP_BY, TOMBSTONES, WriteTables, damaged, recent_row};
use super::tombstones::EndedLog;
use crate::random::random;
use crate::store::contract::StoreError;
use crate::store::rule::Rules;
use redb::{Database, Error, ReadTransaction, ReadableDatabase, ReadableTable, TableHandle};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// The tables that each file has.
const OURS: [&str; 7] = [
    "recent",
    "tombstones",
    "by_due",
    "moved",
    "keys",
    "dead",
    "meta",
];

/// Tables that a file has once something was written to them.
const MADE_BY_USE: [&str; 2] = ["rules", "done"];

/// Whether this program knows a table.
pub(super) fn is_ours(table: &str) -> bool {
    OURS.contains(&table) || MADE_BY_USE.contains(&table)
}

/// What a file holds that is open.
pub(super) struct Opened {
    /// What stands for the file in errors: if a later program has had it, with that one's name.
    pub(super) what: Arc<str>,
    /// The lowest format that a program has to know to work with it.
    pub(super) floor: u64,
    pub(super) state: StoreState,
    pub(super) index: RecentIndex,
    pub(super) tombstones: EndedLog,
    pub(super) rules: FileRules,
}

/// Why nothing can be opened here, in one line, before redb is asked.
pub(super) fn look(what: &str, path: &Path, must_exist: bool) -> Result<(), StoreError> {
    let io = |why: String| StoreError::Io(format!("{what}: {why}").into());
    if path.as_os_str().is_empty() {
        return Err(io("this names no file".into()));
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(io("this is a directory".into())),
        Ok(metadata) if must_exist && metadata.len() == 0 => Err(io(
            "the file is empty, and no new store is to be made".into(),
        )),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = folder(path);
            match fs::metadata(folder) {
                Ok(metadata) if metadata.is_dir() && must_exist => Err(io(
                    "the file does not exist, and no new store is to be made".into(),
                )),
                Ok(metadata) if metadata.is_dir() => Ok(()),
                Ok(_) => Err(io(format!("{} is no directory", one_line(folder)))),
                Err(error) if error.kind() == ErrorKind::NotFound => Err(io(format!(
                    "the directory {} does not exist",
                    one_line(folder)
                ))),
                Err(error) => Err(io_error(what, error)),
            }
        }
        Err(error) => Err(io_error(what, error)),
    }
}

/// The storage of a file that is there. redb locks it when it opens it.
pub(super) fn storage(
    what: &str,
    path: &Path,
    cache_bytes: usize,
) -> Result<StoreFile, StoreError> {
    look(what, path, true)?;
    let opened = OpenPath::open(path, true).map_err(|error| io_error(what, error))?;
    let backend = opened.backend(cache_bytes, false);
    backend.map_err(|error| store_error(what, error.into()))
}

/// Has a file's name survive a crash, whichever process has made the file: it may have ended before
/// it did this. (Where the path is a link, the name is that of the file which the link names.)
pub(super) fn sync_name(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match File::open(folder(&path)).and_then(|folder| folder.sync_all()) {
        // The directory may not be read, or its file system has nothing to sync of it.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Reads the state, and which rows are in `recent`. Makes the tables of a file that has none, and
/// the steps that an older one lacks. Nothing of the file is changed before `let_through` is
/// called: then it is known that this program can work with it.
pub(super) fn read(
    what: &str,
    database: &Database,
    let_through: impl FnOnce() -> io::Result<()>,
) -> Result<Opened, StoreError> {
    let io = |error: Error| store_error(what, error);
    let let_through = || let_through().map_err(|error| io_error(what, error));
    let transaction = database.begin_read().map_err(|error| io(error.into()))?;
    let Some((what, numbers)) = ours(what, &transaction)? else {
        drop(transaction);
        let_through()?;
        return make(what, database).map_err(io);
    };
    let what = &*what;
    let io = |error: Error| store_error(what, error);
    // What was damaged while the file was closed shows here, before anything is written. No step
    // changes a row.
    let opened = rows(what, &transaction, numbers.floor).map_err(io)?;
    drop(transaction);
    let_through()?;
    steps::take(database, numbers.step).map_err(io)?;
    Ok(opened)
}

/// What stands for a file in errors, and its numbers, if this program can work with it. `None`: it
/// has no tables at all.
pub(super) fn ours(
    what: &str,
    transaction: &ReadTransaction,
) -> Result<Option<(Arc<str>, Numbers)>, StoreError> {
    let io = |error: Error| store_error(what, error);
    let tables: Vec<_> = transaction
        .list_tables()
        .map_err(|error| io(error.into()))?
        .map(|table| table.name().to_string())
        .collect();
    let multimaps = transaction
        .list_multimap_tables()
        .map_err(|error| io(error.into()))?
        .count();
    if tables.is_empty() && multimaps == 0 {
        return Ok(None);
    }
    let Some(numbers) = Numbers::read(transaction).map_err(io)? else {
        return Err(StoreError::Foreign(what.into()));
    };
    if !(FLOOR_MIN..=FORMAT).contains(&numbers.floor) {
        let what = match steps::program(transaction, steps::FLOOR_BY).map_err(io)? {
            Some(program) => format!("{what}, written by {program}"),
            None => what.into(),
        };
        return Err(StoreError::Version(what.into(), numbers.floor));
    }
    // Whatever is wrong then may be of that program's making.
    let later = (numbers.step > FORMAT)
        .then(|| steps::program(transaction, STEP_BY))
        .transpose()
        .map_err(io)?;
    let what = match later {
        None => what.to_string(),
        Some(None) => format!(
            "{what} (taken to format {} by a later version)",
            numbers.step
        ),
        Some(Some(by)) => format!("{what} (taken to format {} by {by})", numbers.step),
    };
    if let Some(missing) = OURS
        .iter()
        .find(|name| !tables.iter().any(|table| table == *name))
    {
        return Err(damage(&what, &format!("there is no table {missing}")));
    }
    Ok(Some((what.into(), numbers)))
}

/// The first number that is given after `last`. It is some way off, by chance: it is unlikely that
/// files have numbers in common, or that a file gives what a copy of it has given since (after `N`
/// numbers of the one and `K` of the other the chance is about `N + K` in 2^32).
pub(super) fn first_number(last: u64) -> u64 {
    let random = random();
    // Number 0 is left out: the position of its row could be that before all rows.
    match last {
        0 => 1 + (random >> 2),
        last => last + (random >> 32),
    }
}

fn make(what: &str, database: &Database) -> Result<Opened, Error> {
    let state = StoreState {
        next_number: first_number(0),
        ..StoreState::default()
    };
    let transaction = database.begin_write()?;
    let mut tables = WriteTables::open(&transaction)?;
    tables.put_state(&state)?;
    drop(tables);
    steps::make_all(&transaction)?;
    transaction.commit()?;
    Ok(Opened {
        what: what.into(),
        floor: FLOOR_MIN,
        state,
        index: RecentIndex::default(),
        tombstones: EndedLog::default(),
        rules: FileRules::new(Rules::default()),
    })
}

fn rows(what: &str, transaction: &ReadTransaction, floor: u64) -> Result<Opened, Error> {
    let meta = transaction.open_table(META)?;
    let state = ReadableTable::get(&meta, STATE)?
        .ok_or_else(|| Error::Corrupted("meta has no state".into()))?;
    let state = StoreState::decode(state.value()).map_err(|flaw| damaged("meta", 0, flaw))?;
    let (tombstones, ended) = EndedLog::read(&transaction.open_table(TOMBSTONES)?)?;
    let mut index = RecentIndex::default();
    for entry in transaction.open_table(RECENT)?.iter()? {
        let (number, value) = entry?;
        let number = number.value();
        if number >= state.next_number {
            return Err(damaged("recent", number, "the number was never given"));
        }
        if ended.contains(number) {
            continue;
        }
        let row = recent_row(number, value.value())?;
        let key = DueKey::new(row.due, row.first_due, number);
        index.put(key, row.key.is_some());
    }
    Ok(Opened {
        what: what.into(),
        floor,
        state,
        index,
        tombstones,
        rules: FileRules::read(transaction)?,
    })
}
