//! Promises: what is always so; and events: what some order of moves brings about.

use super::Trials;
use super::state::{Fate, Stage, State};
use stateright::Property;

/// What is always so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A row is loaded with at most one crash for each life that has charged it, and that ended
    /// before the row was settled, other than by giving the lease back.
    ChargedForALife,
    /// It is loaded with at most one crash more than it was called alone.
    ChargedForACall,
    /// A row that was called has a crash in the store for each of these calls: those with others
    /// count as one. So a timer that ends its process each time ends among the dead.
    CallIsCharged,
    /// While a timer with crashes is on trial, no other one is on that node.
    TrialsApart,
    /// A row that is buried was called alone in as many lives as its policy says.
    BuriedAfterCalls,
    /// A row that was not acked or buried is in the table, and no other is.
    NothingIsLost,
    /// When nothing more happens by itself, no timer is left.
    NothingIsForgotten,
}

impl Promise {
    pub const ALL: [Self; 7] = [
        Self::ChargedForALife,
        Self::ChargedForACall,
        Self::CallIsCharged,
        Self::TrialsApart,
        Self::BuriedAfterCalls,
        Self::NothingIsLost,
        Self::NothingIsForgotten,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::ChargedForALife => "a crash for each life that ended",
            Self::ChargedForACall => "a crash more than calls",
            Self::CallIsCharged => "each call is charged",
            Self::TrialsApart => "trials do not overlap",
            Self::BuriedAfterCalls => "buried after its calls",
            Self::NothingIsLost => "nothing is lost",
            Self::NothingIsForgotten => "nothing is forgotten",
        }
    }

    /// Notes in the ledger that a move has broken it.
    pub const fn set_broken(self, broken: &mut u8) {
        *broken |= 1 << self as u8;
    }

    const fn is_kept(self, state: &State) -> bool {
        state.broken & (1 << self as u8) == 0
    }

    fn property(self) -> Property<Trials> {
        let condition: fn(&Trials, &State) -> bool = match self {
            Self::ChargedForALife => |_, state| Self::ChargedForALife.is_kept(state),
            Self::ChargedForACall => |_, state| Self::ChargedForACall.is_kept(state),
            Self::TrialsApart => |_, state| Self::TrialsApart.is_kept(state),
            Self::BuriedAfterCalls => |_, state| Self::BuriedAfterCalls.is_kept(state),
            Self::CallIsCharged => |_, state| {
                state.timers.iter().all(|timer| {
                    let was_called = timer.was_called || timer.calls_alone > 0;
                    let charged = u8::from(was_called) + timer.calls_alone;
                    timer.row.is_none_or(|row| row.crashes >= charged)
                })
            },
            Self::NothingIsLost => |_, state| {
                let mut timers = state.timers.iter();
                timers.all(|timer| timer.row.is_some() == (timer.fate == Fate::Stored))
            },
            Self::NothingIsForgotten => |trials, state| {
                let is_left = state.timers.iter().any(|timer| timer.fate == Fate::Stored);
                !(is_left && trials.is_quiet(state))
            },
        };
        Property::always(self.name(), condition)
    }
}

/// What some order of moves brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    CalledTogether,
    CalledAlone,
    Buried,
    /// A charge is to be taken back, and somebody has locked the row.
    HeldUp,
    /// A charge is to be taken back from a row that was moved.
    TakenBackElsewhere,
    /// A node has a charge to take back of an epoch that is over.
    FormerEpoch,
}

impl Event {
    const ALL: [Self; 6] = [
        Self::CalledTogether,
        Self::CalledAlone,
        Self::Buried,
        Self::HeldUp,
        Self::TakenBackElsewhere,
        Self::FormerEpoch,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::CalledTogether => "two timers are called together",
            Self::CalledAlone => "a timer is called alone",
            Self::Buried => "a timer is buried",
            Self::HeldUp => "a take-back is held up",
            Self::TakenBackElsewhere => "a take-back follows a move",
            Self::FormerEpoch => "a take-back would be refused",
        }
    }

    fn property(self) -> Property<Trials> {
        let condition: fn(&Trials, &State) -> bool = match self {
            Self::CalledTogether => |_, state| {
                state.nodes.iter().any(|node| {
                    let mut window = node.window.iter();
                    window.all(|of| of.is_some_and(|of| of.stage == Stage::Called))
                })
            },
            Self::CalledAlone => |_, state| {
                let mut timers = state.timers.iter();
                timers.any(|timer| timer.calls_alone > 0)
            },
            Self::Buried => |_, state| {
                let mut timers = state.timers.iter();
                timers.any(|timer| timer.fate == Fate::Buried)
            },
            Self::HeldUp => |_, state| {
                state.nodes.iter().any(|node| {
                    let mut uncalled = node.uncalled.iter().zip(&state.timers);
                    uncalled.any(|(charge, timer)| charge.is_some() && timer.is_locked)
                })
            },
            Self::TakenBackElsewhere => |_, state| {
                let charges = state.nodes.iter().flat_map(|node| node.uncalled);
                charges.flatten().any(|charge| charge.due > 1)
            },
            Self::FormerEpoch => |_, state| {
                let charges = state.nodes.iter().flat_map(|node| node.uncalled);
                charges.flatten().any(|charge| charge.epoch < state.epoch)
            },
        };
        Property::sometimes(self.name(), condition)
    }
}

pub fn properties() -> Vec<Property<Trials>> {
    let promises = Promise::ALL.into_iter().map(Promise::property);
    promises
        .chain(Event::ALL.into_iter().map(Event::property))
        .collect()
}
