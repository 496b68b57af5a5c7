//! Look: what a cell says of its timer.
//!
//! Answers are snapshots: the timer may change before the caller reads them.

use crate::cell::DueAt;
use crate::engine::Engine;
use crate::engine::cells::Cells;
use crate::engine::id::TimerId;
use crate::engine::local::Local;
use crate::time::{Nanos, Tick};
use std::time::Duration;

impl<T: Send + 'static> Engine<T> {
    pub(crate) fn deadline_of(&self, id: TimerId) -> Option<u64> {
        self.cells
            .with_local(|local| self.cells.look(local, id))
            .map(|due_at| due_at.deadline())
    }

    /// The time from now to the beginning of a tick. Zero if it has begun.
    pub(crate) fn until(&self, deadline: u64) -> Duration {
        let Nanos(start_ns) = self.tick.start(Tick(deadline));
        Duration::from_nanos(start_ns.saturating_sub(self.clock.now_ns()))
    }
}

impl<T: Send + 'static> Cells<T> {
    pub(crate) fn is_pending(&self, local: &mut Local, id: TimerId) -> bool {
        self.look_up(local, id, false, |cell| cell.is_pending(id.birth()))
    }

    /// Deadline and shard of a timer that waits.
    pub(crate) fn look(&self, local: &mut Local, id: TimerId) -> Option<DueAt> {
        let is_forked = self.shared.is_forked();
        let (birth, due_at) = self.look_up(local, id, None, |cell| cell.look(is_forked))?;
        (birth == id.birth()).then_some(due_at)
    }

    /// The timer that waits in a cell.
    pub(crate) fn look_at(&self, local: &mut Local, cell: u32) -> Option<(TimerId, DueAt)> {
        let pinned = local.pinner.pin();
        let is_forked = self.shared.is_forked();
        let (birth, due_at) = self.arena.get(cell, &pinned)?.look(is_forked)?;
        Some((TimerId::new(birth, cell, self.shared.tag(), 0), due_at))
    }

    /// The deadline of the timer that waits in a cell, unless it is periodic.
    pub(crate) fn payload_due_at(&self, local: &mut Local, cell: u32) -> Option<DueAt> {
        let pinned = local.pinner.pin();
        self.arena.get(cell, &pinned)?.payload_due_at()
    }
}
