//! Settle: what becomes of rows that were handed out, when their handlers have spoken.
//!
//! Each statement looks at the epoch of the row's partition under a lock of its lease: what a node
//! says that has lost it changes nothing.

use super::commit::Making;
use super::rows::{cause_parts, epoch, held_mark, millis, part, row_of, uuid};
use super::statement::{Sql, Statement, statement};
use crate::store::row::{Held, Row, StoreTime};
use crate::store::write::{Outcome, Settled, TrialBegun, Write};
use crate::stores::postgres::session::Asking;
use std::collections::HashMap;
use tokio_postgres::Error;
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[
    Ack::SQL,
    AckSuperseded::SQL,
    Begin::SQL,
    Retry::SQL,
    Hold::SQL,
    Bury::SQL,
];

statement! {
    /// Deletes rows.
    Ack<'a> { part: &'a [i16], due: &'a [i64], id: &'a [Uuid], epoch: &'a [i64] }
    -> Uuid = |row| row.get(0);
    "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY(:part::smallint[])
    ORDER BY part FOR SHARE)
DELETE FROM {s}.timer t
    USING unnest(:part::smallint[], :due::bigint[], :id::uuid[], :epoch::bigint[])
        u (part, due, id, epoch), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch RETURNING t.id"
}

statement! {
    /// Of rows that are to be tried again, those whose key another row has taken.
    AckSuperseded<'a> { part: &'a [i16], due: &'a [i64], id: &'a [Uuid], epoch: &'a [i64] }
    -> Uuid = |row| row.get(0);
    "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY(:part::smallint[])
    ORDER BY part FOR SHARE)
DELETE FROM {s}.timer t
    USING unnest(:part::smallint[], :due::bigint[], :id::uuid[], :epoch::bigint[])
        u (part, due, id, epoch), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch AND t.superseded RETURNING t.id"
}

statement! {
    /// TrialNote, TrialBegin: the crashes of suspects. They stay suspects: their epoch stays.
    Begin<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        epoch: &'a [i64],
        crashes: &'a [i64],
    }
    -> Uuid = |row| row.get(0);
    "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY(:part::smallint[])
    ORDER BY part FOR SHARE)
UPDATE {s}.timer t SET crashes = u.crashes
    FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :epoch::bigint[],
        :crashes::bigint[])
        u (part, due, id, epoch, crashes), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch AND NOT t.superseded RETURNING t.id"
}

statement! {
    /// Gives rows another deadline. Returns them as they are then.
    Retry<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        epoch: &'a [i64],
        next: &'a [i64],
        moved: &'a [bool],
        attempts: &'a [i64],
        crashes: &'a [i64],
    }
    -> Row = row_of;
    "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY(:part::smallint[])
    ORDER BY part FOR SHARE)
UPDATE {s}.timer t SET due = u.next, moved = u.moved, attempts = u.attempts,
        crashes = u.crashes, epoch = u.epoch, held = 0, held_since = NULL
    FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :epoch::bigint[],
        :next::bigint[], :moved::boolean[], :attempts::bigint[], :crashes::bigint[])
        u (part, due, id, epoch, next, moved, attempts, crashes), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch AND NOT t.superseded
    RETURNING t.due, t.id, t.kind, t.key, t.payload, t.attempts, t.calendar, t.superseded,
    t.crashes, t.held, t.held_since, t.expires, t.limit_ms, t.trace"
}

statement! {
    /// Holds rows: nobody hands them out until they are moved. One that is as late as a held row,
    /// and is not held, stays as it is. Returns those that are held, as they are then.
    Hold<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        epoch: &'a [i64],
        next: &'a [i64],
        moved: &'a [bool],
        held: &'a [i16],
        since: &'a [i64],
    }
    -> Row = row_of;
    "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY(:part::smallint[])
    ORDER BY part FOR SHARE)
UPDATE {s}.timer t SET due = u.next, moved = u.moved, epoch = u.epoch, held = u.held,
        held_since = u.since
    FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :epoch::bigint[],
        :next::bigint[], :moved::boolean[], :held::smallint[], :since::bigint[])
        u (part, due, id, epoch, next, moved, held, since), l
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id AND l.part = u.part
    AND l.epoch = u.epoch AND NOT t.superseded AND (u.next <> u.due OR t.held <> 0)
    RETURNING t.due, t.id, t.kind, t.key, t.payload, t.attempts, t.calendar, t.superseded,
    t.crashes, t.held, t.held_since, t.expires, t.limit_ms, t.trace"
}

statement! {
    /// Makes dead letters of rows, which stay. One that is held has its own deadline there: it is
    /// due 2^47 ms after that.
    /// (A timer of a dead letter's id, which somebody has put there, does not stay for that.)
    Bury<'a> {
        part: &'a [i16],
        due: &'a [i64],
        id: &'a [Uuid],
        epoch: &'a [i64],
        copy: &'a [Option<Uuid>],
        attempts: &'a [i64],
        crashes: &'a [i64],
        cause: &'a [i16],
        why: &'a [String],
        since: &'a [i64],
    }
    -> () = |_| ();
    "
WITH l AS (SELECT part, epoch FROM {s}.lease WHERE part = ANY(:part::smallint[])
    ORDER BY part FOR SHARE)
INSERT INTO {s}.dead (id, due, kind, key, payload, attempts, crashes, calendar, cause, why, since,
    expires, limit_ms, trace)
SELECT COALESCE(u.copy, t.id),
    CASE WHEN t.held <> 0 AND t.due >= 140737488355328 THEN t.due - 140737488355328 ELSE t.due END,
    t.kind, CASE WHEN u.copy IS NULL THEN t.key END, t.payload,
    u.attempts, u.crashes, CASE WHEN u.copy IS NULL THEN t.calendar END, u.cause, u.why, u.since,
    t.expires, t.limit_ms, t.trace
FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[], :epoch::bigint[], :copy::uuid[],
        :attempts::bigint[], :crashes::bigint[], :cause::smallint[], :why::text[],
        :since::bigint[])
    u (part, due, id, epoch, copy, attempts, crashes, cause, why, since)
    JOIN l ON l.part = u.part AND l.epoch = u.epoch
    JOIN {s}.timer t ON t.part = u.part AND t.due = u.due AND t.id = u.id AND NOT t.superseded
    FOR UPDATE OF t
ON CONFLICT (id) DO NOTHING"
}

/// Columns of rows that were handed out.
#[derive(Default)]
struct Deliveries {
    parts: Vec<i16>,
    dues: Vec<i64>,
    ids: Vec<Uuid>,
    epochs: Vec<i64>,
    at: HashMap<Uuid, usize>,
}

impl Deliveries {
    fn push(&mut self, of: &Settled, number: usize) {
        self.parts.push(part(of.id.partition()));
        self.dues.push(millis(of.due));
        self.ids.push(uuid(of.id));
        self.epochs.push(epoch(of.epoch));
        self.at.insert(uuid(of.id), number);
    }

    /// These rows, with the numbers of their changes.
    fn numbered(&self, rows: Vec<Row>) -> Vec<(usize, Row)> {
        let number = |row: Row| Some((*self.at.get(&uuid(row.id))?, row));
        rows.into_iter().filter_map(number).collect()
    }

    fn ack(&self) -> Ack<'_> {
        Ack {
            part: &self.parts,
            due: &self.dues,
            id: &self.ids,
            epoch: &self.epochs,
        }
    }

    fn ack_superseded(&self) -> AckSuperseded<'_> {
        AckSuperseded {
            part: &self.parts,
            due: &self.dues,
            id: &self.ids,
            epoch: &self.epochs,
        }
    }

    fn begin<'a>(&'a self, crashes: &'a [i64]) -> Begin<'a> {
        Begin {
            part: &self.parts,
            due: &self.dues,
            id: &self.ids,
            epoch: &self.epochs,
            crashes,
        }
    }
}

/// Rows that were handed out and are to fire again.
#[derive(Default)]
struct Again {
    rows: Deliveries,
    nexts: Vec<i64>,
    moved: Vec<bool>,
    attempts: Vec<i64>,
    crashes: Vec<i64>,
}

impl Again {
    /// `counts`: attempts and crashes.
    fn push(&mut self, of: &Settled, next: StoreTime, counts: (u32, u32), number: usize) {
        self.rows.push(of, number);
        self.nexts.push(millis(next));
        self.moved.push(next != of.id.first_due());
        self.attempts.push(counts.0.into());
        self.crashes.push(counts.1.into());
    }

    fn retry(&self) -> Retry<'_> {
        Retry {
            part: &self.rows.parts,
            due: &self.rows.dues,
            id: &self.rows.ids,
            epoch: &self.rows.epochs,
            next: &self.nexts,
            moved: &self.moved,
            attempts: &self.attempts,
            crashes: &self.crashes,
        }
    }

    /// Moves them. Returns the rows as they are then.
    async fn make(&self, live: Asking<'_>) -> Result<Vec<(usize, Row)>, Error> {
        let moved = live.ask(&self.retry()).await?;
        Ok(self.rows.numbered(moved))
    }
}

/// Rows that are to be held.
#[derive(Default)]
struct ToHold {
    rows: Deliveries,
    nexts: Vec<i64>,
    moved: Vec<bool>,
    whys: Vec<i16>,
    sinces: Vec<i64>,
}

impl ToHold {
    fn push(&mut self, of: &Settled, held: Held, number: usize) {
        let next = of.due.held();
        self.rows.push(of, number);
        self.nexts.push(millis(next));
        self.moved.push(next != of.id.first_due());
        self.whys.push(held_mark(held.why));
        self.sinces.push(millis(held.since));
    }

    fn hold(&self) -> Hold<'_> {
        Hold {
            part: &self.rows.parts,
            due: &self.rows.dues,
            id: &self.rows.ids,
            epoch: &self.rows.epochs,
            next: &self.nexts,
            moved: &self.moved,
            held: &self.whys,
            since: &self.sinces,
        }
    }
}

/// The columns of dead letters that their rows in the timers' table do not have.
#[derive(Default)]
struct Letters {
    copies: Vec<Option<Uuid>>,
    attempts: Vec<i64>,
    crashes: Vec<i64>,
    causes: Vec<i16>,
    whys: Vec<String>,
    sinces: Vec<i64>,
}

impl Letters {
    fn bury<'a>(&'a self, rows: &'a Deliveries) -> Bury<'a> {
        Bury {
            part: &rows.parts,
            due: &rows.dues,
            id: &rows.ids,
            epoch: &rows.epochs,
            copy: &self.copies,
            attempts: &self.attempts,
            crashes: &self.crashes,
            cause: &self.causes,
            why: &self.whys,
            since: &self.sinces,
        }
    }
}

impl Making<'_> {
    /// Makes the changes that say what becomes of deliveries.
    pub(super) async fn settle(&mut self, numbers: &mut Vec<usize>) -> Result<(), Error> {
        let own = self.take(numbers, |write| write.settles().is_some());
        self.begin(&own).await?;
        self.ack(&own).await?;
        self.retry(&own).await?;
        self.hold(&own).await?;
        self.bury(&own).await?;
        self.keep_done(&own).await
    }

    /// Notes the crashes of suspects. Those go whose key another row has taken.
    async fn begin(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let (mut rows, mut all) = (Deliveries::default(), Vec::new());
        for &number in numbers {
            if let Write::Begin { of, crashes } = &self.writes[number] {
                rows.push(of, number);
                all.push(i64::from(*crashes));
            }
        }
        if all.is_empty() {
            return Ok(());
        }
        let gone = self.live.ask(&rows.ack_superseded()).await?;
        let noted = self.live.ask(&rows.begin(&all)).await?;
        for (ids, begun) in [(gone, TrialBegun::Superseded), (noted, TrialBegun::Noted)] {
            for id in ids {
                if let Some(&number) = rows.at.get(&id) {
                    self.outcomes[number] = Some(Outcome::Begun(begun));
                }
            }
        }
        Ok(())
    }

    async fn ack(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut rows = Deliveries::default();
        for &number in numbers {
            if let Write::Ack { of, next: None } | Write::AckKept { of, next: None, .. } =
                &self.writes[number]
            {
                rows.push(of, number);
            }
        }
        self.settled(&rows, &rows.ack()).await
    }

    /// Deletes rows that were handed out.
    async fn settled(
        &mut self,
        rows: &Deliveries,
        statement: &impl Statement<Answer = Uuid>,
    ) -> Result<(), Error> {
        if rows.ids.is_empty() {
            return Ok(());
        }
        for id in self.live.ask(statement).await? {
            if let Some(&number) = rows.at.get(&id) {
                self.outcomes[number] = Some(Outcome::Settled(true, None));
            }
        }
        Ok(())
    }

    async fn retry(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut again = Again::default();
        for &number in numbers {
            match &self.writes[number] {
                Write::Retry {
                    of,
                    at,
                    attempts,
                    crashes,
                } => again.push(of, *at, (*attempts, *crashes), number),
                Write::Ack {
                    of,
                    next: Some(next),
                }
                | Write::AckKept {
                    of,
                    next: Some(next),
                    ..
                } => again.push(of, *next, (0, 0), number),
                _ => {}
            }
        }
        if again.nexts.is_empty() {
            return Ok(());
        }
        let moved = again.make(self.live).await?;
        self.settled_again(&again.rows, moved).await
    }

    /// Holds rows. Those go whose key another row has taken.
    async fn hold(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut to_hold = ToHold::default();
        for &number in numbers {
            if let Write::Hold { of, why, since } = &self.writes[number] {
                let (why, since) = (*why, *since);
                to_hold.push(of, Held { why, since }, number);
            }
        }
        if to_hold.nexts.is_empty() {
            return Ok(());
        }
        let held = self.live.ask(&to_hold.hold()).await?;
        let held = to_hold.rows.numbered(held);
        self.settled_again(&to_hold.rows, held).await
    }

    /// Of these rows some have another deadline now. Deletes those that have not because another
    /// row has taken their key.
    async fn settled_again(
        &mut self,
        rows: &Deliveries,
        moved: Vec<(usize, Row)>,
    ) -> Result<(), Error> {
        let are_all_moved = moved.len() == rows.ids.len();
        for (number, row) in moved {
            self.outcomes[number] = Some(Outcome::Settled(true, Some(row)));
        }
        if are_all_moved {
            return Ok(());
        }
        // (After that: a row may be replaced until it is locked, but is never what it was again.)
        self.settled(rows, &rows.ack_superseded()).await
    }

    async fn bury(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let (mut rows, mut gone, mut again) = (
            Deliveries::default(),
            Deliveries::default(),
            Again::default(),
        );
        let mut letters = Letters::default();
        for &number in numbers {
            let Write::Bury {
                of,
                cause,
                since,
                attempts,
                crashes,
                next,
            } = &self.writes[number]
            else {
                continue;
            };
            rows.push(of, number);
            match next {
                None => gone.push(of, number),
                Some((next, _)) => again.push(of, *next, (0, 0), number),
            }
            letters.copies.push(next.map(|(_, copy)| uuid(copy)));
            letters.attempts.push(i64::from(*attempts));
            letters.crashes.push(i64::from(*crashes));
            let (tag, why) = cause_parts(cause);
            letters.causes.push(tag);
            letters.whys.push(why);
            letters.sinces.push(millis(*since));
        }
        if rows.ids.is_empty() {
            return Ok(());
        }
        self.live.ask(&letters.bury(&rows)).await?;
        // (After that, which has locked the rows that are not.)
        self.settled(&rows, &rows.ack_superseded()).await?;
        self.settled(&gone, &gone.ack()).await?;
        if !again.nexts.is_empty() {
            for (number, row) in again.make(self.live).await? {
                self.outcomes[number] = Some(Outcome::Settled(true, Some(row)));
            }
        }
        Ok(())
    }
}
