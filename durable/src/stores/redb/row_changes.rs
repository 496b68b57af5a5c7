//! Row changes: a transaction that is being written, and the steps of which changes are made.
//!
//! Rows that come in ascending order of their numbers, as they do, are gathered and appended to
//! `recent` in runs. A change that reads a row of the run writes the run first. Rows of `recent`
//! that end stay there, with a tombstone.

use super::codec::{self, Names, RowView};
use super::done::DoneTable;
use super::due_key::DueKey;
use super::recent::RecentIndex;
use super::room::RewriteBound;
use super::state::StoreState;
use super::steps::{self, FLOOR_MIN};
use super::tables::{RowPlace, WriteTables, damaged, missing, row_at};
use super::tombstones::EndedLog;
use crate::store::row::{DurableId, Row};
use crate::store::write::{Amendment, Target};
use redb::{CursorError, Error, ReadableTable, WriteTransaction};
use std::ops::{Bound, Range};

/// Numbers that are kept for the next rows in one write of the state.
pub(super) const NUMBERS_AHEAD: u64 = 1 << 20;

/// Bytes of this memory that are kept. A commit of larger rows gives the rest back.
const SCRATCH_BYTES: usize = 16 << 20;

/// From this size on a row takes a page of its own, in bytes.
const LARGE_BYTES: usize = 2_048;

/// Memory that transactions share.
#[derive(Default)]
pub(super) struct Scratch {
    /// Encoded rows of the run.
    pub(super) encoded: Vec<u8>,
    /// Their numbers and places, in the order of numbers.
    pub(super) run: Vec<(u64, Range<usize>)>,
    /// The value of the row that is being changed.
    pub(super) value: Vec<u8>,
    /// Its next value.
    pub(super) next: Vec<u8>,
}

impl Scratch {
    fn trim(&mut self) {
        let Self {
            encoded,
            value,
            next,
            ..
        } = self;
        for bytes in [encoded, value, next] {
            if bytes.capacity() > SCRATCH_BYTES {
                bytes.clear();
                bytes.shrink_to(0);
            }
        }
    }
}

/// A transaction that is being written.
pub(super) struct RowChanges<'a> {
    pub(super) transaction: &'a WriteTransaction,
    pub(super) tables: WriteTables<'a>,
    /// Open once a record was written.
    pub(super) done: Option<DoneTable<'a>>,
    pub(super) index: &'a mut RecentIndex,
    pub(super) tombstones: &'a mut EndedLog,
    pub(super) state: &'a mut StoreState,
    pub(super) names: &'a mut Names,
    pub(super) scratch: &'a mut Scratch,
    pub(super) bound: RewriteBound,
    pub(super) is_state_changed: bool,
    /// Whether anything was changed.
    pub(super) is_changed: bool,
    /// The lowest format that knows all that was written.
    pub(super) format: u64,
}

impl<'a> RowChanges<'a> {
    pub(super) fn begin(
        transaction: &'a WriteTransaction,
        bound: RewriteBound,
        index: &'a mut RecentIndex,
        tombstones: &'a mut EndedLog,
        state: &'a mut StoreState,
        names: &'a mut Names,
        scratch: &'a mut Scratch,
    ) -> Result<Self, Error> {
        scratch.encoded.clear();
        scratch.run.clear();
        tombstones.begin();
        Ok(Self {
            transaction,
            tables: WriteTables::open(transaction)?,
            done: None,
            index,
            tombstones,
            state,
            names,
            scratch,
            bound,
            is_state_changed: false,
            is_changed: false,
            format: FLOOR_MIN,
        })
    }

    /// Ends the changes. Raises the file's floor if something was written that it does not allow.
    /// Whether there is anything to commit.
    pub(super) fn end(mut self, floor: &mut u64) -> Result<bool, Error> {
        if self.format > *floor {
            debug_assert!(self.is_changed);
            steps::raise_floor(&mut self.tables.meta, self.format)?;
            *floor = self.format;
        }
        self.write_run()?;
        self.scratch.trim();
        self.tombstones.write(&mut self.tables.tombstones)?;
        if self.is_state_changed {
            self.tables.put_state(self.state)?;
        }
        Ok(self.is_changed)
    }

    /// Something was written beside the rows that programs below this format do not know.
    pub(super) fn note_format(&mut self, format: u64) {
        self.is_changed = true;
        self.format = self.format.max(format);
    }

    /// Marks the row whose value is in the scratch. It has no key then.
    pub(super) fn supersede(&mut self, place: RowPlace) -> Result<(), Error> {
        let mut view = row_at(place, &self.scratch.value)?;
        view.superseded = true;
        view.key = None;
        // Its epoch stays: a mark is no sign that it was not handed out.
        self.scratch.next.clear();
        codec::encode_row(&mut self.scratch.next, place.number(), &view);
        self.tables.rewrite(place, &self.scratch.next)?;
        self.is_changed = true;
        Ok(())
    }

    /// A row with this number will be there.
    pub(super) fn take_number(&mut self, number: u64) {
        if number >= self.state.next_number {
            self.state.next_number = number.saturating_add(NUMBERS_AHEAD);
            self.is_state_changed = true;
        }
    }

    pub(super) fn find(&mut self, id: DurableId) -> Result<Option<RowPlace>, Error> {
        if self
            .index
            .get(id.number())
            .is_some_and(|known| known.is_moved)
        {
            // It is read.
            self.write_run_from(id.number())?;
        }
        self.tables.find(id, self.index)
    }

    pub(super) fn find_target(
        &mut self,
        target: &Target,
    ) -> Result<Option<(DurableId, RowPlace)>, Error> {
        match target {
            Target::Id(id) => Ok(self.find(*id)?.map(|place| (*id, place))),
            Target::Key(key) => {
                let id = self.tables.keys.get(key.as_bytes())?;
                let Some(id) = id.map(|id| DurableId::from_bits(id.value())) else {
                    return Ok(None);
                };
                let place = self
                    .find(id)?
                    .ok_or_else(|| damaged("keys", id.number(), "its row is missing"))?;
                Ok(Some((id, place)))
            }
        }
    }

    /// Copies the value of a row to the scratch.
    pub(super) fn copy(&mut self, place: RowPlace) -> Result<(), Error> {
        self.write_run_from(place.number())?;
        self.tables.copy(place, &mut self.scratch.value)
    }

    /// Whether a row of `recent` goes at once, since there is little room. No sweep takes it out
    /// until there is more.
    fn frees_now(&mut self, number: u64) -> Result<bool, Error> {
        if !self.bound.is_low() {
            return Ok(false);
        }
        self.write_run_from(number)?;
        let value = self.tables.recent.get(number)?;
        Ok(value.is_some_and(|value| value.value().len() >= LARGE_BYTES))
    }

    /// Takes a row out. If it was in `by_due`, its value is in the scratch then. Returns whether it
    /// was there.
    fn try_take(&mut self, place: RowPlace) -> Result<bool, Error> {
        let is_there = match place {
            RowPlace::Recent(number) if self.frees_now(number)? => {
                self.tables.recent.remove(number)?;
                self.index.remove(number)
            }
            RowPlace::Recent(number) => {
                self.tombstones.end(number);
                self.index.remove(number)
            }
            RowPlace::ByDue(key) => self.tables.take_by_due(key, &mut self.scratch.value)?,
        };
        self.is_changed |= is_there;
        Ok(is_there)
    }

    /// So, a row that is there.
    pub(super) fn take(&mut self, place: RowPlace) -> Result<(), Error> {
        let is_there = self.try_take(place)?;
        is_there.then_some(()).ok_or_else(|| missing(place))
    }

    /// Takes a row out that is there, and its key.
    pub(super) fn delete(&mut self, place: RowPlace) -> Result<(), Error> {
        let is_there = self.try_delete(place)?;
        is_there.then_some(()).ok_or_else(|| missing(place))
    }

    /// Takes a row out, and its key. Returns whether it was there.
    pub(super) fn try_delete(&mut self, place: RowPlace) -> Result<bool, Error> {
        if let RowPlace::Recent(number) = place {
            // A row without a key is not read at all.
            if self.index.get(number).is_some_and(|known| known.has_key) {
                self.copy(place)?;
                self.delete_key(place)?;
            }
            return self.try_take(place);
        }
        let is_there = self.try_take(place)?;
        if is_there {
            self.delete_key(place)?;
        }
        Ok(is_there)
    }

    /// The row whose value is in the scratch goes for good: so does its key.
    pub(super) fn delete_key(&mut self, place: RowPlace) -> Result<(), Error> {
        let row = row_at(place, &self.scratch.value)?;
        let Some(key) = row.key else {
            return Ok(());
        };
        let id = DurableId::new(0, row.first_due, place.number()).to_bits();
        match self.tables.keys.remove(key.as_bytes())? {
            Some(old) if old.value() == id => Ok(()),
            _ => Err(damaged(
                "keys",
                place.number(),
                "the row's key is not there",
            )),
        }
    }

    /// Writes a row with another deadline. It goes to `recent`, wherever it was.
    pub(super) fn put_again(
        &mut self,
        place: RowPlace,
        change: impl FnOnce(&mut RowView<'_>, &StoreState),
    ) -> Result<Row, Error> {
        self.put_changed(place, None, change)
    }

    /// So, with another payload and calendar.
    pub(super) fn put_changed(
        &mut self,
        place: RowPlace,
        amendment: Option<&Amendment>,
        change: impl FnOnce(&mut RowView<'_>, &StoreState),
    ) -> Result<Row, Error> {
        let number = place.number();
        match place {
            RowPlace::Recent(_) => self.copy(place)?,
            RowPlace::ByDue(_) => {
                self.take(place)?;
                self.tombstones.revive(number);
            }
        }
        let mut view = row_at(place, &self.scratch.value)?;
        change(&mut view, self.state);
        if let Some(of) = amendment {
            view.amend(of);
        }
        view.epoch = self.state.epoch;
        self.format = self.format.max(view.format());
        self.scratch.next.clear();
        codec::encode_row(&mut self.scratch.next, number, &view);
        self.tables.recent.insert(number, &*self.scratch.next)?;
        let key = DueKey::new(view.due, view.first_due, number);
        self.index.put(key, view.key.is_some());
        self.is_changed = true;
        Ok(view.row(number, self.names))
    }

    /// Writes the gathered rows, if the row of this number may be one of them.
    fn write_run_from(&mut self, number: u64) -> Result<(), Error> {
        match self.scratch.run.first() {
            Some(&(first, _)) if number >= first => self.write_run(),
            _ => Ok(()),
        }
    }

    /// Writes the gathered rows.
    pub(super) fn write_run(&mut self) -> Result<(), Error> {
        let Scratch { encoded, run, .. } = &mut *self.scratch;
        let Some(&(first, _)) = run.first() else {
            return Ok(());
        };
        let recent = &mut self.tables.recent;
        let is_last = recent.last()?.is_none_or(|(last, _)| last.value() < first);
        if is_last {
            let mut end = recent.upper_bound_mut(Bound::<u64>::Unbounded)?;
            for (number, range) in run.drain(..) {
                match end.insert_before(number, &encoded[range]) {
                    Ok(()) => {}
                    Err(CursorError::Storage(error)) => return Err(error.into()),
                    Err(_) => return Err(damaged("recent", number, "it is out of order")),
                }
            }
            end.close()?;
        } else {
            for (number, range) in run.drain(..) {
                recent.insert(number, &encoded[range])?;
            }
        }
        encoded.clear();
        Ok(())
    }
}
