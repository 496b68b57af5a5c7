//! Model of grants: nodes that share a database, and the calls of one rule.
//! `stateright` tries every order of their steps.
//!
//! # The protocol
//! - GrantAsk: a node says how many calls it could use, and how many it uses at most until it has
//!   the answer. It asks while it wants some, or while the store may have something of it.
//! - GrantLock: a transaction locks the rule's row, reads what nodes have that are alive, and
//!   computes by [`share_calls`] what this one has from now on. This is the function that stores
//!   call, and no copy of it.
//! - GrantCommit: what it has is stored. The row is free again.
//! - GrantAnswer: the node knows what it may make.
//! - CallBegin: a timer that waits begins, while the node's lease lasts, if fewer calls are under
//!   way than the node may make.
//! - CallEnd: a handler has ended.
//! - LeaseRenew: a node whose lease was over by its own clock, or for the store, has it again. It
//!   forgets what it may make, for others may have that now. If it was found dead, it has another
//!   name.
//! - NodeExpire: what a process had whose lease has run out counts no more.
//!
//! # What it stands for
//! - A move is one transaction, or happens on one node. The order of moves is any.
//! - A node that makes no move is paused, or cut off, or slow.
//! - A node that loses an answer, or its connection, forgets what it may make. The transaction was
//!   committed before, or never is. (It may also be committed later. Until then it has the row, so
//!   nobody sees the difference.)
//! - A node that crashes comes back under another name. Its handlers are gone.
//! - A time of the database is when a transaction began, and not when it got the row.
//!
//! # Limits
//! One rule, up to three nodes, up to three calls; timers, and the number of crashes, losses and
//! leases that run out, as [`Bounds`] says. A rule that is removed and made again is left out, and
//! so are tokens.

mod promises;
mod state;
mod steps;

pub use promises::{Event, Promise};
pub use state::Left;
use state::{NODES_MAX, State};
use stateright::{Model, Property};

/// How much there is of each in a model.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub nodes: usize,
    /// The number of calls, and what it may change to.
    pub number: u8,
    pub numbers: &'static [u8],
    /// Timers that wait on each node when all begins.
    pub waiting: [u8; NODES_MAX],
    /// As many come as go. Without this, those that have begun wait no more.
    pub is_endless: bool,
    /// A node may ask again before it has begun with what it may make.
    pub is_slow: bool,
    /// From GrantAsk to GrantAnswer is one move.
    pub is_at_once: bool,
    pub left: Left,
}

/// Nothing happens that need not happen.
pub const CALM: Left = Left {
    changes: 0,
    ends: 0,
    crashes: 0,
    losses: 0,
    arms: 0,
    cancels: 0,
};

/// A step that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantFault {
    /// GrantAsk: those that the node might begin with, before it has the answer, are left out.
    BeginsUnsaid,
    /// GrantAsk: the node does not say what it uses.
    RunningUnsaid,
    /// GrantAsk: a node that wants nothing does not ask.
    UnwantedKept,
    /// GrantAsk: a node that has forgotten what it had, and wants nothing, does not ask.
    ForgottenKept,
    /// GrantAsk: a node that may make none, and wants nothing, does not ask.
    WantKept,
    /// GrantLock: the row is not locked.
    Unlocked,
    /// GrantLock: what other nodes have is not looked at.
    OthersUnread,
    /// GrantLock: what other nodes want is not looked at.
    WantsUnread,
    /// GrantLock: since when others wait is not looked at.
    SinceUnread,
    /// GrantLock: what a dead process has counts.
    DeadCounted,
    /// NodeExpire: comes before the lease is over for the node.
    ExpiredEarly,
    /// LeaseRenew: what the node had under the lease that was over is kept.
    KeptAfterLease,
    /// What the node had is kept after an answer was lost.
    KeptAfterLoss,
    /// CallBegin: the node's lease is not looked at.
    RightUnread,
    /// RuleRead: is left out.
    RuleUnread,
}

pub struct Grants {
    pub bounds: Bounds,
    pub fault: Option<GrantFault>,
}

impl Grants {
    fn is_broken(&self, fault: GrantFault) -> bool {
        self.fault == Some(fault)
    }
}

/// What happens. Most have the names of the protocol's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    GrantAsk {
        node: usize,
    },
    GrantLock {
        node: usize,
    },
    GrantCommit {
        node: usize,
    },
    GrantAnswer {
        node: usize,
    },
    /// Another transaction has the row for too long: nothing was granted, and nothing changes.
    GrantHeldUp {
        node: usize,
    },
    /// The node reads the rule.
    RuleRead {
        node: usize,
    },
    CallBegin {
        node: usize,
    },
    CallEnd {
        node: usize,
        is_old: bool,
        is_outside: bool,
    },
    LeaseRenew {
        node: usize,
    },
    /// The row of a process that was there before counts no more.
    NodeExpire {
        node: usize,
    },
    /// By its own clock the node's lease is over.
    RightEnds {
        node: usize,
    },
    /// It is over by the store's clock.
    LeaseOver {
        node: usize,
    },
    /// The store has found the node dead.
    NodeDead {
        node: usize,
    },
    /// An answer is lost, or the connection.
    Lose {
        node: usize,
    },
    Crash {
        node: usize,
    },
    /// The number of calls changes.
    Change {
        number: u8,
    },
    Arm {
        node: usize,
    },
    /// No timer waits any more.
    Cancel {
        node: usize,
    },
}

impl Model for Grants {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.bounds)]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        for node in 0..self.bounds.nodes {
            self.duties(state, node, moves);
            self.chances(state, node, moves);
        }
        if state.left.changes > 0 {
            let numbers = self.bounds.numbers.iter().copied();
            let others = numbers.filter(|&number| number != state.number);
            moves.extend(others.map(|number| Move::Change { number }));
        }
    }

    fn next_state(&self, last: &State, next: Move) -> Option<State> {
        let mut state = *last;
        self.make_move(&mut state, next);
        self.note(&mut state, next);
        state.merge_alike();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}

impl Grants {
    /// What a node does sooner or later, and the store for it.
    fn duties(&self, state: &State, node: usize, moves: &mut Vec<Move>) {
        let own = &state.nodes[node];
        match own.request.map(|request| request.stage) {
            None if self.may_begin(own) && !self.bounds.is_slow => {}
            None if self.has_to_ask(own) => moves.push(Move::GrantAsk { node }),
            None => {}
            Some(state::Stage::Sent) => {
                if !self.is_locked(state) {
                    moves.push(Move::GrantLock { node });
                }
                moves.push(Move::GrantHeldUp { node });
            }
            Some(state::Stage::Open { .. }) => moves.push(Move::GrantCommit { node }),
            Some(state::Stage::Answered { .. }) => moves.push(Move::GrantAnswer { node }),
        }
        // (The writer does one thing at a time.)
        let is_idle = own.request.is_none();
        if is_idle && own.known != state.number && !self.is_broken(GrantFault::RuleUnread) {
            moves.push(Move::RuleRead { node });
        }
        if is_idle && !own.has_right {
            moves.push(Move::LeaseRenew { node });
        }
        if own.former.is_some() && !self.is_broken(GrantFault::DeadCounted) {
            moves.push(Move::NodeExpire { node });
        }
        if self.may_begin(own) {
            moves.push(Move::CallBegin { node });
        }
        for (is_old, is_outside) in [(false, false), (false, true), (true, false), (true, true)] {
            if own.running.has(is_old, is_outside) {
                moves.push(Move::CallEnd {
                    node,
                    is_old,
                    is_outside,
                });
            }
        }
    }

    /// Whether nothing more happens by itself.
    fn is_quiet(&self, state: &State) -> bool {
        let mut moves = Vec::new();
        for node in 0..self.bounds.nodes {
            self.duties(state, node, &mut moves);
        }
        moves.is_empty()
    }

    /// What may happen.
    fn chances(&self, state: &State, node: usize, moves: &mut Vec<Move>) {
        let (own, left) = (&state.nodes[node], &state.left);
        if own.has_right && left.ends > 0 {
            moves.push(Move::RightEnds { node });
        }
        let may_run_out = match self.is_broken(GrantFault::ExpiredEarly) {
            true => own.has_right && left.ends > 0,
            false => !own.has_right,
        };
        if may_run_out && !own.is_over {
            moves.push(Move::LeaseOver { node });
        }
        if own.is_over && !own.has_right && !own.is_dead {
            moves.push(Move::NodeDead { node });
        }
        if own.request.is_some() && left.losses > 0 {
            moves.push(Move::Lose { node });
        }
        if left.crashes > 0 && own.former.is_none() {
            moves.push(Move::Crash { node });
        }
        if left.arms > 0 && own.waiting == 0 {
            moves.push(Move::Arm { node });
        }
        if left.cancels > 0 && own.waiting > 0 {
            moves.push(Move::Cancel { node });
        }
    }
}
