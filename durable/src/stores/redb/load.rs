//! Load: rows by deadline, from both tables.

use super::codec::Names;
use super::due_key::DueKey;
use super::recent::RecentIndex;
use super::state::StoreState;
use super::tables::{BY_DUE, RECENT, RowPlace, damaged, due_range, row_at};
use crate::store::list::{Listed, RowFilter};
use crate::store::row::{Position, Row, StoreTime};
use crate::store::write::SliceLimit;
use redb::{Database, Error, ReadableDatabase, ReadableTable};

/// What a load reads.
pub(super) struct Loading<'a> {
    pub(super) database: &'a Database,
    pub(super) index: &'a mut RecentIndex,
    pub(super) state: &'a StoreState,
    pub(super) names: &'a mut Names,
}

impl Loading<'_> {
    /// The next rows after `after`, due at `until` or before, up to `limit`: those of both tables
    /// in one order. A row that may have been handed out in an earlier epoch is suspect.
    pub(super) fn load(
        self,
        after: Position,
        until: StoreTime,
        limit: SliceLimit,
    ) -> Result<Vec<Row>, Error> {
        let listed = self.list(after, until, &RowFilter::ALL, limit)?;
        Ok(listed.rows)
    }

    /// The same of those that the filter takes. `limit` is for all that are looked at.
    pub(super) fn list(
        mut self,
        after: Position,
        until: StoreTime,
        filter: &RowFilter,
        limit: SliceLimit,
    ) -> Result<Listed, Error> {
        let mut listed = Listed::default();
        let (after, end) = (DueKey::at(after), DueKey::end_of(until));
        if after >= end || limit.is_reached(0, 0) {
            return Ok(listed);
        }
        let mut recent_keys = Vec::new();
        self.index.range(after, until, limit.rows, &mut recent_keys);
        let transaction = self.database.begin_read()?;
        let recent = transaction.open_table(RECENT)?;
        let by_due = transaction.open_table(BY_DUE)?;
        let mut range = by_due.range::<&[u8; 20]>(due_range(&after, &end))?;
        let mut next_by_due = range.next().transpose()?;
        let mut recent_keys = recent_keys.into_iter().peekable();
        let mut last = None;
        loop {
            let (rows, bytes) = listed.looked_at;
            if limit.is_reached(rows, bytes) {
                listed.next = last.map(DueKey::position);
                return Ok(listed);
            }
            let by_due_key = next_by_due
                .as_ref()
                .map(|(key, _)| DueKey::from_bytes(*key.value()));
            let from_recent =
                recent_keys.next_if(|&key| by_due_key.is_none_or(|by_due| key < by_due));
            let read = if let Some(key) = from_recent {
                let number = key.number();
                let value = ReadableTable::get(&recent, number)?
                    .ok_or_else(|| damaged("recent", number, "it is missing"))?;
                let value = value.value();
                last = Some(key);
                self.look_at(key, RowPlace::Recent(number), value, filter, &mut listed)
            } else if let (Some(key), Some((_, value))) = (by_due_key, &next_by_due) {
                last = Some(key);
                let place = RowPlace::ByDue(key);
                let read = self.look_at(key, place, value.value(), filter, &mut listed);
                next_by_due = range.next().transpose()?;
                read
            } else {
                return Ok(listed);
            };
            read?;
        }
    }

    /// Takes a row, if the filter does.
    fn look_at(
        &mut self,
        key: DueKey,
        place: RowPlace,
        value: &[u8],
        filter: &RowFilter,
        listed: &mut Listed,
    ) -> Result<(), Error> {
        let view = row_at(place, value)?;
        let number = key.number();
        if DueKey::new(view.due, view.first_due, number) != key {
            return Err(damaged("recent", number, "it is not as it was written"));
        }
        listed.looked_at.0 += 1;
        if filter.takes_parts(view.kind, view.key, view.calendar.is_some()) {
            let row = self.state.row(&view, number, self.names);
            listed.looked_at.1 += row.bytes();
            listed.rows.push(row);
        } else {
            listed.looked_at.1 += value.len();
        }
        Ok(())
    }
}
