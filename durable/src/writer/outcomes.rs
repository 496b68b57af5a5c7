//! Outcomes: what a commit has made of its changes, in their order.

use super::aside::{Waits, Why};
use crate::handler::error::DurableError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::id_map::IdMap;
use crate::store::row::DurableId;
use crate::store::write::{Outcome, Write};
use std::vec;

/// The outcomes of a commit, in order. It knows which was the last one to end or move a row: a row
/// that a later change of the same commit ends or moves must not come into the window before.
pub(super) struct Outcomes {
    all: vec::IntoIter<Outcome>,
    /// Outcomes that were taken so far.
    taken: usize,
    /// The number of the last outcome that ended or moved a row, from 1.
    last: IdMap<DurableId, usize>,
}

impl Outcomes {
    pub(super) fn new(all: Vec<Outcome>) -> Self {
        let mut last = IdMap::default();
        for (at, outcome) in all.iter().enumerate() {
            last.extend(outcome.rows().map(|id| (id, at + 1)));
        }
        Self {
            all: all.into_iter(),
            taken: 0,
            last,
        }
    }

    /// Whether all were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.all.as_slice().is_empty()
    }

    pub(super) fn next(&mut self) -> Option<Outcome> {
        self.taken += 1;
        self.all.next()
    }

    /// The next one, which is not taken yet.
    pub(super) fn peek(&self) -> Option<&Outcome> {
        self.all.as_slice().first()
    }

    /// Takes the next one, if its change was not made.
    pub(super) fn next_unmade(&mut self) -> Option<Unmade> {
        let next = self.all.as_slice().first();
        let is_unmade = |outcome: &Outcome| outcome.is_held_up() || outcome.is_refused();
        if !next.is_some_and(is_unmade) {
            return None;
        }
        let held_up = |write: Box<Write>, why| {
            let writes = vec![*write];
            Some(Unmade::Blocked(Waits { writes, why }))
        };
        match self.next()? {
            Outcome::Blocked(write) => held_up(write, Why::Blocked),
            Outcome::PutOff(write) => held_up(write, Why::PutOff),
            Outcome::Refused(why) => Some(Unmade::Refused(DurableError::Refused(why))),
            _ => None,
        }
    }

    /// Whether no change of the commit ends or moves this row.
    pub(super) fn is_untouched(&self, id: DurableId) -> bool {
        self.last.is_empty() || !self.last.contains_key(&id) || is_broken(DurableFault::EndedPlaced)
    }

    /// Whether the outcome that was taken last is also the last one to end or move this row.
    pub(super) fn is_last_of(&self, id: DurableId) -> bool {
        self.last.get(&id) == Some(&self.taken)
    }
}

/// Why a change was not made.
pub(super) enum Unmade {
    /// It has to wait.
    Blocked(Waits),
    Refused(DurableError),
}
