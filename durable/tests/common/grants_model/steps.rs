//! Steps: what a move changes, and what the observer notes of it.

use super::promises::{NUMBER_ROUNDS, ROUNDS_MAX};
use super::state::{Node, Permit, Request, Stage, State};
use super::{GrantFault, Grants, Move};
use wheelwork_durable::contract::{NodeCalls, WantedCalls, share_calls};

impl Grants {
    pub fn make_move(&self, state: &mut State, next: Move) {
        match next {
            Move::GrantAsk { node } => {
                self.ask(state, node);
                if self.bounds.is_at_once {
                    self.lock(state, node);
                    commit(&mut state.nodes[node]);
                    self.answer(&mut state.nodes[node]);
                }
            }
            Move::GrantLock { node } => self.lock(state, node),
            Move::GrantCommit { node } => commit(&mut state.nodes[node]),
            Move::GrantAnswer { node } => self.answer(&mut state.nodes[node]),
            Move::GrantHeldUp { node } => state.nodes[node].request = None,
            Move::RuleRead { node } => state.nodes[node].known = state.number,
            Move::CallBegin { node } => {
                let own = &mut state.nodes[node];
                own.running.begin();
                own.has_begun = true;
                if !self.bounds.is_endless {
                    own.waiting -= 1;
                }
            }
            Move::CallEnd {
                node,
                is_old,
                is_outside,
            } => state.nodes[node].running.end(is_old, is_outside),
            Move::LeaseRenew { node } => self.renew(&mut state.nodes[node]),
            Move::NodeExpire { node } => state.nodes[node].former = None,
            Move::RightEnds { node } => {
                state.left.ends -= 1;
                let own = &mut state.nodes[node];
                own.has_right = false;
                own.running.lease_ends();
            }
            Move::LeaseOver { node } => {
                let own = &mut state.nodes[node];
                state.left.ends -= u8::from(own.has_right);
                own.is_over = true;
            }
            Move::NodeDead { node } => {
                let own = &mut state.nodes[node];
                (own.is_dead, own.is_over, own.permit) = (true, false, None);
            }
            Move::Lose { node } => {
                state.left.losses -= 1;
                let own = &mut state.nodes[node];
                own.request = None;
                if !self.is_broken(GrantFault::KeptAfterLoss) {
                    self.forget(own);
                }
            }
            Move::Crash { node } => {
                state.left.crashes -= 1;
                let own = &mut state.nodes[node];
                *own = Node {
                    former: own.live(),
                    waiting: own.waiting,
                    ..Node::new(state.number)
                };
            }
            Move::Change { number } => {
                state.left.changes -= 1;
                state.number = number;
                state.ledger.allowed = state.ledger.allowed.max(number);
            }
            Move::Arm { node } => {
                state.left.arms -= 1;
                state.nodes[node].waiting = 1;
            }
            Move::Cancel { node } => {
                state.left.cancels -= 1;
                state.nodes[node].waiting = 0;
            }
        }
    }

    /// Whether a transaction has the rule's row.
    pub fn is_locked(&self, state: &State) -> bool {
        let is_open = |node: &Node| {
            let stage = node.request.map(|request| request.stage);
            matches!(stage, Some(Stage::Open { .. }))
        };
        state.nodes.iter().any(is_open) && !self.is_broken(GrantFault::Unlocked)
    }

    pub fn may_begin(&self, own: &Node) -> bool {
        let has_right = own.has_right || self.is_broken(GrantFault::RightUnread);
        let own = Node { has_right, ..*own };
        own.may_begin()
    }

    /// Calls that a node could have under way.
    fn most(&self, own: &Node) -> u8 {
        let waiting = match self.bounds.is_endless && own.waiting > 0 {
            true => own.known,
            false => own.waiting,
        };
        (own.running.all() + waiting).min(own.known)
    }

    pub fn has_to_ask(&self, own: &Node) -> bool {
        let may_have = own.may_have && !self.is_broken(GrantFault::UnwantedKept);
        self.most(own) > 0 || may_have
    }

    fn ask(&self, state: &mut State, node: usize) {
        let began = state.now();
        let own = &mut state.nodes[node];
        let running = match self.fault {
            Some(GrantFault::BeginsUnsaid) => own.running.all(),
            Some(GrantFault::RunningUnsaid) => 0,
            _ => own.running.all().max(own.here()),
        };
        own.request = Some(Request {
            most: self.most(own),
            running,
            began,
            is_of_round: true,
            stage: Stage::Sent,
        });
    }

    fn lock(&self, state: &mut State, node: usize) {
        let Some(mut request) = state.nodes[node].request else {
            return;
        };
        let others = (0..self.bounds.nodes).flat_map(|other| {
            let of = &state.nodes[other];
            [of.live().filter(|_| other != node), of.former]
        });
        let others: Vec<_> = others
            .flatten()
            .map(|permit| {
                let mut calls = calls_of(permit);
                match self.fault {
                    Some(GrantFault::OthersUnread) => calls.has = 0,
                    Some(GrantFault::WantsUnread) => calls.wants = 0,
                    Some(GrantFault::SinceUnread) => calls.since = 0,
                    _ => {}
                }
                calls
            })
            .collect();
        let mut own = state.nodes[node].live().unwrap_or(Permit {
            has: 0,
            wants: 0,
            since: request.began,
        });
        if self.is_broken(GrantFault::SinceUnread) {
            own.since = 0;
        }
        let want = WantedCalls {
            most: request.most.into(),
            running: request.running.into(),
        };
        let (has, may_make) = share_calls(state.number.into(), want, calls_of(own), &others);
        let (has, may_make) = (has as u8, may_make as u8);
        let permit = Permit {
            has,
            wants: request.most,
            since: match has > own.has {
                true => request.began,
                false => own.since,
            },
        };
        request.stage = Stage::Open { permit, may_make };
        state.nodes[node].request = Some(request);
    }

    fn answer(&self, own: &mut Node) {
        let Some(Request {
            stage: Stage::Answered { may_make },
            most,
            running,
            is_of_round,
            ..
        }) = own.request
        else {
            return;
        };
        let wants = most > 0 && !self.is_broken(GrantFault::WantKept);
        own.request = None;
        own.has = may_make;
        own.may_have = may_make > 0 || running > 0 || wants;
        own.has_asked |= is_of_round;
    }

    fn renew(&self, own: &mut Node) {
        own.has_right = true;
        own.is_over = false;
        own.is_dead = false;
        if !self.is_broken(GrantFault::KeptAfterLease) {
            self.forget(own);
        }
    }

    /// Nothing is known of what the store has.
    fn forget(&self, own: &mut Node) {
        own.has = 0;
        own.may_have = !self.is_broken(GrantFault::ForgottenKept);
    }

    /// What the observer notes after a move.
    pub fn note(&self, state: &mut State, next: Move) {
        let need_not_happen = matches!(
            next,
            Move::RightEnds { .. }
                | Move::LeaseOver { .. }
                | Move::NodeDead { .. }
                | Move::Lose { .. }
                | Move::Crash { .. }
                | Move::Change { .. }
                | Move::Arm { .. }
                | Move::Cancel { .. }
        );
        let first = state.nodes[0];
        let is_starved = first.waiting > 0 && first.running.all() == 0;
        let mut nodes = state.nodes.iter();
        let is_hungry = nodes.any(|node| node.is_hungry(state.number)) && self.bounds.is_endless;
        let are_enough = usize::from(state.number) >= self.bounds.nodes;
        let is_unused = is_hungry && are_enough && state.used() < state.number;
        for node in &mut state.nodes[..self.bounds.nodes] {
            node.has_begun |= !self.may_begin(node);
        }
        let is_over = self.is_round_over(state);
        let ledger = &mut state.ledger;
        if need_not_happen {
            (ledger.rounds, ledger.starved, ledger.unused) = (0, 0, 0);
        }
        ledger.is_starved &= is_starved;
        ledger.is_unused &= is_unused;
        if !is_over {
            return;
        }
        let one_more = |rounds: u8| (rounds + 1).min(ROUNDS_MAX);
        ledger.rounds = one_more(ledger.rounds);
        ledger.starved = if ledger.is_starved {
            one_more(ledger.starved)
        } else {
            0
        };
        ledger.unused = if ledger.is_unused {
            one_more(ledger.unused)
        } else {
            0
        };
        (ledger.is_starved, ledger.is_unused) = (is_starved, is_unused);
        if ledger.rounds >= NUMBER_ROUNDS {
            ledger.allowed = state.number;
        }
        for node in &mut state.nodes[..self.bounds.nodes] {
            (node.has_asked, node.has_begun) = (false, false);
            if let Some(request) = &mut node.request {
                request.is_of_round = false;
            }
            node.running.round_begins();
        }
    }

    fn is_round_over(&self, state: &State) -> bool {
        state.nodes[..self.bounds.nodes].iter().all(|node| {
            let has_asked = node.has_asked || node.request.is_none() && !self.has_to_ask(node);
            let knows = node.known == state.number || self.is_broken(GrantFault::RuleUnread);
            let former = node
                .former
                .filter(|_| !self.is_broken(GrantFault::DeadCounted));
            let is_in = node.has_right && knows && former.is_none();
            is_in && has_asked && node.has_begun && node.running.old() == 0
        })
    }
}

/// The transaction ends. (The row of a node that was found dead is read by nobody.)
fn commit(own: &mut Node) {
    if let Some(request) = &mut own.request
        && let Stage::Open { permit, may_make } = request.stage
    {
        request.stage = Stage::Answered { may_make };
        own.permit = Some(permit).filter(|_| !own.is_dead);
    }
}

fn calls_of(permit: Permit) -> NodeCalls {
    NodeCalls {
        has: permit.has.into(),
        wants: permit.wants.into(),
        since: permit.since.into(),
    }
}
