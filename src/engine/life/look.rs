//! Look: what a cell says of its timer.
//!
//! Answers are snapshots: the timer may change before the caller reads them.

use crate::cell::{DueAt, Look};
use crate::engine::Engine;
use crate::engine::cells::Cells;
use crate::engine::id::TimerId;
use crate::engine::local::Local;
use crate::time::{Nanos, Tick};
use std::time::Duration;

impl<T: Send + 'static> Engine<T> {
    /// The deadline of a timer. `None`: it is gone, or paused.
    pub(crate) fn deadline_of(&self, id: TimerId) -> Option<u64> {
        let look = self.cells.with_local(|local| self.cells.look(local, id))?;
        look.left_ns.is_none().then(|| look.due_at.deadline())
    }

    /// The time that is left of a timer.
    pub(crate) fn remaining_of(&self, id: TimerId) -> Option<Duration> {
        let look = self.cells.with_local(|local| self.cells.look(local, id))?;
        Some(self.remaining(look.due_at, look.left_ns))
    }

    /// What is left of a timer that is paused, or else the time until its deadline.
    pub(crate) fn remaining(&self, due_at: DueAt, left_ns: Option<u64>) -> Duration {
        Duration::from_nanos(left_ns.unwrap_or_else(|| self.until_ns(due_at.deadline())))
    }

    /// The time from now to the beginning of a tick, in nanoseconds. Zero if it has begun.
    pub(super) fn until_ns(&self, deadline: u64) -> u64 {
        let Nanos(start_ns) = self.tick.start(Tick(deadline));
        start_ns.saturating_sub(self.clock.now_ns())
    }
}

impl<T: Send + 'static> Cells<T> {
    pub(crate) fn is_pending(&self, local: &mut Local, id: TimerId) -> bool {
        self.look_up(local, id, false, |cell| cell.is_pending(id.birth()))
    }

    /// A timer that waits.
    pub(crate) fn look(&self, local: &mut Local, id: TimerId) -> Option<Look> {
        let is_forked = self.shared.is_forked();
        let look = self.look_up(local, id, None, |cell| cell.look(is_forked))?;
        (look.birth == id.birth()).then_some(look)
    }

    /// The timer that waits in a cell.
    pub(crate) fn look_at(&self, local: &mut Local, cell: u32) -> Option<(TimerId, Look)> {
        let pinned = local.pinner.pin();
        let is_forked = self.shared.is_forked();
        let look = self.arena.get(cell, &pinned)?.look(is_forked)?;
        Some((TimerId::new(look.birth, cell, self.shared.tag(), 0), look))
    }

    /// The deadline of the timer that waits in a cell, unless it is periodic or paused.
    pub(crate) fn payload_due_at(&self, local: &mut Local, cell: u32) -> Option<DueAt> {
        let pinned = local.pinner.pin();
        self.arena.get(cell, &pinned)?.payload_due_at()
    }
}
