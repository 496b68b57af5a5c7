//! Look: lists of rows, which go over all partitions. Nothing of them is handed out.

use super::leases::Closed;
use super::shared::each_of;
use super::statements::load::Look;
use super::statements::rows::{millis, part, uuid};
use super::store::Postgres;
use crate::store::contract::StoreError;
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{Partition, Position, Row, StoreTime};
use crate::store::write::SliceLimit;
use std::collections::BTreeMap;

/// A look that is under way.
struct Looking<'a> {
    until: StoreTime,
    filter: &'a RowFilter,
    /// Of payloads, for one statement.
    bytes: usize,
    /// Rows that were looked at, in order: those that the filter takes, and where others are.
    seen: BTreeMap<Position, Option<Row>>,
    /// Up to where those partitions are known that have more.
    more: BTreeMap<Partition, Position>,
}

impl Postgres {
    /// As [`SharedStore::list_many`](crate::store::contract::SharedStore::list_many).
    pub(super) fn look(
        &mut self,
        partitions: &[Partition],
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let mut listed = Listed::default();
        if filter.has_zero() {
            // (The database has no such text.)
            return Ok(listed);
        }
        let mut looking = Looking {
            until,
            filter,
            bytes: limit.bytes,
            seen: BTreeMap::new(),
            more: BTreeMap::new(),
        };
        let slice = each_of(limit.rows, partitions.len());
        self.look_slice(partitions, after, slice, &mut looking)?;
        loop {
            let (count, bytes) = listed.looked_at;
            if limit.is_reached(count, bytes) {
                return Ok(listed);
            }
            let more = looking.more.iter();
            let first_more = more.map(|(&number, &position)| (position, number)).min();
            let next = looking.seen.first_entry();
            let is_known = |position: Position| first_more.is_none_or(|(to, _)| position <= to);
            match (next, first_more) {
                (Some(next), _) if is_known(*next.key()) => {
                    let (position, row) = next.remove_entry();
                    listed.next = Some(position);
                    listed.looked_at.0 += 1;
                    if let Some(row) = row {
                        listed.looked_at.1 += row.bytes();
                        listed.rows.push(row);
                    }
                }
                (_, Some((position, number))) => {
                    // Rows of one deadline go by partition: the rest of this one.
                    looking.more.remove(&number);
                    let slice = each_of(limit.rows - count, 1);
                    self.look_slice(&[number], position, slice, &mut looking)?;
                }
                _ => {
                    listed.next = None;
                    return Ok(listed);
                }
            }
        }
    }

    /// Looks at up to `slice` rows of each partition.
    fn look_slice(
        &mut self,
        partitions: &[Partition],
        after: Position,
        slice: usize,
        looking: &mut Looking<'_>,
    ) -> Result<(), StoreError> {
        if slice == 0 {
            return Ok(());
        }
        let parts: Vec<i16> = partitions.iter().map(|&number| part(number)).collect();
        let look = Look {
            part: &parts,
            due: millis(after.due),
            id: uuid(after.id),
            until: millis(looking.until),
            limit: i64::try_from(slice).unwrap_or(i64::MAX),
            bytes: i64::try_from(looking.bytes).unwrap_or(i64::MAX),
            kind: looking.filter.kind.as_deref(),
            prefix: looking.filter.key_prefix.as_deref(),
            recurring: looking.filter.recurring,
        };
        let found = self.session.run(async |live| live.ask(&look).await)?;
        let mut counts = BTreeMap::new();
        for (mut row, row_epoch, is_taken) in found {
            let (position, number) = (row.position(), row.id.partition());
            let count: &mut usize = counts.entry(number).or_default();
            *count += 1;
            if *count == slice {
                looking.more.insert(number, position);
            }
            // (So a node that was started anew asks for the floor, too.)
            if self.leases.closed == Closed::No && row.held().is_some() {
                self.leases.closed = Closed::Wanted;
            }
            row.suspect = self.is_suspect(&row, row_epoch);
            looking.seen.insert(position, is_taken.then_some(row));
        }
        Ok(())
    }
}
