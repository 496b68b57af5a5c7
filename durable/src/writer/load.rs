//! Load: keeps the window loaded with the rows that are due soon, and within its bounds.
//!
//! TurnLoad is here, for one node's store; `nodes.rs` has that of a store that is shared.

use super::turn::{Owned, Writer};
use super::window::ClockReading;
use crate::handler::delivery::Delivery;
use crate::store::contract::{Settled, SliceLimit, StoreError, Write};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{Position, Row, StoreTime};

impl Writer {
    /// TurnLoad: loads a slice of the window, if it has room and is not loaded far enough
    /// ahead. Returns whether it is.
    pub(super) fn load(
        &mut self,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<bool, StoreError> {
        if self.fleet.is_some() {
            return self.load_claimed(clocks);
        }
        let bounds = self.window.bounds();
        let until = now.after(bounds.ahead);
        let enough = now.after(bounds.ahead / 4 * 3);
        for number in 0..self.owned.len() {
            let Owned { lease, loaded, .. } = self.owned[number];
            let room = self.window.room();
            if loaded.due >= enough || room == 0 || self.is_stopping {
                continue;
            }
            let limit = self.slice(room);
            let rows = self.store.load(lease.partition, loaded, until, limit)?;
            let loaded = self.take_in(rows, until, limit, clocks)?;
            self.owned[number].loaded = loaded;
        }
        let has_room = self.window.room() > 0 && !self.is_stopping;
        Ok(!has_room || self.owned.iter().all(|owned| owned.loaded.due >= enough))
    }

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
        let is_new = !self.window.has(row.id) && !self.aside.has_answer(row.id);
        if is_new && row.superseded {
            superseded.push(ended(row, self.epoch(row.id.partition())));
        }
        is_new && !row.superseded
    }

    /// Takes a row into the window: a suspect waits there.
    pub(super) fn take(&mut self, mut delivery: Delivery, clocks: ClockReading) {
        let suspects = &mut self.window.suspects;
        suspects.correct(&mut delivery.row, delivery.fence);
        let row = &delivery.row;
        let policy = self.shared.kinds.retry_of(&row.kind);
        if row.is_on_trial() && !policy.has_crashed_out(row.crashes) {
            self.window.hold(delivery, clocks.monotonic);
        } else {
            self.window.insert(delivery, clocks);
        }
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

    /// Rows of the partitions that are owned, in order.
    pub(super) fn load_all(
        &mut self,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, StoreError> {
        let owned = self.owned.iter().filter(|owned| !owned.is_leaving);
        let owned: Vec<_> = owned.map(|owned| owned.lease.partition).collect();
        if let Some(store) = self.store.shared() {
            return store.load_many(&owned, after, until, limit);
        }
        let mut rows = Vec::new();
        for partition in owned {
            rows.extend(self.store.load(partition, after, until, limit)?);
        }
        rows.sort_by_key(Row::position);
        rows.truncate(limit.rows);
        Ok(rows)
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

    /// More was armed into the window than it may hold: what is due last leaves it.
    pub(super) fn shrink(&mut self) {
        let Some(last) = self.window.shrink() else {
            return;
        };
        if is_broken(DurableFault::ShrunkKeepsLoaded) {
            return;
        }
        for owned in &mut self.owned {
            owned.loaded = owned.loaded.min(last);
        }
    }

    /// StopDeliver: the window lets go of its rows, but for those that are being handled.
    pub(super) fn empty(&mut self) {
        self.is_stopping = true;
        for owned in &mut self.owned {
            owned.loaded = Position::MIN;
        }
        self.window.empty();
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
