//! Nodes: what each of their moves does.

use super::promises::Promise;
use super::state::{
    Change, LAST, Lease, Lock, Member, NODES, Node, Read, Renewal, State, TIMERS, Time,
};
use super::{LockFault, RowLocks};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    WatermarkCommit,
    /// A statement that reads and probes: its snapshot.
    Snapshot,
    GateProbe,
    /// A read without locks; or the snapshot of one that locks.
    Read,
    /// A read without locks, since the gate was free once.
    ReadAgain,
    /// A locking read has come to its next row.
    LockNext,
    HandOut {
        timer: usize,
    },
    /// By the node's own clock it may not hand out any more.
    RightEnds,
    /// By the database's clock its time has run out.
    TimeEnds,
    RenewBegin,
    NodeRenew,
    /// The answer to NodeRenew has come.
    Renewed,
    /// Another node declares this one dead.
    MarkDead,
    /// The statement that takes the lease, or gives it back: its snapshot.
    TakeBegin,
    TakeOver,
    GiveBackBegin,
    GiveBack,
}

impl RowLocks {
    pub fn duties_of_nodes(&self, state: &State, moves: &mut Vec<super::Move>) {
        for (node, own) in state.nodes.iter().enumerate() {
            let mut push = |next| moves.push(super::Move::Node(node, next));
            let member = &state.members[node];
            if !own.has_right && !member.is_over && !member.is_dead {
                push(Move::TimeEnds);
            }
            let other = &state.nodes[1 - node];
            if member.is_over && !member.is_dead && !other.is_gone {
                push(Move::MarkDead);
            }
            if own.is_gone {
                continue;
            }
            match own.renewal {
                Renewal::None => {}
                Renewal::TrialBegun { .. } => push(Move::NodeRenew),
                Renewal::Answered => push(Move::Renewed),
            }
            match own.change {
                Change::None if self.may_take(state, node) => push(Move::TakeBegin),
                Change::None => {}
                Change::Takes { .. } => push(Move::TakeOver),
                Change::GivesBack { .. } => push(Move::GiveBack),
            }
            let is_between = own.read == Read::Idle
                || (self.is_broken(LockFault::ProbedBeforeCommit)
                    && matches!(own.read, Read::Probed { .. }));
            let is_raisable = match state.tables.watermarks[node] {
                Some(watermark) => watermark < LAST,
                None => self.is_broken(LockFault::WatermarkRowLate) && own.has_right,
            };
            if is_between && is_raisable {
                push(Move::WatermarkCommit);
            }
            self.duties_of_reading(state, node, &mut push);
            if own.has_right && own.held.is_some() {
                let found = (0..TIMERS).filter(|&timer| own.found[timer].is_some());
                found.for_each(|timer| push(Move::HandOut { timer }));
            }
        }
    }

    fn duties_of_reading(&self, state: &State, node: usize, push: &mut impl FnMut(Move)) {
        let own = &state.nodes[node];
        let is_early = self.is_broken(LockFault::ProbedBeforeTake) && own.change != Change::None;
        if own.held.is_none() && !is_early {
            return;
        }
        match own.read {
            Read::Idle if self.has_something_to_read(state, node) => {
                if read_upto(state, node) <= own.free_upto {
                    push(Move::ReadAgain);
                } else if self.is_broken(LockFault::ProbedInStatementOfRead) {
                    push(Move::Snapshot);
                } else {
                    push(Move::GateProbe);
                }
            }
            Read::Idle => {}
            Read::Sees(_) => push(Move::GateProbe),
            Read::Probed { .. } if own.held.is_some() => push(Move::Read),
            Read::Probed { .. } => {}
            Read::Locks(_) => push(Move::LockNext),
        }
    }

    /// Whether there is a row that the node has not read.
    fn has_something_to_read(&self, state: &State, node: usize) -> bool {
        let own = &state.nodes[node];
        let is_early = self.is_broken(LockFault::ProbedBeforeCommit)
            || self.is_broken(LockFault::ProbedBeforeTake);
        let upto = if is_early {
            LAST
        } else {
            read_upto(state, node)
        };
        if self.is_broken(LockFault::NeverScanned) && upto == own.read_upto {
            return false;
        }
        (0..TIMERS).any(|timer| {
            let row = state.tables.rows[timer].filter(|due| *due <= upto);
            row.is_some() && row != own.found[timer] && row != own.handed[timer]
        })
    }

    /// What may happen to a node, and what it may do or leave.
    pub fn chances_of_nodes(&self, state: &State, moves: &mut Vec<super::Move>) {
        for (node, own) in state.nodes.iter().enumerate() {
            if own.is_gone {
                continue;
            }
            let mut push = |next| moves.push(super::Move::Node(node, next));
            if own.has_right && state.ends_left > 0 {
                push(Move::RightEnds);
            }
            if own.renewal == Renewal::None && state.renewals_left > 0 {
                push(Move::RenewBegin);
            }
            if own.held.is_some() && own.change == Change::None && state.give_backs_left > 0 {
                push(Move::GiveBackBegin);
            }
        }
    }

    pub fn move_node(&self, state: &mut State, node: usize, next: Move) {
        match next {
            Move::WatermarkCommit => {
                let watermark = &mut state.tables.watermarks[node];
                *watermark = Some(watermark.unwrap_or(0) + 1);
            }
            Move::Snapshot => state.nodes[node].read = Read::Sees(state.tables.rows),
            Move::GateProbe => gate_probe(state, node),
            Move::Read => self.read(state, node),
            Move::ReadAgain => {
                state.nodes[node].read = Read::Probed { is_free: true };
                self.read(state, node);
            }
            Move::LockNext => self.lock_next(state, node),
            Move::HandOut { timer } => hand_out(state, node, timer),
            Move::RightEnds => {
                state.nodes[node].has_right = false;
                state.ends_left -= 1;
            }
            Move::TimeEnds => {
                state.members[node].is_over = true;
                // By the time that the node counts from, the answer comes too late.
                if state.nodes[node].renewal == Renewal::Answered {
                    state.nodes[node].renewal = Renewal::None;
                }
            }
            Move::RenewBegin => {
                let was_over = state.members[node].is_over;
                state.nodes[node].renewal = Renewal::TrialBegun { was_over };
                state.renewals_left -= 1;
            }
            Move::NodeRenew => self.node_renew(state, node),
            Move::Renewed => {
                state.nodes[node].renewal = Renewal::None;
                state.nodes[node].has_right = true;
            }
            Move::MarkDead => state.members[node].is_dead = true,
            Move::TakeBegin => self.take_begin(state, node),
            Move::TakeOver => self.take_over(state, node),
            Move::GiveBackBegin => {
                let own = &mut state.nodes[node];
                if !self.is_broken(LockFault::GivenBeforeStop) {
                    own.drop_lease();
                }
                own.change = Change::GivesBack {
                    claimed_upto: state.tables.watermarks[node].unwrap_or(0),
                };
                state.give_backs_left -= 1;
            }
            Move::GiveBack => self.give_back(state, node),
        }
    }

    /// What is read plainly is found at once.
    fn read(&self, state: &mut State, node: usize) {
        let upto = read_upto(state, node);
        let rows = state.tables.rows;
        let own = &mut state.nodes[node];
        let Read::Probed { is_free } = own.read else {
            return;
        };
        if is_free || self.is_broken(LockFault::PlainAtLockedGate) {
            own.read = Read::Idle;
            for (timer, row) in rows.into_iter().enumerate() {
                find(own, timer, row.filter(|due| *due <= upto));
            }
        } else {
            own.read = Read::Locks(rows.map(|row| row.is_some_and(|due| due <= upto)));
        }
        if self.is_broken(LockFault::NeverScanned) {
            own.read_upto = upto;
        }
    }

    fn lock_next(&self, state: &mut State, node: usize) {
        let Read::Locks(mut rows) = state.nodes[node].read else {
            return;
        };
        if let Some(timer) = rows.iter().position(|is_left| *is_left) {
            rows[timer] = false;
            if self.is_skipped(state, timer) {
                state.pages[timer].is_skipped = true;
                let mut locks = state.clients.iter().map(|client| client.locks[timer]);
                if locks.any(|lock| lock == Some(Lock::Kept)) {
                    Promise::HoldsUpItsOwn.set_broken(&mut state.broken);
                }
            } else {
                let upto = read_upto(state, node);
                let row = state.tables.rows[timer].filter(|due| *due <= upto);
                find(&mut state.nodes[node], timer, row);
            }
        }
        let is_done = rows == [false; TIMERS];
        state.nodes[node].read = if is_done {
            Read::Idle
        } else {
            Read::Locks(rows)
        };
    }

    fn node_renew(&self, state: &mut State, node: usize) {
        let Renewal::TrialBegun { was_over } = state.nodes[node].renewal else {
            return;
        };
        let member = &mut state.members[node];
        let is_alive = !member.is_dead || self.is_broken(LockFault::RenewsDead);
        let is_in_time = !was_over || self.is_broken(LockFault::RenewsLate);
        if is_alive && is_in_time {
            member.is_over = false;
            state.nodes[node].renewal = Renewal::Answered;
        } else {
            state.nodes[node] = Node::GONE;
        }
    }

    /// Whether this node may take the lease, as far as it sees.
    fn may_take(&self, state: &State, node: usize) -> bool {
        let own = &state.nodes[node];
        let is_old = self.is_broken(LockFault::TakenInOldSnapshot);
        let is_free = match state.tables.lease.owner {
            None => true,
            Some(owner) => owner != node && (is_old || self.is_over(&state.members[owner])),
        };
        own.has_right && own.held.is_none() && is_free
    }

    /// Whether the leases of this node may be taken.
    fn is_over(&self, member: &Member) -> bool {
        member.is_dead || (member.is_over && self.is_broken(LockFault::TakenUnmarked))
    }

    fn take_begin(&self, state: &mut State, node: usize) {
        let seen = state.tables.lease;
        let claimed_upto = if self.is_broken(LockFault::TakenUnwritten) {
            seen.claimed_upto
        } else {
            state.tables.watermark_or_none()
        };
        state.nodes[node].change = Change::Takes { seen, claimed_upto };
    }

    /// The row of the lease is checked again when it is locked. Then a dead node's watermark is
    /// deleted.
    fn take_over(&self, state: &mut State, node: usize) {
        let Change::Takes { seen, claimed_upto } = state.nodes[node].change else {
            return;
        };
        state.nodes[node].change = Change::None;
        let is_over = |owner: usize| self.is_over(&state.members[owner]);
        if state.tables.lease != seen || !seen.owner.is_none_or(is_over) {
            return;
        }
        if let Some(owner) = seen.owner {
            state.tables.watermarks[owner] = None;
        }
        state.tables.lease = Lease {
            owner: Some(node),
            claimed_upto,
        };
        let own = &mut state.nodes[node];
        let read = own.read;
        own.drop_lease();
        own.held = Some(claimed_upto);
        if self.is_broken(LockFault::ProbedBeforeTake) {
            own.read = read;
        }
    }

    fn give_back(&self, state: &mut State, node: usize) {
        let own = &mut state.nodes[node];
        let Change::GivesBack { claimed_upto } = own.change else {
            return;
        };
        own.change = Change::None;
        own.drop_lease();
        let lease = &mut state.tables.lease;
        if lease.owner != Some(node) {
            return;
        }
        lease.owner = None;
        if !self.is_broken(LockFault::GivenUnwritten) {
            lease.claimed_upto = lease.claimed_upto.max(claimed_upto);
        }
    }
}

/// Up to where a node reads: what is committed in any case.
fn read_upto(state: &State, node: usize) -> Time {
    let own = state.tables.watermarks[node].unwrap_or(0);
    own.max(state.nodes[node].held.unwrap_or(0))
}

fn find(own: &mut Node, timer: usize, row: Option<Time>) {
    if row.is_some() && row != own.handed[timer] {
        own.found[timer] = row;
    }
}

fn gate_probe(state: &mut State, node: usize) {
    let is_free = !state.clients.iter().any(|client| client.has_gate);
    let upto = read_upto(state, node);
    let own = &mut state.nodes[node];
    if is_free {
        own.free_upto = upto;
    }
    match own.read {
        // The same statement reads what its older snapshot has.
        Read::Sees(rows) if is_free => {
            own.read = Read::Idle;
            for (timer, row) in rows.into_iter().enumerate() {
                find(own, timer, row.filter(|due| *due <= upto));
            }
        }
        _ => own.read = Read::Probed { is_free },
    }
}

fn hand_out(state: &mut State, node: usize, timer: usize) {
    let own = &mut state.nodes[node];
    let row = own.found[timer].take();
    own.handed[timer] = row;
    state.pages[timer].handed_by = Some(node);
    if state.tables.rows[timer] != row {
        Promise::TrueIsTrue.set_broken(&mut state.broken);
    }
    let others = (0..NODES).filter(|&other| other != node);
    for other in others {
        let rival = &state.nodes[other];
        if rival.has_right && rival.held.is_some() {
            Promise::OneHasTheRight.set_broken(&mut state.broken);
        }
    }
}
