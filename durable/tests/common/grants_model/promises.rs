//! Promises: what is always so; and events: what some order of moves brings about.

use super::Grants;
use super::state::{Node, Permit, State};
use stateright::Property;

/// The number of calls holds this number of rounds after the last thing that need not happen.
pub const NUMBER_ROUNDS: u8 = 3;

/// A call that some node wants is unused for no more rounds than this.
const UNUSED_ROUNDS: u8 = 5;

/// All is done after this number of rounds.
const DONE_ROUNDS: u8 = 10;

/// More rounds are not counted.
pub const ROUNDS_MAX: u8 = 13;

/// A node that wants a call waits for no more rounds than this. From one node to the next one a
/// call needs some: the node begins, its handler ends, it gives the call back, the other one asks.
const fn starved_rounds(nodes: usize) -> u8 {
    if nodes < 3 { 10 } else { 12 }
}

/// What is always so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No more calls are under way than the rule says. After a change this is so within some
    /// rounds, and until then no more are than by any number that there was.
    CallsAreKept,
    /// A node that wants a call gets one.
    AllGetSome,
    /// No call is unused for long while a node wants more than it has, if there are as many calls
    /// as nodes. (If not, some are often on their way from one node to another.)
    AllAreUsed,
    /// When nothing waits any more, the store has calls of no node, and wants of none.
    NothingLeaks,
}

impl Promise {
    pub const ALL: [Self; 4] = [
        Self::CallsAreKept,
        Self::AllGetSome,
        Self::AllAreUsed,
        Self::NothingLeaks,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::CallsAreKept => "no more calls than there are",
            Self::AllGetSome => "a node that wants a call gets one",
            Self::AllAreUsed => "calls are used",
            Self::NothingLeaks => "nothing leaks",
        }
    }

    fn property(self) -> Property<Grants> {
        let condition: fn(&Grants, &State) -> bool = match self {
            Self::CallsAreKept => |_, state| state.counted() <= state.ledger.allowed,
            Self::AllGetSome => {
                |grants, state| state.ledger.starved <= starved_rounds(grants.bounds.nodes)
            }
            Self::AllAreUsed => |_, state| state.ledger.unused <= UNUSED_ROUNDS,
            Self::NothingLeaks => |grants, state| {
                let ends = !grants.bounds.is_endless;
                let is_at_end = state.ledger.rounds >= DONE_ROUNDS || grants.is_quiet(state);
                !(ends && is_at_end) || is_clean(state)
            },
        };
        Property::always(self.name(), condition)
    }
}

/// Nothing waits or runs, and the store has nothing of any process.
fn is_clean(state: &State) -> bool {
    let is_empty = |permit: Permit| permit.has == 0 && permit.wants == 0;
    state.nodes.iter().all(|node| {
        let is_done = node.waiting == 0 && node.running.all() == 0;
        is_done && node.former.is_none() && node.permit.is_none_or(is_empty)
    })
}

/// What some order of moves brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All calls are under way, on two nodes.
    Shared,
    /// A handler goes on whose node's lease is over, and another node has its call.
    Outside,
    /// More calls are under way than the number has become.
    Lowered,
    /// Many rounds have passed.
    Rounds,
    /// Calls were granted, and all is done.
    Done,
}

impl Event {
    const ALL: [Self; 5] = [
        Self::Shared,
        Self::Outside,
        Self::Lowered,
        Self::Rounds,
        Self::Done,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Shared => "two nodes share all calls",
            Self::Outside => "a call goes on without a lease",
            Self::Lowered => "the number is lower than what runs",
            Self::Rounds => "many rounds have passed",
            Self::Done => "all is done",
        }
    }

    fn property(self) -> Property<Grants> {
        let condition: fn(&Grants, &State) -> bool = match self {
            Self::Shared => |_, state| {
                let runs = |node: &&Node| node.running.counted() > 0;
                let is_shared = state.nodes.iter().filter(runs).count() > 1;
                is_shared && state.counted() == state.number
            },
            Self::Outside => |_, state| {
                let all: u8 = state.nodes.iter().map(|node| node.running.all()).sum();
                state.counted() == state.number && all > state.number
            },
            Self::Lowered => |_, state| state.counted() > state.number,
            Self::Rounds => |_, state| state.ledger.rounds == ROUNDS_MAX,
            Self::Done => |grants, state| {
                let was_granted = state.nodes.iter().any(|node| node.permit.is_some());
                was_granted && grants.is_quiet(state) && is_clean(state)
            },
        };
        Property::sometimes(self.name(), condition)
    }
}

pub fn properties() -> Vec<Property<Grants>> {
    let promises = Promise::ALL.into_iter().map(Promise::property);
    promises
        .chain(Event::ALL.into_iter().map(Event::property))
        .collect()
}
