//! Load: takes rows into the window that were read, and gives back what it cannot hold.
//!
//! Which rows are read, and when, is in `alone.rs` and `fleet.rs`.

use super::core::Core;
use super::window::ClockReading;
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{Position, Row, StoreTime};
use crate::store::write::{Settled, SliceLimit, Write};

impl Core {
    /// How much a load takes at once, if the window has room for `room` rows.
    pub(super) fn slice(&self, room: usize) -> SliceLimit {
        SliceLimit {
            rows: room.min(self.slice_rows),
            bytes: self.window.bounds().slice.bytes,
        }
    }

    /// Takes rows into the window that a load of up to `limit` has returned. Returns up to where
    /// all are there.
    pub(super) fn take_in(
        &mut self,
        rows: Vec<Row>,
        until: StoreTime,
        limit: SliceLimit,
        clocks: ClockReading,
    ) -> Result<Position, StoreError> {
        let bytes = rows.iter().map(Row::bytes).sum();
        self.fit_slice(bytes);
        let is_full =
            limit.is_reached(rows.len(), bytes) && !is_broken(DurableFault::LoadStopsEarly);
        let mut loaded = match rows.last() {
            Some(last) if is_full && is_broken(DurableFault::LoadSkipsEqualDeadlines) => {
                Position::end_of(last.due)
            }
            Some(last) if is_full => last.position(),
            _ => Position::end_of(until),
        };
        let mut superseded = Vec::new();
        for row in rows {
            if !self.is_to_take(&row, &mut superseded) {
                continue;
            }
            let position = row.position();
            self.shared.throttle.expect(&row);
            self.take(self.delivery(row), clocks);
            if self.window.is_too_large() {
                loaded = position;
                break;
            }
        }
        self.commit(superseded)?;
        Ok(loaded)
    }

    /// Whether a row that was read is to come into the window. If it is superseded it ends: the row
    /// that took its key stands for it.
    pub(super) fn is_to_take(&self, row: &Row, superseded: &mut Vec<Write>) -> bool {
        let is_new = !self.window.has(row.id)
            && !self.aside.has_answer(row.id)
            && !self.held.has(row.position());
        if is_new && row.superseded {
            superseded.push(ended(row, self.epoch(row.id.partition())));
        }
        is_new && !row.superseded
    }

    /// Asks for fewer rows, if these were large, or for more: a store may have to read rows before
    /// it knows how large they are.
    pub(super) fn fit_slice(&mut self, bytes: usize) {
        let slice = self.window.bounds().slice;
        if bytes >= slice.bytes {
            self.slice_rows = (self.slice_rows / 4).max(1);
        } else if bytes <= slice.bytes / 4 {
            self.slice_rows = (self.slice_rows * 4).min(slice.rows);
        }
    }

    /// Takes a slice of the rows out of the window that leave it. Returns whether all are gone.
    pub(super) fn give_back_rows(&mut self) -> bool {
        let owned = &self.owned;
        self.window.give_back(|position| {
            let partition = position.id.partition();
            let owner = owned
                .binary_search_by(|owned| owned.lease.partition.cmp(&partition))
                .ok()
                .and_then(|at| owned.get(at));
            owner.is_some_and(|owned| position <= owned.loaded)
                && !is_broken(DurableFault::ShrunkKeepsLoaded)
        })
    }
}

/// A change that deletes a superseded row.
fn ended(row: &Row, epoch: u64) -> Write {
    let of = Settled {
        id: row.id,
        due: row.due,
        epoch,
    };
    Write::Ack { of, next: None }
}
