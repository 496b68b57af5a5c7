//! Serve: what a turn of the writer does with the requests that it has taken. What handlers have
//! said is in `settle.rs`.

use super::aside::HeldUp;
use super::large::{LargeLook, LargeWrite, Listing};
use super::outcomes::{Outcomes, Unmade};
use super::plan::{KindCancelled, Look, ManyArmed, ManyCancelled, Plan};
use super::turn::Writer;
use super::window::ClockReading;
use crate::handler::error::DurableError;
use crate::queue::request::{NewTimer, Request};
use crate::queue::ticket::Teller;
use crate::store::contract::{KindSlice, Outcome, SliceLimit, StoreError, Write};
use crate::store::fault::{DurableFault, is_broken};
use crate::store::row::{DurableId, Row, StoreTime};
use crate::store::why::panic_text;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

impl Writer {
    /// Stores what was asked for, and answers.
    pub(super) fn serve(
        &mut self,
        requests: Vec<Request>,
        room: SliceLimit,
        clocks: ClockReading,
        now: StoreTime,
    ) -> Result<(), StoreError> {
        let elapsed = self.shared.elapsed();
        let mut writes = Vec::with_capacity(requests.len());
        let mut plans = Vec::with_capacity(requests.len());
        let mut looks = Vec::new();
        let mut others = Vec::with_capacity(requests.len());
        let mut backs = Vec::new();
        // What handlers have said comes first. So the other changes of this commit find the rows as
        // they are then, and nobody has them.
        for request in requests {
            let other = self.hear(request, now, elapsed, &mut writes, &mut plans, &mut backs);
            others.extend(other);
        }
        self.take_back(false, &mut writes, &mut plans);
        let settled = writes.len();
        for waiting in self.aside.take_due(elapsed) {
            if waiting.is_over(elapsed) {
                waiting.plan.refuse(&DurableError::Blocked);
                continue;
            }
            writes.extend(waiting.writes);
            plans.push((waiting.since, waiting.plan));
        }
        for request in others {
            let (from, plans_before) = (writes.len(), plans.len());
            match request {
                Request::Arm(timer, teller) => {
                    let (id, near) = self.plan_arm(timer, &mut writes);
                    plans.push((elapsed, Plan::Arm(id, near, teller)));
                }
                Request::ArmMany(timers, teller) => {
                    let many = ManyArmed {
                        ids: Vec::with_capacity(timers.len()),
                        rest: timers.into_iter(),
                        rows: Vec::new(),
                        refused: None,
                    };
                    self.large.push(LargeWrite::Arm(many, teller));
                }
                Request::Cancel(target, teller) => {
                    writes.push(Write::Cancel(target));
                    plans.push((elapsed, Plan::Cancel(teller)));
                }
                Request::CancelMany(ids, teller) => {
                    let many = ManyCancelled {
                        rest: ids.into_iter(),
                        left: 0,
                        gone: 0,
                        refused: None,
                    };
                    self.large.push(LargeWrite::Cancel(many, teller));
                }
                Request::CancelKind(kind, teller) => {
                    let kind = KindCancelled {
                        slice: KindSlice::all(&kind),
                        moved: Vec::new(),
                        gone: 0,
                    };
                    self.large.push(LargeWrite::Kind(kind, teller));
                }
                Request::Move(target, due, teller) => {
                    writes.push(Write::Move(target, due));
                    plans.push((elapsed, Plan::Move(teller)));
                }
                Request::Revive(id, due, teller) => {
                    writes.push(Write::Revive(id, due));
                    plans.push((elapsed, Plan::Revive(teller)));
                }
                Request::Discard(id, teller) => {
                    writes.push(Write::Discard(id));
                    plans.push((elapsed, Plan::Discard(teller)));
                }
                Request::Begin(of, crashes, teller) => {
                    if let Some((write, plan)) = self.plan_begin(of, crashes, teller) {
                        writes.push(write);
                        plans.push((elapsed, plan));
                    }
                }
                Request::Done(_) | Request::Settle(_) | Request::Back(_) => {}
                #[cfg(feature = "postgres")]
                Request::Acked(..) => {}
                Request::Empty(teller) => {
                    self.empty();
                    teller.tell(Ok(()));
                }
                Request::Stop(teller) => {
                    self.take_back(true, &mut writes, &mut plans);
                    self.stop = Some(teller);
                }
                Request::Get(target, teller) => looks.push(Look::Get(target, teller)),
                Request::List(range, limit, teller) => {
                    self.large.list(&range, limit, teller);
                }
                Request::Dead(after, left, teller) => {
                    let found = Vec::new();
                    let listing = Listing {
                        found,
                        left,
                        teller,
                    };
                    self.large.push_look(LargeLook::Dead(after, listing));
                }
                Request::Fleet(teller) => looks.push(Look::Fleet(teller)),
                Request::Look => self.look_soon(),
            }
            let is_behind = plans.len() > plans_before && self.aside.is_before(&writes[from..]);
            if is_behind && !is_broken(DurableFault::AsideOvertaken) {
                let writes = writes.split_off(from);
                self.set_aside(plans.pop(), writes, elapsed);
            }
        }
        // Behind all others: a call for all timers of a kind finds those that were armed before it.
        self.plan_large(room, &mut writes, &mut plans, elapsed);
        if is_broken(DurableFault::SettledLast) {
            writes.rotate_left(settled);
            plans.rotate_left(settled);
        }
        let outcomes = match self.commit_in_pace(writes) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                let told = self.shared.fail(error.clone());
                for (_, plan) in plans {
                    match plan {
                        Plan::Arm(id, _, teller) if is_broken(DurableFault::ToldBeforeCommit) => {
                            teller.tell(Ok(id));
                        }
                        plan => plan.refuse(&told),
                    }
                }
                for look in looks {
                    look.refuse(&told);
                }
                return Err(error);
            }
        };
        self.large.note_moved(&plans, &outcomes);
        self.note_moved_bytes(&outcomes);
        let mut outcomes = Outcomes::new(outcomes);
        // (A request for many may be for none, and has its answer too.)
        for (since, plan) in plans {
            let (plan, unmade) = match plan {
                Plan::ArmMany(many, teller) => {
                    let (many, unmade) = self.arm_many(many, &mut outcomes, clocks);
                    (Plan::ArmMany(many, teller), unmade)
                }
                Plan::CancelMany(many, teller) => {
                    let (many, unmade) = self.cancel_many(many, &mut outcomes);
                    (Plan::CancelMany(many, teller), unmade)
                }
                // (It is not set aside: it is tried again another time.)
                Plan::Begin(..) | Plan::TakeBack(_) => (plan, Vec::new()),
                plan => match outcomes.next_unmade() {
                    Some(Unmade::Blocked(write)) => (plan, vec![write]),
                    Some(Unmade::Refused(why)) => {
                        self.refuse(plan, &why);
                        continue;
                    }
                    None => (plan, Vec::new()),
                },
            };
            if !unmade.is_empty() {
                self.set_aside(Some((since, plan)), unmade, elapsed);
                continue;
            }
            if since < elapsed {
                self.aside.got_through();
                self.scan_all_soon();
            }
            self.carry_out(plan, &mut outcomes, clocks);
        }
        self.aside.end_turn();
        for delivery in backs {
            if outcomes.is_untouched(delivery.row.id) {
                self.take(delivery, clocks);
            }
        }
        for look in looks {
            self.look(look)?;
        }
        self.look_large()
    }

    /// TurnCommit: stores these changes, if there are any.
    pub(super) fn commit(&mut self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.has_rows = true;
        let count = writes.len() as u64;
        let begun = self.time();
        // A store may be a user's. What it has stored before it panicked is not known.
        let commit = || self.store.commit(writes, &mut self.window);
        let outcomes = catch_unwind(AssertUnwindSafe(commit))
            .unwrap_or_else(|panic| Err(StoreError::Io(panic_text(&*panic).into())))?;
        if outcomes.len() as u64 != count {
            let why = format!("{count} changes have {} outcomes", outcomes.len());
            return Err(StoreError::Damaged(why.into()));
        }
        let took = self.time().saturating_duration_since(begun);
        let counts = &self.shared.counts;
        counts.commits.add(1);
        counts.writes.add(count);
        counts.commit_time.record(took, 1);
        Ok(outcomes)
    }

    /// A write that arms a timer. Returns its id, and its row if that is due in the window.
    pub(super) fn plan_arm(
        &mut self,
        timer: NewTimer,
        writes: &mut Vec<Write>,
    ) -> (DurableId, Option<Row>) {
        let id = self.store.new_id(timer.key.as_deref(), timer.due);
        let mut row = Row::new(id, timer.due, timer.kind, timer.payload);
        row.key = timer.key;
        row.calendar = timer.calendar;
        let is_near = self.is_loaded(&row) && !is_broken(DurableFault::ArmNotPlaced);
        let near = is_near.then(|| row.clone());
        if !is_near {
            self.expect(&row);
        }
        writes.push(Write::Arm(row));
        (id, near)
    }

    /// The outcome of a request is known: the window follows (TurnPlace), and the caller is told
    /// (TurnTell).
    fn carry_out(&mut self, plan: Plan, outcomes: &mut Outcomes, clocks: ClockReading) {
        let shared = self.shared.clone();
        let counts = &shared.counts;
        match plan {
            Plan::Arm(id, near, teller) => {
                outcomes.next();
                self.insert_near(near.filter(|row| outcomes.is_untouched(row.id)), clocks);
                counts.armed.add(1);
                teller.tell(Ok(id));
            }
            Plan::ArmMany(many, teller) if many.refused.is_none() && many.rest.len() > 0 => {
                self.large.push(LargeWrite::Arm(many, teller));
            }
            Plan::ArmMany(many, teller) => {
                teller.tell(many.refused.map_or(Ok(many.ids), Err));
            }
            Plan::Cancel(teller) => {
                let is_gone = self.is_cancelled(outcomes.next());
                counts.cancelled.add(u64::from(is_gone));
                teller.tell(Ok(is_gone));
            }
            Plan::CancelMany(many, teller) if many.refused.is_none() && many.rest.len() > 0 => {
                self.large.push(LargeWrite::Cancel(many, teller));
            }
            Plan::CancelMany(many, teller) => {
                teller.tell(many.refused.map_or(Ok(many.gone), Err));
            }
            Plan::CancelKind(kind, teller) => {
                self.go_on_with_kind(kind, outcomes.next(), teller);
            }
            Plan::Move(teller) => {
                let row = match outcomes.next() {
                    Some(Outcome::Moved(row)) => row,
                    _ => None,
                };
                let is_moved = row.is_some();
                self.place(row, outcomes, clocks);
                counts.moved.add(u64::from(is_moved));
                teller.tell(Ok(is_moved));
            }
            Plan::Revive(teller) => {
                let row = match outcomes.next() {
                    Some(Outcome::Revived(row)) => row,
                    _ => None,
                };
                let is_revived = row.is_some();
                self.place(row, outcomes, clocks);
                teller.tell(Ok(is_revived));
            }
            Plan::Discard(teller) => {
                let is_gone = matches!(outcomes.next(), Some(Outcome::Discarded(true)));
                teller.tell(Ok(is_gone));
            }
            Plan::Begin(id, crashes, teller) => {
                self.trial_begun(id, crashes, outcomes.next(), teller);
            }
            Plan::TakeBack(delivery) => self.taken_back(delivery, outcomes, clocks),
            Plan::Settle(ended) => self.settled(ended, outcomes, clocks),
        }
    }

    /// The outcomes of a call that arms many timers. Returns the changes that have to wait.
    fn arm_many(
        &mut self,
        mut many: ManyArmed,
        outcomes: &mut Outcomes,
        clocks: ClockReading,
    ) -> (ManyArmed, Vec<Write>) {
        let mut blocked = Vec::new();
        for (id, near) in std::mem::take(&mut many.rows) {
            match outcomes.next_unmade() {
                Some(Unmade::Blocked(write)) => {
                    blocked.push(write);
                    many.rows.push((id, near));
                }
                Some(Unmade::Refused(why)) => many.refused = Some(why),
                None => {
                    outcomes.next();
                    self.shared.counts.armed.add(1);
                    self.insert_near(near.filter(|row| outcomes.is_untouched(row.id)), clocks);
                }
            }
        }
        (many, blocked)
    }

    /// The same for one that cancels many.
    fn cancel_many(
        &mut self,
        mut many: ManyCancelled,
        outcomes: &mut Outcomes,
    ) -> (ManyCancelled, Vec<Write>) {
        let mut blocked = Vec::new();
        for _ in 0..std::mem::take(&mut many.left) {
            match outcomes.next_unmade() {
                Some(Unmade::Blocked(write)) => blocked.push(write),
                Some(Unmade::Refused(why)) => many.refused = Some(why),
                None => {
                    let is_gone = self.is_cancelled(outcomes.next());
                    many.gone += usize::from(is_gone);
                    self.shared.counts.cancelled.add(u64::from(is_gone));
                }
            }
        }
        many.left = blocked.len();
        (many, blocked)
    }

    /// TurnAside: somebody's transaction is in the way. Only the caller waits.
    pub(super) fn set_aside(
        &mut self,
        plan: Option<(Duration, Plan)>,
        writes: Vec<Write>,
        elapsed: Duration,
    ) {
        let Some((since, plan)) = plan else {
            return;
        };
        if is_broken(DurableFault::AsideForgotten) {
            return;
        }
        let plan = match self.fleet {
            Some(_) => plan.without_rows(),
            None => plan,
        };
        let waiting = HeldUp {
            writes,
            plan,
            since,
        };
        self.aside.push(waiting, elapsed);
    }

    /// The store refuses this change, and no other.
    fn refuse(&mut self, plan: Plan, why: &DurableError) {
        if matches!(plan, Plan::Settle(_)) {
            // The row is still there, and is handed out again.
            self.shared.counts.stale.add(1);
            self.scan_all_soon();
        }
        plan.refuse(why);
    }

    /// Whether the outcome is that a row was cancelled. It leaves the window.
    fn is_cancelled(&mut self, outcome: Option<Outcome>) -> bool {
        match outcome {
            Some(Outcome::Cancelled(Some(id))) => {
                self.forget_cancelled(id);
                true
            }
            _ => false,
        }
    }

    /// A row is gone, or struck. If a handler has it, it stays in the window until that has
    /// answered.
    pub(super) fn forget_cancelled(&mut self, id: DurableId) {
        self.note_made_up(id, 0);
        if self.window.has(id) && self.window.end(id) {
            // It was struck, and not handed out: the next scan finds it and deletes it.
            self.scan_all_soon();
        }
    }

    fn insert_near(&mut self, near: Option<Row>, clocks: ClockReading) {
        if let Some(row) = near {
            self.take(self.delivery(row), clocks);
        }
    }

    /// A row has got another deadline: it comes into the window, if it is due there, and no later
    /// change of this commit ends or moves it.
    pub(super) fn place(&mut self, row: Option<Row>, outcomes: &Outcomes, clocks: ClockReading) {
        let Some(mut row) = row.filter(|row| outcomes.is_last_of(row.id)) else {
            return;
        };
        let epoch = self.epoch(row.id.partition());
        self.window.suspects.correct(&mut row, epoch);
        if self.is_loaded(&row) {
            self.insert_near(Some(row), clocks);
        } else {
            self.expect(&row);
        }
    }

    /// How large the rows were that this commit has moved or revived, on average.
    fn note_moved_bytes(&mut self, outcomes: &[Outcome]) {
        let (mut rows, mut bytes) = (0, 0);
        for outcome in outcomes {
            if let Outcome::Moved(Some(row)) | Outcome::Revived(Some(row)) = outcome {
                (rows, bytes) = (rows + 1, bytes + row.bytes());
            }
        }
        self.moved_bytes = bytes.checked_div(rows).unwrap_or(self.moved_bytes);
    }

    fn look(&mut self, look: Look) -> Result<(), StoreError> {
        match look {
            Look::Get(target, teller) => {
                let row = self.store.get(&target);
                self.answer(teller, row)
            }
            Look::Fleet(teller) => {
                let fleet = self.fleet();
                self.answer(teller, fleet)
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
                teller.tell(Err(self.shared.fail(error.clone())));
                Err(error)
            }
        }
    }
}
