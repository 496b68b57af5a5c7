//! Settle: what handlers have said becomes changes of the store, and is told when it is stored.
//!
//! RunSettle ends here: an ack, a retry or a burial, as `src/handler/ending.rs` decides. So does
//! the way of a row that was not handed out after all.

use super::outcomes::Outcomes;
use super::plan::{Changes, Ended, Plan};
use super::turn::Writer;
use super::window::ClockReading;
use crate::handler::delivery::{Delivery, Done, Settlement};
use crate::handler::ending::Ending;
use crate::handler::recurrence::NextRun;
use crate::queue::fired::Fired;
use crate::queue::request::{Reply, Told};
use crate::queue::throttle::Refused;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{Cause, DeadLetter, Row, StoreTime};
use crate::store::write::{Outcome, Settled, Write};
use std::time::Duration;

impl Writer {
    /// What a handler's thread has said becomes a change of this commit, or is noted. Returns what
    /// comes back into the window after the commit.
    pub(super) fn hear(
        &mut self,
        told: Told,
        now: StoreTime,
        changes: &mut Changes,
    ) -> Option<Delivery> {
        match told {
            Told::Done(done) => {
                self.note_called(&done);
                self.done.note(done.record.as_deref());
                let write = Write::ack(done.of, None, done.record);
                changes.add(write, Plan::Settle(Ended::Done), Reply::Nobody);
            }
            #[cfg(feature = "postgres")]
            Told::Acked(done, made_up) => {
                self.note_called(&done);
                self.core.note_made_up(done.of.id, made_up);
                self.core.shared.counts.done.add(1);
            }
            Told::Settle(settlement) => {
                self.core.window.remove_delivered(&settlement.of, true);
                let (write, ended) = self.plan_settle(*settlement, now);
                changes.add(write, Plan::Settle(ended), Reply::Nobody);
            }
            Told::Back(delivery) => return self.come_back(delivery, None, changes),
            Told::Refused(delivery, refused) => {
                return self.come_back(delivery, Some(refused), changes);
            }
            Told::Freed => {}
            Told::News => self.ownership.look_soon(),
        }
        None
    }

    /// A handler has done its work.
    fn note_called(&mut self, done: &Done) {
        self.core.window.remove_delivered(&done.of, true);
        let late = Duration::from_nanos(done.lateness_ns);
        self.core.shared.counts.lateness.record(late, 1);
    }

    /// A row was not handed out: it was too early, or a limit has `refused` it. Returns it if it
    /// returns to the window. If it was wanted, or was charged, the store is told first.
    fn come_back(
        &mut self,
        delivery: Box<Delivery>,
        refused: Option<Refused>,
        changes: &mut Changes,
    ) -> Option<Delivery> {
        let was_wanted = self
            .core
            .window
            .remove_delivered(&delivery.settled(), false);
        let row = &delivery.row;
        let has_right = self
            .core
            .shared
            .has_right(row.id.partition(), delivery.fence);
        if row.crashes > 0 || was_wanted && row.suspect {
            // It stays a suspect, and is not charged with what has not begun.
            if !self.core.is_stopping && !has_right {
                self.core.look_again(row);
            }
            let write = Write::Begin {
                of: delivery.settled(),
                crashes: row.crashes,
            };
            let comes_back = has_right && !self.core.is_stopping;
            let plan = Plan::TakeBack(comes_back.then_some(delivery));
            changes.add(write, plan, Reply::Nobody);
        } else if self.core.is_stopping {
            // It stays stored.
        } else if was_wanted && !is_broken(DurableFault::BackUnasked) {
            let plan = Plan::Settle(Ended::Back);
            changes.add(give_back(&delivery), plan, Reply::Nobody);
        } else if has_right {
            let delivery = match refused {
                Some(refused) => self.refused(delivery, refused)?,
                None => delivery,
            };
            return Some(*delivery);
        } else {
            self.core.look_again(row);
        }
        None
    }

    /// A write that settles a delivery.
    fn plan_settle(&mut self, settlement: Settlement, now: StoreTime) -> (Write, Ended) {
        let counts = &self.core.shared.counts;
        if let Some(lateness_ns) = settlement.lateness_ns {
            let late = Duration::from_nanos(lateness_ns);
            counts.lateness.record(late, 1);
        }
        let retry = || self.core.shared.kinds.retry_of(&settlement.kind);
        let ending = settlement.ending(retry, now);
        let attempts = settlement.attempts_made();
        let Settlement {
            of,
            kind,
            crashes,
            record,
            ..
        } = settlement;
        let Settled { id, due, .. } = of;
        match ending {
            Ending::Acked(NextRun { at, made_up }) => {
                self.core.note_made_up(id, made_up);
                self.done.note(record.as_deref());
                (Write::ack(of, at, record), Ended::Done)
            }
            Ending::LeftOut(next) => {
                self.done.note(record.as_deref());
                (Write::ack(of, next, record), Ended::LeftOut)
            }
            Ending::Retried(at) => {
                let retry = Write::Retry {
                    of,
                    at,
                    attempts,
                    crashes,
                };
                (retry, Ended::Failed)
            }
            Ending::Snoozed(at) => {
                let put_off = Write::Retry {
                    of,
                    at,
                    attempts,
                    crashes,
                };
                (put_off, Ended::Snoozed)
            }
            Ending::Buried(cause, next) => {
                self.core.note_made_up(id, next.made_up);
                let next = next.at.map(|at| (at, self.core.store.new_id(None, due)));
                // (The hook is told of the row as it is stored; the payload stays in the store.)
                let mut row = Row::new(next.map_or(id, |(_, copy)| copy), due, kind, [].into());
                (row.attempts, row.crashes) = (attempts, crashes);
                let letter = DeadLetter::new(row, cause.clone(), now);
                let write = Write::Bury {
                    of,
                    cause,
                    since: now,
                    attempts,
                    crashes,
                    next,
                };
                (write, Ended::Died(Box::new(letter)))
            }
        }
    }

    /// What a handler has said is stored, or is refused. `again`: it may have been stored before,
    /// by a commit whose outcome is not known.
    pub(super) fn settled(
        &mut self,
        ended: Ended,
        again: bool,
        outcomes: &mut Outcomes,
        clocks: ClockReading,
    ) {
        let Some(Outcome::Settled(is_settled, row)) = outcomes.next() else {
            return;
        };
        let stays = row.is_some() || again && !is_settled;
        if !is_broken(DurableFault::RetryNotPlaced) {
            self.place(row, outcomes, clocks);
        }
        if !is_settled {
            self.core.load_all_again();
            self.ownership.look_at_all_soon();
        }
        if !is_settled && !again {
            self.core.shared.counts.stale.add(1);
            return;
        }
        let counts = &self.core.shared.counts;
        match ended {
            Ended::Done => counts.done.add(1),
            Ended::Failed => {
                counts.failed.add(1);
                counts.superseded.add(u64::from(!stays));
            }
            Ended::Snoozed => {
                counts.snoozed.add(1);
                counts.superseded.add(u64::from(!stays));
            }
            Ended::Died(letter) => self.tell_of_death(*letter),
            Ended::LeftOut | Ended::Back => {}
        }
    }

    pub(super) fn tell_of_death(&self, letter: DeadLetter) {
        let counts = &self.core.shared.counts;
        counts.died.add(1);
        match letter.cause {
            Cause::Failed(_) => counts.failed.add(1),
            Cause::GivenUp(_) => counts.given_up.add(1),
            Cause::Expired => counts.expired.add(1),
            _ => {}
        }
        let hook = self.core.shared.hooks.dead.clone();
        if hook.is_none() && !cfg!(feature = "tracing") {
            return;
        }
        let told = Fired::Hook(Box::new(move || {
            #[cfg(feature = "tracing")]
            crate::queue::events::dead(&letter);
            if let Some(hook) = hook {
                hook(&letter);
            }
        }));
        // (A service that has stopped tells nobody.)
        let _ = self.core.window.service().schedule(Duration::ZERO, told);
    }
}

/// A write for a row that was not handed out after all, while somebody wanted to end it. The row
/// stays as it is; if another has taken its key, it is gone.
fn give_back(delivery: &Delivery) -> Write {
    Write::Retry {
        of: delivery.settled(),
        at: delivery.row.due,
        attempts: delivery.row.attempts,
        crashes: delivery.row.crashes,
    }
}
