//! Locked: rows that were not handed out are found, locked, and then ended, moved or replaced.
//!
//! A row that somebody's transaction has locked blocks the change that names it, and no other. The
//! steps are in the README.

use super::commit::Making;
use super::rows::{durable_id, millis, part, partition_of_key, uuid};
use super::statement::{Sql, Statement, statement};
use crate::store::row::StoreTime;
use crate::store::write::Settled;
use crate::stores::postgres::session::Asking;
use std::collections::{BTreeSet, HashMap};
use tokio_postgres::Error;
use uuid::Uuid;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[
    Find::SQL,
    FindMoved::SQL,
    See::SQL,
    SeeSettled::SQL,
    FindKeys::SQL,
    SeeKeys::SQL,
    Upto::SQL,
    End::SQL,
    Supersede::SQL,
];

statement! {
    /// RowLock: rows at their first deadlines.
    Find<'a> { part: &'a [i16], due: &'a [i64], id: &'a [Uuid] }
    -> LockedRow = locked_of;
    "
SELECT t.part, t.due, t.id, t.calendar IS NOT NULL AND NOT t.superseded FROM {s}.timer t
    JOIN unnest(:part::smallint[], :due::bigint[], :id::uuid[]) u (part, due, id)
        ON t.part = u.part AND t.due = u.due AND t.id = u.id
    FOR UPDATE OF t SKIP LOCKED"
}

statement! {
    /// RowLock: rows that were moved.
    FindMoved<'a> { part: &'a [i16], id: &'a [Uuid] }
    -> LockedRow = locked_of;
    "
SELECT t.part, t.due, t.id, t.calendar IS NOT NULL AND NOT t.superseded FROM {s}.timer t
    JOIN unnest(:part::smallint[], :id::uuid[]) u (part, id)
        ON t.part = u.part AND t.id = u.id AND t.moved
    FOR UPDATE OF t SKIP LOCKED"
}

statement! {
    /// The ids that are there, whoever has locked their rows.
    See<'a> { part: &'a [i16], due: &'a [i64], id: &'a [Uuid] }
    -> Uuid = |row| row.get(0);
    "
SELECT t.id FROM {s}.timer t
    JOIN unnest(:part::smallint[], :due::bigint[], :id::uuid[]) u (part, due, id)
        ON t.part = u.part AND t.due = u.due AND t.id = u.id
UNION ALL SELECT t.id FROM {s}.timer t
    JOIN unnest(:part::smallint[], :id::uuid[]) u (part, id)
        ON t.part = u.part AND t.id = u.id AND t.moved"
}

statement! {
    /// The rows that are due then, whoever has locked them.
    SeeSettled<'a> { part: &'a [i16], due: &'a [i64], id: &'a [Uuid] }
    -> Uuid = |row| row.get(0);
    "
SELECT t.id FROM {s}.timer t
    JOIN unnest(:part::smallint[], :due::bigint[], :id::uuid[]) u (part, due, id)
        ON t.part = u.part AND t.due = u.due AND t.id = u.id"
}

statement! {
    /// RowLock: rows by key that no other transaction has locked.
    FindKeys<'a> { part: &'a [i16], key: &'a [&'a str] }
    -> (String, LockedRow) = |row| (row.get(4), locked_of(row));
    "
SELECT t.part, t.due, t.id, t.calendar IS NOT NULL AND NOT t.superseded, t.key FROM {s}.timer t
    JOIN unnest(:part::smallint[], :key::text[]) u (part, key)
        ON t.part = u.part AND t.key = u.key
    FOR UPDATE OF t SKIP LOCKED"
}

statement! {
    /// The keys that are there, whoever has locked their rows.
    SeeKeys<'a> { part: &'a [i16], key: &'a [&'a str] }
    -> String = |row| row.get(0);
    "
SELECT t.key FROM {s}.timer t
    JOIN unnest(:part::smallint[], :key::text[]) u (part, key)
        ON t.part = u.part AND t.key = u.key"
}

statement! {
    /// WatermarkLook: up to where rows of these partitions may have been handed out. An owner
    /// without a watermark may have handed out anything.
    Upto<'a> { part: &'a [i16] }
    -> (i16, i64) = |row| (row.get(0), row.get(1));
    "
SELECT l.part, CASE WHEN l.owner IS NULL THEN l.claimed_upto ELSE GREATEST(l.claimed_upto,
    COALESCE((SELECT w.upto FROM {s}.watermark w WHERE w.node = l.owner
        ORDER BY w.gen DESC LIMIT 1), 9223372036854775807)) END
FROM {s}.lease l WHERE l.part = ANY(:part::smallint[])"
}

statement! {
    /// Deletes rows that are locked, and were not handed out.
    End<'a> { part: &'a [i16], due: &'a [i64], id: &'a [Uuid] }
    -> () = |_| ();
    "
DELETE FROM {s}.timer t
    USING unnest(:part::smallint[], :due::bigint[], :id::uuid[]) u (part, due, id)
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id RETURNING t.id"
}

statement! {
    /// Rows that were handed out lose their keys to others, or are struck: they end with their
    /// handlers.
    Supersede<'a> { part: &'a [i16], due: &'a [i64], id: &'a [Uuid] }
    -> () = |_| ();
    "
UPDATE {s}.timer t SET key = NULL, superseded = true
    FROM unnest(:part::smallint[], :due::bigint[], :id::uuid[]) u (part, due, id)
    WHERE t.part = u.part AND t.due = u.due AND t.id = u.id RETURNING t.id"
}

/// A row that this transaction has locked.
pub(crate) struct LockedRow {
    pub(super) part: i16,
    pub(super) due: i64,
    pub(super) id: Uuid,
    /// It has a calendar, and does not end with its handler anyway.
    pub(super) recurs: bool,
}

fn locked_of(row: &tokio_postgres::Row) -> LockedRow {
    LockedRow {
        part: row.get(0),
        due: row.get(1),
        id: row.get(2),
        recurs: row.get(3),
    }
}

/// Rows that are locked, as columns.
#[derive(Default)]
pub(super) struct LockedRows {
    parts: Vec<i16>,
    dues: Vec<i64>,
    pub(super) ids: Vec<Uuid>,
}

impl LockedRows {
    pub(super) fn push(&mut self, found: &LockedRow) {
        self.parts.push(found.part);
        self.dues.push(found.due);
        self.ids.push(found.id);
    }

    /// Deletes them.
    pub(super) async fn end(&self, live: Asking<'_>) -> Result<(), Error> {
        let (part, due, id) = (&self.parts, &self.dues, &self.ids);
        if !id.is_empty() {
            live.ask(&End { part, due, id }).await?;
        }
        Ok(())
    }

    /// They end with their handlers.
    pub(super) async fn supersede(&self, live: Asking<'_>) -> Result<(), Error> {
        let (part, due, id) = (&self.parts, &self.dues, &self.ids);
        if !id.is_empty() {
            live.ask(&Supersede { part, due, id }).await?;
        }
        Ok(())
    }
}

/// Columns of ids.
#[derive(Default)]
pub(super) struct IdColumns {
    parts: Vec<i16>,
    /// First deadlines, but of rows that were handed out their deadlines.
    dues: Vec<i64>,
    ids: Vec<Uuid>,
}

impl IdColumns {
    pub(super) fn of(ids: impl Iterator<Item = Uuid>) -> Self {
        let mut all = Self::default();
        for id in ids {
            all.push(id, durable_id(id).first_due());
        }
        all
    }

    /// Of rows that were handed out.
    fn settled<'a>(all: impl Iterator<Item = &'a Settled>) -> Self {
        let mut columns = Self::default();
        for of in all {
            columns.push(uuid(of.id), of.due);
        }
        columns
    }

    fn push(&mut self, id: Uuid, due: StoreTime) {
        self.parts.push(part(durable_id(id).partition()));
        self.dues.push(millis(due));
        self.ids.push(id);
    }

    pub(super) fn find(&self) -> Find<'_> {
        let (part, due, id) = (&self.parts, &self.dues, &self.ids);
        Find { part, due, id }
    }

    pub(super) fn find_moved(&self) -> FindMoved<'_> {
        let (part, id) = (&self.parts, &self.ids);
        FindMoved { part, id }
    }

    fn see(&self) -> See<'_> {
        let (part, due, id) = (&self.parts, &self.dues, &self.ids);
        See { part, due, id }
    }

    fn see_settled(&self) -> SeeSettled<'_> {
        let (part, due, id) = (&self.parts, &self.dues, &self.ids);
        SeeSettled { part, due, id }
    }
}

impl Making<'_> {
    /// Locks the rows that were handed out and that changes of this commit settle. Those changes
    /// are blocked whose rows others have locked. So none of them has to be tried to learn that.
    pub(super) async fn lock_settled(&mut self) -> Result<(), Error> {
        let mut left = HashMap::new();
        for (number, write) in self.writes.iter().enumerate() {
            left.extend(write.settles().map(|of| (uuid(of.id), (number, of))));
        }
        if left.is_empty() {
            return Ok(());
        }
        let rows = IdColumns::settled(left.values().map(|&(_, of)| of));
        for found in self.live.ask(&rows.find()).await? {
            left.remove(&found.id);
        }
        if left.is_empty() {
            return Ok(());
        }
        let rows = IdColumns::settled(left.values().map(|&(_, of)| of));
        for id in self.live.ask(&rows.see_settled()).await? {
            if let Some((number, _)) = left.remove(&id) {
                self.block(number);
            }
        }
        Ok(())
    }

    /// RowLock: locks the rows of these changes, which name them by id. Those are blocked whose
    /// rows others have locked.
    pub(super) async fn find(
        &mut self,
        numbers: &[usize],
    ) -> Result<Vec<(usize, LockedRow)>, Error> {
        let mut left = HashMap::new();
        for &number in numbers {
            let id = self.writes[number].names_row();
            left.extend(id.map(|id| (uuid(id), number)));
        }
        let mut all = Vec::with_capacity(left.len());
        let mut note = |left: &mut HashMap<Uuid, usize>, found: Vec<LockedRow>| {
            for found in found {
                if let Some(number) = left.remove(&found.id) {
                    all.push((number, found));
                }
            }
        };
        if !left.is_empty() {
            let ids = IdColumns::of(left.keys().copied());
            note(&mut left, self.live.ask(&ids.find()).await?);
        }
        if !left.is_empty() {
            let ids = IdColumns::of(left.keys().copied());
            note(&mut left, self.live.ask(&ids.find_moved()).await?);
        }
        if !left.is_empty() {
            let ids = IdColumns::of(left.keys().copied());
            for id in self.live.ask(&ids.see()).await? {
                if let Some(number) = left.remove(&id) {
                    self.block(number);
                }
            }
        }
        Ok(all)
    }

    /// RowLock: the same for changes that name them by key, or take it.
    pub(super) async fn find_keys(
        &mut self,
        numbers: &[usize],
    ) -> Result<Vec<(usize, LockedRow)>, Error> {
        let mut left: HashMap<&str, usize> = HashMap::new();
        for &number in numbers {
            let key = self.writes[number].names_key();
            left.extend(key.map(|key| (&**key, number)));
        }
        let mut all = Vec::with_capacity(left.len());
        if !left.is_empty() {
            let (part, key) = key_columns(&left, self.partitions);
            let (part, key) = (&part, &key);
            for (key, found) in self.live.ask(&FindKeys { part, key }).await? {
                if let Some(number) = left.remove(&*key) {
                    all.push((number, found));
                }
            }
        }
        if !left.is_empty() {
            let (part, key) = key_columns(&left, self.partitions);
            let (part, key) = (&part, &key);
            for key in self.live.ask(&SeeKeys { part, key }).await? {
                if let Some(number) = left.remove(&*key) {
                    self.block(number);
                }
            }
        }
        Ok(all)
    }

    /// WatermarkLook: whether rows that are locked were handed out. In a statement after that which
    /// has locked them, so its snapshot has the watermark that their owner may have read them by.
    pub(super) async fn look(
        &self,
        found: &[(usize, LockedRow)],
    ) -> Result<HashMap<i16, i64>, Error> {
        let parts: BTreeSet<i16> = found.iter().map(|(_, found)| found.part).collect();
        let parts: Vec<i16> = parts.into_iter().collect();
        if parts.is_empty() {
            return Ok(HashMap::new());
        }
        let uptos = self.live.ask(&Upto { part: &parts }).await?;
        Ok(uptos.into_iter().collect())
    }
}

/// Partitions and keys.
fn key_columns<'a>(left: &HashMap<&'a str, usize>, partitions: u32) -> (Vec<i16>, Vec<&'a str>) {
    let of_key = |&key: &&'a str| (part(partition_of_key(key, partitions)), key);
    left.keys().map(of_key).unzip()
}

/// Whether a row that is locked was not handed out.
pub(super) fn is_free(found: &LockedRow, upto: &HashMap<i16, i64>) -> bool {
    upto.get(&found.part).is_some_and(|&upto| found.due > upto)
}
