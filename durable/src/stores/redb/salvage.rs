//! Salvage: saves what is left of a damaged file, in a new one.
//!
//! A file that is sound is copied as it is. Of another one, the tables are read page by page
//! (`pages.rs`). A row is *certain* if the checksums of all pages on the way to it are right, and
//! its own: then the store has it now. It goes to the new file as it is. Keys and places of moved
//! rows are made anew from the rows.
//!
//! Where a page is damaged, its rows may still be in it, or in an older version of it. So all pages
//! of the file are looked through for rows whose own checksum is right and which the lost page may
//! have had. Such a row is *doubtful*: it may have fired, or was cancelled, since it was written.
//! It becomes a dead letter, which never fires by itself.

use super::codec::{self, Names};
use super::done::{self, DONE};
use super::due_key::DueKey;
use super::error::{io_error, one_line};
use super::lost::{Lost, ordered};
use super::new_file::{NewFile, Speed};
use super::number_set::NumberSet;
use super::pages::{Next, PageRef, Pages, Tree, Widths};
use super::rights::Rights;
use super::rules::{self, RULES, RULES_SINCE};
use super::state::{self, StoreState};
use super::steps::{self, FLOOR_MIN, FORMAT};
use super::tables::{
    BY_DUE, DEAD, FLOOR, KEYS, META, MOVED, RECENT, STATE, TOMBSTONES, recent_row, row_by_due,
};
use super::tombstones::EndedLog;
use super::{CACHE_BYTES, Redb, copy, open};
use crate::store::contract::StoreError;
use crate::store::id_map::IdSet;
use crate::store::row::{DurableId, StoreTime};
use crate::time::system_time;
use redb::{StorageBackend, TableHandle};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Parts that are told as lost one by one.
const LOST_MAX: usize = 1_000;

/// What [`Redb::salvage`] has saved.
///
/// # Example
/// See [`Redb::salvage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Timers that are in the new file as they were.
    pub rows: u64,
    /// Dead letters that are in the new file as they were.
    pub dead: u64,
    /// Records of runs that are done, in the new file as they were. (Others are lost: they are not
    /// looked for beside their places.)
    pub done: u64,
    /// Timers and dead letters that were found beside their places. They are dead letters in the
    /// new file: they may have fired, or were cancelled.
    pub doubtful: u64,
    /// The length of the new file, in bytes.
    pub bytes: u64,
    /// What could not be read, a line each. At most 1,000 are told; a last line says how many more
    /// there are. Without any, all is there.
    pub lost: Vec<String>,
}

impl Redb {
    /// Saves what is left of a damaged file that no program has open, in a new file. The damaged
    /// one stays as it is. Others may do with the new file what they may do with that one, at most,
    /// as with a [backup](crate::DurableClient::backup).
    ///
    /// If all pages that lead to a timer are sound, the timer is in the new file as it was. (For a
    /// timer that was armed or moved lately, the table of tombstones has to be sound too.) A timer
    /// that was found in a damaged page, or in an older version of one, may have fired or been
    /// cancelled since. It is a *dead letter* in the new file, `Failed` with a reason that begins
    /// with "salvaged from a damaged file" (a letter that was dead before keeps its cause). It does
    /// not fire by itself: look at it, and [revive](crate::DurableClient::revive) or
    /// [discard](crate::DurableClient::discard_dead) it. The report says what could not be read.
    ///
    /// If the file is sound, this copies it. A million timers take about 3 s. The call keeps some
    /// 20 bytes in memory for each timer, all keys, which have up to 1,024 bytes each, and all of
    /// each doubtful timer. If the header is lost, all timers are doubtful. Then a million of them
    /// take half a minute and a gigabyte.
    ///
    /// # Errors
    /// The damaged file is not there, is open, is of a later format, or has nothing of a store of
    /// timers ([`StoreError::Foreign`]); it is sound, and has a table that this version does not
    /// know ([`StoreError::Later`]); there is a new file already; or the system refuses.
    ///
    /// # Example
    /// ```
    /// use wheelwork_durable::Redb;
    ///
    /// # let folder = std::env::temp_dir().join(format!("wheelwork-saved-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let damaged = folder.join("timers.redb");
    /// drop(Redb::open(&damaged)?);
    /// let report = Redb::salvage(&damaged, folder.join("saved.redb"))?;
    /// println!("{} timers, {} doubtful", report.rows, report.doubtful);
    /// for part in &report.lost {
    ///     println!("lost: {part}");
    /// }
    /// assert!(report.lost.is_empty());
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn salvage(
        damaged: impl AsRef<Path>,
        new: impl AsRef<Path>,
    ) -> Result<SalvageReport, StoreError> {
        let (damaged, new) = (damaged.as_ref(), new.as_ref());
        let what: Arc<str> = one_line(damaged).into();
        let refused = match Self::check(damaged) {
            Ok(checked) if checked.is_sound() => {
                let copied = copy::whole(&what, damaged, CACHE_BYTES, new)?;
                return Ok(SalvageReport {
                    rows: copied.rows,
                    dead: copied.dead,
                    done: copied.done,
                    bytes: copied.bytes,
                    ..SalvageReport::default()
                });
            }
            Ok(_) => None,
            // (A header that is damaged may look like this.)
            Err(error @ (StoreError::Foreign(_) | StoreError::Version(..))) => Some(error),
            Err(error) => return Err(error),
        };
        let io = |error| io_error(&what, error);
        let backend = open::storage(&what, damaged, CACHE_BYTES)?;
        // (It is read without redb, which would do this.)
        if let Ok(false) = backend.try_lock_range(Bound::Unbounded, Bound::Unbounded) {
            return Err(StoreError::InUse((&*what).into()));
        }
        let pages = Pages::new(&backend).map_err(io)?;
        let mut salvage = Salvage::begin(&pages);
        salvage.meta();
        if let Some(floor) = salvage.floor.filter(|&floor| floor > FORMAT) {
            return Err(refused.unwrap_or(StoreError::Version((&*what).into(), floor)));
        }
        let rights = Rights::at(damaged).map_err(io)?;
        let mut file = NewFile::begin(new, rights, Speed::Full)?;
        salvage.fill(&mut file)?;
        if salvage.is_empty() {
            return Err(refused.unwrap_or_else(|| StoreError::Foreign((&*what).into())));
        }
        salvage.end(file)
    }
}

/// Where a table is.
#[derive(Clone, Copy)]
struct Place {
    root: Option<PageRef>,
    widths: Widths,
}

/// What was found so far.
pub(super) struct Salvage<'a> {
    pub(super) pages: &'a Pages<'a>,
    /// `None`: the header, or the list of tables, is damaged.
    tables: BTreeMap<Vec<u8>, Place>,
    /// Some tables may be missing from these.
    has_all_tables: bool,
    state: Option<StoreState>,
    floor: Option<u64>,
    /// Numbers of rows that have ended in `recent`. `None`: not all of them are known.
    pub(super) ended: Option<NumberSet>,
    /// Numbers of rows that are certain.
    pub(super) certain: IdSet<u64>,
    keys: BTreeMap<Box<[u8]>, u128>,
    moved: BTreeMap<u64, [u8; 20]>,
    pub(super) lost: Vec<Lost>,
    /// Values that could not be decoded, and other lines.
    lines: Vec<String>,
    report: SalvageReport,
    epoch_max: u64,
    number_max: Option<u64>,
    pub(super) format: u64,
    pub(super) now: StoreTime,
}

impl<'a> Salvage<'a> {
    fn begin(pages: &'a Pages<'a>) -> Self {
        let mut salvage = Self {
            pages,
            tables: BTreeMap::new(),
            has_all_tables: true,
            state: None,
            floor: None,
            ended: Some(NumberSet::default()),
            certain: IdSet::default(),
            keys: BTreeMap::new(),
            moved: BTreeMap::new(),
            lost: Vec::new(),
            lines: Vec::new(),
            report: SalvageReport::default(),
            epoch_max: 0,
            number_max: None,
            format: FLOOR_MIN,
            now: StoreTime::reading(system_time(None)),
        };
        let Ok(root) = pages.root() else {
            salvage.has_all_tables = false;
            salvage
                .lines
                .push("the header: the last commit is not known".into());
            return salvage;
        };
        let widths = Widths {
            key: None,
            value: None,
        };
        let mut tables = pages.tree(root, widths);
        while let Some(next) = tables.next() {
            match next {
                Next::Entry(name, definition) => {
                    if let Some(place) = Place::read(definition) {
                        salvage.tables.insert(name.to_vec(), place);
                    }
                }
                Next::Lost(..) => {
                    salvage.has_all_tables = false;
                    salvage.lines.push("the list of tables: a page".into());
                }
            }
        }
        salvage
    }

    /// The entries of a table, if it is known where it is. If not, all of it is lost.
    fn tree(&mut self, table: &'static str) -> Option<Tree<'a>> {
        let place = self.tables.get(table.as_bytes()).copied();
        if place.is_none() {
            self.lose(table, Vec::new(), None);
        }
        place.map(|place| self.pages.tree(place.root, place.widths))
    }

    fn lose(&mut self, table: &'static str, after: Vec<u8>, upto: Option<Vec<u8>>) {
        let after = ordered(table, &after);
        let upto = upto.map(|upto| ordered(table, &upto));
        self.lost.push(Lost { table, after, upto });
    }

    fn line(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(super) fn seen(&mut self, number: u64, epoch: u64) {
        self.number_max = self.number_max.max(Some(number));
        self.epoch_max = self.epoch_max.max(epoch);
    }

    fn meta(&mut self) {
        let Some(mut tree) = self.tree(META.name()) else {
            return;
        };
        while let Some(next) = tree.next() {
            match next {
                Next::Entry(name, value) if name == STATE.as_bytes() => {
                    self.state = StoreState::decode(value).ok();
                }
                Next::Entry(name, value) if name == FLOOR.as_bytes() => {
                    self.floor = state::decode_version(value).ok();
                }
                Next::Entry(..) => {}
                Next::Lost(after, upto) => self.lose(META.name(), after, upto),
            }
        }
    }

    /// Tables of a later program are lost.
    fn unknown_tables(&mut self) {
        let names = self.tables.keys().map(|name| String::from_utf8_lossy(name));
        let unknown = names.filter(|name| !open::is_ours(name));
        let lines = unknown.map(|name| format!("{name}: this program does not know the table"));
        let lines: Vec<_> = lines.collect();
        self.lines.extend(lines);
    }

    fn fill(&mut self, new: &mut NewFile) -> Result<(), StoreError> {
        self.unknown_tables();
        self.tombstones();
        self.recent(new)?;
        self.by_due(new)?;
        self.dead(new)?;
        self.done(new)?;
        new.table(TOMBSTONES, |_| Ok(false))?;
        let mut moved = std::mem::take(&mut self.moved).into_iter();
        new.table(MOVED, |put| match moved.next() {
            Some((number, key)) => put(&number, &&key).map(|()| true),
            None => Ok(false),
        })?;
        let mut keys = std::mem::take(&mut self.keys).into_iter();
        new.table(KEYS, |put| match keys.next() {
            Some((key, id)) => put(&&*key, &id).map(|()| true),
            None => Ok(false),
        })?;
        self.rules(new)
    }

    /// Rules that are certain. One that is lost holds no more, and that is told.
    fn rules(&mut self, new: &mut NewFile) -> Result<(), StoreError> {
        if self.has_all_tables && !self.tables.contains_key(RULES.name().as_bytes()) {
            return Ok(());
        }
        let Some(mut tree) = self.tree(RULES.name()) else {
            return Ok(());
        };
        new.table(RULES, |put| {
            match tree.next() {
                None => return Ok(false),
                Some(Next::Lost(after, upto)) => self.lose(RULES.name(), after, upto),
                Some(Next::Entry(name, value)) => {
                    let name = String::from_utf8_lossy(name);
                    match rules::decode(&name, value) {
                        Ok(_) => {
                            self.format = self.format.max(RULES_SINCE);
                            put(&&*name, &value)?;
                        }
                        Err(flaw) => self.line(format!("rules, {name}: {flaw}")),
                    }
                }
            }
            Ok(true)
        })
    }

    fn tombstones(&mut self) {
        let Some(mut tree) = self.tree(TOMBSTONES.name()) else {
            self.ended = None;
            return;
        };
        let mut ended = NumberSet::default();
        while let Some(next) = tree.next() {
            let Next::Entry(key, value) = next else {
                self.lose(TOMBSTONES.name(), Vec::new(), None);
                self.ended = None;
                return;
            };
            let sequence = key.first_chunk().map(|key| u64::from_le_bytes(*key));
            let noted = sequence.map(|sequence| EndedLog::note(sequence, value, &mut ended));
            if !matches!(noted, Some(Ok(()))) {
                self.lose(TOMBSTONES.name(), Vec::new(), None);
                self.ended = None;
                return;
            }
        }
        self.ended = Some(ended);
    }

    /// What both tables of rows have in common.
    fn certain(&mut self, number: u64, row: &codec::RowView<'_>) {
        self.seen(number, row.epoch);
        self.format = self.format.max(row.format());
        self.certain.insert(number);
        self.report.rows += 1;
        if let Some(key) = row.key {
            let id = DurableId::new(0, row.first_due, number).to_bits();
            self.keys.insert(key.as_bytes().into(), id);
        }
    }

    fn recent(&mut self, new: &mut NewFile) -> Result<(), StoreError> {
        // Without the tombstones it is not known which of these rows are there.
        let ended = self.ended.take();
        let tree = match &ended {
            Some(_) => self.tree(RECENT.name()),
            None => {
                self.lose(RECENT.name(), Vec::new(), None);
                None
            }
        };
        let mut tree = tree;
        new.table(RECENT, |put| {
            let (Some(tree), Some(ended)) = (&mut tree, &ended) else {
                return Ok(false);
            };
            match tree.next() {
                None => return Ok(false),
                Some(Next::Lost(after, upto)) => self.lose(RECENT.name(), after, upto),
                Some(Next::Entry(key, value)) => {
                    let number = u64::from_le_bytes(*key.first_chunk().unwrap_or(&[0; 8]));
                    if ended.contains(number) {
                        return Ok(true);
                    }
                    match recent_row(number, value) {
                        Ok(row) => {
                            self.certain(number, &row);
                            put(&number, &value)?;
                        }
                        Err(error) => self.line(error.to_string()),
                    }
                }
            }
            Ok(true)
        })?;
        self.ended = ended;
        Ok(())
    }

    fn by_due(&mut self, new: &mut NewFile) -> Result<(), StoreError> {
        let mut tree = self.tree(BY_DUE.name());
        new.table(BY_DUE, |put| {
            match tree.as_mut().and_then(Tree::next) {
                None => return Ok(false),
                Some(Next::Lost(after, upto)) => self.lose(BY_DUE.name(), after, upto),
                Some(Next::Entry(key, value)) => {
                    let Some(bytes) = key.first_chunk() else {
                        return Ok(true);
                    };
                    let key = DueKey::from_bytes(*bytes);
                    match row_by_due(key, value) {
                        Ok(_) if self.certain.contains(&key.number()) => {
                            self.line(format!("by_due, {}: it is in recent as well", key.number()));
                        }
                        Ok(row) => {
                            self.certain(key.number(), &row);
                            if key.is_moved() {
                                self.moved.insert(key.number(), *bytes);
                            }
                            put(&bytes, &value)?;
                        }
                        Err(error) => self.line(error.to_string()),
                    }
                }
            }
            Ok(true)
        })
    }

    /// Dead letters, and what is doubtful.
    fn dead(&mut self, new: &mut NewFile) -> Result<(), StoreError> {
        // What is lost of this table has to be known before pages are looked through.
        if let Some(mut tree) = self.tree(DEAD.name()) {
            while let Some(next) = tree.next() {
                if let Next::Lost(after, upto) = next {
                    self.lose(DEAD.name(), after, upto);
                }
            }
        }
        let doubtful = self.doubtful();
        let mut doubtful = doubtful.into_iter().peekable();
        let place = self.tables.get(DEAD.name().as_bytes()).copied();
        let mut tree = place.map(|place| self.pages.tree(place.root, place.widths));
        let mut names = Names::default();
        let mut held: Option<(u128, Vec<u8>)> = None;
        new.table(DEAD, |put| {
            while held.is_none() {
                match tree.as_mut().and_then(Tree::next) {
                    None => break,
                    Some(Next::Lost(..)) => {}
                    Some(Next::Entry(key, value)) => {
                        let id = u128::from_le_bytes(*key.first_chunk().unwrap_or(&[0; 16]));
                        let number = DurableId::from_bits(id).number();
                        match codec::decode_dead(id, value, &mut names) {
                            Ok(letter) => {
                                self.format = self.format.max(codec::format_of_dead(&letter));
                                self.seen(number, 0);
                                held = Some((id, value.to_vec()));
                            }
                            Err(flaw) => self.line(format!("dead, {number}: {flaw}")),
                        }
                    }
                }
            }
            let certain = held.as_ref().map(|&(id, _)| id);
            if certain.is_some() {
                // (The letter is what became of the row.)
                doubtful.next_if(|&(id, _)| Some(id) == certain);
            }
            let is_before = |id: u128| certain.is_none_or(|certain| id < certain);
            if let Some((id, value)) = doubtful.next_if(|&(id, _)| is_before(id)) {
                self.report.doubtful += 1;
                put(&id, &&*value)?;
            } else if let Some((id, value)) = held.take() {
                self.report.dead += 1;
                put(&id, &&*value)?;
            } else {
                return Ok(false);
            }
            Ok(true)
        })
    }

    /// Records of runs. A file may have none.
    fn done(&mut self, new: &mut NewFile) -> Result<(), StoreError> {
        if !self.tables.contains_key(DONE.name().as_bytes()) {
            return Ok(());
        }
        let mut tree = self.tree(DONE.name());
        new.table(DONE, |put| {
            match tree.as_mut().and_then(Tree::next) {
                None => return Ok(false),
                Some(Next::Lost(after, upto)) => self.lose(DONE.name(), after, upto),
                Some(Next::Entry(key, value)) => {
                    let Some(key) = key.first_chunk() else {
                        return Ok(true);
                    };
                    // (One of a later program, too.)
                    match done::is_sound(key, value) {
                        Ok(place) => {
                            self.seen(place.id.number(), 0);
                            self.report.done += 1;
                            put(&key, &value)?;
                        }
                        Err(error) => self.line(error.to_string()),
                    }
                }
            }
            Ok(true)
        })
    }

    /// Whether nothing of a store was found.
    fn is_empty(&self) -> bool {
        let SalvageReport {
            rows,
            dead,
            doubtful,
            ..
        } = self.report;
        self.state.is_none() && rows + dead + doubtful == 0
    }

    fn end(mut self, mut new: NewFile) -> Result<SalvageReport, StoreError> {
        let mut state = self.state.take().unwrap_or_else(|| {
            self.lines
                .push("meta: which timers were with a handler".into());
            // All that was due may have been handed out.
            StoreState {
                epoch: self.epoch_max,
                claimed_upto: Some(self.now),
                ..StoreState::default()
            }
        });
        state.epoch = state.epoch.max(self.epoch_max);
        let after = self.number_max.map_or(1, |number| number.saturating_add(1));
        state.next_number = state.next_number.max(after);
        let floor = self.floor.unwrap_or(FLOOR_MIN).max(self.format);
        let mut meta = steps::meta_of_new(floor);
        meta.push((STATE, state.encode()));
        meta.sort_unstable();
        let mut meta = meta.into_iter();
        new.table(META, |put| match meta.next() {
            Some((name, value)) => put(&name, &&*value).map(|()| true),
            None => Ok(false),
        })?;
        self.report.bytes = new.end()?;
        let mut lost: Vec<_> = self.lost.iter().map(Lost::line).collect();
        lost.append(&mut self.lines);
        lost.iter_mut()
            .for_each(|line| *line = line.replace('\n', " "));
        if lost.len() > LOST_MAX {
            let more = format!("and {} more", lost.len() - LOST_MAX);
            lost.truncate(LOST_MAX);
            lost.push(more);
        }
        self.report.lost = lost;
        Ok(self.report)
    }
}

impl Place {
    /// A table as redb describes it: kind, length, root, and the widths of keys and values.
    fn read(definition: &[u8]) -> Option<Self> {
        let width = |at: usize| {
            let is_fixed = *definition.get(at)? != 0;
            let width = u32::from_le_bytes(*definition.get(at + 1..)?.first_chunk()?);
            Some(is_fixed.then_some(usize::try_from(width).ok()?))
        };
        let root = PageRef::read(definition.get(10..)?)?;
        Some(Self {
            root: (*definition.get(9)? != 0).then_some(root),
            widths: Widths {
                key: width(42)?,
                value: width(47)?,
            },
        })
    }
}
