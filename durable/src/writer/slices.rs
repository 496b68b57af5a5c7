//! Slices: what a turn of the writer does of the calls that take more than one.

use super::plan::{Changes, KindCancelled, Many, Plan};
use super::turn::Writer;
use crate::queue::request::{Listing, Look, Reply};
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DeadLetter, DurableId};
use crate::store::write::{Outcome, SliceLimit, Target, Write};
use std::time::Instant;

impl Writer {
    /// TurnSlice: plans the next slice of each large call, while the turn has room.
    pub(super) fn plan_large(
        &mut self,
        mut room: SliceLimit,
        changes: &mut Changes,
    ) -> Result<(), StoreError> {
        for _ in 0..self.large.writes.len() {
            if room.is_reached(0, 0) {
                break;
            }
            let Some((mut many, reply)) = self.large.writes.pop_front() else {
                break;
            };
            let from = changes.writes.len();
            let (rows, bytes) = match self.plan_slice(&mut many, room, &mut changes.writes) {
                Ok(size) => size,
                Err(error) => {
                    // (It is refused with the others that are under way.)
                    self.large.push(many, reply);
                    return Err(error);
                }
            };
            room.rows = room.rows.saturating_sub(rows);
            room.bytes = room.bytes.saturating_sub(bytes);
            changes.add_plan(Plan::Many(many), reply);
            self.wait_behind(from, changes);
        }
        Ok(())
    }

    /// Plans the next slice of a large call. Returns how many rows and bytes it has.
    fn plan_slice(
        &mut self,
        many: &mut Many,
        room: SliceLimit,
        writes: &mut Vec<Write>,
    ) -> Result<(usize, usize), StoreError> {
        let (mut rows, mut bytes) = (0, 0);
        match many {
            Many::Arm(many) => {
                debug_assert!(many.rows.is_empty(), "a call has one slice in a commit");
                while !room.is_reached(rows, bytes)
                    && let Some(timer) = many.rest.next()
                {
                    bytes += timer.bytes();
                    rows += 1;
                    let (row, near) = self.new_row(timer);
                    many.ids.push(row.id);
                    many.rows.push((row.id, near));
                    writes.push(Write::Arm(row));
                }
            }
            Many::Cancel(many) => {
                debug_assert!(many.left == 0, "a call has one slice in a commit");
                let ids = many.rest.by_ref().take(room.rows);
                let before = writes.len();
                writes.extend(ids.map(|id| Write::Cancel(Target::Id(id))));
                rows = writes.len() - before;
                many.left = rows;
            }
            Many::Kind(kind) => {
                kind.slice.limit = room;
                rows = room.rows;
                writes.push(Write::CancelKind(kind.slice.clone()));
            }
            Many::Bulk(bulk) => return self.plan_bulk(bulk, room, writes),
        }
        Ok((rows, bytes))
    }

    /// TurnCommit: and notes how long it takes.
    pub(super) fn commit_in_pace(
        &mut self,
        writes: Vec<Write>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let (mut rows, mut bytes) = (writes.len(), 0);
        for write in &writes {
            match write {
                Write::Arm(row) => bytes += row.bytes(),
                Write::Replace(of) => bytes += of.row.bytes(),
                Write::Amend(of) => bytes += of.bytes(),
                Write::AckKept { kept, .. } => bytes += kept.bytes(),
                Write::Move(..) | Write::Revive(..) | Write::Hold { .. } => {
                    bytes += self.moved_bytes;
                }
                Write::CancelKind(slice) => rows += slice.limit.rows,
                _ => {}
            }
        }
        let begun = self.core.time();
        let outcomes = self.core.commit(writes)?;
        if rows > 0 {
            let took = self.core.time().saturating_duration_since(begun);
            self.pace.note(rows, bytes, took);
        }
        Ok(outcomes)
    }

    /// A slice of a kind was cancelled. The rest comes in a later turn.
    pub(super) fn go_on_with_kind(
        &mut self,
        mut kind: KindCancelled,
        outcome: Option<Outcome>,
        reply: Reply,
    ) {
        let (gone, last) = match outcome {
            Some(Outcome::CancelledMany(gone, last)) => (gone, last),
            _ => (Vec::new(), None),
        };
        for &id in &gone {
            self.forget_cancelled(id);
        }
        self.core.shared.counts.cancelled.add(gone.len() as u64);
        kind.gone += gone.len();
        kind.note(&self.large.moved);
        let last = last.filter(|_| !is_broken(DurableFault::SliceLast));
        if let Some(last) = last {
            kind.slice.after = last;
            self.large.push(Box::new(Many::Kind(kind)), reply);
        } else if kind.moved.is_empty() {
            reply.count(kind.gone);
        } else {
            let moved = kind.moved.into_iter().collect();
            self.large.push(Many::cancel(moved, kind.gone), reply);
        }
    }

    /// Reads the next slice of a large call.
    pub(super) fn look_large(&mut self) -> Result<(), StoreError> {
        match self.large.looks.pop_front() {
            Some(Look::Page(paging)) => self.look_at_page(*paging),
            Some(Look::Done(paging)) => self.look_at_done(*paging),
            Some(Look::Dead(after, listing)) => self.look_at_dead(after, listing),
            Some(Look::Unhandled(counting)) => self.look_at_held(counting),
            Some(short) => self.look(short),
            None => Ok(()),
        }
    }

    fn look_at_dead(
        &mut self,
        after: Option<DurableId>,
        mut listing: Listing<DeadLetter>,
    ) -> Result<(), StoreError> {
        let begun = self.core.time();
        let limit = self.slice_of(listing.left);
        let letters = match self.core.store.dead(after, limit) {
            Ok(letters) => letters,
            Err(error) => return self.answer(listing.teller, Err(error)),
        };
        let bytes = letters.iter().map(|letter| letter.row.bytes()).sum();
        self.note_look(letters.len(), bytes, begun);
        listing.left -= letters.len().min(listing.left);
        let is_full = limit.is_reached(letters.len(), bytes);
        let last = letters.last().map(|letter| letter.row.id);
        listing.found.push(letters);
        if is_full && listing.left > 0 && last.is_some() {
            self.large.push_look(Look::Dead(last, listing));
            return Ok(());
        }
        self.answer(listing.teller, Ok(listing.found))
    }

    pub(super) fn note_look(&mut self, rows: usize, bytes: usize, begun: Instant) {
        let took = self.core.time().saturating_duration_since(begun);
        self.look_pace.note(rows, bytes, took);
    }

    /// A slice of at most this number of rows.
    pub(super) fn slice_of(&self, rows: usize) -> SliceLimit {
        let limit = self.look_pace.limit();
        SliceLimit {
            rows: rows.min(limit.rows),
            ..limit
        }
    }
}
