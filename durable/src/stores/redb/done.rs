//! Done: the records of runs that are done, in the table `done`.
//!
//! Their keys begin with the time at which the run has ended. So they are appended, and removed
//! from the front. The first record makes the table: a file without one has no such table, and a
//! program that knows no records works with a file that has one. It neither writes nor removes any.
//!
//! A record that this program cannot read is left out of lists, and counted: a history must not
//! keep timers from firing. It is removed when its time is over, for which its key is enough.

use super::bytes::Flaw;
use super::codec::Names;
use super::done_codec;
use super::tables::damaged;
use crate::store::done::{DoneForgotten, DoneListed, DonePlace, DoneRange, DoneTimer};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DurableId, StoreTime};
use redb::{
    Database, Durability, Error, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    Table, TableDefinition, TableError, TableHandle, WriteTransaction,
};
use std::ops::Bound;

/// Bytes of a key.
const KEY: usize = 26;

/// Records by place.
pub(super) const DONE: TableDefinition<'_, &[u8; KEY], &[u8]> = TableDefinition::new("done");

/// The table, while a transaction writes it.
pub(super) type DoneTable<'txn> = Table<'txn, &'static [u8; KEY], &'static [u8]>;

/// The same, as a transaction reads it.
type StoredTable = ReadOnlyTable<&'static [u8; KEY], &'static [u8]>;

/// When the run has ended (6 bytes), the first deadline of its timer (6), the timer's number (8),
/// when the run was due (6), the highest byte first: so the order of the bytes is that of places of
/// partition 0.
fn key_of(place: DonePlace) -> [u8; KEY] {
    let time = |time: StoreTime| {
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&time.as_millis().to_be_bytes()[2..]);
        bytes
    };
    // (A place of a later partition is one behind all of its time.)
    let (first_due, number, due) = match place.id.partition() {
        0 => (place.id.first_due(), place.id.number(), place.due),
        _ => (StoreTime::MAX, u64::MAX, StoreTime::MAX),
    };
    let mut key = [0; KEY];
    key[..6].copy_from_slice(&time(place.ended));
    key[6..12].copy_from_slice(&time(first_due));
    key[12..20].copy_from_slice(&number.to_be_bytes());
    key[20..].copy_from_slice(&time(due));
    key
}

/// The place of a key.
fn place_of(key: &[u8; KEY]) -> DonePlace {
    let number = |from: usize, upto: usize| {
        let bytes = key[from..upto].iter();
        bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    let time = |from: usize| StoreTime::from_millis(number(from, from + 6));
    DonePlace {
        ended: time(0),
        id: DurableId::new(0, time(6), number(12, 20)),
        due: time(20),
    }
}

/// Whether a record is as it was written, by this program or a later one. Returns its place.
pub(super) fn is_sound(key: &[u8; KEY], value: &[u8]) -> Result<DonePlace, Error> {
    let place = place_of(key);
    let flaw = |flaw: Flaw| damaged(DONE.name(), place.id.number(), flaw);
    done_codec::is_sound(place, value)
        .map(|()| place)
        .map_err(flaw)
}

/// Decodes a record.
pub(super) fn record(key: &[u8; KEY], value: &[u8], names: &mut Names) -> Result<DoneTimer, Error> {
    let place = place_of(key);
    let flaw = |flaw: Flaw| damaged(DONE.name(), place.id.number(), flaw);
    done_codec::decode(place, value, names).map_err(flaw)
}

/// Writes a record, in the transaction that acknowledges its timer. `table` is opened by the first
/// one.
pub(super) fn put<'txn>(
    transaction: &'txn WriteTransaction,
    table: &mut Option<DoneTable<'txn>>,
    done: &DoneTimer,
) -> Result<(), Error> {
    let table = match table {
        Some(table) => table,
        None => table.insert(transaction.open_table(DONE)?),
    };
    table.insert(&key_of(done.place()), &*done_codec::encode(done))?;
    Ok(())
}

/// The table as a transaction reads it. `None`: no record was written yet.
pub(super) fn read(transaction: &ReadTransaction) -> Result<Option<StoredTable>, Error> {
    match transaction.open_table(DONE) {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads the next records of a range, up to `limit` of them, with those that are left out.
pub(super) fn look(
    database: &Database,
    names: &mut Names,
    range: &DoneRange,
    limit: usize,
) -> Result<DoneListed, Error> {
    let mut listed = DoneListed::default();
    let Some(table) = read(&database.begin_read()?)? else {
        return Ok(listed);
    };
    if range.is_empty() {
        return Ok(listed);
    }
    let (above, below) = (key_of(range.above), key_of(range.below));
    let bounds = (Bound::Excluded(&above), Bound::Excluded(&below));
    let mut entries = table.range::<&[u8; KEY]>(bounds)?;
    let mut last = None;
    while listed.done.len() + listed.unreadable.len() < limit {
        let next = match range.newest_first {
            true => entries.next_back(),
            false => entries.next(),
        };
        let Some(entry) = next else {
            return Ok(listed);
        };
        let (key, value) = entry?;
        let place = place_of(key.value());
        match record(key.value(), value.value(), names) {
            Ok(done) => listed.done.push(done),
            Err(_) => listed.unreadable.push(place),
        }
        last = Some(place);
    }
    listed.next = match is_broken(DurableFault::UnreadableEndsList) {
        true => listed.done.last().map(DoneTimer::place),
        false => last,
    };
    Ok(listed)
}

/// When the first record has ended.
fn oldest(database: &Database) -> Result<Option<StoreTime>, Error> {
    let Some(table) = read(&database.begin_read()?)? else {
        return Ok(None);
    };
    let first = table.first()?;
    Ok(first.map(|(key, _)| place_of(key.value()).ended))
}

/// Removes the first records, which have ended before a time. It is synced with the next commit: a
/// crash before that takes it back whole.
pub(super) fn forget(
    database: &Database,
    before: StoreTime,
    limit: usize,
) -> Result<DoneForgotten, Error> {
    let is_over = |oldest: Option<StoreTime>| oldest.is_some_and(|oldest| oldest < before);
    let mut first = oldest(database)?;
    if is_over(first) {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(Durability::None)?;
        let mut table = transaction.open_table(DONE)?;
        let end = key_of(DonePlace::begin_of(before));
        let upto = (Bound::Unbounded, Bound::Included(&end));
        let mut slice = table.range::<&[u8; KEY]>(upto)?.take(limit.max(1));
        let last = slice.try_fold(None, |_, entry| entry.map(|(key, _)| Some(*key.value())))?;
        drop(slice);
        if let Some(last) = last {
            table.retain_in::<&[u8; KEY], _>(..=&last, |_, _| false)?;
        }
        drop(table);
        transaction.commit()?;
        first = oldest(database)?;
    }
    Ok(DoneForgotten {
        has_more: is_over(first),
        oldest: first,
    })
}
