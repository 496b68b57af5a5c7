//! Done: the records of runs that are done, for a node. They go over all partitions, and a node
//! removes those of its own.

use super::session::{STATEMENT_TIMEOUT, apart};
use super::statements::done::{CountDone, EstimateDone, ForgetDone, LookDone, LookDoneBack};
use super::statements::rows::{millis, part};
use super::store::{COUNT_MAX, COUNT_WITHIN, Postgres, SIZE_EVERY, SIZE_SHARE};
use crate::store::contract::{DoneStore, StoreError};
use crate::store::done::{DoneForgotten, DoneListed, DonePlace, DoneRange, DoneTimer};
use crate::store::row::{Partition, StoreTime};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records of a partition that one statement reads at least.
const SLICE_LEAST: usize = 4;

#[doc(hidden)]
impl DoneStore for Postgres {
    fn node(&self) -> Arc<str> {
        (*self.leases.name).into()
    }

    fn look(&mut self, range: &DoneRange, limit: usize) -> Result<DoneListed, StoreError> {
        if range.is_empty() {
            return Ok(DoneListed::default());
        }
        self.with(|store| {
            let partitions = store.leases.partitions;
            // (Each has about as many as another.)
            let share = limit.saturating_mul(2).div_ceil(partitions as usize);
            let slice = share.max(SLICE_LEAST).min(limit.max(1));
            let all: Vec<i16> = (0..partitions)
                .filter_map(|number| Partition::try_from(number).ok())
                .map(part)
                .collect();
            let found = store.look_done(&all, range, slice)?;
            Ok(known(found, slice, range.newest_first))
        })
    }

    fn forget(&mut self, before: StoreTime, limit: usize) -> Result<DoneForgotten, StoreError> {
        self.with(|store| {
            let parts: Vec<i16> = store.leases.own.keys().map(|&own| part(own)).collect();
            if parts.is_empty() {
                return Ok(DoneForgotten::default());
            }
            let forget = ForgetDone {
                part: &parts,
                before: millis(before),
                limit: i64::try_from(limit).unwrap_or(i64::MAX),
            };
            let gone = store.session.run(async |live| live.ask(&forget).await)?;
            Ok(DoneForgotten {
                has_more: gone.len() >= limit,
                oldest: None,
            })
        })
    }

    fn count(&mut self) -> Result<u64, StoreError> {
        let now = self.clock.elapsed();
        if now < self.done.at {
            return Ok(self.done.count);
        }
        // (As for `size`.)
        apart(|| {
            self.with(|store| {
                store.count_done();
                let took = store.clock.elapsed() - now;
                store.done.at = now + SIZE_EVERY.max(took * SIZE_SHARE);
                Ok(store.done.count)
            })
        })
    }
}

impl Postgres {
    /// Counts records, as timers are counted. (A count that fails is made another time.)
    fn count_done(&mut self) {
        let counted = self.session.once(async |live| {
            let is_bound = live.client.batch_execute(COUNT_WITHIN).await.is_ok();
            let counted = live.ask(&CountDone { limit: COUNT_MAX }).await;
            if is_bound {
                live.client.batch_execute(STATEMENT_TIMEOUT).await?;
            }
            Ok(counted.ok())
        });
        let counted = match counted {
            Some(Ok(counted)) => counted.and_then(|counts| counts.first().copied()),
            // The bound may still hold for it.
            Some(Err(_)) => return self.session.forget(),
            None => return,
        };
        if let Some(counted) = counted.filter(|&counted| counted < COUNT_MAX.unsigned_abs()) {
            self.done.count = counted;
            return;
        }
        let estimate = self
            .session
            .once(async |live| live.ask(&EstimateDone {}).await);
        if let Some(Ok(estimate)) = estimate {
            let estimate = estimate.into_iter().flatten().next();
            let least = counted.unwrap_or_default();
            self.done.count = estimate.unwrap_or(self.done.count).max(least);
        }
    }

    fn look_done(
        &mut self,
        part: &[i16],
        range: &DoneRange,
        slice: usize,
    ) -> Result<Vec<DoneTimer>, StoreError> {
        let limit = i64::try_from(slice).unwrap_or(i64::MAX);
        if range.newest_first {
            let look = LookDoneBack::of(part, range, limit);
            return self.session.run(async |live| live.ask(&look).await);
        }
        let look = LookDone::of(part, range, limit);
        self.session.run(async |live| live.ask(&look).await)
    }
}

/// Of records that were read, up to `slice` of each partition: those up to which all are known.
fn known(mut found: Vec<DoneTimer>, slice: usize, newest_first: bool) -> DoneListed {
    let mut last: BTreeMap<Partition, (usize, DonePlace)> = BTreeMap::new();
    for done in &found {
        let place = done.place();
        let (count, upto) = last.entry(done.id.partition()).or_insert((0, place));
        (*count, *upto) = (*count + 1, place);
    }
    let full = last.values().filter(|(count, _)| *count >= slice);
    let full = full.map(|&(_, upto)| upto);
    let next = match newest_first {
        true => full.max(),
        false => full.min(),
    };
    if let Some(next) = next {
        found.retain(|done| match newest_first {
            true => done.place() >= next,
            false => done.place() <= next,
        });
    }
    DoneListed {
        done: found,
        next,
        unreadable: Vec::new(),
    }
}
