//! Tombstones: which rows of `recent` have ended, in the order in which they did.
//!
//! Rows end in another order than they came in. To take each out of `recent` would write a page for
//! it. So the index forgets the row, its number is appended here, and a sweep takes it out with its
//! neighbours.
//!
//! An entry has the numbers of a transaction, or some of them. A row may come back under its
//! number. Then the number is there again, marked, and what was said last holds. So entries go in
//! the order in which they came, when a round has taken out all rows that had ended when it began.

use super::bytes::Flaw;
use super::codec;
use super::number_set::NumberSet;
use super::tables::damaged;
use redb::{CursorError, Error, ReadableTable, Table};
use std::ops::Bound;

/// Bytes of an entry's numbers: with its checksum it fits into a page of redb.
const ENTRY_BYTES: usize = 500 * 8;

/// With a number: its row came back. No number reaches it.
const REVIVED: u64 = 1 << 63;

/// The log of a file. All but the entries themselves.
#[derive(Default)]
pub(super) struct EndedLog {
    /// The first entry, if there is one.
    first: u64,
    /// The entry after the last one.
    next: u64,
    /// Numbers of the transaction that is being written.
    gathered: Vec<u64>,
}

impl EndedLog {
    /// Reads the log. Also returns the numbers whose rows have ended, of which some may be in
    /// `recent` no more.
    pub(super) fn read(
        table: &impl ReadableTable<u64, &'static [u8]>,
    ) -> Result<(Self, NumberSet), Error> {
        let (mut log, mut ended) = (Self::default(), NumberSet::default());
        for entry in table.iter()? {
            let (sequence, value) = entry?;
            let sequence = sequence.value();
            if log.next == 0 {
                log.first = sequence;
            }
            log.next = sequence + 1;
            Self::note(sequence, value.value(), &mut ended)
                .map_err(|flaw| damaged("tombstones", sequence, flaw))?;
        }
        Ok((log, ended))
    }

    /// Notes what an entry says, after those before it: the numbers whose rows have ended.
    pub(super) fn note(sequence: u64, value: &[u8], ended: &mut NumberSet) -> Result<(), Flaw> {
        for number in codec::decode_tombstones(sequence, value)? {
            if number & REVIVED == 0 {
                ended.insert(number);
            } else {
                ended.remove(number & !REVIVED);
            }
        }
        Ok(())
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.gathered.clear();
    }

    /// The row of this number has ended.
    pub(super) fn end(&mut self, number: u64) {
        self.gathered.push(number);
    }

    /// A row is put into `recent` under a number that may have ended there.
    pub(super) fn revive(&mut self, number: u64) {
        self.gathered.push(number | REVIVED);
    }

    /// Appends what was gathered.
    pub(super) fn write(&mut self, table: &mut Table<'_, u64, &'static [u8]>) -> Result<(), Error> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut end = table.upper_bound_mut(Bound::<u64>::Unbounded)?;
        let mut value = Vec::with_capacity(ENTRY_BYTES + 4);
        for numbers in self.gathered.chunks(ENTRY_BYTES / 8) {
            value.clear();
            codec::encode_tombstones(&mut value, self.next, numbers);
            match end.insert_before(self.next, &*value) {
                Ok(()) => self.next += 1,
                Err(CursorError::Storage(error)) => return Err(error.into()),
                Err(_) => return Err(damaged("tombstones", self.next, "it is out of order")),
            }
        }
        end.close()?;
        Ok(())
    }

    /// The next entry.
    pub(super) const fn mark(&self) -> u64 {
        self.next
    }

    /// Deletes some entries before this one, the first ones. Returns whether there are no more.
    pub(super) fn delete_before(
        &mut self,
        mark: u64,
        entries: usize,
        table: &mut Table<'_, u64, &'static [u8]>,
    ) -> Result<bool, Error> {
        let end = mark.min(self.first + entries as u64);
        table.retain_in(..end, |_, _| false)?;
        self.first = self.first.max(end);
        Ok(end == mark)
    }
}
