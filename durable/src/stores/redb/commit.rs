//! Commit: makes the changes of one transaction.
//!
//! Rows that come in ascending order of their numbers, as they do, are gathered and appended to
//! `recent` in runs. A change that reads a row of the run writes the run first. Rows of `recent`
//! that end stay there, with a tombstone.

use super::codec::{self, Names, RowView, StoreState};
use super::done::{self, DoneTable};
use super::due_key::DueKey;
use super::recent::RecentIndex;
use super::room::RewriteBound;
use super::steps::{self, FLOOR_MIN};
use super::tables::{
    RowPlace, WriteTables, damaged, due_range, missing, recent_row, row_at, row_by_due,
};
use super::tombstones::EndedLog;
use crate::store::contract::Gate;
use crate::store::done::DoneTimer;
use crate::store::row::{Cause, DeadLetter, DurableId, Held, Position, Row, StoreTime};
use crate::store::write::{KindSlice, Outcome, Settled, Target, TrialBegun, Write};
use redb::{CursorError, Error, ReadableTable, WriteTransaction};
use std::ops::{Bound, Range};

/// A row, and where it is.
type PlacedRow = (DurableId, RowPlace);

/// Numbers that are kept for the next rows in one write of the state.
pub(super) const NUMBERS_AHEAD: u64 = 1 << 20;

/// Bytes of this memory that are kept. A commit of larger rows gives the rest back.
const SCRATCH_BYTES: usize = 16 << 20;

/// Memory that transactions share.
#[derive(Default)]
pub(super) struct Scratch {
    /// Encoded rows of the run.
    encoded: Vec<u8>,
    /// Their numbers and places, in the order of numbers.
    run: Vec<(u64, Range<usize>)>,
    /// The value of the row that is being changed.
    value: Vec<u8>,
    /// Its next value.
    next: Vec<u8>,
}

/// From this size on a row takes a page of its own, in bytes.
const LARGE_BYTES: usize = 2_048;

/// A row was settled, and is due again. `counts`: attempts and crashes.
fn put_due(view: &mut RowView<'_>, due: StoreTime, counts: (u32, u32)) {
    view.set_due(due);
    (view.attempts, view.crashes) = (counts.0.into(), counts.1.into());
    view.suspect = false;
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
    transaction: &'a WriteTransaction,
    tables: WriteTables<'a>,
    /// Open once a record was written.
    done: Option<DoneTable<'a>>,
    index: &'a mut RecentIndex,
    tombstones: &'a mut EndedLog,
    state: &'a mut StoreState,
    names: &'a mut Names,
    scratch: &'a mut Scratch,
    bound: RewriteBound,
    is_state_changed: bool,
    /// Whether anything was changed.
    is_changed: bool,
    /// The lowest format that knows all that was written.
    format: u64,
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

    pub(super) fn make(&mut self, write: Write, gate: &mut dyn Gate) -> Result<Outcome, Error> {
        if !self.has_room_for(&write)? {
            return Ok(Outcome::Blocked(Box::new(write)));
        }
        match write {
            Write::Arm(row) => self.arm(&row, gate).map(Outcome::Armed),
            Write::Cancel(target) => self.cancel(&target, gate).map(Outcome::Cancelled),
            Write::Move(target, due) => self.change_due(&target, due, gate).map(Outcome::Moved),
            Write::CancelKind(slice) => self.cancel_kind(&slice, gate),
            Write::Begin { of, crashes } => self.begin_trial(&of, crashes).map(Outcome::Begun),
            Write::Ack { of, next } => self.ack(&of, next),
            Write::AckKept { of, next, kept } => self.ack_kept(&of, next, &kept),
            Write::Retry {
                of,
                at,
                attempts,
                crashes,
            } => self.retry(&of, at, (attempts, crashes)),
            Write::Hold { of, why, since } => self.hold(&of, Held { why, since }),
            Write::Bury {
                of,
                cause,
                since,
                attempts,
                crashes,
                next,
            } => self.bury(&of, (cause, since), (attempts, crashes), next),
            Write::Revive(id, due) => self.revive(id, due).map(Outcome::Revived),
            Write::Discard(id) => self.discard(id).map(Outcome::Discarded),
            // (It is no row: `FileRules` makes it.)
            Write::Rule(..) => {
                debug_assert!(false, "a rule is changed beside the rows");
                Ok(Outcome::Ruled(false))
            }
        }
    }

    /// Something was written beside the rows that programs below this format do not know.
    pub(super) fn note_format(&mut self, format: u64) {
        self.is_changed = true;
        self.format = self.format.max(format);
    }

    /// Whether this commit has room for what a change writes anew of a row that a handler has had.
    fn has_room_for(&mut self, write: &Write) -> Result<bool, Error> {
        let (Write::Retry { of, .. }
        | Write::Hold { of, .. }
        | Write::Bury { of, .. }
        | Write::Ack {
            of, next: Some(_), ..
        }
        | Write::AckKept {
            of, next: Some(_), ..
        }) = write
        else {
            return Ok(true);
        };
        if self.bound.is_none() {
            return Ok(true);
        }
        let Some((_, is_superseded)) = self.find_settled(of)? else {
            return Ok(true);
        };
        Ok(is_superseded || self.bound.admits(self.scratch.value.len()))
    }

    fn arm(&mut self, row: &Row, gate: &mut dyn Gate) -> Result<Option<DurableId>, Error> {
        let mut gone = None;
        if let Some(key) = &row.key {
            let old = self.tables.keys.insert(key.as_bytes(), row.id.to_bits())?;
            let old = old.map(|old| DurableId::from_bits(old.value()));
            if let Some(old) = old {
                gone = self.replace(old, gate)?;
            }
        }
        let number = row.id.number();
        self.take_number(number);
        let is_next = self
            .scratch
            .run
            .last()
            .is_none_or(|&(last, _)| number > last);
        if !is_next {
            self.write_run()?;
        }
        let begin = self.scratch.encoded.len();
        let view = RowView::of(row, self.state.epoch);
        self.format = self.format.max(view.format());
        codec::encode_row(&mut self.scratch.encoded, number, &view);
        let range = begin..self.scratch.encoded.len();
        self.scratch.run.push((number, range));
        self.index
            .put(DueKey::of(row.id, row.due), row.key.is_some());
        self.is_changed = true;
        Ok(gone)
    }

    /// Ends the row that had a key, or marks it as superseded. Returns it if it is gone.
    fn replace(&mut self, old: DurableId, gate: &mut dyn Gate) -> Result<Option<DurableId>, Error> {
        let place = self
            .find(old)?
            .ok_or_else(|| damaged("keys", old.number(), "its row is missing"))?;
        if gate.let_go(old) {
            // (The key is the other row's by now.)
            self.take(place)?;
            return Ok(Some(old));
        }
        self.copy(place)?;
        self.supersede(place)?;
        Ok(None)
    }

    /// Marks the row whose value is in the scratch. It has no key then.
    fn supersede(&mut self, place: RowPlace) -> Result<(), Error> {
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

    /// A row is handled just now: if it has a calendar, this run is its last one. Returns whether
    /// that is so.
    fn strike(&mut self, place: RowPlace) -> Result<bool, Error> {
        self.copy(place)?;
        let view = row_at(place, &self.scratch.value)?;
        if view.superseded || view.calendar.is_none() {
            return Ok(false);
        }
        self.delete_key(place)?;
        self.supersede(place)?;
        Ok(true)
    }

    fn cancel(&mut self, target: &Target, gate: &mut dyn Gate) -> Result<Option<DurableId>, Error> {
        let Some((id, place)) = self.find_target(target)? else {
            return Ok(None);
        };
        Ok(self.end_row(id, place, gate)?.then_some(id))
    }

    /// Deletes a row, or strikes it. Returns whether it did.
    fn end_row(
        &mut self,
        id: DurableId,
        place: RowPlace,
        gate: &mut dyn Gate,
    ) -> Result<bool, Error> {
        if !gate.let_go(id) {
            return self.strike(place);
        }
        self.delete(place)?;
        Ok(true)
    }

    fn change_due(
        &mut self,
        target: &Target,
        due: StoreTime,
        gate: &mut dyn Gate,
    ) -> Result<Option<Row>, Error> {
        let Some((id, place)) = self.find_target(target)? else {
            return Ok(None);
        };
        self.copy(place)?;
        if row_at(place, &self.scratch.value)?.superseded || !gate.let_go(id) {
            return Ok(None);
        }
        self.put_again(place, |view, state| {
            view.suspect |= state.was_handed_out(view);
            view.set_due(due);
        })
        .map(Some)
    }

    /// Goes over the rows of both tables in the order of their positions. A sweep may move a row
    /// from one table to the other between two slices: its position stays.
    fn cancel_kind(&mut self, slice: &KindSlice, gate: &mut dyn Gate) -> Result<Outcome, Error> {
        self.write_run()?;
        let (places, last) = self.places_of_kind(slice)?;
        let mut gone = Vec::new();
        for (id, place) in places {
            if self.end_row(id, place, gate)? {
                gone.push(id);
            }
        }
        gone.sort_unstable();
        Ok(Outcome::CancelledMany(gone, last))
    }

    /// Where the rows of a slice are that are of its kind, and the last row that was looked at, if
    /// there may be more.
    fn places_of_kind(
        &mut self,
        slice: &KindSlice,
    ) -> Result<(Vec<PlacedRow>, Option<Position>), Error> {
        let KindSlice { kind, after, limit } = slice;
        let (mut at, end) = (DueKey::at(*after), DueKey::end_of(StoreTime::MAX));
        let mut recent_keys = Vec::new();
        self.index
            .range(at, StoreTime::MAX, limit.rows, &mut recent_keys);
        let mut recent_keys = recent_keys.into_iter().peekable();
        let mut range = self
            .tables
            .by_due
            .range::<&[u8; 20]>(due_range(&at, &end))?;
        let mut next_by_due = range.next().transpose()?;
        let (mut places, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while !limit.is_reached(rows, bytes) {
            let by_due_key = next_by_due
                .as_ref()
                .map(|(key, _)| DueKey::from_bytes(*key.value()));
            let from_recent =
                recent_keys.next_if(|&key| by_due_key.is_none_or(|by_due| key < by_due));
            let place;
            let is_of_kind;
            if let Some(key) = from_recent {
                (at, place) = (key, RowPlace::Recent(key.number()));
                let value = self.tables.recent.get(key.number())?;
                let value = value.ok_or_else(|| missing(place))?;
                let row = recent_row(key.number(), value.value())?;
                is_of_kind = row.kind == &**kind;
                bytes += row.bytes();
            } else if let (Some(key), Some((_, value))) = (by_due_key, &next_by_due) {
                (at, place) = (key, RowPlace::ByDue(key));
                let row = row_by_due(key, value.value())?;
                is_of_kind = row.kind == &**kind;
                bytes += row.bytes();
                next_by_due = range.next().transpose()?;
            } else {
                return Ok((places, None));
            }
            rows += 1;
            if is_of_kind {
                places.push((at.id(), place));
            }
        }
        let last = match rows {
            0 => *after,
            _ => Position {
                due: at.due(),
                id: at.id(),
            },
        };
        Ok((places, Some(last)))
    }

    fn begin_trial(&mut self, of: &Settled, crashes: u32) -> Result<TrialBegun, Error> {
        let Some((place, is_superseded)) = self.find_settled(of)? else {
            return Ok(TrialBegun::Refused);
        };
        if is_superseded {
            self.delete(place)?;
            return Ok(TrialBegun::Superseded);
        }
        let mut view = row_at(place, &self.scratch.value)?;
        (view.crashes, view.suspect) = (crashes.into(), true);
        view.epoch = self.state.epoch;
        self.scratch.next.clear();
        codec::encode_row(&mut self.scratch.next, place.number(), &view);
        self.tables.rewrite(place, &self.scratch.next)?;
        self.is_changed = true;
        Ok(TrialBegun::Noted)
    }

    fn ack(&mut self, of: &Settled, next: Option<StoreTime>) -> Result<Outcome, Error> {
        if next.is_none()
            && let Some(place) = self.unread_place(of)
        {
            // Superseded or not, the row goes.
            let is_there = self.try_delete(place)?;
            return Ok(Outcome::Settled(is_there, None));
        }
        let Some((place, is_superseded)) = self.find_settled(of)? else {
            return Ok(Outcome::Settled(false, None));
        };
        let Some(next) = next.filter(|_| !is_superseded) else {
            self.delete(place)?;
            return Ok(Outcome::Settled(true, None));
        };
        let row = self.put_again(place, |view, _| {
            put_due(view, next, (0, 0));
        })?;
        Ok(Outcome::Settled(true, Some(row)))
    }

    /// A record needs room, and frees none: on a full disk it is left out.
    fn ack_kept(
        &mut self,
        of: &Settled,
        next: Option<StoreTime>,
        kept: &DoneTimer,
    ) -> Result<Outcome, Error> {
        let outcome = self.ack(of, next)?;
        if matches!(outcome, Outcome::Settled(true, _)) && !self.bound.is_full() {
            done::put(self.transaction, &mut self.done, kept)?;
        }
        Ok(outcome)
    }

    /// `counts`: attempts and crashes.
    fn retry(&mut self, of: &Settled, at: StoreTime, counts: (u32, u32)) -> Result<Outcome, Error> {
        let Some((place, is_superseded)) = self.find_settled(of)? else {
            return Ok(Outcome::Settled(false, None));
        };
        if is_superseded {
            self.delete(place)?;
            return Ok(Outcome::Settled(true, None));
        }
        let row = self.put_again(place, |view, _| {
            put_due(view, at, counts);
        })?;
        Ok(Outcome::Settled(true, Some(row)))
    }

    fn hold(&mut self, of: &Settled, held: Held) -> Result<Outcome, Error> {
        let Some((place, is_superseded)) = self.find_settled(of)? else {
            return Ok(Outcome::Settled(false, None));
        };
        if is_superseded {
            self.delete(place)?;
            return Ok(Outcome::Settled(true, None));
        }
        if !row_at(place, &self.scratch.value)?.hold(held) {
            return Ok(Outcome::Settled(false, None));
        }
        let row = self.put_again(place, |view, _| {
            view.hold(held);
        })?;
        Ok(Outcome::Settled(true, Some(row)))
    }

    fn bury(
        &mut self,
        of: &Settled,
        (cause, since): (Cause, StoreTime),
        counts: (u32, u32),
        next: Option<(StoreTime, DurableId)>,
    ) -> Result<Outcome, Error> {
        let Some((place, is_superseded)) = self.find_settled(of)? else {
            return Ok(Outcome::Settled(false, None));
        };
        if is_superseded {
            self.delete(place)?;
            return Ok(Outcome::Settled(true, None));
        }
        self.copy(place)?;
        let view = row_at(place, &self.scratch.value)?;
        let mut row = view.row(place.number(), self.names);
        (row.attempts, row.crashes) = counts;
        row.suspect = false;
        row.set_due(row.wanted());
        let mut stays = None;
        if let Some((next, copy)) = next {
            row.id = copy;
            (row.key, row.calendar) = (None, None);
            self.take_number(copy.number());
            stays = Some(self.put_again(place, |view, _| {
                put_due(view, next, (0, 0));
            })?);
        } else {
            self.delete(place)?;
        }
        let letter = DeadLetter::new(row, cause, since);
        let value = codec::encode_dead(&letter);
        self.format = self.format.max(codec::format_of_dead(&letter));
        self.tables.dead.insert(letter.row.id.to_bits(), &*value)?;
        Ok(Outcome::Settled(true, stays))
    }

    fn revive(&mut self, id: DurableId, due: StoreTime) -> Result<Option<Row>, Error> {
        let letter = match self.tables.dead.remove(id.to_bits())? {
            None => return Ok(None),
            Some(value) => codec::decode_dead(id.to_bits(), value.value(), self.names)
                .map_err(|flaw| damaged("dead", id.number(), flaw))?,
        };
        let mut row = letter.row;
        row.set_due(due);
        (row.attempts, row.crashes, row.key) = (0, 0, None);
        let view = RowView::of(&row, self.state.epoch);
        self.scratch.next.clear();
        codec::encode_row(&mut self.scratch.next, id.number(), &view);
        self.tables
            .recent
            .insert(id.number(), &*self.scratch.next)?;
        self.tombstones.revive(id.number());
        self.index.put(DueKey::of(id, due), false);
        self.is_changed = true;
        Ok(Some(row))
    }

    fn discard(&mut self, id: DurableId) -> Result<bool, Error> {
        let is_gone = self.tables.dead.remove(id.to_bits())?.is_some();
        self.is_changed |= is_gone;
        Ok(is_gone)
    }

    /// A row with this number will be there.
    fn take_number(&mut self, number: u64) {
        if number >= self.state.next_number {
            self.state.next_number = number.saturating_add(NUMBERS_AHEAD);
            self.is_state_changed = true;
        }
    }

    fn find(&mut self, id: DurableId) -> Result<Option<RowPlace>, Error> {
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

    fn find_target(&mut self, target: &Target) -> Result<Option<(DurableId, RowPlace)>, Error> {
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

    /// Where the row is that was handed out so, if it is there at all. `None`: a look at the row
    /// has to tell.
    fn unread_place(&self, of: &Settled) -> Option<RowPlace> {
        let number = of.id.number();
        if of.epoch != self.state.epoch || of.id.partition() != 0 {
            return None;
        }
        let Some(known) = self.index.get(number) else {
            return Some(RowPlace::ByDue(DueKey::of(of.id, of.due)));
        };
        let is_it = !known.is_moved && known.due == of.due && known.due == of.id.first_due();
        is_it.then_some(RowPlace::Recent(number))
    }

    /// The row that was handed out so, and whether it is superseded.
    fn find_settled(&mut self, of: &Settled) -> Result<Option<(RowPlace, bool)>, Error> {
        if of.epoch != self.state.epoch {
            return Ok(None);
        }
        let Some(place) = self.find(of.id)? else {
            return Ok(None);
        };
        self.copy(place)?;
        let view = row_at(place, &self.scratch.value)?;
        Ok((view.due == of.due).then_some((place, view.superseded)))
    }

    /// Copies the value of a row to the scratch.
    fn copy(&mut self, place: RowPlace) -> Result<(), Error> {
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
    fn take(&mut self, place: RowPlace) -> Result<(), Error> {
        let is_there = self.try_take(place)?;
        is_there.then_some(()).ok_or_else(|| missing(place))
    }

    /// Takes a row out that is there, and its key.
    fn delete(&mut self, place: RowPlace) -> Result<(), Error> {
        let is_there = self.try_delete(place)?;
        is_there.then_some(()).ok_or_else(|| missing(place))
    }

    /// Takes a row out, and its key. Returns whether it was there.
    fn try_delete(&mut self, place: RowPlace) -> Result<bool, Error> {
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
    fn delete_key(&mut self, place: RowPlace) -> Result<(), Error> {
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
    fn put_again(
        &mut self,
        place: RowPlace,
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
    fn write_run(&mut self) -> Result<(), Error> {
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
