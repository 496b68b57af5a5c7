//! Answer: what a turn of the writer does with the outcomes of its commit. The window follows
//! (TurnPlace), and callers are told (TurnTell). Calls that read are answered here, too.

use super::aside::Waits;
use super::outcomes::{Outcomes, Unmade};
use super::plan::{Many, ManyArmed, ManyCancelled, Plan, Planned};
use super::turn::Writer;
use super::window::ClockReading;
use crate::handler::delivery::Delivery;
use crate::handler::error::DurableError;
use crate::queue::request::{Look, Reply};
use crate::queue::ticket::Teller;
use crate::store::contract::StoreError;
use crate::store::row::{DurableId, Row};
use crate::store::write::Outcome;
use std::time::Duration;

/// The changes of a plan that were not made.
enum NotMade {
    /// Another transaction has locked what these need.
    Blocked(Waits),
    /// The store refuses the change.
    Refused(DurableError),
}

impl From<Unmade> for NotMade {
    fn from(unmade: Unmade) -> Self {
        match unmade {
            Unmade::Blocked(waits) => Self::Blocked(waits),
            Unmade::Refused(why) => Self::Refused(why),
        }
    }
}

impl Writer {
    /// Carries out the plans of a commit. `outcomes` is in the order of the plans. `backs` has the
    /// deliveries that have come back: each returns to the window, unless a change of the commit
    /// ends or moves its row.
    pub(super) fn follow(
        &mut self,
        plans: Vec<Planned>,
        outcomes: Vec<Outcome>,
        backs: Vec<Delivery>,
        elapsed: Duration,
        clocks: ClockReading,
    ) {
        (self.large).note_moved(&plans, &outcomes, &mut self.core.aside);
        self.note_moved_bytes(&outcomes);
        let mut outcomes = Outcomes::new(outcomes);
        for mut planned in plans {
            match self.not_made(&mut planned.plan, &mut outcomes, clocks) {
                Some(NotMade::Refused(why)) => self.refuse(planned, &why),
                Some(NotMade::Blocked(waits)) => self.set_aside(planned, waits, elapsed),
                None => {
                    if self.core.aside.is_in_round() {
                        self.core.aside.got_through();
                        self.ownership.look_at_all_soon();
                    }
                    self.carry_out(planned.plan, planned.reply, &mut outcomes, clocks);
                }
            }
        }
        debug_assert!(outcomes.is_empty(), "each plan takes its own outcomes");
        self.core.aside.end_turn();
        for delivery in backs {
            if !outcomes.is_untouched(delivery.row.id) {
                continue;
            }
            // (The window may have given back its last rows meanwhile, and the clock may be set
            // back: then the row would be in the way of others that are due before it.)
            if self.core.is_loaded(&delivery.row) {
                self.core.take(Box::new(delivery), clocks);
            } else {
                self.ownership.expect(&self.core, &delivery.row);
            }
        }
    }

    /// Takes the outcomes of the plan's changes that were not made. Of a call for many timers it
    /// takes all outcomes. Returns `None` if the plan is to be carried out.
    fn not_made(
        &mut self,
        plan: &mut Plan,
        outcomes: &mut Outcomes,
        clocks: ClockReading,
    ) -> Option<NotMade> {
        let blocked = match plan {
            Plan::Many(many) => match &mut **many {
                // (A call for many timers may name none. It gets its answer, too.)
                Many::Arm(many) => self.arm_many(many, outcomes, clocks),
                Many::Cancel(many) => self.cancel_many(many, outcomes),
                Many::Bulk(bulk) => self.bulk_done(bulk, outcomes, clocks),
                Many::Kind(_) => return outcomes.next_unmade().map(NotMade::from),
            },
            // These are not set aside: the suspect's delivery comes back, or the writer takes the
            // charge back later, or asks again that the row be held.
            Plan::Begin(..) | Plan::TakeBack(_) | Plan::Hold(_) => return None,
            Plan::Arm(..)
            | Plan::Replace(..)
            | Plan::One
            | Plan::Settle(_)
            | Plan::SettleAgain(_) => {
                return outcomes.next_unmade().map(NotMade::from);
            }
        };
        (!blocked.writes.is_empty()).then_some(NotMade::Blocked(blocked))
    }

    /// The changes of a plan were made: the window follows (TurnPlace), and the caller is told
    /// (TurnTell).
    fn carry_out(
        &mut self,
        plan: Plan,
        reply: Reply,
        outcomes: &mut Outcomes,
        clocks: ClockReading,
    ) {
        match plan {
            Plan::Arm(id, near) => {
                outcomes.next();
                self.insert_near(near, outcomes, clocks);
                self.core.shared.counts.armed.add(1);
                reply.id(id);
            }
            Plan::Replace(id, near) => {
                let is_armed = outcomes.next().is_some_and(|outcome| outcome.is_made());
                if is_armed {
                    self.insert_near(near, outcomes, clocks);
                    self.core.shared.counts.armed.add(1);
                }
                reply.id_if(is_armed.then_some(id));
            }
            Plan::One => {
                let was_there = self.one_done(outcomes, clocks);
                reply.yes(was_there);
            }
            Plan::Many(many) if many.goes_on() => self.large.push(many, reply),
            Plan::Many(many) => self.many_done(*many, reply, outcomes),
            Plan::Begin(id, crashes) => self.trial_begun(id, crashes, outcomes.next(), reply),
            Plan::TakeBack(delivery) => self.taken_back(delivery, outcomes, clocks),
            Plan::Hold(row) => self.hold_done(*row, outcomes.next()),
            Plan::Settle(ended) => self.settled(ended, false, outcomes, clocks),
            Plan::SettleAgain(ended) => self.settled(ended, true, outcomes, clocks),
        }
    }

    /// The last slice of a call for many timers was done, or the present one of a kind.
    fn many_done(&mut self, many: Many, reply: Reply, outcomes: &mut Outcomes) {
        match many {
            Many::Arm(many) => match many.refused {
                None => reply.ids(many.ids),
                Some(why) => reply.refuse(&why),
            },
            Many::Cancel(many) => match many.refused {
                None => reply.count(many.gone),
                Some(why) => reply.refuse(&why),
            },
            Many::Bulk(bulk) => match bulk.refused {
                None => reply.count(bulk.changed),
                Some(why) => reply.refuse(&why),
            },
            Many::Kind(kind) => self.go_on_with_kind(kind, outcomes.next(), reply),
        }
    }

    /// Takes the outcome of the change of one row or dead letter, and follows it. Returns whether
    /// the change was made.
    pub(super) fn one_done(&mut self, outcomes: &mut Outcomes, clocks: ClockReading) -> bool {
        let Some(outcome) = outcomes.next() else {
            return false;
        };
        let was_there = outcome.is_made();
        match outcome {
            Outcome::Cancelled(gone) => {
                self.cancelled(gone);
            }
            Outcome::Moved(Some(_)) => self.core.shared.counts.moved.add(1),
            _ => {}
        }
        self.place(outcome.into_row(), outcomes, clocks);
        was_there
    }

    /// Takes the outcomes of a call that arms many timers. Returns the changes that have to wait.
    fn arm_many(
        &mut self,
        many: &mut ManyArmed,
        outcomes: &mut Outcomes,
        clocks: ClockReading,
    ) -> Waits {
        let mut blocked = Waits::default();
        for (id, near) in std::mem::take(&mut many.rows) {
            match outcomes.next_unmade() {
                Some(Unmade::Blocked(waits)) => {
                    blocked.add(waits);
                    many.rows.push((id, near));
                }
                Some(Unmade::Refused(why)) => many.refused = Some(why),
                None => {
                    outcomes.next();
                    self.core.shared.counts.armed.add(1);
                    self.insert_near(near, outcomes, clocks);
                }
            }
        }
        blocked
    }

    /// Takes the outcomes of a call that cancels many timers. Returns the changes that have to
    /// wait.
    fn cancel_many(&mut self, many: &mut ManyCancelled, outcomes: &mut Outcomes) -> Waits {
        let mut blocked = Waits::default();
        for _ in 0..std::mem::take(&mut many.left) {
            match outcomes.next_unmade() {
                Some(Unmade::Blocked(waits)) => blocked.add(waits),
                Some(Unmade::Refused(why)) => many.refused = Some(why),
                None => {
                    if let Some(Outcome::Cancelled(gone)) = outcomes.next() {
                        many.gone += usize::from(self.cancelled(gone));
                    }
                }
            }
        }
        many.left = blocked.writes.len();
        blocked
    }

    /// Tells the caller that the store refuses its change. The other changes were made.
    fn refuse(&mut self, planned: Planned, why: &DurableError) {
        if planned.plan.is_settlement() {
            // The row is still there, and is handed out again.
            self.core.shared.counts.stale.add(1);
            self.ownership.look_at_all_soon();
        }
        planned.reply.refuse(why);
    }

    /// Follows the cancel of a row, if there was such a row. Returns whether there was.
    fn cancelled(&mut self, gone: Option<DurableId>) -> bool {
        if let Some(id) = gone {
            self.forget_cancelled(id);
            self.core.shared.counts.cancelled.add(1);
        }
        gone.is_some()
    }

    /// Takes a row that was deleted or struck out of the window. If a handler has it, it stays
    /// there until the handler has answered.
    pub(super) fn forget_cancelled(&mut self, id: DurableId) {
        self.core.note_made_up(id, 0);
        if self.core.window.has(id) && self.core.window.end(id) {
            // It was struck, but no handler had it, so none will answer. The next scan finds the
            // row and deletes it.
            self.ownership.look_at_all_soon();
        }
    }

    /// A row was armed: it comes into the window, if it is due there, and no later change of this
    /// commit ends or moves it.
    fn insert_near(
        &mut self,
        near: Option<Box<Delivery>>,
        outcomes: &Outcomes,
        clocks: ClockReading,
    ) {
        if let Some(delivery) = near.filter(|of| outcomes.is_untouched(of.row.id)) {
            self.core.take(delivery, clocks);
        }
    }

    /// Takes a row that has got another deadline into the window, if it is due soon enough and no
    /// later change of this commit ends or moves it.
    pub(super) fn place(&mut self, row: Option<Row>, outcomes: &Outcomes, clocks: ClockReading) {
        if let Some(row) = row.filter(|row| outcomes.is_last_of(row.id)) {
            self.place_row(row, clocks);
        }
    }

    /// Takes a row that has got another deadline into the window, if it is due soon enough.
    pub(super) fn place_row(&mut self, mut row: Row, clocks: ClockReading) {
        let epoch = self.core.epoch(row.id.partition());
        self.core.window.suspects.correct(&mut row, epoch);
        if self.core.is_loaded(&row) {
            self.core.take(self.core.delivery(row), clocks);
        } else {
            self.ownership.expect(&self.core, &row);
        }
    }

    /// Notes how large the rows were, on average, that this commit has moved or revived.
    fn note_moved_bytes(&mut self, outcomes: &[Outcome]) {
        let (mut rows, mut bytes) = (0, 0);
        for outcome in outcomes {
            if let Outcome::Moved(Some(row)) | Outcome::Revived(Some(row)) = outcome {
                (rows, bytes) = (rows + 1, bytes + row.bytes());
            }
        }
        self.moved_bytes = bytes.checked_div(rows).unwrap_or(self.moved_bytes);
    }

    /// Answers a call that reads. A read that may be long is done in slices (`large.rs`).
    pub(super) fn look(&mut self, look: Look) -> Result<(), StoreError> {
        match look {
            Look::Get(target, teller) => {
                let row = self.core.store.get(&target);
                self.answer(teller, row.map(|row| row.map(Row::shown)))
            }
            Look::Fleet(teller) => {
                let fleet = self.ownership.fleet(&mut self.core);
                self.answer(teller, fleet)
            }
            Look::Rules(teller) => self.look_at_rules(teller),
            Look::Snapshot(teller) => {
                let snapshot = self.core.store.snapshot();
                self.answer(teller, snapshot)
            }
            long => {
                self.large.push_look(long);
                Ok(())
            }
        }
    }

    /// Tells what the store has found, or why it has failed.
    pub(super) fn answer<T>(
        &self,
        teller: Teller<T>,
        found: Result<T, StoreError>,
    ) -> Result<(), StoreError> {
        match found {
            Ok(found) => {
                teller.tell(Ok(found));
                Ok(())
            }
            Err(error) => {
                self.note_failure(&error);
                teller.tell(Err(DurableError::Store(error.clone())));
                Err(error)
            }
        }
    }
}
