//! Bulk: calls that change all timers, or all dead letters, of a query.
//!
//! A slice is read and changed in one turn, so nothing comes between but the other changes of that
//! turn's commit. A timer that one of those names is left as it has it.

use super::aside::Waits;
use super::outcomes::{Outcomes, Unmade};
use super::plan::ManyBulk;
use super::turn::Writer;
use super::window::ClockReading;
use crate::queue::bulk::{BulkCounts, BulkTask, DeadFilter, Shifted};
use crate::queue::paging::Paged;
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DeadLetter, DurableId, Row, StoreTime};
use crate::store::write::{Outcome, SliceLimit, Target, Write};
use std::collections::HashSet;
use std::sync::Arc;

impl ManyBulk {
    pub(super) fn new(task: BulkTask, counts: Arc<BulkCounts>) -> Self {
        Self {
            task,
            counts,
            has_more: true,
            left: 0,
            changed: 0,
            moved: HashSet::new(),
            refused: None,
        }
    }

    /// Notes a timer that was moved to where the call has yet to come. (A store may have given it a
    /// later deadline than was asked for.)
    fn note_carried(&mut self, outcome: Option<&Outcome>) {
        if let (BulkTask::Move(paged, _), Some(Outcome::Moved(Some(row)))) = (&self.task, outcome)
            && paged.after < row.position()
            && row.due <= paged.until
            && !is_broken(DurableFault::CarriedAgain)
        {
            self.moved.insert(row.id);
        }
    }
}

impl Writer {
    /// TurnSlice: reads the next slice, and plans its changes. Returns how many rows and bytes were
    /// looked at.
    pub(super) fn plan_bulk(
        &mut self,
        bulk: &mut ManyBulk,
        room: SliceLimit,
        writes: &mut Vec<Write>,
    ) -> Result<(usize, usize), StoreError> {
        debug_assert!(bulk.left == 0, "a call has one slice in a commit");
        let before = writes.len();
        let paced = self.slice_of(room.rows);
        let limit = SliceLimit {
            bytes: paced.bytes.min(room.bytes),
            ..paced
        };
        let begun = self.core.time();
        let looked_at = match &mut bulk.task {
            BulkTask::Revive(after, filter, due) => {
                let due = *due;
                let revive = |id| Write::Revive(id, due);
                let (looked_at, more) = self.each_letter(after, filter, limit, writes, revive)?;
                bulk.has_more = more;
                looked_at
            }
            BulkTask::Discard(after, filter) => {
                let (looked_at, more) =
                    self.each_letter(after, filter, limit, writes, Write::Discard)?;
                bulk.has_more = more;
                looked_at
            }
            BulkTask::Move(paged, shift) => {
                let moved = &mut bulk.moved;
                let (looked_at, more) = self.each_row(paged, *shift, moved, limit, writes)?;
                bulk.has_more = more;
                looked_at
            }
        };
        self.note_look(looked_at.0, looked_at.1, begun);
        bulk.left = writes.len() - before;
        bulk.counts.looked_at.add(looked_at.0 as u64);
        Ok(looked_at)
    }

    /// Plans a change of each letter of a slice that the filter takes. Returns what was looked at,
    /// and whether there may be more.
    fn each_letter(
        &mut self,
        after: &mut Option<DurableId>,
        filter: &DeadFilter,
        limit: SliceLimit,
        writes: &mut Vec<Write>,
        change: impl Fn(DurableId) -> Write,
    ) -> Result<((usize, usize), bool), StoreError> {
        let letters = self.core.store.dead(*after, limit)?;
        let bytes = letters.iter().map(|letter| letter.row.bytes()).sum();
        let wanted = letters.iter().filter(|letter| filter.takes(letter));
        writes.extend(wanted.map(|letter: &DeadLetter| change(letter.row.id)));
        *after = letters.last().map(|letter| letter.row.id).or(*after);
        let is_full = limit.is_reached(letters.len(), bytes);
        Ok(((letters.len(), bytes), is_full))
    }

    /// The same for the timers of a list, which are moved.
    fn each_row(
        &mut self,
        paged: &mut Paged,
        shift: Shifted,
        moved: &mut HashSet<DurableId>,
        limit: SliceLimit,
        writes: &mut Vec<Write>,
    ) -> Result<((usize, usize), bool), StoreError> {
        let listed = self.list_slice(paged, limit)?;
        let now = StoreTime::reading(self.core.shared.now());
        let others: HashSet<DurableId> = writes.iter().filter_map(Write::names_row).collect();
        let keys: HashSet<_> = writes
            .iter()
            .filter_map(Write::names_key)
            .cloned()
            .collect();
        let is_free = |row: &Row| {
            !others.contains(&row.id) && row.key.as_ref().is_none_or(|key| !keys.contains(key))
        };
        for row in &listed.rows {
            let is_wanted = paged
                .state
                .is_none_or(|state| self.state_of(row, now) == state);
            // (One that this call has carried behind its place is not moved again.)
            if !is_wanted || !is_free(row) || moved.remove(&row.id) {
                continue;
            }
            writes.push(Write::Move(Target::Id(row.id), shift.due_of(row)));
        }
        paged.after = listed.next.unwrap_or(paged.after);
        Ok((listed.looked_at, listed.next.is_some()))
    }

    /// Takes the outcomes of a slice. Returns the changes that have to wait.
    pub(super) fn bulk_done(
        &mut self,
        bulk: &mut ManyBulk,
        outcomes: &mut Outcomes,
        clocks: ClockReading,
    ) -> Waits {
        let mut blocked = Waits::default();
        for _ in 0..std::mem::take(&mut bulk.left) {
            match outcomes.next_unmade() {
                Some(Unmade::Blocked(waits)) => blocked.add(waits),
                Some(Unmade::Refused(why)) => bulk.refused = Some(why),
                None => {
                    bulk.note_carried(outcomes.peek());
                    let is_changed = self.one_done(outcomes, clocks);
                    bulk.changed += usize::from(is_changed);
                    bulk.counts.changed.add(u64::from(is_changed));
                }
            }
        }
        bulk.left = blocked.writes.len();
        blocked
    }
}
