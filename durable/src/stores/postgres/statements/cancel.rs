//! Cancel: rows that were not handed out are deleted: by id, by key, or all of a kind.

use super::commit::{EnterGates, Making};
use super::locked::{IdColumns, LockedRow, LockedRows, is_free};
use super::rows::{durable_id, gate, millis, part, time, uuid};
use super::statement::{Sql, Statement, statement};
use crate::store::row::{DurableId, Partition, Position, StoreTime};
use crate::store::write::{KindSlice, Outcome, Write};
use std::collections::HashSet;
use tokio_postgres::Error;
use uuid::Uuid;

/// Rows that are looked at by one statement, whether they are of a kind.
const KIND_SLICE: usize = 2_000;

/// What a look at a partition costs at the least, in rows that are looked at.
const PARTITION_ROWS: usize = 16;

/// What a session prepares of this file.
pub(super) const ALL: &[&Sql] = &[SeeKind::SQL];

statement! {
    /// A slice of the rows of a partition, in order, and whether they are of a kind.
    SeeKind<'a> { part: i16, due: i64, id: Uuid, kind: &'a str, limit: i64 }
    -> Seen = seen_of;
    "
SELECT t.due, t.id, t.kind = :kind FROM {s}.timer t
    WHERE t.part = :part AND (t.due, t.id) > (:due, :id) ORDER BY t.due, t.id LIMIT :limit"
}

/// A row that was looked at.
pub(crate) struct Seen {
    at: Position,
    is_of_kind: bool,
}

fn seen_of(row: &tokio_postgres::Row) -> Seen {
    Seen {
        at: Position {
            due: time(row.get(0)),
            id: durable_id(row.get(1)),
        },
        is_of_kind: row.get(2),
    }
}

impl Making<'_> {
    /// Makes the changes that cancel rows.
    pub(super) async fn cancel(&mut self, numbers: &mut Vec<usize>) -> Result<(), Error> {
        let named = self.take(numbers, |write| matches!(write, Write::Cancel(_)));
        self.cancel_named(&named).await?;
        let kinds = self.take(numbers, |write| matches!(write, Write::CancelKind(_)));
        for number in kinds {
            if let Write::CancelKind(slice) = &self.writes[number] {
                let (gone, after) = self.cancel_kind(slice).await?;
                self.outcomes[number] = Some(Outcome::CancelledMany(gone, after));
            }
        }
        Ok(())
    }

    async fn cancel_named(&mut self, numbers: &[usize]) -> Result<(), Error> {
        let mut found = self.find(numbers).await?;
        found.extend(self.find_keys(numbers).await?);
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
    async fn cancel_kind(
        &mut self,
        slice: &KindSlice,
    ) -> Result<(Vec<DurableId>, Option<Position>), Error> {
        let mut all = Vec::new();
        let mut left = slice.limit.rows;
        let mut after = slice.after;
        while u32::from(after.id.partition()) < self.partitions {
            if left == 0 {
                return Ok((all, Some(after)));
            }
            let number = after.id.partition();
            let limit = left.min(KIND_SLICE);
            let see = SeeKind {
                part: part(number),
                due: millis(after.due),
                id: uuid(after.id),
                kind: &slice.kind,
                limit: limit as i64,
            };
            let seen = self.live.ask(&see).await?;
            left = left.saturating_sub(seen.len().max(PARTITION_ROWS));
            let of_kind = seen.iter().filter(|seen| seen.is_of_kind);
            let ids: Vec<DurableId> = of_kind.map(|seen| seen.at.id).collect();
            all.extend(self.cancel_free(number, &ids).await?);
            after = match seen.last() {
                Some(last) if seen.len() == limit => last.at,
                _ if u32::from(number) + 1 == self.partitions => break,
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
        let gates = [gate(number, self.partitions)];
        self.live.ask(&EnterGates { part: &gates }).await?;
        let columns = IdColumns::of(ids.iter().copied().map(uuid));
        let first: Vec<LockedRow> = self.live.ask(&columns.find()).await?;
        let moved = self.live.ask(&columns.find_moved()).await?;
        let mut known = HashSet::new();
        let found = first.into_iter().chain(moved).map(|found| (0, found));
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
}
