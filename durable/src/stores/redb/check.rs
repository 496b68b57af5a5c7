//! Check: reads all of a file that no program has open, and says what is wrong with it.
//!
//! Nothing of the file is changed: redb works on an overlay whose writes are forgotten. First redb
//! compares the checksums of all pages. Then each value is decoded, and the tables are compared
//! with each other: the ground rules of the README. What cannot be read in one table does not keep
//! the others from being read.

use super::codec::{self, Names, RowView};
use super::done;
use super::due_key::DueKey;
use super::error::{self, io_error, one_line, store_error};
use super::file::OpenPath;
use super::number_set::NumberSet;
use super::open;
use super::overlay::Overlay;
use super::rules::{FileRules, RULES_SINCE};
use super::state::{self, StoreState};
use super::steps::{self, Numbers};
use super::tables::{
    BY_DUE, DEAD, IDENTITY, KEYS, META, MOVED, RECENT, STATE, STEP_BY, TOMBSTONES, damaged,
    recent_row, row_by_due,
};
use super::tombstones::EndedLog;
use super::{CACHE_BYTES, Redb};
use crate::store::contract::StoreError;
use crate::store::id_map::IdSet;
use crate::store::row::DurableId;
use redb::{
    Database, Error, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Flaws that are told one by one. Then there is one that says how many more there are.
const FLAWS_MAX: usize = 1_000;

/// The first format whose files have an identity.
const IDENTITY_SINCE: u64 = 4;

/// What [`Redb::check`] has found.
///
/// # Example
/// See [`Redb::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The format that the file has reached. 0: that could not be read.
    pub format: u64,
    /// The program that has taken it there, if that is known.
    pub program: Option<String>,
    /// Timers that are to fire.
    pub rows: u64,
    /// Dead letters.
    pub dead: u64,
    /// Records of runs that are done.
    pub done: u64,
    /// The length of the file, in bytes.
    pub bytes: u64,
    /// What is wrong, a line each. Without any the file is sound. At most 1,000 are told one by
    /// one; a last line says how many more there are. What a later version has written, and this
    /// one cannot read, is among them, and its line says so.
    pub flaws: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    ///
    /// # Example
    /// See [`Redb::check`].
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.flaws.is_empty()
    }
}

impl Redb {
    /// Reads all of a file that no program has open, and says what is wrong with it. Nothing of the
    /// file is changed, and a file that a crash has left is not repaired.
    ///
    /// It compares the checksums of all pages and of all values, and the tables with each other: a
    /// row is in one of them, its key names it, and so on. An error in one table does not keep it
    /// from reading the others. A damaged page or value is also refused by [`open`](Self::open), or
    /// reported by the call that reads it. Tables that do not agree may be noticed here alone.
    ///
    /// It takes about 2 s for a million timers, and memory for the numbers of the newest 250,000 or
    /// so. redb panics on some damage. Such a panic is caught, and is a flaw in the report, but
    /// the process's panic hook prints it.
    ///
    /// # Errors
    /// The file is not there, is open ([`StoreError::InUse`]), is no store of timers, is of a
    /// later format, or the system refuses to read it. It has to be opened for writing, because
    /// only then can it be locked. Damage is no error: the report has it.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::{Durable, Redb};
    /// # use std::time::Duration;
    ///
    /// # let folder = std::env::temp_dir().join(format!("wheelwork-check-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let path = folder.join("timers.redb");
    /// let timers = Durable::builder(Redb::open(&path)?).start()?;
    /// timers.schedule("mail", Duration::from_secs(60), b"hello")?;
    /// drop(timers);
    ///
    /// let report = Redb::check(&path)?;
    /// assert!(report.is_sound(), "{:?}", report.flaws);
    /// assert_eq!(report.rows, 1);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(path: impl AsRef<Path>) -> Result<CheckReport, StoreError> {
        let path = path.as_ref();
        let what: Arc<str> = one_line(path).into();
        open::look(&what, path, true)?;
        let mut report = CheckReport::default();
        let mut flaws = Flaws::default();
        let checked = match look_at(&what, path, true, &mut report, &mut flaws) {
            // A page is damaged. What the others hold is looked at all the same.
            Err(StoreError::Damaged(why)) => {
                flaws.add(why.to_string());
                look_at(&what, path, false, &mut report, &mut flaws)
            }
            checked => checked,
        };
        match checked {
            Ok(()) => {}
            Err(StoreError::Damaged(why)) => {
                if flaws.is_new(&why) {
                    flaws.add(why.to_string());
                }
                let rest = "what else is in the file could not be read, and is not counted";
                flaws.add(format!("{what}: {rest}"));
            }
            // (A part that is damaged may look like another store's.)
            Err(_) if !flaws.lines.is_empty() => {}
            Err(error) => return Err(error),
        }
        report.flaws = flaws.lines();
        Ok(report)
    }
}

/// What is wrong.
#[derive(Default)]
struct Flaws {
    lines: Vec<String>,
    more: usize,
}

impl Flaws {
    fn add(&mut self, line: String) {
        if self.lines.len() < FLAWS_MAX {
            self.lines.push(line.replace('\n', " "));
        } else {
            self.more += 1;
        }
    }

    fn is_new(&self, line: &str) -> bool {
        !self.lines.iter().any(|other| other == line)
    }

    fn lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more", self.more));
        }
        self.lines
    }
}

/// Opens the file, and reads all of it. `has_checksums`: redb compares those of all pages first.
fn look_at(
    what: &Arc<str>,
    path: &Path,
    has_checksums: bool,
    report: &mut CheckReport,
    flaws: &mut Flaws,
) -> Result<(), StoreError> {
    let io = |error| io_error(what, error);
    let opened = OpenPath::open(path, true).map_err(io)?;
    report.bytes = opened.bytes().map_err(io)?;
    let look = || {
        let backend = opened.backend(CACHE_BYTES, false);
        let backend = backend.map_err(|error| store_error(what, error.into()))?;
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(has_checksums)
            .create_with_backend(Overlay::new(backend))
            .map_err(|error| store_error(what, error.into()))?;
        let transaction = database
            .begin_read()
            .map_err(|error| store_error(what, error.into()))?;
        let Some((what, numbers)) = open::ours(what, &transaction)? else {
            return Err(StoreError::Foreign((&**what).into()));
        };
        let io = |error: Error| store_error(&what, error);
        report.format = numbers.step;
        report.program = steps::program(&transaction, STEP_BY).map_err(io)?;
        let walk = Walk {
            numbers,
            state: state(&transaction).map_err(io)?,
            transaction,
            ended: NumberSet::default(),
            recent: IdSet::default(),
            keyed: 0,
            report,
            flaws,
        };
        walk.all();
        Ok(())
    };
    catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|panic| Err(error::panicked(what, &*panic)))
}

fn state(transaction: &ReadTransaction) -> Result<StoreState, Error> {
    let meta = transaction.open_table(META)?;
    let state = ReadableTable::get(&meta, STATE)?
        .ok_or_else(|| Error::Corrupted("meta has no state".into()))?;
    StoreState::decode(state.value()).map_err(|flaw| damaged("meta", 0, flaw))
}

/// Goes over all tables.
struct Walk<'a> {
    transaction: ReadTransaction,
    numbers: Numbers,
    state: StoreState,
    /// Numbers of rows of `recent` that have ended.
    ended: NumberSet,
    /// Numbers of the others.
    recent: IdSet<u64>,
    /// Rows with a key.
    keyed: u64,
    report: &'a mut CheckReport,
    flaws: &'a mut Flaws,
}

type Keys = ReadOnlyTable<&'static [u8], u128>;

impl Walk<'_> {
    fn all(mut self) {
        self.part("meta", Self::meta);
        // Without the tombstones it is not known which rows are there.
        let knows_ended = self.part("tombstones", Self::tombstones);
        if knows_ended && self.part("recent", Self::recent) {
            let has_all = self.part("by_due", Self::by_due);
            if has_all {
                self.part("keys", Self::keys);
            }
        }
        self.part("dead", Self::dead);
        self.part("rules", Self::rules);
        self.part("done", Self::done);
    }

    /// Reads a table. Whether it could be read to its end.
    fn part(&mut self, table: &str, read: impl FnOnce(&mut Self) -> Result<(), Error>) -> bool {
        let why = match catch_unwind(AssertUnwindSafe(|| read(self))) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => line_of(&error),
            Err(panic) => format!("{table}: {}", error::panic_line(&*panic)),
        };
        if self.flaws.is_new(&why) {
            self.flaws.add(why);
        }
        false
    }

    /// A value is wrong. The others are read all the same.
    fn flaw(&mut self, table: &str, number: u64, flaw: &'static str) {
        self.flaws.add(line_of(&damaged(table, number, flaw)));
    }

    fn meta(&mut self) -> Result<(), Error> {
        let meta = self.transaction.open_table(META)?;
        let identity = ReadableTable::get(&meta, IDENTITY)?;
        let is_named = identity.is_some_and(|value| {
            state::decode_part(value.value()).is_ok_and(|identity| identity.len() == 16)
        });
        if self.numbers.step >= IDENTITY_SINCE && !is_named {
            self.flaw("meta", 0, "the store has no identity");
        }
        Ok(())
    }

    fn tombstones(&mut self) -> Result<(), Error> {
        self.ended = EndedLog::read(&self.transaction.open_table(TOMBSTONES)?)?.1;
        Ok(())
    }

    fn recent(&mut self) -> Result<(), Error> {
        let keys = self.transaction.open_table(KEYS)?;
        for entry in self.transaction.open_table(RECENT)?.iter()? {
            let (number, value) = entry?;
            let number = number.value();
            if self.ended.contains(number) {
                continue;
            }
            self.recent.insert(number);
            self.report.rows += 1;
            match recent_row(number, value.value()) {
                Ok(row) => self.row("recent", number, &row, &keys)?,
                Err(error) => self.flaws.add(line_of(&error)),
            }
        }
        Ok(())
    }

    fn by_due(&mut self) -> Result<(), Error> {
        let keys = self.transaction.open_table(KEYS)?;
        let by_due = self.transaction.open_table(BY_DUE)?;
        let moved = self.transaction.open_table(MOVED)?;
        let mut named = 0;
        for entry in by_due.iter()? {
            let (key, value) = entry?;
            let key = DueKey::from_bytes(*key.value());
            let number = key.number();
            self.report.rows += 1;
            if self.recent.contains(&number) {
                self.flaw("by_due", number, "it is in recent as well");
            }
            let name = ReadableTable::get(&moved, number)?.map(|name| *name.value());
            match (key.is_moved(), name) {
                (true, Some(name)) if name == *key.bytes() => {
                    named += 1;
                    let unmoved = DueKey::of(key.id(), key.first_due());
                    if ReadableTable::get(&by_due, unmoved.bytes())?.is_some() {
                        self.flaw("by_due", number, "it is there twice");
                    }
                }
                (true, _) => self.flaw("moved", number, "it does not name the row"),
                (false, _) => {}
            }
            match row_by_due(key, value.value()) {
                Ok(row) => self.row("by_due", number, &row, &keys)?,
                Err(error) => self.flaws.add(line_of(&error)),
            }
        }
        let more = moved.len()?.saturating_sub(named);
        if more > 0 {
            self.flaws
                .add(format!("moved: {more} of its entries name no row"));
        }
        Ok(())
    }

    /// What both tables have in common.
    fn row(
        &mut self,
        table: &str,
        number: u64,
        row: &RowView<'_>,
        keys: &Keys,
    ) -> Result<(), Error> {
        if number >= self.state.next_number {
            self.flaw(table, number, "the number was never given");
        }
        if row.format() > self.numbers.floor {
            self.flaw(table, number, "the file's floor does not allow it");
        }
        let Some(key) = row.key else {
            return Ok(());
        };
        let id = DurableId::new(0, row.first_due, number).to_bits();
        match ReadableTable::get(keys, key.as_bytes())? {
            Some(named) if named.value() == id => self.keyed += 1,
            _ => self.flaw("keys", number, "the row's key is not there"),
        }
        Ok(())
    }

    fn keys(&mut self) -> Result<(), Error> {
        let keys = self.transaction.open_table(KEYS)?.len()?;
        let more = keys.saturating_sub(self.keyed);
        if more > 0 {
            self.flaws
                .add(format!("keys: {more} of its entries name no row"));
        }
        Ok(())
    }

    fn rules(&mut self) -> Result<(), Error> {
        let rules = FileRules::read(&self.transaction)?.rules.all();
        if !rules.is_empty() && self.numbers.floor < RULES_SINCE {
            self.flaw("rules", 0, "the file's floor does not allow it");
        }
        Ok(())
    }

    fn dead(&mut self) -> Result<(), Error> {
        let by_due = self.transaction.open_table(BY_DUE)?;
        let mut names = Names::default();
        for entry in self.transaction.open_table(DEAD)?.iter()? {
            let (id, value) = entry?;
            let (id, number) = (id.value(), DurableId::from_bits(id.value()).number());
            self.report.dead += 1;
            let letter = match codec::decode_dead(id, value.value(), &mut names) {
                Ok(letter) => letter,
                Err(flaw) => {
                    self.flaw("dead", number, flaw);
                    continue;
                }
            };
            if number >= self.state.next_number {
                self.flaw("dead", number, "the number was never given");
            }
            if codec::format_of_dead(&letter) > self.numbers.floor {
                self.flaw("dead", number, "the file's floor does not allow it");
            }
            let id = letter.row.id;
            let unmoved = DueKey::of(id, id.first_due());
            if self.recent.contains(&number)
                || ReadableTable::get(&by_due, unmoved.bytes())?.is_some()
            {
                self.flaw("dead", number, "it is to fire as well");
            }
        }
        Ok(())
    }

    fn done(&mut self) -> Result<(), Error> {
        let Some(table) = done::read(&self.transaction)? else {
            return Ok(());
        };
        let mut names = Names::default();
        for entry in table.iter()? {
            let (key, value) = entry?;
            self.report.done += 1;
            match done::record(key.value(), value.value(), &mut names) {
                Ok(done) if done.id.number() >= self.state.next_number => {
                    self.flaw("done", done.id.number(), "the number was never given");
                }
                Ok(_) => {}
                Err(error) => self.flaws.add(line_of(&error)),
            }
        }
        Ok(())
    }
}

/// An error of redb as a line, without the file's name.
fn line_of(error: &Error) -> String {
    match error {
        Error::Corrupted(why) => why.clone(),
        other => other.to_string(),
    }
}
