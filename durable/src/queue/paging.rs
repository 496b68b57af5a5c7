//! Paging: a page of a list, while the writer reads it slice by slice.

use super::ticket::Teller;
use crate::store::done::{DonePlace, DoneRange, DoneTimer};
use crate::store::list::{RowFilter, TimerState};
use crate::store::row::{DurableId, Position, Row, StoreTime};

/// What a page is to have.
#[derive(Clone, Debug)]
pub(crate) struct Paged {
    /// The rows after this one, by the deadline that a held row wants.
    pub(crate) after: Position,
    pub(crate) until: StoreTime,
    pub(crate) filter: RowFilter,
    pub(crate) state: Option<TimerState>,
}

/// What was found: slices of rows, and where the next page begins, if there may be more.
pub(crate) type Found = (Vec<Vec<Row>>, Option<Position>);

/// A page that is being read.
pub(crate) struct Paging {
    /// What is still to be read.
    pub(crate) rest: Paged,
    pub(crate) found: Vec<Vec<Row>>,
    /// How many more are wanted.
    pub(crate) left: usize,
    pub(crate) teller: Teller<Found>,
}

impl Paged {
    /// Whether rows that are held are wanted, and whether others are.
    pub(crate) const fn wants(&self) -> (bool, bool) {
        match self.state {
            None => (true, true),
            Some(TimerState::Held) => (true, false),
            Some(_) => (false, true),
        }
    }
}

impl Paging {
    pub(crate) const fn new(rest: Paged, left: usize, teller: Teller<Found>) -> Self {
        Self {
            rest,
            found: Vec::new(),
            left,
            teller,
        }
    }
}

/// Which records of runs a page is to have.
#[derive(Clone, Debug)]
pub(crate) struct DonePaged {
    pub(crate) range: DoneRange,
    pub(crate) filter: RowFilter,
    /// Those of this timer.
    pub(crate) id: Option<DurableId>,
}

impl DonePaged {
    /// Whether a record is wanted.
    pub(crate) fn takes(&self, done: &DoneTimer) -> bool {
        let is_it = self.id.is_none_or(|id| id == done.id);
        is_it && (self.filter).takes_parts(&done.kind, done.key.as_deref(), false)
    }

    /// Whether all records of the range are wanted.
    pub(crate) fn is_all(&self) -> bool {
        self.id.is_none() && self.filter.is_all()
    }
}

/// What was found of records.
#[derive(Default)]
pub(crate) struct DoneFound {
    pub(crate) slices: Vec<Vec<DoneTimer>>,
    /// How many were left out, because this program cannot read them.
    pub(crate) unreadable: usize,
    /// Where the next page begins, if there may be more.
    pub(crate) next: Option<DonePlace>,
}

/// A page of records that is being read.
pub(crate) struct DonePaging {
    /// What is still to be read.
    pub(crate) rest: DonePaged,
    pub(crate) found: DoneFound,
    /// How many more are wanted.
    pub(crate) left: usize,
    pub(crate) teller: Teller<DoneFound>,
}
