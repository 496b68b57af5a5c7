//! Serve: what a turn of the writer does with the requests that it has taken: they become changes,
//! which are committed. What is done with the outcomes is in `answer.rs`; what handlers have said,
//! in `settle.rs`.

use super::aside::HeldUp;
use super::plan::{Changes, Many, Plan, Planned};
use super::take::Taken;
use super::turn::Writer;
use super::window::ClockReading;
use crate::handler::error::DurableError;
use crate::queue::request::{Change, Control, Look, NewTimer, Reply};
use crate::store::contract::{SliceLimit, StoreError, TrialBegun, Write};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{Row, StoreTime};
use std::time::Duration;

impl Writer {
    /// Stores what was asked for, and answers.
    pub(super) fn serve(
        &mut self,
        taken: Taken,
        room: SliceLimit,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<(), StoreError> {
        let mut changes = Changes::new(self.core.shared.elapsed());
        let mut backs = Vec::new();
        // What handlers have said comes first. So the other changes of this commit find the rows as
        // they are then, and no handler has them.
        for told in taken.told {
            backs.extend(self.hear(told, now, &mut changes));
        }
        self.take_back(false, &mut changes);
        let settled = changes.writes.len();
        for control in taken.controls {
            self.control(control, &mut changes);
        }
        self.try_again(&mut changes);
        for (change, reply) in taken.changes {
            self.plan(change, reply, &mut changes);
        }
        // Behind all others: a call for all timers of a kind finds those that were armed before it.
        self.plan_large(room, &mut changes);
        if is_broken(DurableFault::SettledLast) {
            changes.writes.rotate_left(settled);
            changes.plans.rotate_left(settled);
        }
        let Changes {
            writes,
            plans,
            elapsed,
        } = changes;
        let outcomes = match self.commit_in_pace(writes) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                self.refuse_all(plans, taken.looks, &error);
                return Err(error);
            }
        };
        self.follow(plans, outcomes, backs, elapsed, clocks);
        for look in taken.looks {
            self.look(look)?;
        }
        self.look_large()
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

    /// TurnAside: tries those again that have waited for somebody's transaction.
    fn try_again(&mut self, changes: &mut Changes) {
        for waiting in self.core.aside.take_due(changes.elapsed) {
            if waiting.is_over(changes.elapsed) {
                waiting.planned.reply.refuse(&DurableError::Blocked);
                continue;
            }
            changes.writes.extend(waiting.writes);
            changes.plans.push(waiting.planned);
        }
    }

    /// What was asked for becomes changes of this commit. A call for many timers waits for its
    /// slices.
    fn plan(&mut self, change: Change, reply: Reply, changes: &mut Changes) {
        let from = changes.writes.len();
        match change {
            Change::Arm(timer) => {
                let (row, near) = self.new_row(timer);
                let plan = Plan::Arm(row.id, near);
                changes.add(Write::Arm(row), plan, reply);
            }
            Change::One(write) => changes.add(write, Plan::One, reply),
            Change::Begin(of, crashes) => match self.plan_begin(of, crashes) {
                Some((write, plan)) => changes.add(write, plan, reply),
                None => return reply.begun(TrialBegun::Refused),
            },
            Change::ArmMany(timers) => return self.large.push(Many::arm(timers), reply),
            Change::CancelMany(ids) => return self.large.push(Many::cancel(ids, 0), reply),
            Change::CancelKind(kind) => return self.large.push(Many::kind(&kind), reply),
        }
        self.wait_behind(from, changes);
    }

    /// TurnAside: the changes from this one on, which have one plan, wait behind earlier ones of
    /// the same row or key.
    pub(super) fn wait_behind(&mut self, from: usize, changes: &mut Changes) {
        let is_behind = self.core.aside.is_before(&changes.writes[from..]);
        if is_behind && !is_broken(DurableFault::AsideOvertaken) {
            let writes = changes.writes.split_off(from);
            if let Some(planned) = changes.plans.pop() {
                self.set_aside(planned, writes, changes.elapsed);
            }
        }
    }

    /// The commit has failed: whoever waits for it is told.
    fn refuse_all(&self, plans: Vec<Planned>, looks: Vec<Look>, error: &StoreError) {
        let told = self.core.shared.fail(error.clone());
        for Planned { plan, reply, .. } in plans {
            match plan {
                Plan::Arm(id, _) if is_broken(DurableFault::ToldBeforeCommit) => reply.id(id),
                _ => reply.refuse(&told),
            }
        }
        for look in looks {
            look.refuse(&told);
        }
    }

    /// The row of a new timer, and a copy of it if it is due in the window.
    pub(super) fn new_row(&mut self, timer: NewTimer) -> (Row, Option<Row>) {
        let id = self.core.store.new_id(timer.key.as_deref(), timer.due);
        let mut row = Row::new(id, timer.due, timer.kind, timer.payload);
        row.key = timer.key;
        row.calendar = timer.calendar;
        let is_near = self.core.is_loaded(&row) && !is_broken(DurableFault::ArmNotPlaced);
        let near = is_near.then(|| row.clone());
        if !is_near {
            self.ownership.expect(&self.core, &row);
        }
        (row, near)
    }

    /// TurnAside: somebody's transaction is in the way. Only the caller waits.
    pub(super) fn set_aside(&mut self, planned: Planned, writes: Vec<Write>, elapsed: Duration) {
        if is_broken(DurableFault::AsideForgotten) {
            return;
        }
        let plan = self.ownership.plan_aside(planned.plan);
        let planned = Planned { plan, ..planned };
        self.core.aside.push(HeldUp { writes, planned }, elapsed);
    }
}
