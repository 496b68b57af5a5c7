//! Load: rows by deadline, from both tables, and the attempts of epochs that did not end well.

use super::codec::{self, Names, RowView, StoreState};
use super::due_key::DueKey;
use super::recent::RecentIndex;
use super::tables::{BY_DUE, RECENT, RowPlace, WriteTables, damaged, due_range, row_at};
use crate::durable::{Position, Row, SliceLimit, StoreTime};
use redb::{Database, Error, ReadableDatabase, ReadableTable};

/// What a load reads and changes.
pub(super) struct Loading<'a> {
    pub(super) database: &'a Database,
    pub(super) index: &'a mut RecentIndex,
    pub(super) state: &'a StoreState,
    pub(super) names: &'a mut Names,
}

/// A row that was read.
struct Read {
    key: DueKey,
    place: RowPlace,
    row: Row,
    /// It may have been handed out in an earlier epoch.
    was_handed_out: bool,
}

fn bytes(reads: &[Read]) -> usize {
    reads.iter().map(|read| read.row.bytes()).sum()
}

impl Loading<'_> {
    /// The next rows after `after`, due at `until` or before, up to `limit`. A row that may have
    /// been handed out in an earlier epoch has one more attempt, or is deleted if it is superseded:
    /// once, since the epoch in which it was written last is this one then.
    pub(super) fn load(
        mut self,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, Error> {
        let (mut rows, mut after) = (Vec::new(), DueKey::at(after));
        let mut left = limit;
        loop {
            let mut reads = self.read(after, until, left)?;
            let Some(last) = reads.last().map(|read| read.key) else {
                return Ok(rows);
            };
            let is_end = !left.is_reached(reads.len(), bytes(&reads));
            if reads.iter().any(|read| read.was_handed_out) {
                self.raise(&mut reads)?;
            }
            left.rows -= reads.len();
            left.bytes = left.bytes.saturating_sub(bytes(&reads));
            rows.extend(reads.into_iter().map(|read| read.row));
            if is_end || left.is_reached(0, 0) {
                return Ok(rows);
            }
            after = last;
        }
    }

    /// Reads the rows of a range, those of both tables in one order.
    fn read(
        &mut self,
        after: DueKey,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Read>, Error> {
        let (mut reads, mut bytes) = (Vec::new(), 0);
        let end = DueKey::end_of(until);
        if after >= end || limit.is_reached(0, 0) {
            return Ok(reads);
        }
        let mut recent_keys = Vec::new();
        self.index.range(after, until, limit.rows, &mut recent_keys);
        let transaction = self.database.begin_read()?;
        let recent = transaction.open_table(RECENT)?;
        let by_due = transaction.open_table(BY_DUE)?;
        let mut range = by_due.range::<&[u8; 20]>(due_range(&after, &end))?;
        let mut next_by_due = range.next().transpose()?;
        let mut recent_keys = recent_keys.into_iter().peekable();
        while !limit.is_reached(reads.len(), bytes) {
            let by_due_key = next_by_due
                .as_ref()
                .map(|(key, _)| DueKey::from_bytes(*key.value()));
            let from_recent =
                recent_keys.next_if(|&key| by_due_key.is_none_or(|by_due| key < by_due));
            if let Some(key) = from_recent {
                let number = key.number();
                let value = ReadableTable::get(&recent, number)?
                    .ok_or_else(|| damaged("recent", number, "it is missing"))?;
                reads.push(self.decoded(key, RowPlace::Recent(number), value.value())?);
            } else if let (Some(key), Some((_, value))) = (by_due_key, &next_by_due) {
                reads.push(self.decoded(key, RowPlace::ByDue(key), value.value())?);
                next_by_due = range.next().transpose()?;
            } else {
                break;
            }
            bytes += reads.last().map_or(0, |read| read.row.bytes());
        }
        Ok(reads)
    }

    fn decoded(&mut self, key: DueKey, place: RowPlace, value: &[u8]) -> Result<Read, Error> {
        let view = row_at(place, value)?;
        let number = key.number();
        if DueKey::new(view.due, view.first_due, number) != key {
            return Err(damaged("recent", number, "it is not as it was written"));
        }
        Ok(Read {
            key,
            place,
            row: view.row(number, self.names),
            was_handed_out: self.state.was_handed_out(&view),
        })
    }

    /// Stores one more attempt of each row that may have been handed out, in one transaction.
    /// Takes those out that are superseded.
    fn raise(&mut self, reads: &mut Vec<Read>) -> Result<(), Error> {
        let transaction = self.database.begin_write()?;
        let mut tables = WriteTables::open(&transaction)?;
        let mut value = Vec::new();
        for read in reads.iter_mut().filter(|read| read.was_handed_out) {
            if read.row.superseded {
                match read.place {
                    RowPlace::Recent(number) => {
                        tables.recent.remove(number)?;
                        self.index.remove(number);
                    }
                    RowPlace::ByDue(key) => {
                        tables.take_by_due(key, &mut value)?;
                    }
                }
                continue;
            }
            read.row.attempts = read.row.attempts.saturating_add(1);
            value.clear();
            let view = RowView::of(&read.row, self.state.epoch);
            codec::encode_row(&mut value, read.key.number(), &view);
            tables.rewrite(read.place, &value)?;
        }
        drop(tables);
        transaction.commit()?;
        reads.retain(|read| !(read.was_handed_out && read.row.superseded));
        Ok(())
    }
}
