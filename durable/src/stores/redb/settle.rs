//! Settle: what becomes of a row that was handed out.

use super::codec::{self, RowView};
use super::done;
use super::due_key::DueKey;
use super::room::RoomFor;
use super::row_changes::RowChanges;
use super::tables::{RowPlace, row_at};
use crate::store::done::DoneTimer;
use crate::store::row::{Cause, DeadLetter, DurableId, Held, StoreTime};
use crate::store::write::{Outcome, Settled, TrialBegun, Write};
use redb::Error;

/// A row was settled, and is due again. `counts`: attempts and crashes.
fn put_due(view: &mut RowView<'_>, due: StoreTime, counts: (u32, u32)) {
    view.set_due(due);
    (view.attempts, view.crashes) = (counts.0.into(), counts.1.into());
    view.suspect = false;
}

impl RowChanges<'_> {
    /// Whether this transaction has room for what a change writes anew of a row that a handler has
    /// had.
    pub(super) fn room_for(&mut self, write: &Write) -> Result<RoomFor, Error> {
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
            return Ok(RoomFor::This);
        };
        if self.bound.is_none() {
            return Ok(RoomFor::This);
        }
        Ok(match self.find_settled(of)? {
            Some((_, false)) => self.bound.take(self.scratch.value.len()),
            _ => RoomFor::This,
        })
    }

    pub(super) fn begin_trial(&mut self, of: &Settled, crashes: u32) -> Result<TrialBegun, Error> {
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

    pub(super) fn ack(&mut self, of: &Settled, next: Option<StoreTime>) -> Result<Outcome, Error> {
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
    pub(super) fn ack_kept(
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
    pub(super) fn retry(
        &mut self,
        of: &Settled,
        at: StoreTime,
        counts: (u32, u32),
    ) -> Result<Outcome, Error> {
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

    pub(super) fn hold(&mut self, of: &Settled, held: Held) -> Result<Outcome, Error> {
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

    pub(super) fn bury(
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
}
