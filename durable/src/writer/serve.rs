//! Serve: makes changes of the requests that a turn of the writer has taken, and commits them.
//! `answer.rs` has what is done with the outcomes. `settle.rs` makes changes of what handlers have
//! said.

use super::aside::{HeldUp, Waits, Why};
use super::plan::{Changes, Many, Plan, Planned};
use super::take::Taken;
use super::turn::Writer;
use super::window::ClockReading;
use crate::handler::delivery::Delivery;
use crate::handler::error::DurableError;
use crate::queue::request::{Change, Control, Look, NewTimer, Reply};
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{Row, StoreTime};
use crate::store::write::{Outcome, Replacement, Settled, SliceLimit, TrialBegun, Write};
use std::time::Duration;

impl Writer {
    /// Stores what callers have asked for and what handlers have said, and answers the callers.
    pub(super) fn serve(
        &mut self,
        taken: Taken,
        room: SliceLimit,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<(), StoreError> {
        let mut changes = Changes::with_room(taken.count(), self.core.shared.elapsed());
        let mut backs = Vec::new();
        // What handlers have said comes first. So the other changes of this commit find these rows
        // settled, and no longer with a handler.
        for told in taken.told {
            backs.extend(self.hear(told, now, &mut changes));
        }
        self.take_back(false, &mut changes);
        let settled = changes.writes.len();
        for control in taken.controls {
            self.control(control, &mut changes);
        }
        self.plan_holds(now, &mut changes);
        for (change, reply) in taken.changes {
            self.plan(change, reply, &mut changes);
        }
        // These come last, so that a call for all timers of a kind finds the timers that were armed
        // before it.
        let planned = self.plan_large(room, &mut changes);
        if is_broken(DurableFault::SettledLast) {
            changes.writes.rotate_left(settled);
            changes.plans.rotate_left(settled);
        }
        let commit =
            |writer: &mut Self, writes| planned.and_then(|()| writer.commit_in_pace(writes));
        let mut looks = taken.looks;
        self.store(changes, commit, &mut looks, backs, clocks)?;
        let mut looks = looks.into_iter();
        while let Some(look) = looks.next() {
            if let Err(error) = self.look(look) {
                looks.for_each(|look| look.refuse(&DurableError::Store(error.clone())));
                return Err(error);
            }
        }
        self.look_large()
    }

    /// TurnCommit, and then TurnPlace and TurnTell. If the commit fails, the looks are refused,
    /// too. `backs` has the deliveries that have come back.
    fn store(
        &mut self,
        changes: Changes,
        commit: impl FnOnce(&mut Self, Vec<Write>) -> Result<Vec<Outcome>, StoreError>,
        looks: &mut Vec<Look>,
        backs: Vec<Delivery>,
        clocks: ClockReading,
    ) -> Result<(), StoreError> {
        let Changes {
            writes,
            plans,
            elapsed,
        } = changes;
        let kept = self.kept_writes(&plans, &writes);
        let committed = commit(self, writes);
        // (So a caller that is told of a pause finds that this process obeys it.)
        let committed = committed.and_then(|outcomes| self.read_rules().map(|()| outcomes));
        match committed {
            Ok(outcomes) => {
                self.follow(plans, outcomes, backs, elapsed, clocks);
                Ok(())
            }
            Err(error) => {
                self.note_failure(&error);
                self.refuse_all(plans, kept, std::mem::take(looks), &error);
                Err(error)
            }
        }
    }

    /// What steers the writer.
    fn control(&mut self, control: Control, changes: &mut Changes) {
        match control {
            Control::Empty(teller) => {
                self.core.empty();
                teller.tell(Ok(()));
            }
            Control::Stop(teller) => {
                debug_assert!(
                    self.core.is_stopping,
                    "StopDeliver comes before StopRelease"
                );
                self.take_back(true, changes);
                self.stop = Some(teller);
            }
        }
    }

    /// TurnAside: tries the changes again that have waited for another transaction. They have a
    /// commit of their own, after that of the others, which wait for nothing that these wait for.
    pub(super) fn try_again(&mut self, clocks: ClockReading) -> Result<(), StoreError> {
        let begun = self.core.shared.elapsed();
        let due = self.core.aside.take_due(begun);
        if due.is_empty() {
            return Ok(());
        }
        let mut changes = Changes::with_room(due.len(), begun);
        for waiting in due {
            if waiting.is_over(begun) {
                waiting.planned.reply.refuse(&DurableError::Blocked);
                continue;
            }
            changes.writes.extend(waiting.writes);
            changes.plans.push(waiting.planned);
        }
        let commit = |writer: &mut Self, writes| writer.core.commit(writes);
        self.store(changes, commit, &mut Vec::new(), Vec::new(), clocks)?;
        let ended = self.core.shared.elapsed();
        self.core.aside.end_round(begun, ended);
        Ok(())
    }

    /// Adds what a call asks for to the changes of this commit. A call for many timers is done in
    /// slices, which `plan_large` adds.
    fn plan(&mut self, change: Change, reply: Reply, changes: &mut Changes) {
        let from = changes.writes.len();
        match change {
            Change::Arm(timer) => {
                let (row, near) = self.new_row(timer);
                let plan = Plan::Arm(row.id, near);
                changes.add(Write::Arm(row), plan, reply);
            }
            Change::Replace(timer, former) => {
                let (row, near) = self.new_row(timer);
                let plan = Plan::Replace(row.id, near);
                let write = Write::Replace(Box::new(Replacement { row, former }));
                changes.add(write, plan, reply);
            }
            Change::One(write) => changes.add(write, Plan::One, reply),
            Change::Begin(of, crashes) => match self.plan_begin(of, crashes) {
                Some((write, plan)) => changes.add(write, plan, reply),
                None => return reply.begun(TrialBegun::Refused),
            },
            Change::ArmMany(timers) => return self.large.push(Many::arm(timers), reply),
            Change::CancelMany(ids) => return self.large.push(Many::cancel(ids, 0), reply),
            Change::Bulk(task, counts) => {
                return self.large.push(Many::bulk(task, counts), reply);
            }
            Change::CancelKind(kind) => return self.large.push(Many::kind(&kind), reply),
        }
        self.wait_behind(from, changes);
    }

    /// TurnAside: sets the changes from number `from` on aside, if earlier changes of the same row
    /// or key wait there. These changes belong to one plan.
    pub(super) fn wait_behind(&mut self, from: usize, changes: &mut Changes) {
        let is_behind = self.core.aside.is_before(&changes.writes[from..]);
        if is_behind && !is_broken(DurableFault::AsideOvertaken) {
            let writes = changes.writes.split_off(from);
            let why = Why::Behind;
            if let Some(planned) = changes.plans.pop() {
                self.set_aside(planned, Waits { writes, why }, changes.elapsed);
            }
        }
    }

    /// The changes of a commit that are made once more if it fails: what handlers have said, and
    /// what suspects were not called for.
    fn kept_writes(&self, plans: &[Planned], writes: &[Write]) -> Vec<Write> {
        let mut kept = Vec::new();
        if self.core.store.can_reopen() {
            let mut at = 0;
            for Planned { plan, .. } in plans {
                if plan.is_kept() {
                    kept.push(writes[at].clone());
                }
                at += plan.writes();
            }
        }
        kept
    }

    /// The commit has failed: tells all callers that wait for it. What was kept of it comes first
    /// when the store is back.
    fn refuse_all(
        &mut self,
        plans: Vec<Planned>,
        kept: Vec<Write>,
        looks: Vec<Look>,
        error: &StoreError,
    ) {
        let told = match is_broken(DurableFault::HealToldUnstored) {
            true => DurableError::Unavailable {
                since: self.core.shared.now(),
                why: error.clone(),
            },
            false => DurableError::Store(error.clone()),
        };
        let (mut kept, mut answers) = (kept.into_iter(), Vec::new());
        for planned in plans {
            let write = planned.plan.is_kept().then(|| kept.next()).flatten();
            match (planned.plan, write) {
                (Plan::Arm(id, _), _) if is_broken(DurableFault::ToldBeforeCommit) => {
                    planned.reply.id(id);
                }
                (Plan::TakeBack(_), Some(write)) => self.core.take_back_later(&write),
                (plan, Some(write)) if !is_broken(DurableFault::HealForgetsAnswers) => {
                    // (Under an epoch that is over nothing was stored, and nothing will be.)
                    let is_current = |of: &Settled| self.core.epoch(of.id.partition()) == of.epoch;
                    let may_be_stored = write.settles().is_none_or(is_current);
                    let plan = if may_be_stored { plan.again() } else { plan };
                    let planned = Planned { plan, ..planned };
                    let writes = vec![write];
                    answers.push(HeldUp { writes, planned });
                }
                _ => planned.reply.refuse(&told),
            }
        }
        self.core.aside.keep(answers);
        for look in looks {
            look.refuse(&told);
        }
    }

    /// The row of a new timer, and what comes into the window, if it belongs there.
    pub(super) fn new_row(&mut self, timer: NewTimer) -> (Row, Option<Box<Delivery>>) {
        let id = self.core.store.new_id(timer.key.as_deref(), timer.due);
        let mut row = Row::new(id, timer.due, timer.kind, timer.payload);
        row.key = timer.key;
        row.calendar = timer.calendar;
        if let Some(more) = timer.more {
            row.set_more(|parts| *parts = *more);
        }
        let is_near = self.core.is_loaded(&row) && !is_broken(DurableFault::ArmNotPlaced);
        let near = is_near.then(|| self.core.delivery(row.clone()));
        if !is_near {
            self.ownership.expect(&self.core, &row);
        }
        (row, near)
    }

    /// TurnAside: another transaction has locked what these changes need. They are tried again
    /// later, and only their caller waits.
    pub(super) fn set_aside(&mut self, planned: Planned, waits: Waits, elapsed: Duration) {
        if is_broken(DurableFault::AsideForgotten) {
            return;
        }
        let mut plan = self.ownership.plan_aside(planned.plan);
        if let Some(kind) = plan.kind_mut() {
            // What the commit has moved may have come to where this call has been already.
            kind.note(&self.large.moved);
        }
        let planned = Planned { plan, ..planned };
        let Waits { writes, why } = waits;
        (self.core.aside).push(HeldUp { writes, planned }, why, elapsed);
    }
}
