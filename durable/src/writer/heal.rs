//! Heal: what the writer does when the store fails, while it is away, and when it is back. The
//! steps are TurnFail, TurnAway and TurnBack of the README.

use super::core::Owned;
use super::turn::{After, Writer};
use crate::handler::caught::caught;
use crate::handler::delivery::Delivery;
use crate::handler::error::DurableError;
use crate::queue::fired::Fired;
use crate::queue::request::{Change, Control, Request, Told};
use crate::queue::rights::LeaseRights;
use crate::store::contract::{Lease, StoreError};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::list::RowFilter;
use crate::store::row::{Position, StoreTime};
use crate::store::why::panic_text;
use crate::store::write::{SliceLimit, TrialBegun};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use wheelwork::run_as_task;

impl Writer {
    /// TurnFail: the store has failed. Callers that wait are told, and the window lets go of its
    /// rows. What handlers have said is kept, if the store may come back.
    pub(super) fn fail(&mut self, error: StoreError, may_heal: bool) -> After {
        let shared = self.core.shared.clone();
        shared.counts.outages.add(1);
        if !may_heal || !self.heals() {
            return self.end(error);
        }
        self.note_failure(&error);
        let wait = self.down.begin(shared.elapsed());
        shared.fail(error.clone(), Some(wait));
        self.core.aside.end_turn();
        self.core.forget_loaded();
        let told = DurableError::Store(error.clone());
        for planned in self.core.aside.take_calls() {
            planned.reply.refuse(&told);
        }
        self.large.refuse(&told);
        self.tell_failed(&error);
        self.away()
    }

    /// Whether a store that fails now is opened again.
    fn heals(&self) -> bool {
        self.core.shared.hooks.healing.heals
            && self.core.store.can_reopen()
            && !self.down.was_tried_by_stop
    }

    /// TurnFail: any thread sees that the store has failed, before a caller is told.
    pub(super) fn note_failure(&self, error: &StoreError) {
        let shared = &self.core.shared;
        shared.counts.down.set(1);
        shared.fail(error.clone(), self.heals().then_some(Duration::ZERO));
    }

    /// The store has failed for good: tells all callers that wait, and nothing fires any more.
    fn end(&mut self, error: StoreError) -> After {
        self.core.shared.counts.down.set(1);
        self.core.shared.fail(error.clone(), None);
        self.core.window.service().cancel_all();
        let told = DurableError::Store(error.clone());
        for request in self.requests.drain() {
            request.refuse(&told);
        }
        for waiting in self.core.aside.take_all() {
            waiting.planned.reply.refuse(&told);
        }
        self.large.refuse(&told);
        for control in self.down.controls.drain(..) {
            Request::Control(control).refuse(&told);
        }
        if let Some(stop) = self.stop.take() {
            stop.tell(Err(told));
        }
        if self.down.now.take().is_none() {
            self.tell_failed(&error);
        }
        After::End
    }

    /// Tells the program that the store has failed.
    fn tell_failed(&self, error: &StoreError) {
        #[cfg(feature = "tracing")]
        crate::queue::events::store_failed(error);
        if let Some(hook) = &self.core.shared.hooks.store_failed {
            // (As a task: if the hook stops the timers, the stop does not wait for the writer,
            // which would wait for itself.)
            run_as_task(|| caught(|| hook(error)));
        }
    }

    /// TurnAway: a turn while the store is away. Callers are refused, and what handlers say is
    /// kept. When the time has come, or the service stops, the store is opened again.
    pub(super) fn away(&mut self) -> After {
        let refusal = self.core.shared.refusal();
        let requests: Vec<_> = self.requests.drain().collect();
        for request in requests {
            self.core.shared.take_out(request.queued_bytes());
            self.keep_or_refuse(request, &refusal);
        }
        self.core.check();
        let Some(outage) = self.down.now else {
            return After::Turn;
        };
        let now = self.core.shared.elapsed();
        let stops = self.stop.is_some() || self.down.has_stop();
        if !stops && now < outage.again_at {
            return After::Wait(Some(outage.again_at - now));
        }
        self.down.was_tried_by_stop = stops;
        let store = AssertUnwindSafe(|| self.open_again());
        let opened = catch_unwind(store);
        match opened.unwrap_or_else(|panic| Err(StoreError::Io(panic_text(&*panic).into()))) {
            Ok(leases) => {
                self.be_back(&leases);
                After::Turn
            }
            Err(error) if stops => self.end(error),
            Err(error) => {
                let wait = self.down.put_off(self.core.shared.elapsed());
                self.core.shared.tried(error, wait);
                After::Wait(Some(wait))
            }
        }
    }

    fn keep_or_refuse(&mut self, request: Request, refusal: &DurableError) {
        match request {
            Request::Told(Told::Back(delivery) | Told::Refused(delivery, _)) => {
                self.drop_back(&delivery);
            }
            Request::Told(Told::News | Told::Freed) => {}
            Request::Told(said) if is_broken(DurableFault::HealDeaf) => drop(said),
            Request::Told(said) => self.down.told.push(said),
            Request::Change(Change::Begin(..), reply) => reply.begun(TrialBegun::Refused),
            Request::Control(Control::Empty(teller)) => {
                self.core.empty();
                teller.tell(Ok(()));
            }
            Request::Control(stop) => self.down.controls.push(stop),
            request => request.refuse(refusal),
        }
    }

    /// A row was not handed out. It is loaded again when the store is back; what it was charged
    /// with is taken back then.
    fn drop_back(&mut self, delivery: &Delivery) {
        let of = delivery.settled();
        let was_wanted = self.core.window.remove_delivered(&of, false);
        let row = &delivery.row;
        if row.crashes > 0 || was_wanted && row.suspect {
            self.core.window.suspects.take_back_later(of, row.crashes);
        }
    }

    /// Opens the store, and looks whether it works.
    fn open_again(&mut self) -> Result<Vec<Lease>, StoreError> {
        let store = &mut self.core.store;
        if self.core.is_stopping
            && let Some(store) = store.shared()
        {
            // StopLeave: it takes none again.
            store.handles(&[]);
        }
        let mut leases = store.reopen()?;
        leases.sort_unstable_by_key(|lease| lease.partition);
        store.size()?;
        // (A row may be large: one byte ends the look.)
        let (after, limit) = (Position::MIN, SliceLimit { rows: 1, bytes: 1 });
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        match store.shared() {
            // (All of them in one look: there may be many.)
            Some(store) => {
                let (all, until) = (&RowFilter::ALL, StoreTime::MAX);
                store.list_many(&partitions, after, until, all, limit)?;
            }
            None => {
                for partition in partitions {
                    store.load(partition, after, StoreTime::MAX, limit)?;
                }
            }
        }
        Ok(leases)
    }

    /// TurnBack: the store works again. All is loaded anew, and what was kept is stored first.
    fn be_back(&mut self, leases: &[Lease]) {
        let shared = self.core.shared.clone();
        let former: Vec<_> = self.core.owned.iter().map(|owned| owned.lease).collect();
        if former != leases {
            // Others have had the store, or a part of it: what was handed out before is over.
            match &shared.rights {
                Some(rights) => change_rights(rights, &former, leases),
                None => {
                    if let Some(epoch) = leases.iter().map(|lease| lease.epoch).min() {
                        shared.raise_fence(epoch);
                    }
                }
            }
        }
        let loaded = self.core.owned.iter().map(|owned| owned.loaded).min();
        self.core.owned = match is_broken(DurableFault::HealKeepsLeases) {
            true => former.into_iter().map(Owned::new).collect(),
            false => leases.iter().copied().map(Owned::new).collect(),
        };
        self.core.refuse_answers();
        if is_broken(DurableFault::HealKeepsLoaded)
            && let Some(loaded) = loaded
        {
            self.core
                .owned
                .iter_mut()
                .for_each(|owned| owned.loaded = loaded);
        }
        self.core.aside.try_first();
        self.ownership.begin_anew();
        self.begin_anew();
        let lasted = self.down.end(shared.elapsed());
        shared.counts.down.set(0);
        shared.come_back(lasted);
        self.tell_back(lasted);
    }

    /// Tells the program that the store works again.
    fn tell_back(&self, lasted: Duration) {
        let hook = self.core.shared.hooks.store_back.clone();
        #[cfg(feature = "tracing")]
        crate::queue::events::store_back(lasted);
        if let Some(hook) = hook {
            let told = Fired::Hook(Box::new(move || hook(lasted)));
            // (A service that has stopped tells nobody.)
            let _ = self.core.window.service().schedule(Duration::ZERO, told);
        }
    }
}

/// RightsWithdraw: leases that were others' meanwhile are over; then come the leases that the node
/// has now. How long they last is told by the next renewal.
fn change_rights(rights: &LeaseRights, former: &[Lease], leases: &[Lease]) {
    if is_broken(DurableFault::HealKeepsLeases) {
        return;
    }
    for lease in former {
        let at = leases.binary_search_by_key(&lease.partition, |lease| lease.partition);
        if !at.is_ok_and(|at| leases[at] == *lease) {
            rights.set(lease.partition, 0);
        }
    }
    for lease in leases {
        rights.set(lease.partition, lease.epoch);
    }
}
