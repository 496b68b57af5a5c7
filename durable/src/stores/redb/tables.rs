//! The tables of a file, and where a row is in them.

use super::bytes::Flaw;
use super::codec::{self, Names, RowView};
use super::due_key::DueKey;
use super::recent::RecentIndex;
use super::state::StoreState;
use crate::store::row::{DurableId, Row};
use redb::{Error, ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};
use std::ops::Bound;

/// Rows by number, in the order in which they came.
pub(super) const RECENT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("recent");
/// Numbers of rows of `recent` that have ended.
pub(super) const TOMBSTONES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("tombstones");
/// Rows by position.
pub(super) const BY_DUE: TableDefinition<'_, &[u8; 20], &[u8]> = TableDefinition::new("by_due");
/// Where in `by_due` the rows are that are not due at their first deadline, by number.
pub(super) const MOVED: TableDefinition<'_, u64, &[u8; 20]> = TableDefinition::new("moved");
/// Ids by key.
pub(super) const KEYS: TableDefinition<'_, &[u8], u128> = TableDefinition::new("keys");
/// Dead letters by id.
pub(super) const DEAD: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("dead");
/// The numbers of the format, who wrote them, and the state.
pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// In `meta`: the floor, the lowest format that a program has to know to work with this file.
/// (Version 3 of the format called it so, and had no step.)
pub(super) const FLOOR: &str = "version";
/// In `meta`: the program that has raised the floor last.
pub(super) const FLOOR_BY: &str = "floor_by";
/// In `meta`: the format that the file has reached. Without it, it is 3.
pub(super) const STEP: &str = "step";
/// In `meta`: the program that has made the last step.
pub(super) const STEP_BY: &str = "step_by";
/// In `meta`: what names this store for ever, 16 bytes.
pub(super) const IDENTITY: &str = "store";
/// In `meta`: the [`StoreState`].
pub(super) const STATE: &str = "state";

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPlace {
    Recent(u64),
    ByDue(DueKey),
}

/// A value of this table does not decode. (`store_error` tells a flaw of a later program from
/// damage.)
pub(super) fn damaged(table: &str, number: u64, flaw: Flaw) -> Error {
    Error::Corrupted(format!("{table}, {number}: {flaw}"))
}

/// Decodes a row of `recent`.
pub(super) fn recent_row(number: u64, bytes: &[u8]) -> Result<RowView<'_>, Error> {
    codec::decode_row(number, bytes).map_err(|flaw| damaged("recent", number, flaw))
}

/// Decodes a row of `by_due`, and holds it against its key.
pub(super) fn row_by_due(key: DueKey, bytes: &[u8]) -> Result<RowView<'_>, Error> {
    let number = key.number();
    let row = codec::decode_row(number, bytes).map_err(|flaw| damaged("by_due", number, flaw))?;
    if DueKey::new(row.due, row.first_due, number) != key {
        return Err(damaged("by_due", number, "it is not where it belongs"));
    }
    Ok(row)
}

/// Where the row of this id is, if there is one.
pub(super) fn find(
    id: DurableId,
    index: &RecentIndex,
    recent: &impl ReadableTable<u64, &'static [u8]>,
    by_due: &impl ReadableTable<&'static [u8; 20], &'static [u8]>,
    moved: &impl ReadableTable<u64, &'static [u8; 20]>,
) -> Result<Option<RowPlace>, Error> {
    if id.partition() != 0 {
        return Ok(None);
    }
    let number = id.number();
    if let Some(known) = index.get(number) {
        let first_due = if known.is_moved {
            let bytes = recent
                .get(number)?
                .ok_or_else(|| damaged("recent", number, "it is missing"))?;
            recent_row(number, bytes.value())?.first_due
        } else {
            known.due
        };
        return Ok((first_due == id.first_due()).then_some(RowPlace::Recent(number)));
    }
    let key = DueKey::of(id, id.first_due());
    if by_due.get(key.bytes())?.is_some() {
        return Ok(Some(RowPlace::ByDue(key)));
    }
    if moved.is_empty()? {
        return Ok(None);
    }
    let Some(key) = moved
        .get(number)?
        .map(|key| DueKey::from_bytes(*key.value()))
    else {
        return Ok(None);
    };
    if key.number() != number || !key.is_moved() {
        return Err(damaged("moved", number, "it names another row"));
    }
    Ok((key.first_due() == id.first_due()).then_some(RowPlace::ByDue(key)))
}

/// All tables of a transaction that writes.
pub(super) struct WriteTables<'txn> {
    pub(super) recent: Table<'txn, u64, &'static [u8]>,
    pub(super) tombstones: Table<'txn, u64, &'static [u8]>,
    pub(super) by_due: Table<'txn, &'static [u8; 20], &'static [u8]>,
    pub(super) moved: Table<'txn, u64, &'static [u8; 20]>,
    pub(super) keys: Table<'txn, &'static [u8], u128>,
    pub(super) dead: Table<'txn, u128, &'static [u8]>,
    pub(super) meta: Table<'txn, &'static str, &'static [u8]>,
}

impl<'txn> WriteTables<'txn> {
    pub(super) fn open(transaction: &'txn WriteTransaction) -> Result<Self, Error> {
        Ok(Self {
            recent: transaction.open_table(RECENT)?,
            tombstones: transaction.open_table(TOMBSTONES)?,
            by_due: transaction.open_table(BY_DUE)?,
            moved: transaction.open_table(MOVED)?,
            keys: transaction.open_table(KEYS)?,
            dead: transaction.open_table(DEAD)?,
            meta: transaction.open_table(META)?,
        })
    }

    pub(super) fn find(
        &self,
        id: DurableId,
        index: &RecentIndex,
    ) -> Result<Option<RowPlace>, Error> {
        find(id, index, &self.recent, &self.by_due, &self.moved)
    }

    /// Copies a row's value to `out`, which is cleared first.
    pub(super) fn copy(&self, place: RowPlace, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        let value = match place {
            RowPlace::Recent(number) => self.recent.get(number)?,
            RowPlace::ByDue(key) => self.by_due.get(key.bytes())?,
        };
        let value = value.ok_or_else(|| missing(place))?;
        out.extend_from_slice(value.value());
        Ok(())
    }

    /// Takes a row out of `by_due`, if it is there. Its value goes to `out`, which is cleared
    /// first.
    pub(super) fn take_by_due(&mut self, key: DueKey, out: &mut Vec<u8>) -> Result<bool, Error> {
        out.clear();
        let Some(value) = self.by_due.remove(key.bytes())? else {
            return Ok(false);
        };
        out.extend_from_slice(value.value());
        drop(value);
        if key.is_moved() {
            let number = key.number();
            match self.moved.remove(number)? {
                Some(old) if old.value() == key.bytes() => {}
                _ => return Err(damaged("moved", number, "it does not name the row")),
            }
        }
        Ok(true)
    }

    /// Writes a row's new value where the row is.
    pub(super) fn rewrite(&mut self, place: RowPlace, value: &[u8]) -> Result<(), Error> {
        match place {
            RowPlace::Recent(number) => self.recent.insert(number, value)?.is_some(),
            RowPlace::ByDue(key) => self.by_due.insert(key.bytes(), value)?.is_some(),
        }
        .then_some(())
        .ok_or_else(|| missing(place))
    }

    pub(super) fn put_state(&mut self, state: &StoreState) -> Result<(), Error> {
        self.meta.insert(STATE, &*state.encode())?;
        Ok(())
    }
}

/// Decodes the value of the row at a place.
pub(super) fn row_at(place: RowPlace, bytes: &[u8]) -> Result<RowView<'_>, Error> {
    match place {
        RowPlace::Recent(number) => recent_row(number, bytes),
        RowPlace::ByDue(key) => row_by_due(key, bytes),
    }
}

impl RowPlace {
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Recent(number) => number,
            Self::ByDue(key) => key.number(),
        }
    }
}

pub(super) fn missing(place: RowPlace) -> Error {
    let table = match place {
        RowPlace::Recent(_) => "recent",
        RowPlace::ByDue(_) => "by_due",
    };
    damaged(table, place.number(), "it is missing")
}

/// Reads a row by id.
pub(super) fn read(
    transaction: &ReadTransaction,
    index: &RecentIndex,
    state: &StoreState,
    names: &mut Names,
    id: DurableId,
) -> Result<Option<Row>, Error> {
    let (recent, by_due) = (
        transaction.open_table(RECENT)?,
        transaction.open_table(BY_DUE)?,
    );
    let moved = transaction.open_table(MOVED)?;
    let Some(place) = find(id, index, &recent, &by_due, &moved)? else {
        return Ok(None);
    };
    let value = match place {
        RowPlace::Recent(number) => ReadableTable::get(&recent, number)?,
        RowPlace::ByDue(key) => ReadableTable::get(&by_due, key.bytes())?,
    };
    let value = value.ok_or_else(|| missing(place))?;
    let view = row_at(place, value.value())?;
    Ok(Some(state.row(&view, place.number(), names)))
}

/// The range from a key, left out, to the end of a deadline.
pub(super) fn due_range<'a>(
    after: &'a DueKey,
    end: &'a DueKey,
) -> (Bound<&'a [u8; 20]>, Bound<&'a [u8; 20]>) {
    (Bound::Excluded(after.bytes()), Bound::Included(end.bytes()))
}
