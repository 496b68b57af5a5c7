//! Reschedule: rows that were not handed out get another deadline. Rows that have a calendar are
//! amended, whether they were handed out or not.

use super::commit::Making;
use super::locked::{LockedRow, is_free};
use super::rows::{durable_id, millis, row_of, time};
use super::statement::{Sql, Statement, statement};
use crate::store::row::{Row, StoreTime};
use crate::store::write::{Amendment, Outcome, Write};
use std::collections::HashMap;
use tokio_postgres::Error;
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[Move::SQL, Amend::SQL];

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

statement! {
    /// Gives rows that are locked another payload and calendar.
    Amend<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        payload: &'a [&'a [u8]],
        calendar: &'a [&'a str],
        trace: &'a [Option<&'a str>],
    }
    -> Uuid = |row| row.get(0);
    "
UPDATE {s}.timer t SET payload = u.payload, calendar = u.calendar, trace = u.trace
    FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :payload::bytea[],
        :calendar::text[], :trace::text[]) u (part, due, id, payload, calendar, trace)
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND NOT t.superseded
    RETURNING t.id"
}

/// Columns of rows that are amended.
#[derive(Default)]
struct Amendments<'a> {
    parts: Vec<i16>,
    dues: Vec<i64>,
    ids: Vec<Uuid>,
    payloads: Vec<&'a [u8]>,
    calendars: Vec<&'a str>,
    traces: Vec<Option<&'a str>>,
}

impl<'a> Amendments<'a> {
    fn push(&mut self, found: &LockedRow, of: &'a Amendment) {
        self.parts.push(found.part);
        self.dues.push(found.due);
        self.ids.push(found.id);
        self.payloads.push(&of.payload);
        self.calendars.push(&of.calendar);
        self.traces.push(of.trace.as_deref());
    }

    fn make(&self) -> Amend<'_> {
        Amend {
            part: &self.parts,
            due: &self.dues,
            id: &self.ids,
            payload: &self.payloads,
            calendar: &self.calendars,
            trace: &self.traces,
        }
    }
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

    /// Makes the changes that amend rows. One that was not moved is not returned: if it was handed
    /// out, its node keeps it as it is, and else no node has it.
    pub(super) async fn amend(&mut self, numbers: &mut Vec<usize>) -> Result<(), Error> {
        let own = self.take(numbers, |write| matches!(write, Write::Amend(_)));
        if own.is_empty() {
            return Ok(());
        }
        let found = self.find(&own).await?;
        let upto = self.look(&found).await?;
        let writes = self.writes;
        let (mut amended, mut moves) = (Amendments::default(), Moves::default());
        let mut at = HashMap::new();
        for (number, found) in &found {
            let Write::Amend(of) = &writes[*number] else {
                continue;
            };
            if of.moves() && !(of.may_move(time(found.due)) && is_free(found, &upto)) {
                continue;
            }
            amended.push(found, of);
            at.insert(of.id, *number);
            if of.moves() {
                moves.push(found, of.due, self.own_epoch(of.id.partition()));
            }
        }
        if at.is_empty() {
            return Ok(());
        }
        for id in self.live.ask(&amended.make()).await? {
            if let Some(&number) = at.get(&durable_id(id)) {
                self.outcomes[number] = Some(Outcome::Amended(true, None));
            }
        }
        if moves.ids.is_empty() {
            return Ok(());
        }
        for row in self.live.ask(&moves.make()).await? {
            if let Some(&number) = at.get(&row.id) {
                self.outcomes[number] = Some(Outcome::Amended(true, Some(row)));
            }
        }
        Ok(())
    }
}
