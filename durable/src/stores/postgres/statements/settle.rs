//! Settle: what becomes of rows that were handed out, when their handlers have spoken.
//!
//! Each statement looks at the epoch of the row's partition under a lock of its lease: what a node
//! says that has lost it changes nothing.

use super::commit::Making;
use super::rows::{cause_parts, millis, row_of, uuid};
use super::sql;
use crate::store::contract::{Outcome, Settled, TrialBegun, Write};
use crate::store::row::{Row, StoreTime};
use crate::stores::postgres::leases::{epoch, part};
use crate::stores::postgres::session::{Live, Params};
use std::collections::HashMap;
use tokio_postgres::Error;
use uuid::Uuid;

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

    /// Moves them. Returns the rows as they are then.
    async fn make(&self, live: &Live) -> Result<Vec<(usize, Row)>, Error> {
        let rows = &self.rows;
        let moved = live
            .rows(
                sql::RETRY,
                &[
                    &rows.parts,
                    &rows.dues,
                    &rows.ids,
                    &rows.epochs,
                    &self.nexts,
                    &self.moved,
                    &self.attempts,
                    &self.crashes,
                ],
            )
            .await?;
        let number = |row: Row| Some((*rows.at.get(&uuid(row.id))?, row));
        Ok(moved.iter().map(row_of).filter_map(number).collect())
    }
}

impl Making<'_> {
    /// Notes the crashes of suspects. Those go whose key another row has taken.
    pub(super) async fn begin(&mut self, numbers: &[usize]) -> Result<(), Error> {
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
        let params: Params = &[&rows.parts, &rows.dues, &rows.ids, &rows.epochs];
        let gone = self.live.rows(sql::ACK_SUPERSEDED, params).await?;
        let params: Params = &[&rows.parts, &rows.dues, &rows.ids, &rows.epochs, &all];
        let noted = self.live.rows(sql::BEGIN, params).await?;
        for (columns, begun) in [(gone, TrialBegun::Superseded), (noted, TrialBegun::Noted)] {
            for row in columns {
                if let Some(&number) = rows.at.get(&row.get(0)) {
                    self.outcomes[number] = Some(Outcome::Begun(begun));
                }
            }
        }
        Ok(())
    }

    pub(super) async fn ack(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut rows = Deliveries::default();
        for &number in numbers {
            if let Write::Ack { of, .. } = &self.writes[number] {
                rows.push(of, number);
            }
        }
        self.settled(sql::ACK, &rows).await
    }

    /// Deletes rows that were handed out.
    async fn settled(&mut self, sql: &'static str, rows: &Deliveries) -> Result<(), Error> {
        if rows.ids.is_empty() {
            return Ok(());
        }
        let gone = self
            .live
            .rows(sql, &[&rows.parts, &rows.dues, &rows.ids, &rows.epochs])
            .await?;
        for row in gone {
            if let Some(&number) = rows.at.get(&row.get(0)) {
                self.outcomes[number] = Some(Outcome::Settled(true, None));
            }
        }
        Ok(())
    }

    pub(super) async fn retry(&mut self, numbers: &[usize]) -> Result<(), Error> {
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
                } => again.push(of, *next, (0, 0), number),
                _ => {}
            }
        }
        if again.nexts.is_empty() {
            return Ok(());
        }
        for (number, row) in again.make(self.live).await? {
            self.outcomes[number] = Some(Outcome::Settled(true, Some(row)));
        }
        // (After that: a row may be replaced until it is locked, but is never what it was again.)
        self.settled(sql::ACK_SUPERSEDED, &again.rows).await
    }

    pub(super) async fn bury(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let (mut rows, mut gone, mut again) = (
            Deliveries::default(),
            Deliveries::default(),
            Again::default(),
        );
        let (mut copies, mut causes) = (Vec::new(), Vec::new());
        let (mut attempts_of, mut crashes_of) = (Vec::new(), Vec::new());
        let (mut whys, mut sinces) = (Vec::new(), Vec::new());
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
            copies.push(next.map(|(_, copy)| uuid(copy)));
            attempts_of.push(i64::from(*attempts));
            crashes_of.push(i64::from(*crashes));
            let (tag, why) = cause_parts(cause);
            causes.push(tag);
            whys.push(why);
            sinces.push(millis(*since));
        }
        if rows.ids.is_empty() {
            return Ok(());
        }
        self.live
            .rows(
                sql::BURY,
                &[
                    &rows.parts,
                    &rows.dues,
                    &rows.ids,
                    &rows.epochs,
                    &copies,
                    &attempts_of,
                    &crashes_of,
                    &causes,
                    &whys,
                    &sinces,
                ],
            )
            .await?;
        // (After that, which has locked the rows that are not.)
        self.settled(sql::ACK_SUPERSEDED, &rows).await?;
        self.settled(sql::ACK, &gone).await?;
        if !again.nexts.is_empty() {
            for (number, row) in again.make(self.live).await? {
                self.outcomes[number] = Some(Outcome::Settled(true, Some(row)));
            }
        }
        Ok(())
    }
}
