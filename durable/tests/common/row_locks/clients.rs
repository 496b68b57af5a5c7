//! Clients: users' transactions, and what each of their moves does.

use super::promises::Promise;
use super::state::{CLIENTS, Call, Client, LAST, Lock, Stage, State, TIMERS, Time};
use super::{Kind, LockFault, RowLocks};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Above READ COMMITTED: the first statement takes the snapshot.
    Begin,
    /// A call's first step.
    Call {
        timer: usize,
    },
    /// Its next one.
    Step,
    Commit,
    RollBack,
}

/// A step of a call. The last one brings the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GateShare,
    RowLock,
    WatermarkLook,
}

impl RowLocks {
    /// The steps of a call, in their order.
    const fn steps(&self) -> &'static [Step] {
        use Step::{GateShare, RowLock, WatermarkLook};
        match self.fault {
            Some(LockFault::GateLeftOut) => &[RowLock, WatermarkLook],
            Some(LockFault::GateAfterRow) => &[RowLock, GateShare, WatermarkLook],
            Some(LockFault::GateLast) => &[RowLock, WatermarkLook, GateShare],
            Some(LockFault::LooksBeforeLocks) => &[WatermarkLook, GateShare, RowLock],
            Some(LockFault::LooksInStatementOfLock) => &[GateShare, WatermarkLook, RowLock],
            _ => &[GateShare, RowLock, WatermarkLook],
        }
    }

    pub fn duties_of_clients(&self, state: &State, moves: &mut Vec<super::Move>) {
        for (client, own) in state.clients.iter().enumerate() {
            if own.stage != Stage::Open {
                continue;
            }
            if let Some(call) = own.call {
                let next = self.steps()[usize::from(call.steps)];
                if next != Step::RowLock || is_lockable(state, client, call.timer) {
                    moves.push(super::Move::Client(client, Move::Step));
                }
            } else {
                moves.push(super::Move::Client(client, Move::Commit));
                moves.push(super::Move::Client(client, Move::RollBack));
            }
        }
    }

    pub fn chances_of_clients(&self, state: &State, moves: &mut Vec<super::Move>) {
        for (client, own) in state.clients.iter().enumerate() {
            let Some(kind) = self.bounds.clients[client] else {
                continue;
            };
            if own.stage == Stage::Ended || own.call.is_some() {
                continue;
            }
            if own.stage == Stage::NotBegun && kind.has_snapshot() {
                moves.push(super::Move::Client(client, Move::Begin));
                continue;
            }
            if own.calls_left > 0 {
                let is_first_a_lock = self.steps()[0] == Step::RowLock;
                let timers = (0..TIMERS).filter(|&timer| {
                    let is_free = !is_first_a_lock || is_lockable(state, client, timer);
                    own.locks[timer].is_none() && is_free
                });
                moves.extend(timers.map(|timer| super::Move::Client(client, Move::Call { timer })));
            }
        }
    }

    pub fn move_client(&self, state: &mut State, client: usize, next: Move) {
        match next {
            Move::Begin => {
                state.clients[client].stage = Stage::Open;
                state.clients[client].snapshot = Some(state.tables);
            }
            Move::Call { timer } => {
                let own = &mut state.clients[client];
                own.stage = Stage::Open;
                own.calls_left -= 1;
                own.call = Some(Call {
                    timer,
                    steps: 0,
                    due: 0,
                    watermark: 0,
                    lease: None,
                });
                self.step(state, client);
            }
            Move::Step => self.step(state, client),
            Move::Commit => self.commit(state, client),
            Move::RollBack => state.clients[client] = Client::ENDED,
        }
    }

    fn step(&self, state: &mut State, client: usize) {
        let Some(call) = state.clients[client].call else {
            return;
        };
        match self.steps()[usize::from(call.steps)] {
            Step::GateShare => state.clients[client].has_gate = true,
            Step::RowLock => self.row_lock(state, client, call.timer),
            Step::WatermarkLook => self.watermark_look(state, client),
        }
        let own = &mut state.clients[client];
        let Some(call) = &mut own.call else { return };
        // The second statement of LooksTwice is still to come.
        if call.lease.is_none() {
            call.steps += 1;
        }
        if usize::from(call.steps) == self.steps().len() {
            self.call_answer(state, client);
        }
    }

    /// Locks the row's last version.
    fn row_lock(&self, state: &mut State, client: usize, timer: usize) {
        let row = state.tables.rows[timer];
        let own = &mut state.clients[client];
        let seen = own.snapshot.map_or(row, |snapshot| snapshot.rows[timer]);
        if seen != row && seen.is_some() {
            fail(state, client);
            return;
        }
        let (Some(due), Some(call)) = (seen, &mut own.call) else {
            // There is no such timer: the call says `false`.
            own.call = None;
            return;
        };
        call.due = due;
        own.locks[timer] = Some(Lock::Asked);
    }

    fn watermark_look(&self, state: &mut State, client: usize) {
        let tables = state.tables;
        let own = &mut state.clients[client];
        let Some(call) = &mut own.call else { return };
        if let Some(snapshot) = own.snapshot {
            let is_same = snapshot.lease == tables.lease
                && snapshot.lease.owner.is_none_or(|owner| {
                    // A row that is not in the snapshot is not locked, and cannot fail.
                    let seen = snapshot.watermarks[owner];
                    let is_there = seen.is_some() && !self.is_broken(LockFault::NextRowAlone);
                    !is_there || seen == tables.watermarks[owner]
                });
            if !is_same && !self.is_broken(LockFault::LooksInOldSnapshot) {
                fail(state, client);
                return;
            }
            call.watermark = self.watermark_of(&snapshot);
        } else if self.is_broken(LockFault::LooksTwice) {
            let Some(lease) = call.lease.take() else {
                call.lease = Some(tables.lease);
                return;
            };
            let of_both = super::state::Tables { lease, ..tables };
            call.watermark = of_both.watermark_or_none();
        } else {
            call.watermark = self.watermark_of(&tables);
        }
    }

    fn watermark_of(&self, tables: &super::state::Tables) -> Time {
        if self.is_broken(LockFault::WatermarkRowLate) {
            return tables.watermark_or_none();
        }
        if self.is_broken(LockFault::LooksAtAllNodes) {
            let all = tables.watermarks.into_iter().flatten();
            return all.fold(tables.watermark(), Time::max);
        }
        tables.watermark()
    }

    fn call_answer(&self, state: &mut State, client: usize) {
        let kind = self.bounds.clients[client];
        let own = &mut state.clients[client];
        let Some(call) = own.call.take() else { return };
        let lock = &mut own.locks[call.timer];
        if call.due > call.watermark {
            *lock = Some(if kind == Some(Kind::Moves) {
                Lock::Moves(LAST + 1 - call.due)
            } else {
                Lock::Deletes
            });
            return;
        }
        *lock = self
            .is_broken(LockFault::FalseKeepsLock)
            .then_some(Lock::Kept);
        if self.is_broken(LockFault::GateLetGo) {
            own.has_gate = own.locks != [None; TIMERS];
        }
        state.seen.says_false = true;
        if call.due > state.tables.watermark() {
            Promise::FalseHasAReason.set_broken(&mut state.broken);
        }
    }

    fn commit(&self, state: &mut State, client: usize) {
        let locks = state.clients[client].locks;
        for (timer, lock) in locks.into_iter().enumerate() {
            let page = &mut state.pages[timer];
            match lock {
                Some(Lock::Deletes) => {
                    state.tables.rows[timer] = None;
                    page.is_cancelled = true;
                    let kind = self.bounds.clients[client];
                    state.seen.ends_in_snapshot |= kind.is_some_and(Kind::has_snapshot);
                }
                Some(Lock::Moves(due)) => {
                    state.tables.rows[timer] = Some(due);
                    page.is_moved = true;
                }
                Some(Lock::Asked | Lock::Kept) | None => continue,
            }
            if page.handed_by.take().is_some() {
                Promise::TrueIsTrue.set_broken(&mut state.broken);
            }
        }
        state.clients[client] = Client::ENDED;
    }

    /// Whether the lock of a row that a transaction holds keeps out FOR KEY SHARE.
    pub fn is_skipped(&self, state: &State, timer: usize) -> bool {
        (0..CLIENTS).any(|client| {
            let is_weak = self.bounds.clients[client] == Some(Kind::Moves)
                && self.is_broken(LockFault::MovedWithoutForUpdate);
            state.clients[client].locks[timer].is_some() && !is_weak
        })
    }
}

/// 40001: the transaction is over, and its locks are.
fn fail(state: &mut State, client: usize) {
    state.clients[client] = Client::ENDED;
    state.seen.has_failed = true;
}

/// Whether no other transaction has the row locked. Locks of both kinds keep each other out.
fn is_lockable(state: &State, client: usize, timer: usize) -> bool {
    let mut others = (0..CLIENTS).filter(|&other| other != client);
    others.all(|other| state.clients[other].locks[timer].is_none())
}
