//! Sweep: moves rows that have been in `recent` for a while to `by_due`, and takes those out of
//! `recent` that have ended, a slice at a time. A slice is one transaction.
//!
//! A round that moves goes over the index in the order of deadlines. So each page of `by_due` is
//! written once in a round, however many rows come to it. A row that is moved leaves a tombstone.
//! Rows that are due soon stay: they end before it would pay. If `recent` is very large, they go
//! too.
//!
//! A round that takes out goes over `recent` in the order of numbers. When it has ended, the
//! tombstones go that were there when it began.
//!
//! Age is told by the store's clock, as it was read last. A store whose clock is never read sweeps
//! by the number of rows alone.

use super::due_key::DueKey;
use super::recent::RecentIndex;
use super::tables::{RECENT, WriteTables, damaged, recent_row};
use super::tombstones::EndedLog;
use crate::store::row::StoreTime;
use crate::time::Clock;
use redb::{
    AccessGuard, Database, Durability, Error, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, Table, WriteTransaction,
};
use std::collections::VecDeque;
use std::ops::{Bound, Range, RangeInclusive};
use std::time::Duration;

/// How long a row is in `recent` at least, unless there are many.
const AGE: Duration = Duration::from_secs(30);

/// Marks of age are so far apart.
const MARK_EVERY: Duration = Duration::from_secs(1);

/// Marks that are kept. They reach farther back than a row's age has to.
const MARKS_MAX: usize = 64;

/// Rows due so soon stay in `recent`.
const SOON: Duration = Duration::from_secs(60);

/// A slice should take so long.
const SLICE_NS: u64 = 2_000_000;

/// Slices that are taken together at most for each `too_many` rows, beside the first.
const SLICES_BEHIND: usize = 8;

/// Slices pay for the rows that came, and for one more for each four of them.
const OWED_MORE: usize = 4;

/// A slice that takes rows out, or forgets them, pays for an eighth of its rows: it moves none.
const CHEAPER: usize = 8;

/// Rows of a slice, at least and at most.
const SLICE_ROWS: Range<usize> = 256..32_768;

/// The first rows of a slice, which say whether its rows lie one after the other.
const DENSE_LOOK: usize = 2 * SLICE_ROWS.start;

/// A slice has no more bytes of rows than this, and one row more.
const SLICE_BYTES: usize = 8 << 20;

/// When to sweep, by the number of rows in `recent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepLimits {
    /// With more rows, all are moved that are not due soon. With half as many that have ended,
    /// these are taken out.
    pub(crate) many: usize,
    /// With more rows, all are moved.
    pub(crate) too_many: usize,
}

impl Default for SweepLimits {
    fn default() -> Self {
        Self {
            many: 262_144,
            too_many: 1_048_576,
        }
    }
}

/// Where the sweeps stand. Nothing of it is stored.
pub(super) struct Sweeper {
    limits: SweepLimits,
    clock: Clock,
    /// Times, and the next number at each. The oldest is at the front.
    marks: VecDeque<(StoreTime, u64)>,
    round: Option<Round>,
    /// Rows that the index knew after the last step.
    rows: usize,
    /// Rows that the last round left. The next one by number begins when there are more.
    left: usize,
    /// When the last round by age began.
    last_round: Option<StoreTime>,
    /// A round by age has moved rows: those that have ended are taken out, however few they are.
    takes_out: bool,
    slice_rows: usize,
    /// The same for rows that are read one after the other: several times as many.
    dense_rows: usize,
}

enum Round {
    /// Moves rows after this key with a number below `young` to `by_due`.
    Move { after: DueKey, young: u64 },
    /// Takes out what has ended of these numbers. Then the tombstones before this one go.
    TakeOut { numbers: Range<u64>, tombstone: u64 },
    /// Deletes the tombstones before this one.
    Forget { tombstone: u64 },
}

/// What a sweep reads and changes.
pub(super) struct Sweep<'a> {
    pub(super) database: &'a Database,
    pub(super) index: &'a mut RecentIndex,
    pub(super) tombstones: &'a mut EndedLog,
    pub(super) now: Option<StoreTime>,
    /// The number of the next row.
    pub(super) next: u64,
}

impl Sweeper {
    pub(super) fn new(limits: SweepLimits) -> Self {
        Self {
            limits,
            clock: Clock::monotonic(),
            marks: VecDeque::new(),
            round: None,
            rows: 0,
            left: 0,
            last_round: None,
            takes_out: false,
            slice_rows: 1_024,
            dense_rows: 1_024,
        }
    }

    /// Notes the time at which rows from `next` on will come.
    pub(super) fn mark(&mut self, now: StoreTime, next: u64) {
        match self.marks.back() {
            Some(&(last, _)) if now < last => {
                // The clock was set back: what is there is of that age from now on.
                self.marks.clear();
                self.last_round = None;
            }
            Some(&(last, _)) if now.since(last) < MARK_EVERY => return,
            _ => {}
        }
        if self.marks.len() == MARKS_MAX {
            // The next one is old enough, too.
            self.marks.pop_front();
        }
        self.marks.push_back((now, next));
    }

    /// Takes a slice, if there is something to sweep, and more slices if arms are ahead of the
    /// sweeps: else memory would grow with the rows. As many as pay for the rows that came since
    /// the last step: so commits of few rows are not delayed by many slices. Whether there is more.
    pub(super) fn step(&mut self, mut sweep: Sweep<'_>) -> Result<bool, Error> {
        let rows = sweep.index.len();
        let behind = rows.checked_div(self.limits.too_many).unwrap_or(0);
        let came = rows.saturating_sub(self.rows);
        let mut owed = came + came / OWED_MORE;
        let mut has_more = true;
        for _ in 0..=SLICES_BEHIND * behind {
            let (paid, more) = self.slice(&mut sweep)?;
            (owed, has_more) = (owed.saturating_sub(paid), more);
            if owed == 0 || !has_more {
                break;
            }
        }
        self.rows = sweep.index.len();
        Ok(has_more)
    }

    /// Takes a slice of a round. For how many rows that came it pays, and whether there is more.
    fn slice(&mut self, sweep: &mut Sweep<'_>) -> Result<(usize, bool), Error> {
        if self.round.is_none() {
            self.round = self.next_round(sweep)?;
        }
        let Some(round) = &mut self.round else {
            return Ok((0, false));
        };
        let rows_before = sweep.index.len();
        let begin_ns = self.clock.now_ns();
        let mut is_dense = false;
        let is_done = match round {
            Round::Move { after, young } => {
                let done;
                (done, is_dense) =
                    sweep.move_slice(after, *young, self.slice_rows, self.dense_rows)?;
                done
            }
            Round::TakeOut { numbers, .. } => sweep.take_out_slice(numbers, self.slice_rows)?,
            Round::Forget { tombstone } => sweep.forget_slice(*tombstone, self.slice_rows)?,
        };
        let took_ns = self.clock.now_ns().saturating_sub(begin_ns);
        let paid = match round {
            Round::Move { .. } => rows_before - sweep.index.len(),
            Round::TakeOut { .. } | Round::Forget { .. } => self.slice_rows / CHEAPER,
        };
        let rows = if is_dense {
            &mut self.dense_rows
        } else {
            &mut self.slice_rows
        };
        if took_ns > SLICE_NS {
            *rows = (*rows / 2).max(SLICE_ROWS.start);
        } else if took_ns < SLICE_NS / 2 {
            *rows = (*rows * 2).min(SLICE_ROWS.end);
        }
        if is_done {
            self.round = match *round {
                Round::TakeOut { tombstone, .. } => Some(Round::Forget { tombstone }),
                Round::Move { .. } => {
                    self.left = sweep.index.len();
                    self.next_round(sweep)?
                }
                Round::Forget { .. } => self.next_round(sweep)?,
            };
        }
        Ok((paid, self.round.is_some()))
    }

    fn next_round(&mut self, sweep: &Sweep<'_>) -> Result<Option<Round>, Error> {
        let rows = sweep.index.len();
        let stored = sweep.database.begin_read()?.open_table(RECENT)?.len()?;
        let ended = usize::try_from(stored).unwrap_or(usize::MAX) - rows;
        // Each row that stays is looked at, so it is done for a share of them. It comes first: rows
        // that are moved on and on would leave ended rows without end.
        let takes_out = std::mem::take(&mut self.takes_out);
        if ended > (self.limits.many + rows) / 2 || ended > 0 && takes_out {
            return Ok(Some(Round::TakeOut {
                numbers: 0..sweep.next,
                tombstone: sweep.tombstones.mark(),
            }));
        }
        // What the last round left for a reason is no reason for the next one.
        let is_more = rows > self.left + self.limits.many / 4;
        if rows > self.limits.many && is_more || rows > self.limits.too_many {
            let is_too_many = rows > self.limits.too_many;
            let soon = sweep.now.filter(|_| !is_too_many);
            return Ok(Some(Round::after(soon, sweep.next)));
        }
        self.left = self.left.min(rows);
        let Some(now) = sweep.now else {
            return Ok(None);
        };
        if stored == 0 || self.last_round.is_some_and(|last| now.since(last) < AGE) {
            return Ok(None);
        }
        let mut mark = None;
        while let Some(&(time, next)) = self.marks.front()
            && now.since(time) >= AGE
        {
            mark = Some(next);
            self.marks.pop_front();
        }
        Ok(mark.map(|next| {
            self.last_round = Some(now);
            self.takes_out = true;
            Round::after(Some(now), next)
        }))
    }
}

impl Round {
    /// Moves what is not due soon after `now`; without it, everything.
    fn after(now: Option<StoreTime>, young: u64) -> Self {
        let after = now.map_or(DueKey::MIN, |now| DueKey::end_of(now.after(SOON)));
        Self::Move { after, young }
    }
}

impl Sweep<'_> {
    /// Begins a slice. It is synced with the next commit: a crash before that takes it back whole.
    fn begin(&self) -> Result<WriteTransaction, Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::None)?;
        Ok(transaction)
    }

    /// Moves the next rows: `dense`, if they lie one after the other, else `rows`. Returns whether
    /// there are no more, and whether they lay so.
    fn move_slice(
        &mut self,
        after: &mut DueKey,
        young: u64,
        rows: usize,
        dense: usize,
    ) -> Result<(bool, bool), Error> {
        let mut keys = Vec::new();
        let look = rows.max(DENSE_LOOK);
        self.index.range(*after, StoreTime::MAX, look, &mut keys);
        let mut is_dense = keys.len() > SLICE_ROWS.start && dense_range(&keys).is_some();
        if is_dense && dense > look {
            keys.clear();
            self.index.range(*after, StoreTime::MAX, dense, &mut keys);
            is_dense = dense_range(&keys).is_some();
        }
        let limit = if is_dense { dense } else { rows };
        let is_done = keys.len() < limit;
        keys.truncate(limit);
        if let Some(&last) = keys.last() {
            *after = last;
        }
        keys.retain(|key| key.number() < young);
        if keys.is_empty() {
            return Ok((is_done, is_dense));
        }
        let transaction = self.begin()?;
        let mut tables = WriteTables::open(&transaction)?;
        self.tombstones.begin();
        let copied = copy(&mut tables, &keys)?;
        let is_done = is_done && copied == keys.len();
        if let Some(&last) = keys.get(..copied).and_then(<[_]>::last)
            && copied < keys.len()
        {
            keys.truncate(copied);
            *after = last;
        }
        for key in &keys {
            if key.is_moved() {
                tables.moved.insert(key.number(), key.bytes())?;
            }
            self.tombstones.end(key.number());
        }
        self.tombstones.write(&mut tables.tombstones)?;
        drop(tables);
        transaction.commit()?;
        for key in &keys {
            self.index.remove(key.number());
        }
        Ok((is_done, is_dense))
    }

    /// Takes out what has ended of the next rows. Whether there are no more.
    fn take_out_slice(&mut self, numbers: &mut Range<u64>, rows: usize) -> Result<bool, Error> {
        let transaction = self.begin()?;
        let mut tables = WriteTables::open(&transaction)?;
        let (mut end, mut looked_at, mut has_ended) = (numbers.end, 0, false);
        let mut bytes = 0;
        for entry in tables.recent.range(numbers.clone())? {
            let (number, value) = entry?;
            let number = number.value();
            if looked_at == rows || bytes >= SLICE_BYTES {
                end = number;
                break;
            }
            looked_at += 1;
            bytes += value.value().len();
            has_ended |= self.index.get(number).is_none();
        }
        let slice = numbers.start..end;
        numbers.start = end;
        if has_ended {
            let index = &*self.index;
            tables
                .recent
                .retain_in(slice, |number, _| index.get(number).is_some())?;
        }
        drop(tables);
        if has_ended {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(numbers.is_empty())
    }

    /// Deletes the first entries of the tombstones, up to this one. Whether there are no more.
    fn forget_slice(&mut self, tombstone: u64, entries: usize) -> Result<bool, Error> {
        let transaction = self.begin()?;
        let mut tables = WriteTables::open(&transaction)?;
        let is_done = self
            .tombstones
            .delete_before(tombstone, entries, &mut tables.tombstones)?;
        drop(tables);
        transaction.commit()?;
        Ok(is_done)
    }
}

/// Copies these rows, which are sorted, from `recent` to `by_due`: the first ones, as many as a
/// slice may have bytes. Returns how many.
fn copy(tables: &mut WriteTables<'_>, keys: &[DueKey]) -> Result<usize, Error> {
    let WriteTables { recent, by_due, .. } = tables;
    let is_last = match (by_due.last()?, keys.first()) {
        (Some((last, _)), Some(first)) => last.value() < first.bytes(),
        _ => true,
    };
    // Rows that came in the order of their deadlines are read one after the other.
    if let Some(numbers) = dense_range(keys) {
        let count = keys.len();
        let mut keys = keys.iter().peekable();
        let rows = recent.range(numbers)?.filter_map(|entry| {
            entry
                .map(|(number, value)| {
                    let key = keys.next_if(|key| key.number() == number.value())?;
                    Some((key, value))
                })
                .transpose()
        });
        let (copied, is_full) = put(by_due, is_last, rows.map(|row| Ok(row?)))?;
        return match keys.next() {
            Some(key) if !is_full => Err(damaged("recent", key.number(), "it is missing")),
            _ => Ok(copied.min(count)),
        };
    }
    let rows = keys.iter().map(|key| {
        let number = key.number();
        let value = recent.get(number)?;
        let value = value.ok_or_else(|| damaged("recent", number, "it is missing"))?;
        Ok((key, value))
    });
    Ok(put(by_due, is_last, rows)?.0)
}

/// Puts rows into `by_due`, in the order of their keys; behind all that are there, if they belong
/// there. Returns how many, and whether it has stopped because of their bytes.
fn put<'a>(
    by_due: &mut Table<'_, &'static [u8; 20], &'static [u8]>,
    is_last: bool,
    rows: impl Iterator<Item = Result<(&'a DueKey, AccessGuard<'a, &'static [u8]>), Error>>,
) -> Result<(usize, bool), Error> {
    let (mut count, mut bytes) = (0, 0);
    let rows = rows.map(|row| {
        let (key, value) = row?;
        let number = key.number();
        let row = recent_row(number, value.value())?;
        if DueKey::new(row.due, row.first_due, number) != *key {
            return Err(damaged("recent", number, "it is not as it was written"));
        }
        Ok((key, value))
    });
    if is_last {
        let mut end = by_due.upper_bound_mut(Bound::<&[u8; 20]>::Unbounded)?;
        for row in rows {
            let (key, value) = row?;
            end.insert_before(key.bytes(), value.value())?;
            (count, bytes) = (count + 1, bytes + value.value().len());
            if bytes >= SLICE_BYTES {
                break;
            }
        }
        end.close()?;
    } else {
        for row in rows {
            let (key, value) = row?;
            by_due.insert(key.bytes(), value.value())?;
            (count, bytes) = (count + 1, bytes + value.value().len());
            if bytes >= SLICE_BYTES {
                break;
            }
        }
    }
    Ok((count, bytes >= SLICE_BYTES))
}

/// The numbers of these rows, if they rise, and at least half of the numbers between are theirs.
fn dense_range(keys: &[DueKey]) -> Option<RangeInclusive<u64>> {
    let (first, last) = (keys.first()?.number(), keys.last()?.number());
    let is_rising = keys
        .windows(2)
        .all(|pair| pair[0].number() < pair[1].number());
    let is_dense = is_rising && last - first < 2 * keys.len() as u64;
    is_dense.then_some(first..=last)
}
