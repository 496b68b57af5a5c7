//! Pause: the steps that pause a timer, let it go on, and move one that is paused.
//!
//! Runs on the thread that calls, with its [`Local`]. README.md of the room `cell` has the protocol
//! (PauseHold to LeftFile).

use crate::cell::{Left, LeftSet, Paused, Payload, Resumed};
use crate::doorbell::FOREVER;
use crate::engine::Engine;
use crate::engine::cells::Cells;
use crate::engine::figures::tally::Event;
use crate::engine::id::TimerId;
use crate::engine::life::arm::Moved;
use crate::engine::local::Local;
use crate::error::ScheduleError;
use crate::time::{Nanos, Tick};

impl<T: Send + 'static> Engine<T> {
    /// Pauses a timer, which keeps what is left of it. Returns whether it has.
    pub(crate) fn halt(&self, id: TimerId) -> bool {
        self.cells.with_local(|local| {
            // The clock is read when this thread has the timer (PauseHold). By a reading from
            // before, more would be left than there was, if the timer was resumed since.
            let times = |deadline| (self.tick.start(Tick(deadline)).0, self.clock.now_ns());
            self.cells.halt(local, id, times)
        })
    }

    /// Lets a timer go on that is paused. `at` turns the present and what is left into the
    /// deadline. Returns whether it was paused.
    pub(crate) fn resume(&self, id: TimerId, at: impl Fn(Nanos, Left) -> Nanos) -> bool {
        self.cells.with_local(|local| {
            // The clock is read when this thread has the timer (ResumeHold). By a reading from
            // before, a timer that was paused since would be early.
            let deadline = |left| {
                let at = at(Nanos(self.clock.now_ns()), left);
                let deadline = self.tick.deadline(at);
                let rounded_ns = self.tick.start(deadline).0.saturating_sub(at.0);
                (deadline.0, rounded_ns)
            };
            self.cells.resume(local, id, deadline)
        })
    }

    /// Moves a timer that was paused when it was looked at. If it still is, what is left of it is
    /// then the time from `now_ns` until the tick. Else moves it to the tick. (The caller has
    /// computed the tick from `now_ns`. By a later reading, less would be left than was asked for.)
    #[cold]
    #[inline(never)]
    pub(crate) fn rearm_paused(
        &self,
        local: &mut Local,
        id: TimerId,
        deadline: u64,
        now_ns: u64,
    ) -> bool {
        let waits = !self.cells.shared.is_forked();
        let left_ns = self.tick.start(Tick(deadline)).0.saturating_sub(now_ns);
        loop {
            match self.cells.set_left(local, id, left_ns, waits) {
                Moved::Yes => return true,
                Moved::No => return false,
                Moved::Paused => match self.cells.rearm(local, id, deadline) {
                    Moved::Yes => return true,
                    Moved::No => return false,
                    Moved::Paused => {}
                },
            }
        }
    }

    pub(crate) fn is_paused(&self, id: TimerId) -> bool {
        let look = self.cells.with_local(|local| self.cells.look(local, id));
        look.is_some_and(|look| look.left_ns.is_some())
    }

    /// Arms a timer that is paused from the beginning. `left_ns` is what is left of it.
    pub(crate) fn arm_paused(&self, payload: T, left_ns: u64) -> Result<TimerId, ScheduleError<T>> {
        self.cells
            .with_local(|local| self.cells.admit_paused(local, payload, left_ns))
    }
}

impl<T: Send + 'static> Cells<T> {
    /// Pauses a timer. `times` turns its deadline into nanoseconds, and reads the clock.
    pub(crate) fn halt(
        &self,
        local: &mut Local,
        id: TimerId,
        times: impl Fn(u64) -> (u64, u64),
    ) -> bool {
        let waits = !self.shared.is_forked();
        let paused = self.look_up(local, id, Paused::Unchanged, |cell| {
            cell.halt(id.birth(), times, waits)
        });
        match paused {
            Paused::Unchanged => false,
            Paused::InRun => true,
            Paused::Waits { old } => {
                self.send_tombstone(local, old);
                true
            }
            Paused::Cancelled { old, index } => {
                self.send_tombstone(local, old);
                self.put(local, index);
                false
            }
        }
    }

    /// Lets a timer go on. `deadline` turns what is left into its deadline, and says by how many
    /// nanoseconds it was rounded up.
    pub(crate) fn resume(
        &self,
        local: &mut Local,
        id: TimerId,
        deadline: impl Fn(Left) -> (u64, u64),
    ) -> bool {
        let waits = !self.shared.is_forked();
        let resumed = self.look_up(local, id, Resumed::Unchanged, |cell| {
            cell.resume(id.birth(), deadline, waits)
        });
        match resumed {
            Resumed::Unchanged => false,
            Resumed::InRun => true,
            Resumed::Filed(filed) => {
                self.send(local, filed);
                true
            }
            Resumed::Cancelled { index } => {
                self.put(local, index);
                false
            }
        }
    }

    /// Sets what is left of a timer. `Paused`: it is paused no more, and nothing has changed.
    fn set_left(&self, local: &mut Local, id: TimerId, left_ns: u64, waits: bool) -> Moved {
        let set = self.look_up(local, id, LeftSet::Gone, |cell| {
            cell.set_left(id.birth(), left_ns, waits)
        });
        match set {
            LeftSet::Gone => Moved::No,
            LeftSet::NotPaused => Moved::Paused,
            LeftSet::Set { shard } => {
                local.count(shard, Event::Rearmed, 1);
                Moved::Yes
            }
            LeftSet::Cancelled { index } => {
                self.put(local, index);
                Moved::No
            }
        }
    }

    /// Arms a paused timer (ScheduleCheck to ScheduleRecheck, without an entry).
    fn admit_paused(
        &self,
        local: &mut Local,
        payload: T,
        left_ns: u64,
    ) -> Result<TimerId, ScheduleError<T>> {
        if self.shared.is_closed() {
            return Err(ScheduleError::Stopped(payload)); // ScheduleCheck
        }
        let Some(cell) = self.take_cell(local) else {
            return Err(ScheduleError::Full(payload));
        };
        let shard = local.home();
        // SAFETY: this thread has just taken the cell.
        let cell_ref = unsafe { self.arena.held(cell) };
        // SAFETY: as above. The cell then belongs to whoever claims the timer.
        let birth = unsafe { cell_ref.fill_paused(shard, left_ns, payload) };
        local.count(shard, Event::Armed, 1);
        let id = TimerId::new(birth, cell, self.shared.tag(), 0);
        // ScheduleRing, for its light fence alone: there is nothing to wake the shard for.
        self.shared.bell(shard).ring(FOREVER);
        if self.shared.is_closed() {
            return self.take_back::<Payload<T>>(local, shard, id); // ScheduleRecheck
        }
        Ok(id)
    }
}
