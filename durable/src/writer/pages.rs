//! Pages: lists of timers, which are read page by page, and a page slice by slice.
//!
//! A list goes by the deadline that a timer has for its user. A held row has another one in the
//! store, behind all others. So a slice is read in both places, and goes as far as both are known.

use super::turn::Writer;
use crate::queue::paging::{Paged, Paging};
use crate::queue::request::Look;
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::list::{Listed, TimerState};
use crate::store::row::{Position, Row, StoreTime};
use crate::store::write::SliceLimit;

impl Writer {
    /// Reads the next slice of a page.
    pub(super) fn look_at_page(&mut self, mut paging: Paging) -> Result<(), StoreError> {
        let begun = self.core.time();
        // (Of rows that are left out as many are looked at as a slice may have.)
        let limit = match paging.rest.state.is_none() && paging.rest.filter.is_all() {
            true => self.slice_of(paging.left),
            false => self.slice_of(usize::MAX),
        };
        let listed = self.list_slice(&paging.rest, limit);
        let Listed {
            mut rows,
            looked_at,
            mut next,
        } = match listed {
            Ok(listed) => listed,
            Err(error) => return self.answer(paging.teller, Err(error)),
        };
        self.note_look(looked_at.0, looked_at.1, begun);
        if let Some(wanted) = paging.rest.state {
            let now = StoreTime::reading(self.core.shared.now());
            rows.retain(|row| self.state_of(row, now) == wanted);
        }
        if rows.len() > paging.left {
            rows.truncate(paging.left);
            next = rows.last().map(Row::shown_position);
        }
        paging.left -= rows.len();
        paging
            .found
            .push(rows.into_iter().map(Row::shown).collect());
        if let Some(after) = next.filter(|_| paging.left > 0) {
            paging.rest.after = after;
            self.large.push_look(Look::Page(Box::new(paging)));
            return Ok(());
        }
        if is_broken(DurableFault::CursorSkips) {
            next = next.map(|next| Position::end_of(next.due));
        }
        self.answer(paging.teller, Ok((paging.found, next)))
    }

    /// A slice of a list, and where it goes on.
    ///
    /// Where nodes share the store, another node may hold or release a row between the two looks.
    /// So held rows are looked at before the others and behind them: a row that is held meanwhile
    /// is found by the last look, and one that is released by the first.
    pub(super) fn list_slice(
        &mut self,
        paged: &Paged,
        limit: SliceLimit,
    ) -> Result<Listed, StoreError> {
        let (wants_held, wants_others) = paged.wants();
        let wants_held = wants_held && !paged.after.due.is_held();
        let is_shared = self.core.store.shared().is_some();
        let mut all = Listed::default();
        if wants_held && wants_others && is_shared && !is_broken(DurableFault::ReleasedUnlisted) {
            all = self.held_slice(paged, limit)?;
        }
        if wants_others {
            let &Paged { after, until, .. } = paged;
            let (core, filter) = (&mut self.core, &paged.filter);
            let mut others = (self.ownership).read_all(core, after, until, filter, limit)?;
            others.rows.retain(|row| row.held().is_none());
            all.add(others);
        }
        if wants_held {
            let held = self.held_slice(paged, limit)?;
            all.add(held);
        }
        Ok(all)
    }

    /// Those that are held.
    fn held_slice(&mut self, paged: &Paged, limit: SliceLimit) -> Result<Listed, StoreError> {
        let (from, until) = (paged.after.held(), paged.until);
        let until = match until.is_held() {
            true => StoreTime::MAX,
            false => until.held(),
        };
        let (core, filter) = (&mut self.core, &paged.filter);
        let mut held = (self.ownership).read_all(core, from, until, filter, limit)?;
        held.rows.retain(|row| row.held().is_some());
        held.next = held.next.map(Position::unheld);
        Ok(held)
    }

    /// In which state a timer is.
    pub(super) fn state_of(&self, row: &Row, now: StoreTime) -> TimerState {
        if row.held().is_some() {
            TimerState::Held
        } else if self.core.window.is_begun(row.id) {
            TimerState::Handled
        } else if row.is_on_trial() {
            TimerState::Suspect
        } else if row.due > now {
            TimerState::Waiting
        } else {
            TimerState::Due
        }
    }
}
