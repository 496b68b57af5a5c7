//! Reschedule: rows that were not handed out get another deadline.

use super::commit::Making;
use super::locked::{LockedRow, is_free};
use super::rows::{durable_id, millis, row_of};
use super::statement::{Sql, Statement, statement};
use crate::store::row::{Row, StoreTime};
use crate::store::write::{Outcome, Write};
use std::collections::HashMap;
use tokio_postgres::Error;
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[Move::SQL];

statement! {
    /// Moves rows that are locked, and were not handed out: none of them is suspect. One that was
    /// held is held no more.
    Move<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        next: &'a [i64],
        moved: &'a [bool],
        epoch: &'a [i64],
    }
    -> Row = row_of;
    "
UPDATE {s}.timer t SET due = u.next, moved = u.moved, epoch = GREATEST(t.epoch, u.epoch),
        held = 0, held_since = NULL
    FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :next::bigint[], :moved::boolean[],
        :epoch::bigint[]) u (part, due, id, next, moved, epoch)
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND NOT t.superseded
    RETURNING t.due, t.id, t.kind, t.key, t.payload, t.attempts, t.calendar, t.superseded,
    t.crashes, t.held, t.held_since, t.expires, t.limit_ms, t.trace"
}

/// Columns of rows that get another deadline.
#[derive(Default)]
struct Moves {
    parts: Vec<i16>,
    dues: Vec<i64>,
    ids: Vec<Uuid>,
    nexts: Vec<i64>,
    moved: Vec<bool>,
    epochs: Vec<i64>,
}

impl Moves {
    fn push(&mut self, found: &LockedRow, next: StoreTime, epoch: i64) {
        self.parts.push(found.part);
        self.dues.push(found.due);
        self.ids.push(found.id);
        self.nexts.push(millis(next));
        self.moved.push(next != durable_id(found.id).first_due());
        self.epochs.push(epoch);
    }

    fn make(&self) -> Move<'_> {
        Move {
            part: &self.parts,
            due: &self.dues,
            id: &self.ids,
            next: &self.nexts,
            moved: &self.moved,
            epoch: &self.epochs,
        }
    }
}

impl Making<'_> {
    /// Makes the changes that move rows.
    pub(super) async fn reschedule(&mut self, numbers: &mut Vec<usize>) -> Result<(), Error> {
        let own = self.take(numbers, |write| matches!(write, Write::Move(..)));
        let mut found = self.find(&own).await?;
        found.extend(self.find_keys(&own).await?);
        let upto = self.look(&found).await?;
        let mut moves = Moves::default();
        let mut at = HashMap::new();
        for (number, found) in found.iter().filter(|(_, found)| is_free(found, &upto)) {
            if let Write::Move(_, next) = &self.writes[*number] {
                let id = durable_id(found.id);
                moves.push(found, *next, self.own_epoch(id.partition()));
                at.insert(id, *number);
            }
        }
        if at.is_empty() {
            return Ok(());
        }
        for row in self.live.ask(&moves.make()).await? {
            if let Some(&number) = at.get(&row.id) {
                self.outcomes[number] = Some(Outcome::Moved(Some(row)));
            }
        }
        Ok(())
    }
}
