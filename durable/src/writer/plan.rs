//! Plan: what the writer does with the outcome of a request.

use crate::handler::delivery::Delivery;
use crate::handler::error::DurableError;
use crate::queue::request::NewTimer;
use crate::queue::ticket::Teller;
use crate::store::contract::{KindSlice, Target, TrialBegun};
use crate::store::fleet::Fleet;
use crate::store::row::{DeadLetter, DurableId, Row};
use std::vec;

/// What becomes of the outcome of a request's writes.
pub(super) enum Plan {
    /// The row, if it is due in the window.
    Arm(DurableId, Option<Row>, Teller<DurableId>),
    ArmMany(ManyArmed, Teller<Vec<DurableId>>),
    Cancel(Teller<bool>),
    CancelMany(ManyCancelled, Teller<usize>),
    CancelKind(KindCancelled, Teller<usize>),
    Move(Teller<bool>),
    Revive(Teller<bool>),
    Discard(Teller<bool>),
    Settle(Ended),
    /// A suspect begins alone.
    Begin(DurableId, u32, Teller<TrialBegun>),
    /// What was noted of a suspect is taken back. It comes back, if it is named here.
    TakeBack(Option<Box<Delivery>>),
}

/// What a call for many timers has armed.
pub(super) struct ManyArmed {
    /// Those whose slice is still to come.
    pub(super) rest: vec::IntoIter<NewTimer>,
    /// Of all timers of the slices so far.
    pub(super) ids: Vec<DurableId>,
    /// Those whose outcome is not known yet, and their rows, if they are due in the window.
    pub(super) rows: Vec<(DurableId, Option<Row>)>,
    /// Why one of them was refused.
    pub(super) refused: Option<DurableError>,
}

/// What a call for many timers has cancelled.
pub(super) struct ManyCancelled {
    /// Those whose slice is still to come.
    pub(super) rest: vec::IntoIter<DurableId>,
    /// Those whose outcome is not known yet.
    pub(super) left: usize,
    /// Those that are gone.
    pub(super) gone: usize,
    /// Why one of them was refused.
    pub(super) refused: Option<DurableError>,
}

/// What a call for all timers of a kind has cancelled.
pub(super) struct KindCancelled {
    /// The next slice.
    pub(super) slice: KindSlice,
    /// Those of the kind that got another deadline meanwhile. They may lie behind it by now.
    pub(super) moved: Vec<DurableId>,
    /// How many are gone.
    pub(super) gone: usize,
}

/// What a delivery has come to.
pub(super) enum Ended {
    Done,
    Failed,
    Died(Box<DeadLetter>),
    /// A run of a calendar was too late.
    LeftOut,
    /// It was too early, and has not begun.
    Back,
}

impl Plan {
    /// The plan of changes that wait, in a fleet. A timer may be due later when it is armed at
    /// last, in a partition that another node has had meanwhile: so ScanBelow finds it.
    pub(super) fn without_rows(mut self) -> Self {
        match &mut self {
            Self::Arm(_, near, _) => *near = None,
            Self::ArmMany(many, _) => many.rows.iter_mut().for_each(|(_, near)| *near = None),
            _ => {}
        }
        self
    }

    /// Answers that the commit has failed.
    pub(super) fn refuse(self, error: &DurableError) {
        let error = error.clone();
        match self {
            Self::Arm(_, _, teller) => teller.tell(Err(error)),
            Self::ArmMany(_, teller) => teller.tell(Err(error)),
            Self::CancelMany(_, teller) | Self::CancelKind(_, teller) => teller.tell(Err(error)),
            Self::Cancel(teller)
            | Self::Move(teller)
            | Self::Revive(teller)
            | Self::Discard(teller) => teller.tell(Err(error)),
            Self::Begin(_, _, teller) => teller.tell(Err(error)),
            Self::Settle(_) | Self::TakeBack(_) => {}
        }
    }
}

/// A request that changes nothing in the store. It is done after the commit.
pub(super) enum Look {
    Get(Target, Teller<Option<Row>>),
    Fleet(Teller<Fleet>),
}

impl Look {
    /// Answers that the store has failed.
    pub(super) fn refuse(self, error: &DurableError) {
        let error = error.clone();
        match self {
            Self::Get(_, teller) => teller.tell(Err(error)),
            Self::Fleet(teller) => teller.tell(Err(error)),
        }
    }
}
