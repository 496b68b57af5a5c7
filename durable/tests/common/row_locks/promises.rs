//! Promises: what is always so; and events: what some order of moves brings about.

use super::RowLocks;
use super::state::State;
use stateright::Property;

/// What is always so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// When a call has said `true` and its transaction has committed, the row as it was has not
    /// been handed out, and is not handed out afterwards.
    TrueIsTrue,
    /// When a call says `false`, there is no such timer, or it is due by the effective watermark.
    FalseHasAReason,
    /// A user's transaction keeps from nodes the rows that it ends or moves, and no others once its
    /// calls are answered.
    HoldsUpItsOwn,
    /// At one instant, a node that may hand out by its own clock owns the partition. So two never
    /// may.
    OneHasTheRight,
    /// When nothing more happens by itself, and a node may hand out, each stored timer has been
    /// handed out.
    NothingIsForgotten,
}

impl Promise {
    pub const ALL: [Self; 5] = [
        Self::TrueIsTrue,
        Self::FalseHasAReason,
        Self::HoldsUpItsOwn,
        Self::OneHasTheRight,
        Self::NothingIsForgotten,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::TrueIsTrue => "true is true",
            Self::FalseHasAReason => "false has a reason",
            Self::HoldsUpItsOwn => "a transaction holds up its own rows alone",
            Self::OneHasTheRight => "one node has the right to hand out",
            Self::NothingIsForgotten => "nothing is forgotten",
        }
    }

    /// Notes in the ledger that a move has broken it.
    pub fn set_broken(self, broken: &mut u8) {
        *broken |= 1 << self as u8;
    }

    const fn is_kept(self, state: &State) -> bool {
        state.broken & (1 << self as u8) == 0
    }

    fn property(self) -> Property<RowLocks> {
        let condition: fn(&RowLocks, &State) -> bool = match self {
            Self::TrueIsTrue => |_, state| Self::TrueIsTrue.is_kept(state),
            Self::FalseHasAReason => |_, state| Self::FalseHasAReason.is_kept(state),
            Self::HoldsUpItsOwn => |_, state| Self::HoldsUpItsOwn.is_kept(state),
            Self::OneHasTheRight => |_, state| {
                let mut nodes = state.nodes.iter().enumerate();
                Self::OneHasTheRight.is_kept(state)
                    && nodes.all(|(node, own)| {
                        let may_hand_out = own.has_right && own.held.is_some();
                        !may_hand_out || state.tables.lease.owner == Some(node)
                    })
            },
            Self::NothingIsForgotten => |model, state| {
                let mut rows = state.tables.rows.iter().zip(&state.pages);
                let is_left = rows.any(|(row, page)| row.is_some() && page.handed_by.is_none());
                let is_alive = state.nodes.iter().any(|node| node.has_right);
                !(is_left && is_alive && model.is_quiet(state))
            },
        };
        Property::always(self.name(), condition)
    }
}

/// What some order of moves brings about, in the models that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Cancelled,
    CancelledInSnapshot,
    FailedInSnapshot,
    Moved,
    SaidFalse,
    /// A row that a locking read has skipped is handed out later.
    SkippedAndFound,
    /// The second node hands out.
    TakenOver,
    /// A dead node's lease is taken.
    DeadTaken,
}

impl Event {
    pub const ALL: [Self; 8] = [
        Self::Cancelled,
        Self::CancelledInSnapshot,
        Self::FailedInSnapshot,
        Self::Moved,
        Self::SaidFalse,
        Self::SkippedAndFound,
        Self::TakenOver,
        Self::DeadTaken,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "a cancel has said true",
            Self::CancelledInSnapshot => "a cancel in a snapshot has said true",
            Self::FailedInSnapshot => "a cancel in a snapshot has failed",
            Self::Moved => "a timer is moved",
            Self::SaidFalse => "a call says false",
            Self::SkippedAndFound => "a row that was skipped is handed out",
            Self::TakenOver => "the second node hands out",
            Self::DeadTaken => "a dead node's lease is taken",
        }
    }

    fn property(self) -> Property<RowLocks> {
        let condition: fn(&RowLocks, &State) -> bool = match self {
            Self::Cancelled => |_, state| state.pages.iter().any(|page| page.is_cancelled),
            Self::CancelledInSnapshot => |_, state| state.seen.ends_in_snapshot,
            Self::FailedInSnapshot => |_, state| state.seen.has_failed,
            Self::Moved => |_, state| state.pages.iter().any(|page| page.is_moved),
            Self::SaidFalse => |_, state| state.seen.says_false,
            Self::SkippedAndFound => |_, state| {
                let mut pages = state.pages.iter();
                pages.any(|page| page.is_skipped && page.handed_by.is_some())
            },
            Self::TakenOver => |_, state| {
                let mut pages = state.pages.iter();
                pages.any(|page| page.handed_by == Some(1))
            },
            Self::DeadTaken => |_, state| {
                let is_dead = state.members[0].is_dead;
                is_dead && state.tables.lease.owner == Some(1)
            },
        };
        Property::sometimes(self.name(), condition)
    }
}

pub fn properties() -> Vec<Property<RowLocks>> {
    let promises = Promise::ALL.into_iter().map(Promise::property);
    promises
        .chain(Event::ALL.into_iter().map(Event::property))
        .collect()
}
