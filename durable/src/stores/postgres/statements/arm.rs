//! Arm: rows are put in. One that has the key of another replaces it.

use super::commit::Making;
use super::locked::{LockedRows, is_free};
use super::rows::{durable_id, held_mark, millis, part, uuid};
use super::statement::{Sql, Statement, statement};
use crate::store::row::{Row, RowMore};
use crate::store::write::{Outcome, Write};
use tokio_postgres::Error;
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[Arm::SQL, ArmMore::SQL];

statement! {
    /// Puts rows in.
    Arm<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        kind: &'a [&'a str],
        key: &'a [Option<&'a str>],
        payload: &'a [&'a [u8]],
        attempts: &'a [i64],
        crashes: &'a [i64],
        calendar: &'a [Option<&'a str>],
        moved: &'a [bool],
        epoch: &'a [i64],
    }
    -> () = |_| ();
    "
INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, crashes, calendar, superseded,
    moved, epoch)
SELECT part, due, id, kind, key, payload, attempts, crashes, calendar, false, moved, epoch
FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :kind::text[], :key::text[],
        :payload::bytea[], :attempts::bigint[], :crashes::bigint[], :calendar::text[],
        :moved::boolean[], :epoch::bigint[])
    u (part, due, id, kind, key, payload, attempts, crashes, calendar, moved, epoch)"
}

statement! {
    /// Puts rows in that have parts which few rows have. (`Arm` is for all others: an array of
    /// nothing costs each row, too.)
    ArmMore<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        kind: &'a [&'a str],
        key: &'a [Option<&'a str>],
        payload: &'a [&'a [u8]],
        attempts: &'a [i64],
        crashes: &'a [i64],
        calendar: &'a [Option<&'a str>],
        moved: &'a [bool],
        epoch: &'a [i64],
        held: &'a [i16],
        held_since: &'a [Option<i64>],
        expires: &'a [Option<i64>],
        limit_ms: &'a [Option<i64>],
        trace: &'a [Option<&'a str>],
    }
    -> () = |_| ();
    "
INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, crashes, calendar, superseded,
    moved, epoch, held, held_since, expires, limit_ms, trace)
SELECT part, due, id, kind, key, payload, attempts, crashes, calendar, false, moved, epoch, held,
    held_since, expires, limit_ms, trace
FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :kind::text[], :key::text[],
        :payload::bytea[], :attempts::bigint[], :crashes::bigint[], :calendar::text[],
        :moved::boolean[], :epoch::bigint[], :held::smallint[], :held_since::bigint[],
        :expires::bigint[], :limit_ms::bigint[], :trace::text[])
    u (part, due, id, kind, key, payload, attempts, crashes, calendar, moved, epoch, held,
        held_since, expires, limit_ms, trace)"
}

/// Columns of rows that are put in.
#[derive(Default)]
struct Armed<'a> {
    parts: Vec<i16>,
    dues: Vec<i64>,
    ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    keys: Vec<Option<&'a str>>,
    payloads: Vec<&'a [u8]>,
    attempts: Vec<i64>,
    crashes: Vec<i64>,
    calendars: Vec<Option<&'a str>>,
    moved: Vec<bool>,
    epochs: Vec<i64>,
}

impl<'a> Armed<'a> {
    fn push(&mut self, row: &'a Row, epoch: i64) {
        self.parts.push(part(row.id.partition()));
        self.dues.push(millis(row.due));
        self.ids.push(uuid(row.id));
        self.kinds.push(&row.kind);
        self.keys.push(row.key.as_deref());
        self.payloads.push(&row.payload);
        self.attempts.push(row.attempts.into());
        self.crashes.push(row.crashes.into());
        self.calendars.push(row.calendar.as_deref());
        self.moved.push(row.due != row.id.first_due());
        self.epochs.push(epoch);
    }

    fn arm(&self) -> Arm<'_> {
        Arm {
            part: &self.parts,
            due: &self.dues,
            id: &self.ids,
            kind: &self.kinds,
            key: &self.keys,
            payload: &self.payloads,
            attempts: &self.attempts,
            crashes: &self.crashes,
            calendar: &self.calendars,
            moved: &self.moved,
            epoch: &self.epochs,
        }
    }
}

/// Columns of rows that have what few rows have.
#[derive(Default)]
struct ArmedMore<'a> {
    rows: Armed<'a>,
    held: Vec<i16>,
    held_since: Vec<Option<i64>>,
    expires: Vec<Option<i64>>,
    limits: Vec<Option<i64>>,
    traces: Vec<Option<&'a str>>,
}

impl<'a> ArmedMore<'a> {
    fn push(&mut self, row: &'a Row, more: &'a RowMore, epoch: i64) {
        self.rows.push(row, epoch);
        self.held
            .push(more.held.map_or(0, |held| held_mark(held.why)));
        self.held_since
            .push(more.held.map(|held| millis(held.since)));
        self.expires.push(more.expires.map(millis));
        // (It fits, as `RowMore::is_limit` has it.)
        let limit = more.limit_ms.map(i64::try_from);
        self.limits.push(limit.and_then(Result::ok));
        self.traces.push(more.trace.as_deref());
    }

    fn arm(&self) -> ArmMore<'_> {
        ArmMore {
            part: &self.rows.parts,
            due: &self.rows.dues,
            id: &self.rows.ids,
            kind: &self.rows.kinds,
            key: &self.rows.keys,
            payload: &self.rows.payloads,
            attempts: &self.rows.attempts,
            crashes: &self.rows.crashes,
            calendar: &self.rows.calendars,
            moved: &self.rows.moved,
            epoch: &self.rows.epochs,
            held: &self.held,
            held_since: &self.held_since,
            expires: &self.expires,
            limit_ms: &self.limits,
            trace: &self.traces,
        }
    }
}

impl Making<'_> {
    /// Makes the changes that put rows in.
    pub(super) async fn arm(&mut self, numbers: &mut Vec<usize>) -> Result<(), Error> {
        let own = self.take(numbers, |write| {
            matches!(write, Write::Arm(_) | Write::Replace(_))
        });
        self.take_keys(&own).await?;
        let (mut armed, mut armed_more) = (Armed::default(), ArmedMore::default());
        for number in own {
            let row = match (&self.writes[number], &self.outcomes[number]) {
                (_, Some(Outcome::Blocked(_) | Outcome::Replaced(false, _))) => continue,
                (Write::Arm(row), _) => row,
                (Write::Replace(of), _) => &of.row,
                _ => continue,
            };
            let epoch = self.own_epoch(row.id.partition());
            match row.more() {
                None => armed.push(row, epoch),
                Some(more) => armed_more.push(row, more, epoch),
            }
        }
        if !armed.ids.is_empty() {
            self.live.ask(&armed.arm()).await?;
        }
        if !armed_more.held.is_empty() {
            self.live.ask(&armed_more.arm()).await?;
        }
        Ok(())
    }

    /// Rows that have the keys of these changes go, or lose them if they were handed out.
    async fn take_keys(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let found = self.find_keys(numbers).await?;
        let upto = self.look(&found).await?;
        for &number in numbers {
            if let Write::Replace(of) = &self.writes[number]
                && self.outcomes[number].is_none()
            {
                // (Until a row is found that has the key.)
                self.outcomes[number] = Some(Outcome::Replaced(of.is_for(None), None));
            }
        }
        let (mut gone, mut superseded) = (LockedRows::default(), LockedRows::default());
        for (number, found) in &found {
            let (id, is_free) = (durable_id(found.id), is_free(found, &upto));
            let ended = is_free.then_some(id);
            self.outcomes[*number] = match &self.writes[*number] {
                Write::Replace(of) if !of.is_for(Some(id)) => {
                    self.outcomes[*number] = Some(Outcome::Replaced(false, None));
                    continue;
                }
                Write::Replace(_) => Some(Outcome::Replaced(true, ended)),
                _ => Some(Outcome::Armed(ended)),
            };
            match is_free {
                true => gone.push(found),
                false => superseded.push(found),
            }
        }
        gone.end(self.live).await?;
        superseded.supersede(self.live).await
    }
}
