//! Model of trials: how timers that may have ended their process are charged with that.
//! `stateright` tries every order of the steps of two nodes that share a store, and of two timers.
//!
//! # The protocol
//! - LeaseTake: a node takes the lease, with the next epoch. Both timers are suspects.
//! - Load: a row comes into the node's window. If what it was charged with is still to be taken
//!   back, it comes without the charge. With more crashes than `crash_attempts` it is buried.
//! - TrialNote: suspects without crashes that wait are handed out together, unless one is on trial
//!   alone. First one commit notes a crash of each, but of those that somebody has locked.
//! - TrialAlone: one with crashes is handed out, if nothing is on trial.
//! - Fire: the timer of the window fires. Until then the row can be moved.
//! - TrialBegin: before one with crashes is called, a crash more is stored, if nothing else is on
//!   trial and nobody has locked the row. If not, it goes back.
//! - Call: calls the handler, if the node still has the right to hand out. If not: it goes back.
//! - Back: a row that was fired and not called leaves the window, or waits again. What it was
//!   charged with is taken back; later, if somebody has locked the row.
//! - TakeBack: sets the crashes that a row had before, if it has the deadline and the epoch under
//!   which it was charged.
//! - Moved: the owner moves a row that its window lets go of. What is to be taken back follows.
//! - Ack, Bury: delete the row, under its deadline and epoch.
//! - TrialOver: a trial has lasted long enough, whether its handler goes on or not.
//! - LeaseRelease: a node that has nothing in the hands of handlers, and nothing to take back,
//!   gives the lease back.
//!
//! # What it stands for
//! - A move is one commit of the store, or happens on one node. The order of moves is any.
//! - An epoch is a life: it ends with its process, or when its lease runs out. A node that has
//!   crashed is another process at once.
//! - A row that was handed out alone and has not begun keeps no other one from beginning. Here the
//!   trial of such a row is over before another one begins.
//! - How long a lease or a trial lasts is no number. A node's right to hand out ends before another
//!   takes the lease: `models/fleet.rs` shows how that comes about.
//! - Between TrialBegin's commit and the call, or until the charge is taken back, no process ends
//!   and no lease is taken, unless [`Bounds::has_gap`] says so.
//! - In the end transactions end, trials are over, and what nodes have to do they do.
//!
//! # Limits
//! One lease, two nodes, two timers; crashes, ends of rights, releases, moves, locks and rows that
//! are sent back, as [`Bounds`] says. Retries, cancels and keys are left out: they end a trial as
//! an ack does, or leave the window as a move does.

mod promises;
mod state;
mod steps;

pub use promises::{Event, Promise};
use state::{NODES, Node, Stage, State, TIMERS};
use stateright::{Model, Property};

/// How much there is of each in a model.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A row with more crashes than that is buried.
    pub crash_attempts: u8,
    pub crashes: u8,
    /// How often a node's right to hand out ends, though its process goes on.
    pub ends: u8,
    pub releases: u8,
    pub moves: u8,
    /// How often a user's transaction locks a row.
    pub locks: u8,
    /// How often a row is sent back by a node that has the right to hand it out.
    pub backs: u8,
    /// A life may end between TrialBegin's commit and the call, or before the charge is taken back.
    pub has_gap: bool,
}

/// A step that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialFault {
    /// LeaseTake: charges all rows at once.
    AllCharged,
    /// TrialBegin: nothing is stored.
    BegunUnstored,
    /// TrialNote, TrialAlone, TrialBegin: whether others are on trial is not looked at.
    Together,
    /// TakeBack: is left out.
    NoteKept,
    /// TakeBack: the epoch is not looked at.
    TakenBackUnfenced,
    /// TakeBack: the deadline is not looked at.
    TakenBackAnywhere,
    /// TakeBack: comes also after the row was charged anew.
    TakenBackLate,
    /// Back: a charge is forgotten that somebody's lock keeps from being taken back.
    HeldUpForgotten,
    /// Load: a row comes with the charge that is to be taken back.
    LoadedCharged,
    /// Moved: what is to be taken back does not follow.
    MovedCharged,
}

pub struct Trials {
    pub bounds: Bounds,
    pub fault: Option<TrialFault>,
}

impl Trials {
    fn is_broken(&self, fault: TrialFault) -> bool {
        self.fault == Some(fault)
    }
}

/// What happens. Most have the names of the protocol's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    LeaseTake {
        node: usize,
    },
    LeaseRelease {
        node: usize,
    },
    /// By its own clock the node's lease is over.
    RightEnds {
        node: usize,
    },
    /// The node's writer notices: the window lets go of what has not fired.
    RightEnded {
        node: usize,
    },
    /// The process ends, and another one starts.
    Crash {
        node: usize,
    },
    Load {
        node: usize,
        timer: usize,
    },
    TrialNote {
        node: usize,
    },
    TrialAlone {
        node: usize,
        timer: usize,
    },
    TrialOver {
        node: usize,
        timer: usize,
    },
    Fire {
        node: usize,
        timer: usize,
    },
    /// It is not handed out after all.
    SentBack {
        node: usize,
        timer: usize,
    },
    Back {
        node: usize,
        timer: usize,
    },
    TrialBegin {
        node: usize,
        timer: usize,
    },
    Call {
        node: usize,
        timer: usize,
    },
    TakeBack {
        node: usize,
        timer: usize,
    },
    Ack {
        node: usize,
        timer: usize,
    },
    Bury {
        node: usize,
        timer: usize,
    },
    Moved {
        node: usize,
        timer: usize,
    },
    /// A user's transaction locks the row.
    Lock {
        timer: usize,
    },
    /// It ends.
    Unlock {
        timer: usize,
    },
}

impl Model for Trials {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.bounds)]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        self.duties(state, moves);
        self.chances(state, moves);
    }

    fn next_state(&self, last: &State, next: Move) -> Option<State> {
        let mut state = *last;
        self.make_move(&mut state, next);
        state.merge_alike();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}

impl Trials {
    /// What nodes and users' transactions do sooner or later.
    fn duties(&self, state: &State, moves: &mut Vec<Move>) {
        for (timer, stored) in state.timers.iter().enumerate() {
            if stored.is_locked {
                moves.push(Move::Unlock { timer });
            }
        }
        for (node, own) in state.nodes.iter().enumerate() {
            if !own.has_right && own.has_unfired() {
                moves.push(Move::RightEnded { node });
            }
            if !own.has_right && state.is_takeable() && self.may_end(state) {
                moves.push(Move::LeaseTake { node });
            }
            if self.group(own).next().is_some() {
                moves.push(Move::TrialNote { node });
            }
            for timer in 0..TIMERS {
                self.duties_of_row(state, node, timer, moves);
            }
        }
    }

    fn duties_of_row(&self, state: &State, node: usize, timer: usize, moves: &mut Vec<Move>) {
        let (own, stored) = (&state.nodes[node], &state.timers[timer]);
        if own.trials[timer].is_some() {
            moves.push(Move::TrialOver { node, timer });
        }
        if own.uncalled[timer].is_some() && !stored.is_locked {
            moves.push(Move::TakeBack { node, timer });
        }
        let Some(delivery) = own.window[timer] else {
            if own.has_right && stored.row.is_some() {
                moves.push(Move::Load { node, timer });
            }
            return;
        };
        let has_right = own.has_right_to(timer);
        let has_crashed_out = delivery.crashes > self.bounds.crash_attempts;
        match delivery.stage {
            Stage::Waiting => {
                let is_first = !own.is_on_trial(None) || self.is_broken(TrialFault::Together);
                if delivery.crashes > 0 && is_first {
                    moves.push(Move::TrialAlone { node, timer });
                }
            }
            Stage::Armed => moves.push(Move::Fire { node, timer }),
            Stage::Fired | Stage::Begun if !has_right => {
                moves.push(Move::SentBack { node, timer });
                // (What the writer was asked for before is done.)
                if delivery.stage == Stage::Fired && delivery.crashes > 0 && !has_crashed_out {
                    moves.push(Move::TrialBegin { node, timer });
                }
            }
            Stage::Fired if has_crashed_out => {
                if !stored.is_locked {
                    moves.push(Move::Bury { node, timer });
                }
            }
            Stage::Fired if delivery.crashes > 0 => moves.push(Move::TrialBegin { node, timer }),
            Stage::Fired | Stage::Begun => moves.push(Move::Call { node, timer }),
            Stage::Called => {
                if !stored.is_locked {
                    moves.push(Move::Ack { node, timer });
                }
            }
            Stage::Back => moves.push(Move::Back { node, timer }),
        }
    }

    /// Timers that TrialNote hands out.
    fn group<'a>(&self, own: &'a Node) -> impl Iterator<Item = usize> + 'a {
        let is_free = !own.is_alone_on_trial() || self.is_broken(TrialFault::Together);
        (0..TIMERS).filter(move |&timer| {
            let waits = own.window[timer]
                .is_some_and(|delivery| delivery.stage == Stage::Waiting && delivery.crashes == 0);
            is_free && waits
        })
    }

    /// Whether a life may end now.
    fn may_end(&self, state: &State) -> bool {
        self.bounds.has_gap || !state.is_charged_uncalled()
    }

    /// What may happen.
    fn chances(&self, state: &State, moves: &mut Vec<Move>) {
        for (timer, stored) in state.timers.iter().enumerate() {
            if state.locks_left > 0 && stored.row.is_some() && !stored.is_locked {
                moves.push(Move::Lock { timer });
            }
        }
        for node in 0..NODES {
            let own = &state.nodes[node];
            if own.has_right && state.ends_left > 0 {
                moves.push(Move::RightEnds { node });
            }
            if own.has_right && state.releases_left > 0 && own.may_release() {
                moves.push(Move::LeaseRelease { node });
            }
            if *own != Node::FRESH && state.crashes_left > 0 && self.may_end(state) {
                moves.push(Move::Crash { node });
            }
            for timer in 0..TIMERS {
                let stage = own.window[timer].map(|delivery| delivery.stage);
                let is_fired = matches!(stage, Some(Stage::Fired | Stage::Begun));
                if is_fired && own.has_right_to(timer) && state.backs_left > 0 {
                    moves.push(Move::SentBack { node, timer });
                }
                let is_let_go = matches!(stage, None | Some(Stage::Waiting | Stage::Armed));
                if own.has_right && is_let_go && state.may_move(timer) {
                    moves.push(Move::Moved { node, timer });
                }
            }
        }
    }

    /// Whether nothing more happens by itself.
    fn is_quiet(&self, state: &State) -> bool {
        let mut moves = Vec::new();
        self.duties(state, &mut moves);
        moves.is_empty()
    }
}
