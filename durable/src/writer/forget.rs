//! Forget: DoneForget, the removal of records of runs whose time is over. And lists of records.

use super::done::{LOOK_LEAST, LOOK_MOST, LOOK_PART, REST, SLICE, SLICE_SHARED, TICK};
use super::turn::Writer;
use crate::queue::paging::DonePaging;
use crate::queue::request::Look;
use crate::store::contract::StoreError;
use crate::store::done::{DoneListed, DonePlace, DoneTimer};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::StoreTime;
use std::time::Duration;

impl Writer {
    /// How many records there are. 0: this program keeps none.
    pub(super) fn count_done(&mut self) -> Result<u64, StoreError> {
        match (self.core.shared.hooks.keep_done, self.core.store.done()) {
            (Some(_), Some(done)) => done.count(),
            _ => Ok(0),
        }
    }

    /// DoneForget: removes a slice of the records whose time is over. Returns whether there is
    /// nothing more to do now.
    pub(super) fn forget_done(&mut self, now: StoreTime) -> Result<bool, StoreError> {
        let Some(keep) = self.core.shared.hooks.keep_done else {
            return Ok(true);
        };
        let began = self.core.shared.elapsed();
        // (Where years may pass at once, it waits until there is something to remove.)
        let is_alone = self.core.shared.is_manual() && self.core.shared.rights.is_none();
        if std::mem::take(&mut self.done.is_noted) && is_alone {
            // (The others may have ended later, by a clock that was set back since.)
            let over = began.saturating_add(keep);
            self.done.at = Some(self.done.at.map_or(over, |at| at.min(over)));
        }
        if self.core.is_stopping || self.done.at.is_none_or(|at| at > began) {
            return Ok(true);
        }
        let Some(done) = self.core.store.done() else {
            self.done.at = None;
            return Ok(true);
        };
        let kept_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        // (One that has just ended is kept for no less than it is to be.)
        let before = match is_broken(DurableFault::DoneForgottenEarly) {
            true => now.as_millis(),
            false => now.as_millis().saturating_sub(kept_ms),
        };
        let forgotten = done.forget(StoreTime::from_millis(before), self.done.slice)?;
        let ended = self.core.shared.elapsed();
        let took = ended.saturating_sub(began);
        let goal = match self.core.shared.rights {
            Some(_) => SLICE_SHARED,
            None => SLICE,
        };
        self.done.follow(took, goal);
        if forgotten.has_more {
            self.done.at = Some(ended + took * REST);
            return Ok(!took.is_zero());
        }
        let look = (keep / LOOK_PART).clamp(LOOK_LEAST, LOOK_MOST);
        let wait = match is_alone {
            true => forgotten
                .oldest
                .map(|oldest| oldest.after(keep.saturating_add(TICK)).since(now)),
            false => Some(look),
        };
        self.done.at = wait.map(|wait| ended.saturating_add(wait.max(TICK)));
        Ok(true)
    }

    /// How long the writer may wait before it has records to remove.
    pub(super) fn next_forgetting(&self) -> Option<Duration> {
        self.core.shared.hooks.keep_done?;
        let wait = |at: Duration| at.saturating_sub(self.core.shared.elapsed());
        self.done.at.filter(|_| !self.core.is_stopping).map(wait)
    }

    /// Reads the next slice of a page of records.
    pub(super) fn look_at_done(&mut self, mut paging: DonePaging) -> Result<(), StoreError> {
        let begun = self.core.time();
        // (Of records that are left out as many are looked at as a slice may have.)
        let wanted = match paging.rest.is_all() && paging.found.unreadable == 0 {
            true => paging.left,
            false => usize::MAX,
        };
        let limit = self.slice_of(wanted).rows.max(1);
        let found = match self.core.store.done() {
            Some(done) if !paging.rest.range.is_empty() => done.look(&paging.rest.range, limit),
            _ => Ok(DoneListed::default()),
        };
        let DoneListed {
            mut done,
            unreadable,
            mut next,
        } = match found {
            Ok(found) => found,
            Err(error) => return self.answer(paging.teller, Err(error)),
        };
        let bytes = done.iter().map(DoneTimer::bytes).sum();
        self.note_look(done.len() + unreadable.len(), bytes, begun);
        done.retain(|done| paging.rest.takes(done));
        if done.len() > paging.left {
            done.truncate(paging.left);
            next = done.last().map(DoneTimer::place);
        }
        // (Those behind it are counted by the next page.)
        let range = &paging.rest.range;
        let is_on = |place: DonePlace| next.is_none_or(|next| range.is_upto(place, next));
        paging.found.unreadable += unreadable.into_iter().filter(|&place| is_on(place)).count();
        paging.left -= done.len();
        paging.found.slices.push(done);
        if let Some(place) = next.filter(|_| paging.left > 0) {
            paging.rest.range = paging.rest.range.behind(place);
            self.large.push_look(Look::Done(Box::new(paging)));
            return Ok(());
        }
        paging.found.next = next;
        self.answer(paging.teller, Ok(paging.found))
    }
}
