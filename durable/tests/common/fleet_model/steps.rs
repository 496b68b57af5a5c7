//! Steps: what each move does.

use super::moves::Move;
use super::promises::Promise;
use super::state::{Fate, Grant, Handed, Held, Node, Owner, Request, Row, State, Time, Timer};
use super::{ATTEMPTS_MAX, Fleet, LeaseFault};

impl Fleet {
    pub fn make_move(&self, state: &mut State, next: Move) {
        match next {
            Move::Tick => state.now += 1,
            Move::TickPast => state.now = state.lease.until + 1,
            Move::ClockStep => {
                state.now += 1;
                state.stepped += 1;
                state.clock_steps_left -= 1;
            }
            Move::Arm { timer, due } => {
                let row = Row { due, attempts: 0 };
                (state.timers[timer].row, state.timers[timer].fate) = (Some(row), Fate::Stored);
            }
            Move::CancelLooks { timer } => state.timers[timer].is_looked_at = true,
            Move::CancelGuarded { timer } => cancel_guarded(state, timer),
            Move::TakeSent { node } => send(state, node, None),
            Move::LeaseTake { node } => self.lease_take(state, node),
            Move::RenewSent { node } => {
                let epoch = state.nodes[node].held.map(|held| held.epoch);
                send(state, node, epoch);
                state.renewals_left -= 1;
            }
            Move::LeaseRenew { node } => self.lease_renew(state, node),
            Move::Answered { node } => self.answered(state, node),
            Move::AnswerLost { node } => {
                state.nodes[node].request = None;
                state.losses_left -= 1;
            }
            Move::LeaseRelease { node } => self.lease_release(state, node),
            Move::TakeOverSuspect { node } => self.take_over_raise(state, node),
            Move::ClaimCommit { node } => self.claim_commit(state, node),
            Move::ClaimRead { node } => self.claim_read(state, node),
            Move::ScanBelow { node } => {
                let upto = state.nodes[node].held.map_or(0, |held| held.read_upto);
                self.read(state, node, 0, upto);
            }
            Move::PausedBefore { node, timer } => {
                let own = &mut state.nodes[node];
                own.paused[timer] = own.held.map(|held| held.epoch);
                own.found[timer] = None;
            }
            Move::HandStart { node, timer } => hand_start(state, node, timer),
            Move::AckFenced { node, timer } => self.ack_fenced(state, node, timer),
            Move::RetryFenced { node, timer } => self.retry_fenced(state, node, timer),
            Move::HandlerKills { node } => crash(state, node),
            Move::Crash { node } => {
                crash(state, node);
                state.crashes_left -= 1;
            }
            Move::Restart { node } => state.nodes[node] = Node::FRESH,
        }
    }

    /// Rows due by then may be claimed now.
    pub fn claim_upto(&self, state: &State) -> Time {
        state.now + self.bounds.ahead
    }

    /// Up to where ClaimRead reads.
    pub fn read_limit(&self, state: &State, held: &Held) -> Time {
        let is_early = self.is_broken(LeaseFault::HandedBeforeClaim)
            || self.is_broken(LeaseFault::ReadBeforeClaim);
        if is_early {
            self.claim_upto(state)
        } else {
            held.claimed_upto
        }
    }

    /// Whether what a node reads has rows that it has in flight.
    pub fn reads_in_flight(&self) -> bool {
        self.is_broken(LeaseFault::SettledStillFound) || self.is_broken(LeaseFault::InFlightNotKept)
    }

    fn lease_take(&self, state: &mut State, node: usize) {
        if !state.is_takeable() && !self.is_broken(LeaseFault::TakenEarly) {
            state.nodes[node].request = None;
            return;
        }
        let was_released = state.lease.owner == Owner::Nobody;
        if !was_released {
            let handed = state.timers.iter_mut().map(|timer| &mut timer.handed);
            handed
                .filter(|handed| **handed != Handed::No)
                .for_each(|handed| *handed = Handed::Lapsed);
        }
        state.lease.owner = Owner::Node(node);
        state.lease.epoch += 1;
        let claimed_upto = state.lease.claimed_upto;
        if self.is_broken(LeaseFault::WatermarkLowered) {
            state.lease.claimed_upto = 0;
        }
        let owes_raise = !was_released && !self.is_broken(LeaseFault::AttemptsNotRaised);
        self.grant(state, node, claimed_upto, owes_raise);
    }

    fn lease_renew(&self, state: &mut State, node: usize) {
        let Some(request) = state.nodes[node].request else {
            return;
        };
        let is_unfenced = self.is_broken(LeaseFault::RenewUnfenced);
        let is_owner = state.lease.owner == Owner::Node(node) || is_unfenced;
        let is_epoch = request.renews == Some(state.lease.epoch)
            || is_unfenced
            || self.is_broken(LeaseFault::RenewWithoutEpoch);
        let is_in_time = state.lease.until > state.now || self.is_broken(LeaseFault::RenewLate);
        if is_owner && is_epoch && is_in_time {
            self.grant(state, node, 0, false);
        } else {
            state.nodes[node].request = None;
            state.nodes[node].drop_lease();
        }
    }

    /// The lease lasts anew. The answer is on its way.
    fn grant(&self, state: &mut State, node: usize, claimed_upto: Time, owes_raise: bool) {
        let Some(request) = &mut state.nodes[node].request else {
            return;
        };
        let from = if self.is_broken(LeaseFault::LeaseFromOldTransaction) {
            request.sent.saturating_sub(1)
        } else {
            state.now
        };
        state.lease.until = from + self.bounds.ttl;
        let after_sent = if self.bounds.measures_clock {
            state.now - request.sent
        } else {
            0
        };
        request.answer = Some(Grant {
            epoch: request.renews.unwrap_or(state.lease.epoch),
            after_sent,
            claimed_upto,
            owes_raise,
        });
    }

    fn answered(&self, state: &mut State, node: usize) {
        let clock = state.clock_of_nodes();
        let own = &mut state.nodes[node];
        let Some(request) = own.request.take() else {
            return;
        };
        let Some(grant) = request.answer else { return };
        let from = if self.is_broken(LeaseFault::LeaseFromAnswer) {
            clock
        } else {
            request.sent
        };
        let margin = if self.is_broken(LeaseFault::MarginLeftOut) {
            0
        } else {
            self.bounds.margin
        };
        let deadline = from + self.bounds.ttl - margin;
        let behind = self.behind(clock, &request, &grant);
        match &mut own.held {
            Some(held) if request.renews == Some(held.epoch) => {
                held.deadline = held.deadline.max(deadline);
                held.behind = held.behind.min(behind);
            }
            _ if request.renews.is_some() => {}
            _ => {
                if !self.is_broken(LeaseFault::FoundKept) {
                    own.drop_lease();
                }
                own.held = Some(Held {
                    epoch: grant.epoch,
                    deadline,
                    claimed_upto: grant.claimed_upto,
                    read_upto: 0,
                    owes_raise: grant.owes_raise,
                    behind,
                });
            }
        }
    }

    /// The database's clock is at least what an answer says, and what has passed since it came.
    fn behind(&self, clock: Time, request: &Request, grant: &Grant) -> i8 {
        if !self.bounds.measures_clock {
            return 0;
        }
        if self.is_broken(LeaseFault::ClockFromRequest) {
            return -grant.after_sent.cast_signed();
        }
        (clock - request.sent).cast_signed() - grant.after_sent.cast_signed()
    }

    /// The node has stopped to hand out before it sends this.
    fn lease_release(&self, state: &mut State, node: usize) {
        if state.is_owner(node) || self.is_broken(LeaseFault::ReleaseUnfenced) {
            (state.lease.owner, state.lease.until) = (Owner::Nobody, 0);
        }
        state.releases_left -= 1;
        if !self.is_broken(LeaseFault::HandsOutAfterRelease) {
            state.nodes[node].drop_lease();
        }
    }

    fn take_over_raise(&self, state: &mut State, node: usize) {
        let is_fenced_off = !state.is_owner(node) && !self.is_broken(LeaseFault::RaiseUnfenced);
        let own = &mut state.nodes[node];
        if is_fenced_off {
            own.drop_lease();
        }
        let Some(held) = &mut own.held else { return };
        held.owes_raise = false;
        let is_stale = held.epoch != state.lease.epoch;
        for timer in &mut state.timers {
            if timer.row.is_some_and(|row| row.due <= held.claimed_upto) {
                raise(timer);
                if is_stale {
                    Promise::StaleIsRefused.set_broken(&mut state.broken);
                }
            }
        }
    }

    fn claim_commit(&self, state: &mut State, node: usize) {
        let upto = self.claim_upto(state);
        if !state.is_owner(node) && !self.is_broken(LeaseFault::ClaimUnfenced) {
            state.nodes[node].drop_lease();
        }
        if let Some(held) = &mut state.nodes[node].held {
            held.claimed_upto = upto;
            state.lease.claimed_upto = state.lease.claimed_upto.max(upto);
        }
    }

    fn claim_read(&self, state: &mut State, node: usize) {
        let Some(held) = state.nodes[node].held else {
            return;
        };
        let upto = self.read_limit(state, &held);
        self.read(state, node, held.read_upto, upto);
        state.nodes[node].held = Some(Held {
            read_upto: upto,
            ..held
        });
    }

    /// Reads the rows due after one time and by another. Those in flight are known.
    fn read(&self, state: &mut State, node: usize, after: Time, upto: Time) {
        let own = &mut state.nodes[node];
        for (timer, found) in own.found.iter_mut().enumerate() {
            let row = state.timers[timer].row;
            let row = row.filter(|row| row.due > after && row.due <= upto);
            let is_in_flight = own.running[timer].is_some() && !self.reads_in_flight();
            if row.is_some() && !is_in_flight {
                *found = row;
            }
        }
    }

    /// The handler has said `Ok`.
    fn ack_fenced(&self, state: &mut State, node: usize, timer: usize) {
        let is_current = self.settle(state, node, timer);
        let timer = &mut state.timers[timer];
        if timer.row.is_none() || !(is_current || self.is_broken(LeaseFault::AckUnfenced)) {
            return;
        }
        timer.row = None;
        if is_current {
            timer.fate = Fate::Acked;
        } else {
            Promise::StaleIsRefused.set_broken(&mut state.broken);
        }
    }

    /// The handler has said `Err`. In the end the timer is due again at once.
    fn retry_fenced(&self, state: &mut State, node: usize, timer: usize) {
        let is_current = self.settle(state, node, timer);
        let due = state.now + Time::from(state.now < self.bounds.end);
        let timer = &mut state.timers[timer];
        let Some(row) = &mut timer.row else { return };
        if !is_current && !self.is_broken(LeaseFault::RetryUnfenced) {
            return;
        }
        if !is_current {
            Promise::StaleIsRefused.set_broken(&mut state.broken);
        }
        row.due = due;
        timer.handed = Handed::No;
        raise(timer);
    }

    /// Takes a row out of what is in flight, and out of what was read meanwhile. Whether the epoch
    /// that it was handed out under is the lease's.
    fn settle(&self, state: &mut State, node: usize, timer: usize) -> bool {
        let own = &mut state.nodes[node];
        if !self.reads_in_flight() {
            own.found[timer] = None;
        }
        own.running[timer].take() == Some(state.lease.epoch)
    }
}

fn send(state: &mut State, node: usize, renews: Option<u8>) {
    let sent = state.clock_of_nodes();
    state.nodes[node].request = Some(Request {
        renews,
        sent,
        answer: None,
    });
}

fn crash(state: &mut State, node: usize) {
    state.nodes[node] = Node {
        is_alive: false,
        ..Node::FRESH
    };
    if state.lease.owner == Owner::Node(node) {
        state.lease.owner = Owner::Crashed;
    }
}

/// A cancel that says `true`. One that says `false` changes nothing, and is no move.
fn cancel_guarded(state: &mut State, timer: usize) {
    let timer = &mut state.timers[timer];
    if timer.handed != Handed::No {
        Promise::CancelIsTrue.set_broken(&mut state.broken);
    }
    (timer.row, timer.fate) = (None, Fate::Cancelled);
}

fn hand_start(state: &mut State, node: usize, timer: usize) {
    let own = &mut state.nodes[node];
    let epoch = own.held.map(|held| held.epoch);
    let Some(epoch) = own.paused[timer].take().or(epoch) else {
        return;
    };
    own.running[timer] = Some(epoch);
    own.found[timer] = None;
    let (timer, broken) = (&mut state.timers[timer], &mut state.broken);
    match timer.fate {
        Fate::Cancelled => Promise::CancelIsTrue.set_broken(broken),
        Fate::Acked => Promise::OnceUnlessLapsed.set_broken(broken),
        Fate::Buried => Promise::AttemptsAtMost.set_broken(broken),
        Fate::NotArmed | Fate::Stored => {}
    }
    if timer.row.is_some_and(|row| row.due > state.now) {
        Promise::NeverEarly.set_broken(broken);
    }
    if let Handed::Under(earlier) = timer.handed {
        Promise::OnceUnlessLapsed.set_broken(broken);
        if earlier == epoch {
            Promise::OnceAnEpoch.set_broken(broken);
        }
    }
    timer.handed = Handed::Under(epoch);
    timer.starts += 1;
}

/// One attempt more. With all that it may have a timer is buried.
fn raise(timer: &mut Timer) {
    let Some(row) = &mut timer.row else { return };
    row.attempts += 1;
    if row.attempts >= ATTEMPTS_MAX {
        (timer.row, timer.fate) = (None, Fate::Buried);
    }
}
