//! Locked: rows that were not handed out are found, locked, and then ended, moved or replaced.
//!
//! A row that somebody's transaction has locked blocks the change that names it, and no other. The
//! steps are in the README.

use super::commit::{Making, Moves};
use super::rows::{durable_id, millis, part, partition_of_key, row_of, time, uuid};
use super::sql;
use crate::store::contract::{KindSlice, Outcome, Write};
use crate::store::row::{DurableId, Partition, Position, StoreTime};
use crate::stores::postgres::leases::PARTITIONS;
use crate::stores::postgres::session::{Live, Params};
use std::collections::{BTreeSet, HashMap, HashSet};
use tokio_postgres::Error;
use uuid::Uuid;

/// Rows that are looked at by one statement, whether they are of a kind.
const KIND_SLICE: usize = 2_000;

/// What a look at a partition costs at the least, in rows that are looked at.
const PARTITION_ROWS: usize = 16;

/// A row that this transaction has locked.
struct LockedRow {
    part: i16,
    due: i64,
    id: Uuid,
    /// It has a calendar, and does not end with its handler anyway.
    recurs: bool,
}

/// Rows that are locked, as columns.
#[derive(Default)]
struct LockedRows {
    parts: Vec<i16>,
    dues: Vec<i64>,
    ids: Vec<Uuid>,
}

impl LockedRows {
    fn push(&mut self, found: &LockedRow) {
        self.parts.push(found.part);
        self.dues.push(found.due);
        self.ids.push(found.id);
    }

    /// Deletes them.
    async fn end(&self, live: &Live) -> Result<(), Error> {
        if !self.ids.is_empty() {
            live.rows(sql::END, &[&self.parts, &self.dues, &self.ids])
                .await?;
        }
        Ok(())
    }

    /// They end with their handlers.
    async fn supersede(&self, live: &Live) -> Result<(), Error> {
        if !self.ids.is_empty() {
            live.rows(sql::SUPERSEDE, &[&self.parts, &self.dues, &self.ids])
                .await?;
        }
        Ok(())
    }
}

impl Making<'_> {
    /// RowLock: locks the rows of these changes, which name them by id. Those are blocked whose
    /// rows others have locked.
    async fn find(&mut self, numbers: &[usize]) -> Result<Vec<(usize, LockedRow)>, Error> {
        let mut left = HashMap::new();
        for &number in numbers {
            let id = self.writes[number].names_row();
            left.extend(id.map(|id| (uuid(id), number)));
        }
        let mut all = Vec::with_capacity(left.len());
        for sql in [sql::FIND, sql::FIND_MOVED] {
            if left.is_empty() {
                return Ok(all);
            }
            let (parts, firsts, ids) = columns_of(left.keys());
            let params: Params = match sql {
                sql::FIND => &[&parts, &firsts, &ids],
                _ => &[&parts, &ids],
            };
            for row in self.live.rows(sql, params).await? {
                let found = found_of(&row);
                if let Some(number) = left.remove(&found.id) {
                    all.push((number, found));
                }
            }
        }
        if !left.is_empty() {
            let (parts, firsts, ids) = columns_of(left.keys());
            for row in self.live.rows(sql::SEE, &[&parts, &firsts, &ids]).await? {
                if let Some(number) = left.remove(&row.get(0)) {
                    self.block(number);
                }
            }
        }
        Ok(all)
    }

    /// RowLock: the same for changes that name them by key, or take it.
    async fn find_keys(&mut self, numbers: &[usize]) -> Result<Vec<(usize, LockedRow)>, Error> {
        let mut left: HashMap<&str, usize> = HashMap::new();
        for &number in numbers {
            let key = self.writes[number].names_key();
            left.extend(key.map(|key| (&**key, number)));
        }
        let mut all = Vec::with_capacity(left.len());
        for sql in [sql::FIND_KEYS, sql::SEE_KEYS] {
            if left.is_empty() {
                break;
            }
            let keys: Vec<&str> = left.keys().copied().collect();
            let of_key = |&key: &&str| part(partition_of_key(key));
            let parts: Vec<i16> = keys.iter().map(of_key).collect();
            for row in self.live.rows(sql, &[&parts, &keys]).await? {
                if sql == sql::FIND_KEYS {
                    if let Some(number) = left.remove(row.get::<_, &str>(4)) {
                        all.push((number, found_of(&row)));
                    }
                } else if let Some(number) = left.remove(row.get::<_, &str>(0)) {
                    self.block(number);
                }
            }
        }
        Ok(all)
    }

    /// WatermarkLook: whether rows that are locked were handed out. In a statement after that which
    /// has locked them, so its snapshot has the watermark that their owner may have read them by.
    async fn look(&self, found: &[(usize, LockedRow)]) -> Result<HashMap<i16, i64>, Error> {
        let parts: BTreeSet<i16> = found.iter().map(|(_, found)| found.part).collect();
        let parts: Vec<i16> = parts.into_iter().collect();
        if parts.is_empty() {
            return Ok(HashMap::new());
        }
        let uptos = self.live.rows(sql::UPTO, &[&parts]).await?;
        Ok(uptos.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    pub(super) async fn cancel(&mut self, by_id: &[usize], by_key: &[usize]) -> Result<(), Error> {
        let mut found = self.find(by_id).await?;
        found.extend(self.find_keys(by_key).await?);
        let upto = self.look(&found).await?;
        let (mut gone, mut struck) = (LockedRows::default(), LockedRows::default());
        for (number, found) in &found {
            if is_free(found, &upto) {
                gone.push(found);
            } else if found.recurs {
                struck.push(found);
            } else {
                continue;
            }
            self.outcomes[*number] = Some(Outcome::Cancelled(Some(durable_id(found.id))));
        }
        gone.end(self.live).await?;
        struck.supersede(self.live).await
    }

    /// Cancels rows of a kind, by partition. Those that others have locked are left alone. Returns
    /// them, and where to go on.
    pub(super) async fn cancel_kind(
        &mut self,
        slice: &KindSlice,
    ) -> Result<(Vec<DurableId>, Option<Position>), Error> {
        let mut all = Vec::new();
        let mut left = slice.limit.rows;
        let mut after = slice.after;
        while after.id.partition() < PARTITIONS {
            if left == 0 {
                return Ok((all, Some(after)));
            }
            let number = after.id.partition();
            let limit = left.min(KIND_SLICE);
            let (due, id, rows) = (millis(after.due), uuid(after.id), limit as i64);
            let params: Params = &[&part(number), &due, &id, &&*slice.kind, &rows];
            let seen = self.live.rows(sql::SEE_KIND, params).await?;
            left = left.saturating_sub(seen.len().max(PARTITION_ROWS));
            let of_kind = seen.iter().filter(|row| row.get(2));
            let ids: Vec<DurableId> = of_kind.map(|row| durable_id(row.get(1))).collect();
            all.extend(self.cancel_free(number, &ids).await?);
            after = match seen.last() {
                Some(last) if seen.len() == limit => Position {
                    due: time(last.get(0)),
                    id: durable_id(last.get(1)),
                },
                // The next partition.
                _ => Position {
                    due: StoreTime::MIN,
                    id: DurableId::new(number + 1, StoreTime::MIN, 0),
                },
            };
        }
        all.sort_unstable();
        Ok((all, None))
    }

    /// Cancels those of these rows of a partition that were not handed out, and that nobody has
    /// locked.
    async fn cancel_free(
        &mut self,
        number: Partition,
        ids: &[DurableId],
    ) -> Result<Vec<DurableId>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.live.rows(sql::GATE, &[&vec![part(number)]]).await?;
        let ids: Vec<Uuid> = ids.iter().copied().map(uuid).collect();
        let (parts, firsts, ids) = columns_of(ids.iter());
        let first = self.live.rows(sql::FIND, &[&parts, &firsts, &ids]).await?;
        let moved = self.live.rows(sql::FIND_MOVED, &[&parts, &ids]).await?;
        let mut known = HashSet::new();
        let found = first.iter().chain(&moved).map(|row| (0, found_of(row)));
        // (One that was moved to its first deadline is in both.)
        let found = found.filter(|(_, found)| known.insert(found.id));
        let found: Vec<(usize, LockedRow)> = found.collect();
        let upto = self.look(&found).await?;
        let (mut gone, mut struck) = (LockedRows::default(), LockedRows::default());
        for (_, found) in &found {
            if is_free(found, &upto) {
                gone.push(found);
            } else if found.recurs {
                struck.push(found);
            }
        }
        gone.end(self.live).await?;
        struck.supersede(self.live).await?;
        let all = gone.ids.iter().chain(&struck.ids);
        Ok(all.copied().map(durable_id).collect())
    }

    pub(super) async fn change_due(
        &mut self,
        by_id: &[usize],
        by_key: &[usize],
    ) -> Result<(), Error> {
        let mut found = self.find(by_id).await?;
        found.extend(self.find_keys(by_key).await?);
        let upto = self.look(&found).await?;
        let (mut rows, mut all) = (LockedRows::default(), Moves::default());
        let mut at = HashMap::new();
        for (number, found) in found.iter().filter(|(_, found)| is_free(found, &upto)) {
            if let Write::Move(_, next) = &self.writes[*number] {
                let id = durable_id(found.id);
                rows.push(found);
                all.push(id, *next, self.own_epoch(id.partition()));
                at.insert(id, *number);
            }
        }
        if at.is_empty() {
            return Ok(());
        }
        let params: Params = &[
            &rows.parts,
            &rows.dues,
            &rows.ids,
            &all.nexts,
            &all.moved,
            &all.epochs,
        ];
        for row in self.live.rows(sql::MOVE, params).await?.iter().map(row_of) {
            if let Some(&number) = at.get(&row.id) {
                self.outcomes[number] = Some(Outcome::Moved(Some(row)));
            }
        }
        Ok(())
    }

    /// Rows that have the keys of these changes go, or lose them if they were handed out.
    pub(super) async fn replace(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let found = self.find_keys(numbers).await?;
        let upto = self.look(&found).await?;
        let (mut gone, mut superseded) = (LockedRows::default(), LockedRows::default());
        for (number, found) in &found {
            if is_free(found, &upto) {
                gone.push(found);
                self.outcomes[*number] = Some(Outcome::Armed(Some(durable_id(found.id))));
            } else {
                superseded.push(found);
            }
        }
        gone.end(self.live).await?;
        superseded.supersede(self.live).await
    }
}

/// A row from the columns of one that was locked.
fn found_of(row: &tokio_postgres::Row) -> LockedRow {
    LockedRow {
        part: row.get(0),
        due: row.get(1),
        id: row.get(2),
        recurs: row.get(3),
    }
}

/// Whether a row that is locked was not handed out.
fn is_free(found: &LockedRow, upto: &HashMap<i16, i64>) -> bool {
    upto.get(&found.part).is_some_and(|&upto| found.due > upto)
}

/// Partitions, first deadlines and ids.
fn columns_of<'a>(ids: impl Iterator<Item = &'a Uuid>) -> (Vec<i16>, Vec<i64>, Vec<Uuid>) {
    let (mut parts, mut firsts, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for &id in ids {
        let row = durable_id(id);
        parts.push(part(row.partition()));
        firsts.push(millis(row.first_due()));
        all.push(id);
    }
    (parts, firsts, all)
}
