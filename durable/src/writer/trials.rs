//! Trials: the writer's part in the trials of suspects. It notes their crashes in the store, before
//! their calls, and takes them back from those that were not called.
//!
//! `suspects.rs` decides which are next. The README has the steps: TrialNote and TrialBegin.

use super::outcomes::Outcomes;
use super::plan::{Changes, Plan};
use super::suspects::NextTrial;
use super::turn::Writer;
use super::window::ClockReading;
use crate::handler::delivery::Delivery;
use crate::queue::request::Reply;
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DurableId, Row, StoreTime};
use crate::store::write::{Outcome, Settled, TrialBegun, Write};
use std::time::Duration;

impl Writer {
    /// Reads suspects again for which there was no room. Returns whether there are no more to read
    /// now.
    pub(super) fn load_suspects(&mut self, clocks: ClockReading) -> Result<bool, StoreError> {
        if self.core.is_stopping {
            return Ok(true);
        }
        let Some((after, until)) = self.core.window.suspects.to_read_again() else {
            return Ok(true);
        };
        let limit = self.core.slice(usize::MAX);
        let rows = (self.ownership).read_owned(&mut self.core, after, until, limit)?;
        let bytes = rows.iter().map(Row::bytes).sum();
        self.core.fit_slice(bytes);
        let is_last = !limit.is_reached(rows.len(), bytes);
        let upto = rows.last().map(Row::position).filter(|_| !is_last);
        self.core.window.suspects.read_again(upto);
        let mut superseded = Vec::new();
        for row in rows {
            if self.core.is_to_take(&row, &mut superseded) && row.is_on_trial() {
                self.core.take(self.core.delivery(row), clocks);
            }
        }
        self.core.commit(superseded)?;
        Ok(is_last)
    }

    /// TrialNote: hands suspects out that are next. What goes together is noted before.
    pub(super) fn begin_trials(
        &mut self,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<(), StoreError> {
        if self.core.is_stopping {
            return Ok(());
        }
        let throttle = self.core.shared.throttle.clone();
        let mut room = throttle.room(self.core.shared.elapsed());
        let suspects = &mut self.core.window.suspects;
        let next = suspects.next(clocks.monotonic, self.core.claimed, now, |row| {
            room.take(throttle.met(row))
        });
        throttle.set_suspects(&room);
        let group = match next {
            NextTrial::Nothing => return Ok(()),
            NextTrial::Alone(delivery) => {
                self.take_room(&delivery);
                self.core.window.begin_trial(delivery, false, clocks);
                return Ok(());
            }
            NextTrial::Group(group) => group,
        };
        let note = |delivery: &Delivery| Write::Begin {
            of: delivery.settled(),
            crashes: 1,
        };
        let notes: Vec<Write> = group.iter().map(note).collect();
        let outcomes = match self.core.commit(notes) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                // (Whether they are noted is not known, and none of them is called.)
                for delivery in &group {
                    let (of, crashes) = (delivery.settled(), delivery.row.crashes);
                    self.core.take_back_later(&Write::Begin { of, crashes });
                }
                return Err(error);
            }
        };
        for (delivery, outcome) in group.into_iter().zip(outcomes) {
            let id = delivery.row.id;
            match outcome {
                Outcome::Begun(TrialBegun::Noted) => {
                    self.take_room(&delivery);
                    self.core.window.begin_trial(delivery, true, clocks);
                }
                // Somebody's transaction is in the way.
                Outcome::Blocked(_) | Outcome::PutOff(_) => {
                    self.core.take(Box::new(delivery), clocks);
                }
                Outcome::Begun(TrialBegun::Superseded) => {
                    self.core.window.remove(id);
                }
                // The lease is lost.
                _ => {
                    self.core.window.remove(id);
                    self.core.look_again(&delivery.row);
                }
            }
        }
        Ok(())
    }

    /// A suspect is handed out: what limits let through is for it.
    fn take_room(&self, delivery: &Delivery) {
        let (shared, row) = (&self.core.shared, &delivery.row);
        let met = shared.throttle.met(row);
        if !met.is_empty() {
            shared
                .throttle
                .release(row.position(), &met, shared.elapsed());
        }
    }

    /// TrialBegin: a suspect is about to be handled, which the store is to charge with this many
    /// crashes. `None`: another one is on trial that has begun, or earlier changes of the suspect
    /// wait for somebody's transaction, and it is not to wait behind them.
    pub(super) fn plan_begin(&mut self, of: Settled, crashes: u32) -> Option<(Write, Plan)> {
        let now = self.core.time();
        let (id, before) = (of.id, crashes.saturating_sub(1));
        let write = Write::Begin { of, crashes };
        let suspects = &mut self.core.window.suspects;
        let may_begin = suspects.may_begin(id, now) || is_broken(DurableFault::TrialsTogether);
        if !may_begin || self.core.aside.is_before(std::slice::from_ref(&write)) {
            return None;
        }
        suspects.begin_alone(id, before, now);
        Some((write, Plan::Begin(id, crashes)))
    }

    /// TrialBegin: whether the crash of a suspect is stored, and it may begin.
    pub(super) fn trial_begun(
        &mut self,
        id: DurableId,
        crashes: u32,
        outcome: Option<Outcome>,
        reply: Reply,
    ) {
        let begun = match outcome {
            Some(Outcome::Begun(begun)) => begun,
            _ => TrialBegun::Refused,
        };
        match begun {
            TrialBegun::Superseded => {
                self.core.window.remove(id);
            }
            // (Its delivery comes back.)
            TrialBegun::Refused => {}
            // (From now on: the commit may have taken long.)
            TrialBegun::Noted => {
                let now = self.core.time();
                let before = crashes.saturating_sub(1);
                self.core.window.suspects.renew_trial(id, before, now);
            }
        }
        reply.begun(begun);
    }

    /// What a suspect was charged with is taken back, or is to be. If it is named here, it comes
    /// back.
    pub(super) fn taken_back(
        &mut self,
        delivery: Option<Box<Delivery>>,
        outcomes: &mut Outcomes,
        clocks: ClockReading,
    ) {
        let outcome = outcomes.next();
        if let Some(Outcome::Blocked(write) | Outcome::PutOff(write)) = &outcome {
            self.core.take_back_later(write);
        }
        // (A later change of this commit may end or move it.)
        let Some(delivery) = delivery.filter(|of| outcomes.is_untouched(of.row.id)) else {
            return;
        };
        match outcome {
            Some(Outcome::Begun(TrialBegun::Superseded)) => {}
            // It is not there, or the lease is lost.
            Some(Outcome::Begun(TrialBegun::Refused)) => self.core.look_again(&delivery.row),
            _ => self.core.take(delivery, clocks),
        }
    }

    /// Takes back what was noted of suspects that were not handed out after all. `all`: no handler
    /// runs any more.
    pub(super) fn take_back(&mut self, all: bool, changes: &mut Changes) {
        for write in self.core.window.suspects.taken_back(all) {
            changes.add(write, Plan::TakeBack(None), Reply::Nobody);
        }
    }

    /// How long it takes until a suspect may be handed out.
    pub(super) fn next_trial(&self, now: StoreTime) -> Option<Duration> {
        let (elapsed, throttle) = (self.core.shared.elapsed(), &self.core.shared.throttle);
        let limit = |row: &Row| throttle.wait_of(row, elapsed);
        let suspects = &self.core.window.suspects;
        let wait = suspects.wait(self.core.time(), now, limit);
        wait.filter(|_| !self.core.is_stopping)
    }
}
