//! Paging: a page of a list, while the writer reads it slice by slice.

use super::ticket::Teller;
use crate::store::list::{RowFilter, TimerState};
use crate::store::row::{Position, Row, StoreTime};

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
