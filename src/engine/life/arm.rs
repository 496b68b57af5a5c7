//! Arm: the steps that arm a timer, and the steps that move one.
//!
//! Each floor has a verb of its own. A service *schedules*; the engine *arms*, which *dates* the
//! timer; its cells *admit* it, which *fills* one of them, and sends the message.
//!
//! Runs on the thread that schedules or reschedules, with its [`Local`]. README.md of this room has
//! the protocols: stop (ScheduleCheck to ScheduleRecheck) and shared clock (ShareCheck to
//! ShareSend).

use crate::cell::{DueAt, Fill, Payload, Rearmed};
use crate::engine::Engine;
use crate::engine::cells::Cells;
use crate::engine::figures::tally::Event;
use crate::engine::id::TimerId;
use crate::engine::local::Local;
use crate::entry::{DEADLINE_MAX, Entry};
use crate::error::ScheduleError;
use crate::lane::{Backlog, Sent};
use crate::sync::{Fault, broken};
use crate::time::Nanos;

/// For `arm`: the shard to which the thread's timers go.
pub(crate) const HOME: usize = usize::MAX;

/// How a timer got its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dating {
    /// Exact: from a clock reading taken for this timer, or from a deadline that needed none.
    Exact,
    /// From a reading that it shares with other timers, in the home shard. The deadline was rounded
    /// up by `rounded_ns`.
    Shared { rounded_ns: u64 },
}

/// What a re-arm has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Yes,
    /// There is no such timer.
    No,
    /// The timer is paused, and nothing has changed.
    Paused,
}

impl<T: Send + 'static> Engine<T> {
    /// Arms a timer in a shard; [`HOME`] is the thread's own. `at` turns the present into the
    /// deadline.
    #[inline]
    pub(crate) fn arm(
        &self,
        payload: T,
        shard: usize,
        at: impl FnOnce(Nanos) -> Nanos,
    ) -> Result<TimerId, ScheduleError<T>> {
        let mut refused = None;
        let armed = self
            .cells
            .with_local(|local| self.date(local, payload, shard, at, &mut refused));
        match armed {
            Some(id) => {
                // It is `None`. Its drop would look.
                std::mem::forget(refused);
                Ok(id)
            }
            None => Err(refused.expect("who refuses a timer says why")),
        }
    }

    /// Dates a timer by the reading that it shares, and has it admitted. Else by a reading of the
    /// clock, which the next timers may share. `None`: `refused` says why.
    // (Never: it is too long for every call of a `schedule`. Its arguments go in registers, and so
    // does the id. A `Result` would go through memory, in parts that a caller loads as one.
    // Processors do not forward such stores to the load, which waits.)
    #[inline(never)]
    fn date(
        &self,
        local: &mut Local,
        payload: T,
        shard: usize,
        at: impl FnOnce(Nanos) -> Nanos,
        refused: &mut Option<ScheduleError<T>>,
    ) -> Option<TimerId> {
        let mut or_refused = |armed: Result<TimerId, ScheduleError<T>>| match armed {
            Ok(id) => Some(id),
            Err(why) => {
                *refused = Some(why);
                None
            }
        };
        let home = local.home();
        let shard = if shard == HOME { home } else { shard };
        if shard == home
            && let Some(date_ns) = local.shared_date()
        {
            let at = at(Nanos(date_ns));
            let deadline = self.tick.deadline(at);
            let rounded_ns = self.tick.start(deadline).0.saturating_sub(at.0);
            return or_refused(self.cells.admit(
                local,
                DueAt::new(deadline.0, home),
                Payload(payload),
                Dating::Shared { rounded_ns },
            ));
        }
        let now_ns = self.clock.arming_now_ns(&mut local.anchor);
        let due_at = DueAt::new(self.tick.deadline(at(Nanos(now_ns))).0, shard);
        let armed = or_refused(
            self.cells
                .admit(local, due_at, Payload(payload), Dating::Exact),
        );
        local.note_reading(now_ns, self.shared_slack_ns);
        armed
    }

    /// Moves a timer. `at` turns the present into the deadline.
    #[inline]
    pub(crate) fn rearm(&self, id: TimerId, at: impl FnOnce(Nanos) -> Nanos) -> bool {
        // First of all. The processor then fetches this cell while it waits for the cell of the
        // call before.
        self.cells.prefetch(&[id]);
        self.cells.with_local(|local| {
            let now_ns = self.clock.arming_now_ns(&mut local.anchor);
            let deadline = self.tick.deadline(at(Nanos(now_ns))).0;
            match self.cells.rearm(local, id, deadline) {
                Moved::Yes => true,
                Moved::No => false,
                Moved::Paused => self.rearm_paused(local, id, deadline, now_ns),
            }
        })
    }
}

impl<T: Send + 'static> Cells<T> {
    /// Arms a timer for a tick, in a shard (ScheduleCheck to ScheduleRecheck).
    // (`always`, here and in `fill_and_send`: a crate that is one unit of code would call them
    // otherwise.)
    #[inline(always)]
    pub(crate) fn admit<C: Fill<T>>(
        &self,
        local: &mut Local,
        due_at: DueAt,
        content: C,
        dating: Dating,
    ) -> Result<TimerId, ScheduleError<C::Back>> {
        if self.shared.is_closed() {
            return Err(ScheduleError::Stopped(content.back())); // ScheduleCheck
        }
        let Some(cell) = self.take_cell(local) else {
            return Err(ScheduleError::Full(content.back()));
        };
        // ScheduleArm, SchedulePush.
        // SAFETY: this thread has just taken the cell.
        let (birth, sent) = unsafe { self.fill_and_send(local, cell, due_at, content, dating) };
        // ShareSend: an entry in doubt rings as if it were due at once.
        let waits = dating == Dating::Exact || broken(Fault::DoubtWaits);
        self.ring(
            if waits {
                due_at
            } else {
                DueAt::new(0, due_at.shard())
            },
            sent.backlog,
        ); // ScheduleRing
        if self.shared.is_closed() && !broken(Fault::StopNotSeenAfterArm) {
            return self.take_back::<C>(
                local,
                due_at.shard(),
                TimerId::new(birth, cell, self.shared.tag(), sent.position),
            ); // ScheduleRecheck
        }
        Ok(TimerId::new(birth, cell, self.shared.tag(), sent.position))
    }

    /// Arms timers of one shard. Appends the results to `armed`, in order.
    pub(crate) fn admit_many(
        &self,
        local: &mut Local,
        shard: usize,
        timers: impl Iterator<Item = (DueAt, Payload<T>)>,
        armed: &mut Vec<Result<TimerId, ScheduleError<T>>>,
    ) {
        let (mut earliest, mut backlog) = (DEADLINE_MAX, Backlog::NONE);
        let before = armed.len();
        for (due_at, content) in timers {
            armed.push(if self.shared.is_closed() {
                Err(ScheduleError::Stopped(content.back()))
            } else if let Some(cell) = self.take_cell(local) {
                // SAFETY: this thread has just taken the cell.
                let (birth, sent) =
                    unsafe { self.fill_and_send(local, cell, due_at, content, Dating::Exact) };
                earliest = earliest.min(due_at.deadline());
                backlog = backlog.max(sent.backlog);
                Ok(TimerId::new(birth, cell, self.shared.tag(), sent.position))
            } else {
                Err(ScheduleError::Full(content.back()))
            });
        }
        self.ring(DueAt::new(earliest, shard), backlog);
        if self.shared.is_closed() {
            self.take_back_many(local, shard, &mut armed[before..]);
        }
    }

    /// A cell for one more timer, which the caller then holds. `None`: the limit is reached.
    #[inline]
    pub(super) fn take_cell(&self, local: &mut Local) -> Option<u32> {
        if !self.shared.reserve() {
            return None;
        }
        match local.magazines.take() {
            Some(cell) => Some(cell),
            None => self.take_another_cell(local),
        }
    }

    /// A cell that is not in the magazines. The caller has reserved it.
    #[cold]
    #[inline(never)]
    fn take_another_cell(&self, local: &mut Local) -> Option<u32> {
        let cell = self.arena.take(&mut local.magazines);
        if cell.is_none() {
            self.shared.release(1);
        }
        cell
    }

    /// ScheduleArm, SchedulePush. Returns the timer's birth, and what was sent. (Not its id: an id
    /// that is made here would go through memory.)
    ///
    /// # Safety
    /// The caller holds the cell, and gives it up here.
    #[inline(always)]
    unsafe fn fill_and_send<C: Fill<T>>(
        &self,
        local: &mut Local,
        cell: u32,
        due_at: DueAt,
        content: C,
        dating: Dating,
    ) -> (u64, Sent) {
        // SAFETY: the caller's promise.
        let cell_ref = unsafe { self.arena.held(cell) };
        // SAFETY: the caller's promise. The cell then belongs to whoever claims the timer.
        let birth = unsafe { cell_ref.fill(due_at, content) };
        let insert = Entry::new(due_at.deadline(), cell, birth);
        let sent = match dating {
            Dating::Exact => local.send_counted(due_at.shard(), insert, Event::Armed),
            Dating::Shared { rounded_ns } => local.send_in_doubt(insert, rounded_ns),
        };
        (birth, sent)
    }

    /// ScheduleRecheck, when the service is closed. Takes the timer back, unless somebody else has
    /// it.
    #[cold]
    pub(super) fn take_back<C: Fill<T>>(
        &self,
        local: &mut Local,
        shard: usize,
        id: TimerId,
    ) -> Result<TimerId, ScheduleError<C::Back>> {
        // A stop that fires all leaves a timer that runs to its run, and so does a drain.
        // (In this order: a drain may become a stop that fires all between the two looks.)
        let leaves_runs = !self.shared.ends_periodic() || self.shared.fires_all();
        let claimed = self.look_up(local, id, None, |cell| {
            if leaves_runs && !broken(Fault::RunTakenFromFireAll) {
                cell.claim_waiting_id(id.birth())
            } else {
                cell.claim_id(id.birth())
            }
        });
        let Some(claimed) = claimed else {
            return Ok(id);
        };
        match self.settle(local, claimed) {
            Some(content) => {
                // The timer was counted as armed: undo that.
                local.count(shard, Event::Armed, 1u64.wrapping_neg());
                Err(ScheduleError::Stopped(C::of(content)))
            }
            None => {
                // A periodic timer that already runs, and may be what stops the service. It does
                // not run again. Its run leaves it to this thread to count the end.
                if !broken(Fault::RunTakenBackNotCounted) {
                    local.count(shard, Event::Ended, 1);
                }
                Ok(id)
            }
        }
    }

    /// The same for each timer of these that was armed.
    #[cold]
    #[inline(never)]
    fn take_back_many(
        &self,
        local: &mut Local,
        shard: usize,
        armed: &mut [Result<TimerId, ScheduleError<T>>],
    ) {
        for result in armed {
            if let Ok(id) = *result {
                *result = self.take_back::<Payload<T>>(local, shard, id);
            }
        }
    }

    /// Moves a timer to another tick.
    // (`always`: a crate that is one unit of code would call it otherwise.)
    #[inline(always)]
    pub(crate) fn rearm(&self, local: &mut Local, id: TimerId, deadline: u64) -> Moved {
        let rearmed = self.look_up(local, id, Rearmed::Gone, |cell| {
            cell.rearm(id.birth(), deadline)
        });
        self.send_rearmed(local, rearmed)
    }

    /// The same, if the timer is due at the tick `from`. (Somebody else may have moved it.)
    pub(crate) fn rearm_from(&self, local: &mut Local, id: TimerId, from: u64, deadline: u64) {
        let rearmed = self.look_up(local, id, Rearmed::Gone, |cell| {
            cell.rearm_from(id.birth(), from, deadline)
        });
        self.send_rearmed(local, rearmed);
    }

    #[inline(always)]
    fn send_rearmed(&self, local: &mut Local, rearmed: Rearmed) -> Moved {
        match rearmed {
            Rearmed::Gone => Moved::No,
            Rearmed::Paused => Moved::Paused,
            Rearmed::Done { shard } => {
                local.count(shard, Event::Rearmed, 1);
                Moved::Yes
            }
            Rearmed::Refiled { old, new } => {
                // The tombstone first: it may meet its entry in the elimination table.
                self.send_tombstone(local, old);
                self.send(local, new);
                local.count(new.shard, Event::Rearmed, 1);
                Moved::Yes
            }
            Rearmed::Cancelled { old, index } => {
                self.send_tombstone(local, old);
                self.put(local, index);
                Moved::No
            }
        }
    }

    /// Moves timers to one tick. Gives `paused` those that are paused, and returns how many were
    /// moved.
    pub(crate) fn rearm_many(
        &self,
        local: &mut Local,
        ids: &[TimerId],
        deadline: u64,
        mut paused: impl FnMut(&mut Local, TimerId) -> bool,
    ) -> usize {
        self.prefetch(ids);
        let mut moved = 0;
        for &id in ids {
            match self.rearm(local, id, deadline) {
                Moved::Yes => moved += 1,
                Moved::No => {}
                Moved::Paused => moved += usize::from(paused(local, id)),
            }
        }
        moved
    }
}
