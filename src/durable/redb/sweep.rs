//! Sweep: moves rows that have been in `recent` for a while to `by_due`, a slice at a time.
//!
//! A round goes once over the numbers of `recent`, from the lowest up to a mark. A slice is one
//! transaction: it reads the next rows, puts them into `by_due` in the order of their deadlines,
//! and deletes them from `recent`. Rows that are due soon stay: they end before it would pay. If
//! `recent` is very large, they go too.
//!
//! Age is told by the store's clock, as it was read last. A store whose clock is never read sweeps
//! by the number of rows alone.

use super::due_key::DueKey;
use super::recent::RecentIndex;
use super::tables::{WriteTables, recent_row};
use crate::durable::StoreTime;
use crate::time::Clock;
use redb::{Database, Error, ReadableTable};
use std::collections::VecDeque;
use std::ops::{Bound, Range};
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
const SLICE_NS: u64 = 4_000_000;

/// Rows of a slice, at least and at most.
const SLICE_ROWS: Range<usize> = 256..32_768;

/// When to sweep, by the number of rows in `recent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepLimits {
    /// With more rows, all are swept that are not due soon.
    pub(crate) many: usize,
    /// With more rows, all are swept.
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

/// Where the sweeps stand. Nothing of it is stored: a row is in one of the tables at any time.
pub(super) struct Sweeper {
    limits: SweepLimits,
    clock: Clock,
    /// Times, and the next number at each. The oldest is at the front.
    marks: VecDeque<(StoreTime, u64)>,
    round: Option<Round>,
    /// Rows that the last round left. The next one by number begins when there are more.
    left: usize,
    /// When the last round by age began.
    last_round: Option<StoreTime>,
    slice_rows: usize,
}

struct Round {
    /// The numbers that are still to be looked at.
    numbers: Range<u64>,
    /// Rows due by then stay.
    soon: Option<StoreTime>,
}

/// Rows of a slice.
#[derive(Default)]
struct Slice {
    values: Vec<u8>,
    rows: Vec<(DueKey, Range<usize>)>,
    /// Numbers of rows that stay.
    stay: Vec<u64>,
    /// The number after the last one that was looked at.
    end: Option<u64>,
}

impl Sweeper {
    pub(super) fn new(limits: SweepLimits) -> Self {
        Self {
            limits,
            clock: Clock::monotonic(),
            marks: VecDeque::new(),
            round: None,
            left: 0,
            last_round: None,
            slice_rows: 1_024,
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

    /// Takes a slice, if there is something to sweep. Whether there is more.
    pub(super) fn step(
        &mut self,
        database: &Database,
        index: &mut RecentIndex,
        now: Option<StoreTime>,
        next: u64,
    ) -> Result<bool, Error> {
        if self.round.is_none() {
            self.round = self.next_round(index.len(), now, next);
        }
        let Some(mut round) = self.round.take() else {
            return Ok(false);
        };
        let begin_ns = self.clock.now_ns();
        let is_done = sweep_slice(database, index, &mut round, self.slice_rows)?;
        let took_ns = self.clock.now_ns().saturating_sub(begin_ns);
        if took_ns > SLICE_NS {
            self.slice_rows = (self.slice_rows / 2).max(SLICE_ROWS.start);
        } else if took_ns < SLICE_NS / 2 {
            self.slice_rows = (self.slice_rows * 2).min(SLICE_ROWS.end);
        }
        if is_done {
            self.left = index.len();
        } else {
            self.round = Some(round);
        }
        Ok(!is_done)
    }

    fn next_round(&mut self, rows: usize, now: Option<StoreTime>, next: u64) -> Option<Round> {
        // What the last round left for a reason is no reason for the next one.
        let is_more = rows > self.left + self.limits.many / 4;
        if rows > self.limits.many && is_more || rows > self.limits.too_many {
            let is_too_many = rows > self.limits.too_many;
            let soon = now.filter(|_| !is_too_many).map(|now| now.after(SOON));
            return Some(Round {
                numbers: 0..next,
                soon,
            });
        }
        self.left = self.left.min(rows);
        let now = now?;
        if rows == 0 || self.last_round.is_some_and(|last| now.since(last) < AGE) {
            return None;
        }
        let mut mark = None;
        while let Some(&(time, next)) = self.marks.front()
            && now.since(time) >= AGE
        {
            mark = Some(next);
            self.marks.pop_front();
        }
        let mark = mark?;
        self.last_round = Some(now);
        Some(Round {
            numbers: 0..mark,
            soon: Some(now.after(SOON)),
        })
    }
}

/// Moves the next rows of a round. Whether it is done.
fn sweep_slice(
    database: &Database,
    index: &mut RecentIndex,
    round: &mut Round,
    rows_max: usize,
) -> Result<bool, Error> {
    let transaction = database.begin_write()?;
    let mut tables = WriteTables::open(&transaction)?;
    let mut slice = Slice::default();
    slice.read(&tables, round, rows_max)?;
    let Some(end) = slice.end else {
        drop(tables);
        transaction.abort()?;
        return Ok(true);
    };
    let numbers = round.numbers.start..end;
    round.numbers.start = end;
    let is_done = round.numbers.is_empty();
    if slice.rows.is_empty() {
        drop(tables);
        transaction.abort()?;
        return Ok(is_done);
    }
    slice.rows.sort_unstable_by_key(|&(key, _)| key);
    slice.insert(&mut tables)?;
    let stay = &slice.stay;
    tables
        .recent
        .retain_in(numbers, |number, _| stay.binary_search(&number).is_ok())?;
    drop(tables);
    transaction.commit()?;
    for (key, _) in &slice.rows {
        index.remove(key.number());
    }
    Ok(is_done)
}

impl Slice {
    fn read(
        &mut self,
        tables: &WriteTables<'_>,
        round: &Round,
        rows_max: usize,
    ) -> Result<(), Error> {
        for entry in tables.recent.range(round.numbers.clone())?.take(rows_max) {
            let (number, value) = entry?;
            let number = number.value();
            let row = recent_row(number, value.value())?;
            self.end = Some(number + 1);
            if round.soon.is_some_and(|soon| row.due <= soon) {
                self.stay.push(number);
                continue;
            }
            let begin = self.values.len();
            self.values.extend_from_slice(value.value());
            let key = DueKey::new(row.due, row.first_due, number);
            self.rows.push((key, begin..self.values.len()));
        }
        Ok(())
    }

    /// Puts the rows, which are sorted, into `by_due`.
    fn insert(&self, tables: &mut WriteTables<'_>) -> Result<(), Error> {
        let by_due = &mut tables.by_due;
        let is_last = match (by_due.last()?, self.rows.first()) {
            (Some((last, _)), Some((first, _))) => last.value() < first.bytes(),
            _ => true,
        };
        if is_last {
            let mut end = by_due.upper_bound_mut(Bound::<&[u8; 20]>::Unbounded)?;
            for (key, range) in &self.rows {
                end.insert_before(key.bytes(), &self.values[range.clone()])?;
            }
            end.close()?;
        } else {
            for (key, range) in &self.rows {
                by_due.insert(key.bytes(), &self.values[range.clone()])?;
            }
        }
        for (key, _) in self.rows.iter().filter(|(key, _)| key.is_moved()) {
            tables.moved.insert(key.number(), key.bytes())?;
        }
        Ok(())
    }
}
