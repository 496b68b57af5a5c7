//! Large: calls that take more than one turn.
//!
//! The writer owns them. A call for many timers, or for all of a kind, is done in slices. A turn
//! does as much of them as it has room for ([`Bounds::slice`](super::window::Bounds)). Between two
//! slices other calls are served, and timers fire. The caller is told at the end.
//!
//! Ground rule: a call has one slice in a commit. The next one is planned when all changes of the
//! former one were made, those too that had to wait for somebody's transaction.

use super::aside::Aside;
use super::plan::{KindCancelled, Many, Planned};
use crate::handler::error::DurableError;
use crate::queue::request::{Look, Reply};
use crate::store::row::Row;
use crate::store::write::Outcome;
use std::collections::VecDeque;

/// The calls that are under way. They take turns.
#[derive(Default)]
pub(super) struct LargeCalls {
    pub(super) writes: VecDeque<(Box<Many>, Reply)>,
    pub(super) looks: VecDeque<Look>,
    /// The rows that the present commit moves, if a kind is being cancelled.
    pub(super) moved: Vec<Row>,
}

impl LargeCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.looks.is_empty()
    }

    pub(super) fn push(&mut self, many: Box<Many>, reply: Reply) {
        self.writes.push_back((many, reply));
    }

    pub(super) fn push_look(&mut self, look: Look) {
        self.looks.push_back(look);
    }

    /// Ends all calls: the service stops, or the store has failed.
    pub(super) fn refuse(&mut self, error: &DurableError) {
        for (_, reply) in self.writes.drain(..) {
            reply.refuse(error);
        }
        for look in self.looks.drain(..) {
            look.refuse(error);
        }
    }

    /// Notes the rows that a commit has moved. If their kind is being cancelled, they may have come
    /// to where that has been already. (A slice of the commit itself is told when its outcome is
    /// followed.)
    pub(super) fn note_moved(
        &mut self,
        plans: &[Planned],
        outcomes: &[Outcome],
        aside: &mut Aside,
    ) {
        self.moved.clear();
        let is_planned = plans.iter().any(|planned| planned.plan.is_kind());
        let is_waiting = self.writes.iter().any(|(many, _)| many.is_kind());
        if !is_planned && !is_waiting && !aside.has_kinds() {
            return;
        }
        for outcome in outcomes {
            if let Outcome::Moved(Some(row)) = outcome {
                self.moved.push(row.clone());
            }
        }
        kinds(&mut self.writes, aside).for_each(|kind| kind.note(&self.moved));
    }

    /// Rows that were held have their deadlines again: if their kind is being cancelled, they may
    /// have come to where that has been already.
    pub(super) fn note_released(&mut self, rows: &[Row], aside: &mut Aside) {
        kinds(&mut self.writes, aside).for_each(|kind| kind.note(rows));
    }
}

/// The calls for all timers of a kind: those whose next slice is not planned yet, and those whose
/// slice waits for somebody's transaction.
fn kinds<'a>(
    writes: &'a mut VecDeque<(Box<Many>, Reply)>,
    aside: &'a mut Aside,
) -> impl Iterator<Item = &'a mut KindCancelled> {
    let planned_later = writes.iter_mut().filter_map(|(many, _)| many.kind_mut());
    planned_later.chain(aside.kinds_mut())
}

impl KindCancelled {
    pub(super) fn note(&mut self, moved: &[Row]) {
        let of_kind = moved.iter().filter(|row| row.kind == self.slice.kind);
        self.moved.extend(of_kind.map(|row| row.id));
    }
}
