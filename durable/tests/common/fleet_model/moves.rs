//! Moves: what can happen next.

use super::state::{Fate, Held, NODES, Node, State, TIMERS, Time};
use super::{ATTEMPTS_MAX, Fleet, LeaseFault};

/// What happens. Some have the names of the protocol's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// All clocks go on by 1.
    Tick,
    /// Nobody has the lease and nothing else is to be done: time passes until it has run out.
    TickPast,
    /// The database's clock steps forward, as after a failover; or the nodes' clocks stood still.
    ClockStep,
    /// A client arms a timer.
    Arm {
        timer: usize,
        due: Time,
    },
    CancelGuarded {
        timer: usize,
    },
    /// A cancel looks at the watermark, and does not lock it.
    CancelLooks {
        timer: usize,
    },
    /// A node reads its clock, and sends LeaseTake.
    TakeSent {
        node: usize,
    },
    LeaseTake {
        node: usize,
    },
    /// A node reads its clock, and sends LeaseRenew.
    RenewSent {
        node: usize,
    },
    LeaseRenew {
        node: usize,
    },
    /// The answer to LeaseTake or LeaseRenew has come.
    Answered {
        node: usize,
    },
    /// It never will.
    AnswerLost {
        node: usize,
    },
    LeaseRelease {
        node: usize,
    },
    TakeOverSuspect {
        node: usize,
    },
    ClaimCommit {
        node: usize,
    },
    ClaimRead {
        node: usize,
    },
    ScanBelow {
        node: usize,
    },
    /// A node looks at its clock, as in HandStart, and is paused before the handler starts.
    PausedBefore {
        node: usize,
        timer: usize,
    },
    HandStart {
        node: usize,
        timer: usize,
    },
    AckFenced {
        node: usize,
        timer: usize,
    },
    RetryFenced {
        node: usize,
        timer: usize,
    },
    /// A handler ends its process.
    HandlerKills {
        node: usize,
    },
    Crash {
        node: usize,
    },
    Restart {
        node: usize,
    },
}

impl Fleet {
    /// All that can happen. A model ends where a timer was handed out too often, for a broken one
    /// would go on for ever.
    pub fn moves(&self, state: &State, moves: &mut Vec<Move>) {
        let mut timers = state.timers.iter();
        if timers.any(|timer| timer.starts > ATTEMPTS_MAX) {
            return;
        }
        self.duties(state, moves);
        if state.now < self.bounds.end {
            moves.push(Move::Tick);
            if state.clock_steps_left > 0 {
                moves.push(Move::ClockStep);
            }
        } else if moves.is_empty() && lapses(state) {
            moves.push(Move::TickPast);
        }
        self.moves_of_clients(state, moves);
        for node in 0..NODES {
            self.chances(state, node, moves);
        }
    }

    /// Whether nothing more happens by itself: the clock stands still, no node has a duty, and to
    /// wait changes nothing.
    pub fn is_quiet(&self, state: &State) -> bool {
        if state.now < self.bounds.end || lapses(state) {
            return false;
        }
        let mut moves = Vec::new();
        self.duties(state, &mut moves);
        moves.is_empty()
    }

    /// What the nodes that live do sooner or later. Each move changes the state.
    fn duties(&self, state: &State, moves: &mut Vec<Move>) {
        for (node, own) in state.nodes.iter().enumerate() {
            if own.is_alive {
                requests(state, node, moves);
                self.duties_of_owner(state, node, moves);
                self.duties_of_rows(state, node, moves);
            }
        }
    }

    fn duties_of_owner(&self, state: &State, node: usize, moves: &mut Vec<Move>) {
        let own = &state.nodes[node];
        let Some(held) = own.held else { return };
        if held.owes_raise {
            moves.push(Move::TakeOverSuspect { node });
            if !self.is_broken(LeaseFault::ReadBeforeRaise) {
                return;
            }
        }
        if self.claim_upto(state) > held.claimed_upto {
            moves.push(Move::ClaimCommit { node });
        }
        if self.read_limit(state, &held) > held.read_upto {
            moves.push(Move::ClaimRead { node });
        }
        let is_missing = |timer: usize| {
            let is_below = state.timers[timer]
                .row
                .is_some_and(|row| row.due <= held.read_upto);
            let is_in_flight = own.running[timer].is_some() && !self.reads_in_flight();
            is_below && own.found[timer].is_none() && !is_in_flight
        };
        if (0..TIMERS).any(is_missing) && !self.is_broken(LeaseFault::NeverScanned) {
            moves.push(Move::ScanBelow { node });
        }
    }

    fn duties_of_rows(&self, state: &State, node: usize, moves: &mut Vec<Move>) {
        let own = &state.nodes[node];
        for timer in 0..TIMERS {
            if own.paused[timer].is_some() {
                moves.push(Move::HandStart { node, timer });
            } else if self.may_start(state, own, timer) {
                moves.push(Move::HandStart { node, timer });
                if self.is_broken(LeaseFault::PausedBeforeStart) {
                    moves.push(Move::PausedBefore { node, timer });
                }
            }
            if own.running[timer].is_some() {
                moves.push(match self.bounds.killer {
                    Some(killer) if killer == timer => Move::HandlerKills { node },
                    _ => Move::AckFenced { node, timer },
                });
            }
        }
    }

    /// Whether a node hands out a timer now.
    fn may_start(&self, state: &State, own: &Node, timer: usize) -> bool {
        let (Some(held), Some(row)) = (own.held, own.found[timer]) else {
            return false;
        };
        let is_due = i16::from(row.due) <= self.known_clock(state, &held);
        let is_claimed =
            row.due <= held.claimed_upto || self.is_broken(LeaseFault::HandedBeforeClaim);
        let is_free = own.running[timer].is_none() || self.is_broken(LeaseFault::InFlightNotKept);
        is_due && is_claimed && is_free && own.has_right(state.clock_of_nodes())
    }

    /// The database's clock, as a node knows it. Each answer brings it, so in the end all know it.
    fn known_clock(&self, state: &State, held: &Held) -> i16 {
        if self.bounds.measures_clock && state.now < self.bounds.end {
            i16::from(state.clock_of_nodes()) - i16::from(held.behind)
        } else {
            i16::from(state.now)
        }
    }

    fn moves_of_clients(&self, state: &State, moves: &mut Vec<Move>) {
        for (timer, stored) in state.timers.iter().enumerate() {
            match stored.row {
                None if stored.fate == Fate::NotArmed => {
                    let dues = self.bounds.dues[timer].iter();
                    moves.extend(dues.map(|&due| Move::Arm { timer, due }));
                }
                Some(row) if self.bounds.has_cancels => {
                    let is_after = row.due > state.lease.claimed_upto;
                    let is_looked_at = stored.is_looked_at;
                    if is_after && !is_looked_at && self.is_broken(LeaseFault::CancelUnlocked) {
                        moves.push(Move::CancelLooks { timer });
                    }
                    if is_after || is_looked_at || self.is_broken(LeaseFault::CancelUnguarded) {
                        moves.push(Move::CancelGuarded { timer });
                    }
                }
                _ => {}
            }
        }
    }

    /// What may happen to a node, and what it may do or leave.
    fn chances(&self, state: &State, node: usize, moves: &mut Vec<Move>) {
        let own = &state.nodes[node];
        if !own.is_alive {
            moves.push(Move::Restart { node });
            return;
        }
        if state.crashes_left > 0 {
            moves.push(Move::Crash { node });
        }
        let is_answered = own.request.is_some_and(|request| request.answer.is_some());
        if is_answered && state.losses_left > 0 {
            moves.push(Move::AnswerLost { node });
        }
        for timer in 0..TIMERS {
            let is_killer = self.bounds.killer == Some(timer);
            if own.running[timer].is_some() && !is_killer && self.bounds.has_retries {
                moves.push(Move::RetryFenced { node, timer });
            }
        }
        let Some(held) = own.held else { return };
        if own.request.is_none() && state.renewals_left > 0 {
            moves.push(Move::RenewSent { node });
        }
        let is_settled =
            own.running == [None; TIMERS] || self.is_broken(LeaseFault::ReleasedUnsettled);
        let is_raised = !held.owes_raise || self.is_broken(LeaseFault::ReleasedUnraised);
        if is_settled && is_raised && state.releases_left > 0 {
            moves.push(Move::LeaseRelease { node });
        }
    }
}

/// The next move of a node's request; or a node without the right to hand out asks for the lease.
fn requests(state: &State, node: usize, moves: &mut Vec<Move>) {
    let own = &state.nodes[node];
    match own.request {
        Some(request) if request.answer.is_some() => moves.push(Move::Answered { node }),
        Some(request) if request.renews.is_some() => moves.push(Move::LeaseRenew { node }),
        Some(_) => moves.push(Move::LeaseTake { node }),
        None if state.is_takeable() && !own.has_right(state.clock_of_nodes()) => {
            moves.push(Move::TakeSent { node });
        }
        None => {}
    }
}

/// Whether the lease is going to run out: nobody has the right to hand out. It counts only while a
/// timer is stored.
fn lapses(state: &State) -> bool {
    let is_stored = state.timers.iter().any(|timer| timer.fate == Fate::Stored);
    let clock = state.clock_of_nodes();
    let is_held = state.nodes.iter().any(|node| node.has_right(clock));
    is_stored && !is_held && !state.is_takeable()
}
