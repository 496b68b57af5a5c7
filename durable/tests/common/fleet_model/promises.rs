//! Promises: what is always so; and events: what some order of moves brings about.

use super::state::{Fate, Handed, Owner, State};
use super::{ATTEMPTS_MAX, Fleet};
use stateright::Property;

/// What is always so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// When a cancel says `true`, no handler has started, and none starts afterwards. Handlers do
    /// not count whose retry was stored.
    CancelIsTrue,
    /// No handler starts before its timer is due by the database's clock.
    NeverEarly,
    /// No step under an epoch that is over changes a row.
    StaleIsRefused,
    /// A row that was not acked, cancelled or buried is in the table, and no other is.
    NothingIsLost,
    /// In one epoch a timer is handed out again only after a retry.
    OnceAnEpoch,
    /// So it is in several epochs, unless a lease has run out. Nobody hands out what was acked.
    OnceUnlessLapsed,
    /// At one instant, a node that may hand out by its own clock has the lease's epoch. So two
    /// never may.
    OneHasTheRight,
    /// A timer is handed out as often as it may have attempts, at most.
    AttemptsAtMost,
    /// When nothing more happens by itself, and a node is alive, no timer is left.
    NothingIsForgotten,
}

impl Promise {
    pub const ALL: [Self; 9] = [
        Self::CancelIsTrue,
        Self::NeverEarly,
        Self::StaleIsRefused,
        Self::NothingIsLost,
        Self::OnceAnEpoch,
        Self::OnceUnlessLapsed,
        Self::OneHasTheRight,
        Self::AttemptsAtMost,
        Self::NothingIsForgotten,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::CancelIsTrue => "a cancel tells the truth",
            Self::NeverEarly => "never early",
            Self::StaleIsRefused => "a stale epoch changes nothing",
            Self::NothingIsLost => "nothing is lost",
            Self::OnceAnEpoch => "once in an epoch",
            Self::OnceUnlessLapsed => "once unless a lease runs out",
            Self::OneHasTheRight => "one node has the right to hand out",
            Self::AttemptsAtMost => "as often as there are attempts",
            Self::NothingIsForgotten => "nothing is forgotten",
        }
    }

    /// Notes in the ledger that a move has broken it.
    pub fn set_broken(self, broken: &mut u16) {
        *broken |= 1 << self as u16;
    }

    const fn is_kept(self, state: &State) -> bool {
        state.broken & (1 << self as u16) == 0
    }

    fn property(self) -> Property<Fleet> {
        let condition: fn(&Fleet, &State) -> bool = match self {
            Self::CancelIsTrue => |_, state| Self::CancelIsTrue.is_kept(state),
            Self::NeverEarly => |_, state| Self::NeverEarly.is_kept(state),
            Self::StaleIsRefused => |_, state| Self::StaleIsRefused.is_kept(state),
            Self::OnceAnEpoch => |_, state| Self::OnceAnEpoch.is_kept(state),
            Self::OnceUnlessLapsed => |_, state| Self::OnceUnlessLapsed.is_kept(state),
            Self::NothingIsLost => |_, state| {
                let mut timers = state.timers.iter();
                timers.all(|timer| timer.row.is_some() == (timer.fate == Fate::Stored))
            },
            Self::OneHasTheRight => |_, state| {
                let clock = state.clock_of_nodes();
                let mut nodes = state.nodes.iter().filter(|node| node.has_right(clock));
                nodes.all(|node| {
                    node.held
                        .is_some_and(|held| held.epoch == state.lease.epoch)
                })
            },
            Self::AttemptsAtMost => |_, state| {
                let mut timers = state.timers.iter();
                Self::AttemptsAtMost.is_kept(state)
                    && timers.all(|timer| timer.starts <= ATTEMPTS_MAX)
            },
            Self::NothingIsForgotten => |fleet, state| {
                let is_left = state.timers.iter().any(|timer| timer.fate == Fate::Stored);
                let is_alive = state.nodes.iter().any(|node| node.is_alive);
                !(is_left && is_alive && fleet.is_quiet(state))
            },
        };
        Property::always(self.name(), condition)
    }
}

/// What some order of moves brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    TakenOver,
    Released,
    CancelSaysTrue,
    CancelSaysFalse,
    AckRefused,
    RetryArmed,
    Buried,
    /// A timer was buried that nobody had handed out.
    BuriedUnseen,
}

impl Event {
    const ALL: [Self; 8] = [
        Self::TakenOver,
        Self::Released,
        Self::CancelSaysTrue,
        Self::CancelSaysFalse,
        Self::AckRefused,
        Self::RetryArmed,
        Self::Buried,
        Self::BuriedUnseen,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::TakenOver => "a lease that has run out is taken over",
            Self::Released => "a lease is released by who has claimed",
            Self::CancelSaysTrue => "a cancel says true",
            Self::CancelSaysFalse => "a cancel would say false",
            Self::AckRefused => "an ack would be refused",
            Self::RetryArmed => "a retry is armed",
            Self::Buried => "a timer is buried",
            Self::BuriedUnseen => "a timer is buried that was never handed out",
        }
    }

    fn property(self) -> Property<Fleet> {
        let condition: fn(&Fleet, &State) -> bool = match self {
            Self::TakenOver => |_, state| {
                let mut held = state.nodes.iter().flat_map(|node| node.held);
                held.any(|held| held.owes_raise)
            },
            Self::Released => {
                |_, state| state.lease.owner == Owner::Nobody && state.lease.claimed_upto > 0
            }
            Self::CancelSaysTrue => |_, state| {
                let mut timers = state.timers.iter();
                timers.any(|timer| timer.fate == Fate::Cancelled)
            },
            Self::CancelSaysFalse => |_, state| {
                let mut rows = state.timers.iter().flat_map(|timer| timer.row);
                rows.any(|row| row.due <= state.lease.claimed_upto)
            },
            Self::AckRefused => |_, state| {
                let mut epochs = state.nodes.iter().flat_map(|node| node.running).flatten();
                epochs.any(|epoch| epoch != state.lease.epoch)
            },
            Self::RetryArmed => |_, state| {
                let mut timers = state.timers.iter().filter(|timer| timer.row.is_some());
                timers.any(|timer| timer.starts > 0 && timer.handed == Handed::No)
            },
            Self::Buried => |_, state| {
                let mut timers = state.timers.iter();
                timers.any(|timer| timer.fate == Fate::Buried)
            },
            Self::BuriedUnseen => |_, state| {
                let mut timers = state.timers.iter();
                timers.any(|timer| timer.fate == Fate::Buried && timer.starts == 0)
            },
        };
        Property::sometimes(self.name(), condition)
    }
}

pub fn properties() -> Vec<Property<Fleet>> {
    let promises = Promise::ALL.into_iter().map(Promise::property);
    promises
        .chain(Event::ALL.into_iter().map(Event::property))
        .collect()
}
