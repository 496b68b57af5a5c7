//! Large: calls that take more than one turn.
//!
//! The writer owns them. A call for many timers, or for all of a kind, is done in slices. A turn
//! does as much of them as it has room for ([`Bounds::slice`](super::window::Bounds)). Between two
//! slices other calls are served, and timers fire. The caller is told at the end.
//!
//! Ground rule: a call has one slice in a commit. The next one is planned when all changes of the
//! former one were made, those too that had to wait for somebody's transaction.

use super::plan::{KindCancelled, ManyArmed, ManyCancelled, Plan};
use crate::handler::error::DurableError;
use crate::queue::ticket::Teller;
use crate::store::contract::Outcome;
use crate::store::row::{DeadLetter, DurableId, Position, Row, StoreTime};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A call that changes many rows.
pub(super) enum LargeWrite {
    Arm(ManyArmed, Teller<Vec<DurableId>>),
    Cancel(ManyCancelled, Teller<usize>),
    Kind(KindCancelled, Teller<usize>),
}

/// What a call has read so far, slice by slice.
pub(super) struct Listing<T> {
    pub(super) found: Vec<Vec<T>>,
    /// How many more are wanted.
    pub(super) left: usize,
    pub(super) teller: Teller<Vec<Vec<T>>>,
}

/// A call that reads many rows: after which one it goes on.
pub(super) enum LargeLook {
    List(Position, StoreTime, Listing<Row>),
    Dead(Option<DurableId>, Listing<DeadLetter>),
}

/// The calls that are under way. They take turns.
#[derive(Default)]
pub(super) struct LargeCalls {
    pub(super) writes: VecDeque<LargeWrite>,
    pub(super) looks: VecDeque<LargeLook>,
    /// The rows that the present commit moves, if a kind is being cancelled.
    pub(super) moved: Vec<Row>,
}

impl LargeWrite {
    fn into_plan(self) -> Plan {
        match self {
            Self::Arm(many, teller) => Plan::ArmMany(many, teller),
            Self::Cancel(many, teller) => Plan::CancelMany(many, teller),
            Self::Kind(kind, teller) => Plan::CancelKind(kind, teller),
        }
    }
}

impl LargeCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.looks.is_empty()
    }

    pub(super) fn push(&mut self, call: LargeWrite) {
        self.writes.push_back(call);
    }

    pub(super) fn push_look(&mut self, look: LargeLook) {
        self.looks.push_back(look);
    }

    /// Rows that are due in this range.
    pub(super) fn list(
        &mut self,
        range: &RangeInclusive<StoreTime>,
        left: usize,
        teller: Teller<Vec<Vec<Row>>>,
    ) {
        let after = match range.start().as_millis().checked_sub(1) {
            Some(before) => Position::end_of(StoreTime::from_millis(before)),
            None => Position::MIN,
        };
        let found = Vec::new();
        let listing = Listing {
            found,
            left,
            teller,
        };
        self.push_look(LargeLook::List(after, *range.end(), listing));
    }

    /// Ends all calls: the service stops, or the store has failed.
    pub(super) fn refuse(&mut self, error: &DurableError) {
        for call in self.writes.drain(..) {
            call.into_plan().refuse(error);
        }
        for look in self.looks.drain(..) {
            match look {
                LargeLook::List(_, _, listing) => listing.teller.tell(Err(error.clone())),
                LargeLook::Dead(_, listing) => listing.teller.tell(Err(error.clone())),
            }
        }
    }

    /// Notes the rows that a commit has moved. If their kind is being cancelled, they may have come
    /// to where that has been already.
    pub(super) fn note_moved(&mut self, plans: &[(Duration, Plan)], outcomes: &[Outcome]) {
        self.moved.clear();
        let is_kind = |plan: &Plan| matches!(plan, Plan::CancelKind(..));
        let is_waiting = |call: &LargeWrite| matches!(call, LargeWrite::Kind(..));
        if !plans.iter().any(|(_, plan)| is_kind(plan)) && !self.writes.iter().any(is_waiting) {
            return;
        }
        for outcome in outcomes {
            if let Outcome::Moved(Some(row)) = outcome {
                self.moved.push(row.clone());
            }
        }
        for call in &mut self.writes {
            if let LargeWrite::Kind(kind, _) = call {
                kind.note(&self.moved);
            }
        }
    }
}

impl KindCancelled {
    pub(super) fn note(&mut self, moved: &[Row]) {
        let of_kind = moved.iter().filter(|row| row.kind == self.slice.kind);
        self.moved.extend(of_kind.map(|row| row.id));
    }
}
