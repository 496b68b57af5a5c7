//! Commit: makes the changes of one transaction, one by one.

use super::codec::{self, RowView};
use super::due_key::DueKey;
use super::row_changes::RowChanges;
use super::tables::{RowPlace, damaged, due_range, missing, recent_row, row_at, row_by_due};
use crate::store::contract::Gate;
use crate::store::row::{DurableId, Held, Position, Row, StoreTime};
use crate::store::write::{Amendment, KindSlice, Outcome, Replacement, Target, Write};
use redb::{Error, ReadableTable};

/// A row, and where it is.
type PlacedRow = (DurableId, RowPlace);

impl RowChanges<'_> {
    pub(super) fn make(&mut self, write: Write, gate: &mut dyn Gate) -> Result<Outcome, Error> {
        match write {
            Write::Arm(row) => self.arm(&row, gate).map(Outcome::Armed),
            Write::Replace(of) => self.arm_if(&of, gate),
            Write::Amend(of) => self.amend(&of, gate),
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

    /// Puts a row in, if its key has the row that it is to have.
    fn arm_if(&mut self, of: &Replacement, gate: &mut dyn Gate) -> Result<Outcome, Error> {
        let holder = match &of.row.key {
            Some(key) => self.find_target(&Target::Key(key.clone()))?,
            None => None,
        };
        if !of.is_for(holder.map(|(id, _)| id)) {
            return Ok(Outcome::Replaced(false, None));
        }
        let gone = self.arm(&of.row, gate)?;
        Ok(Outcome::Replaced(true, gone))
    }

    fn amend(&mut self, of: &Amendment, gate: &mut dyn Gate) -> Result<Outcome, Error> {
        let refused = Outcome::Amended(false, None);
        let Some(place) = self.find(of.id)? else {
            return Ok(refused);
        };
        self.copy(place)?;
        let view = row_at(place, &self.scratch.value)?;
        if view.superseded || of.moves() && !of.may_move(view.due) {
            return Ok(refused);
        }
        let is_free = gate.let_go(of.id);
        if of.moves() && !is_free {
            return Ok(refused);
        }
        let row = self.put_changed(place, Some(of), |view, state| {
            view.suspect |= state.was_handed_out(view);
            if of.moves() {
                view.set_due(of.due);
            }
        })?;
        Ok(Outcome::Amended(true, is_free.then_some(row)))
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
}
