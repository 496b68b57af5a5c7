//! Periodic run: how periodic timers run.
//!
//! The closure and its rhythm lie in the cell, in a box. The timer keeps its cell and its id for
//! all its runs. A worker takes the box out for a run (RUNNING) and puts it back for the next run.
//! So two runs of a timer never overlap, and a `cancel` between them ends the timer. The steps
//! RunBegin and RunFile are in `src/cell/README.md`.
//!
//! The runs of a grain are taken one by one, as payloads are: while one is slow, idle workers take
//! the others. Until it begins, a run is an entry, a hint: its timer may be cancelled or moved.
//!
//! Ground rule: runs happen inside a job; no local is borrowed while the closure runs or is
//! dropped.

use super::arm::Dating;
use crate::cell::{Content, DueAt, NotFiled, RunBegun};
use crate::dispatch::grain::Grain;
use crate::doorbell::FOREVER;
use crate::engine::Engine;
use crate::engine::cells::Cells;
use crate::engine::figures::tally::Event;
use crate::engine::id::TimerId;
use crate::engine::local::Local;
use crate::entry::Entry;
use crate::error::ScheduleError;
use crate::repeat::{Repeat, RunStep};
use crate::sync::{Fault, broken};
use crate::time::{Nanos, Tick};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A run in progress, which the worker has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) cell: u32,
    /// The birth of the timer.
    birth: u64,
    pub(crate) due_at: DueAt,
}

/// What a pause finds of a timer whose run has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftAfterRun {
    /// What is left until the next run, if the timer was paused in its run.
    left_ns: u64,
    /// By how much the deadline of the next run was rounded up. `None`: the timer was not paused so
    /// far, and counts from the deadline.
    rounded_ns: Option<u64>,
}

impl<T: Send + 'static> Engine<T> {
    /// Arms a periodic timer.
    pub(crate) fn arm_repeat(
        &self,
        first_ns: u64,
        repeat: impl FnOnce(u64) -> Repeat,
    ) -> Result<TimerId, ScheduleError<Box<Repeat>>> {
        self.cells.with_local(|local| {
            let at_ns = self.clock.arming_now_ns(&mut local.anchor) + first_ns;
            let Tick(deadline) = self.tick.deadline(Nanos(at_ns));
            let mut repeat = Box::new(repeat(at_ns));
            repeat.file(deadline);
            let due_at = DueAt::new(deadline, local.home());
            self.cells.shared.note_repeat();
            self.cells.admit(local, due_at, repeat, Dating::Exact)
        })
    }

    /// By how many nanoseconds a run is late that begins at `now_ns`.
    fn lateness_ns(&self, due_at: DueAt, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.tick.start(Tick(due_at.deadline())).0)
    }

    /// Counts a run.
    fn count_run(&self, due_at: DueAt, lateness_ns: u64) {
        self.cells.with_local(|local| {
            local.with_lateness(|local, histogram| {
                histogram.add(lateness_ns, 1);
                local.count(due_at.shard(), Event::Run, 1);
            });
        });
    }

    /// Calls the hook `on_late` if the run is later than its threshold. Returns whether it did.
    fn tell_late(&self, lateness_ns: u64) -> bool {
        let tells = lateness_ns > self.hooks.late_above_ns();
        if tells {
            self.hooks.late(lateness_ns, 1);
        }
        tells
    }

    /// A reading to compute a deadline from.
    #[inline]
    fn arming_now_ns(&self) -> u64 {
        self.cells
            .with_local(|local| self.clock.arming_now_ns(&mut local.anchor))
    }

    /// Takes the runs that are left, and runs them. A run begins when the one before it has ended:
    /// one reading of the clock serves both.
    pub(super) fn run_all(&self, runs: &Grain<'_, Entry>) {
        if runs.left() == 0 {
            return;
        }
        let mut now_ns = self.arming_now_ns();
        while runs.left() > 0 {
            if let Some(entry) = runs.take() {
                now_ns = self.run_periodic(entry, now_ns);
            }
        }
    }

    /// Runs the periodic timer of a due entry once, and files it for its next run. It does not run
    /// if it was cancelled or moved, or if its time of day has not come. The caller's thread has
    /// begun a job. Returns the time after the run, `now_ns` being the time before it.
    fn run_periodic(&self, entry: Entry, now_ns: u64) -> u64 {
        let begun = self
            .cells
            .with_local(|local| self.cells.begin_run(local, entry));
        let Some((run, mut repeat)) = begun else {
            return now_ns;
        };
        repeat.claimed(run.due_at.deadline(), |deadline| {
            let rounded_ns = self.cells.run_rounded_ns(run);
            let start_ns = self.tick.start(Tick(deadline)).0;
            let at_ns = start_ns.saturating_sub(rounded_ns.unwrap_or(0));
            (at_ns, rounded_ns.is_some())
        });
        let (mut due, mut sets) = (RunStep::Run, None);
        if repeat.goes_by_wall() {
            (due, sets) = self.look_at_wall(run, &mut repeat);
            if due == RunStep::Run && repeat.is_for_time_of_day() {
                match self.run_once(run, repeat, now_ns) {
                    Ok(now_ns) => return now_ns,
                    Err(paused) => (repeat, due) = (paused, RunStep::Wait),
                }
            }
        }
        let mut ran = ControlFlow::Continue(());
        let late_ns = self.lateness_ns(run.due_at, now_ns);
        if due == RunStep::Run && self.tell_late(late_ns) {
            // (A calendar that is paused in the hook runs: its look has counted the run.)
            due = match self.cells.run_step(run) {
                RunStep::Wait if repeat.goes_by_wall() => RunStep::Run,
                step => step,
            };
        }
        if due == RunStep::Run {
            self.count_run(run.due_at, late_ns);
            ran = self.or_panicked(ran, || repeat.run(run.cell, run.birth, late_ns));
        }
        let now_ns = self.arming_now_ns();
        let again = match due {
            RunStep::Run => {
                ran.is_continue() && self.or_panicked(false, || repeat.advance(now_ns, self.tick))
            }
            RunStep::Wait => true,
            RunStep::End => false,
        };
        if !again || self.cells.shared.ends_periodic() {
            let is_cancelled = self
                .cells
                .with_local(|local| self.cells.end_run(local, run));
            let is_over = is_cancelled && !broken(Fault::RunUnawareOfCancel);
            if due == RunStep::Wait && !is_over {
                self.end_repeat(repeat);
            } else {
                self.drop_repeat(repeat);
            }
            return now_ns;
        }
        let at = Nanos(repeat.at_ns().max(now_ns + 1));
        let Tick(mut deadline) = self.tick.deadline(at);
        if deadline <= run.due_at.deadline() {
            // By this core's clock the run is not due so far: it is a little behind that of the
            // core on which the shard ran. The next tick, unless time has ended.
            let Tick(last) = self.tick.deadline(Nanos(u64::MAX));
            deadline = run.due_at.deadline() + 1;
            if deadline > last {
                self.end_periodic(run, repeat);
                return now_ns;
            }
        }
        repeat.file(deadline);
        let due_at = DueAt::new(deadline, run.due_at.shard());
        let run = Run { due_at, ..run };
        let left = LeftAfterRun {
            left_ns: at.0 - now_ns,
            rounded_ns: repeat.was_paused().then(|| {
                let Nanos(start_ns) = self.tick.start(Tick(deadline));
                start_ns.saturating_sub(at.0)
            }),
        };
        // (`move`: what it borrows would lie in memory.)
        let ended = self
            .cells
            .with_local(move |local| self.cells.file_again(local, run, repeat, left));
        if let Some(repeat) = ended {
            self.drop_repeat(repeat);
        }
        if let Some(sets) = sets {
            self.recheck_wall(sets); // SetRecheck
        }
        // RunRecheck, after RunFile. A stop that fires all has left the timer to this run, or sees
        // it armed. (If it runs again, it is left to that run.)
        if self.cells.shared.fires_all()
            && !broken(Fault::RunNotSeenAfterFile)
            && let Some(Some(Content::Repeat(repeat))) = self
                .cells
                .with_local(|local| self.cells.end_waiting_at(local, run.cell))
        {
            self.end_repeat(repeat);
        }
        now_ns
    }

    /// RunOnce. Runs a timer for a time of day that has come, unless it was cancelled. It ends
    /// before that, as other timers do that fire: a `cancel` during the run finds it gone. Returns
    /// the time after the run, or the content if the timer is paused and has not run.
    #[cold]
    #[inline(never)]
    fn run_once(&self, run: Run, mut repeat: Box<Repeat>, now_ns: u64) -> Result<u64, Box<Repeat>> {
        let ended = self
            .cells
            .with_local(|local| self.cells.end_unless_paused(local, run));
        let Some(is_cancelled) = ended else {
            return Err(repeat);
        };
        if !is_cancelled || broken(Fault::RunUnawareOfCancel) {
            let late_ns = self.lateness_ns(run.due_at, now_ns);
            self.count_run(run.due_at, late_ns);
            self.tell_late(late_ns);
            self.run_for_time_of_day(&mut repeat);
        }
        self.drop_repeat(repeat);
        Ok(self.arming_now_ns())
    }

    /// What to do with a timer that goes by the wall clock. Also returns how often that had been
    /// set, if the timer is told of it.
    #[cold]
    #[inline(never)]
    fn look_at_wall(&self, run: Run, repeat: &mut Repeat) -> (RunStep, Option<u64>) {
        if self.cells.is_resumed(run) {
            repeat.was_resumed();
        }
        let sets = repeat.is_told_of_sets().then(|| self.clock.wall_sets());
        let due = self.or_panicked(RunStep::End, || {
            repeat.due(|| (self.clock.now_ns(), self.clock.system_time()))
        });
        (due, sets)
    }

    /// Ends a periodic timer because the service is closed. If the stop fires all, a timer for a
    /// time of day that has not come runs now.
    fn end_repeat(&self, mut repeat: Box<Repeat>) {
        if repeat.is_for_time_of_day() && self.cells.shared.fires_all() {
            self.run_for_time_of_day(&mut repeat);
        }
        self.drop_repeat(repeat);
    }

    /// Ends the periodic timer of a due entry whose run nobody will do. The caller's thread has
    /// begun a job.
    pub(crate) fn give_up(&self, entry: Entry) {
        let begun = self
            .cells
            .with_local(|local| self.cells.begin_run(local, entry));
        if let Some((run, repeat)) = begun {
            self.end_periodic(run, repeat);
        }
    }

    /// Ends a periodic timer whose run the caller has begun.
    fn end_periodic(&self, run: Run, repeat: Box<Repeat>) {
        self.cells
            .with_local(|local| self.cells.end_run(local, run));
        self.drop_repeat(repeat);
    }

    /// Runs the closure of a timer for a time of day. A panic is caught.
    pub(crate) fn run_for_time_of_day(&self, repeat: &mut Repeat) {
        self.or_panicked((), || repeat.run_for_time_of_day());
    }

    pub(crate) fn drop_repeat(&self, repeat: Box<Repeat>) {
        self.or_panicked((), || drop(repeat));
    }

    /// Returns the result of `f`, or `or_else` if `f` panics.
    fn or_panicked<R>(&self, or_else: R, f: impl FnOnce() -> R) -> R {
        catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
            self.panicked(panic);
            or_else
        })
    }
}

impl<T: Send + 'static> Cells<T> {
    /// RunBegin. Begins the run of a due entry: the content is the caller's until `file_again` or
    /// `end_run`. `None`: the timer was cancelled, or moved.
    fn begin_run(&self, local: &mut Local, entry: Entry) -> Option<(Run, Box<Repeat>)> {
        let begun = self
            .arena
            .get(entry.cell(), &local.pinner.pin())?
            .begin(entry);
        match begun {
            RunBegun::Run {
                repeat,
                birth,
                due_at,
            } => {
                let cell = entry.cell();
                Some((
                    Run {
                        cell,
                        birth,
                        due_at,
                    },
                    repeat,
                ))
            }
            RunBegun::Dead => None,
            RunBegun::Later(filed) => {
                self.send(local, filed);
                None
            }
        }
    }

    /// RunFile. Files a periodic timer for its next run, or keeps what is left until then if it was
    /// paused meanwhile. If it was cancelled, it has ended, and the content is returned.
    pub(crate) fn file_again(
        &self,
        local: &mut Local,
        run: Run,
        repeat: Box<Repeat>,
        left: LeftAfterRun,
    ) -> Option<Box<Repeat>> {
        let LeftAfterRun {
            left_ns,
            rounded_ns,
        } = left;
        // SAFETY: the cell is RUNNING, so no magazine has its index, and its page is not retired.
        let cell = unsafe { self.arena.held(run.cell) };
        // SAFETY: the caller has the content, so it has begun the run; it ends the run here.
        match unsafe { cell.file_again(repeat, run.due_at, left_ns, rounded_ns) } {
            Ok(filed) => {
                self.send(local, filed);
                None
            }
            Err(NotFiled::Paused) => {
                // For its light fence alone, which RunRecheck needs: there is no entry.
                if !broken(Fault::RunPausedWithoutFence) {
                    self.shared.bell(run.due_at.shard()).ring(FOREVER);
                }
                None
            }
            Err(NotFiled::Ended(repeat, index)) => {
                self.put(local, index);
                self.shared.release(1);
                Some(repeat)
            }
        }
    }

    /// Whether the timer of a run that has begun was resumed, and comes for that.
    fn is_resumed(&self, run: Run) -> bool {
        // SAFETY: as in `file_again`.
        unsafe { self.arena.held(run.cell) }.is_resumed()
    }

    /// What to do with a run that has begun, after a hook: the timer may have been cancelled or
    /// paused meanwhile.
    #[cold]
    #[inline(never)]
    fn run_step(&self, run: Run) -> RunStep {
        // SAFETY: as in `file_again`.
        unsafe { self.arena.held(run.cell) }.run_step()
    }

    /// By how much the deadline of a run that has begun was rounded up, if the timer was paused
    /// before, and was not moved since.
    #[cold]
    #[inline(never)]
    fn run_rounded_ns(&self, run: Run) -> Option<u64> {
        // SAFETY: as in `file_again`.
        unsafe { self.arena.held(run.cell) }.run_rounded_ns()
    }

    /// Ends a periodic timer after its last run, or in place of it. The caller has begun the run.
    /// Returns whether it was cancelled meanwhile.
    pub(super) fn end_run(&self, local: &mut Local, run: Run) -> bool {
        // SAFETY: as in `file_again`.
        let cell = unsafe { self.arena.held(run.cell) };
        // SAFETY: as in `file_again`.
        let ended = unsafe { cell.end() };
        self.note_end(local, run, ended)
    }

    /// The same, unless the timer was paused in the run: `None`.
    fn end_unless_paused(&self, local: &mut Local, run: Run) -> Option<bool> {
        // SAFETY: as in `file_again`.
        let cell = unsafe { self.arena.held(run.cell) };
        // SAFETY: as in `file_again`.
        let ended = unsafe { cell.end_unless_paused() }?;
        Some(self.note_end(local, run, ended))
    }

    fn note_end(&self, local: &mut Local, run: Run, ended: (Option<u32>, bool)) -> bool {
        let (index, cancelled) = ended;
        self.put(local, index);
        self.shared.release(1);
        if !cancelled {
            local.count(run.due_at.shard(), Event::Ended, 1);
        }
        cancelled
    }

    /// Cancels the periodic timer that waits in a cell.
    pub(crate) fn end_periodic_at(
        &self,
        local: &mut Local,
        cell: u32,
    ) -> Option<Option<Content<T>>> {
        let claimed = self.arena.get(cell, &local.pinner.pin())?.claim_repeat()?;
        Some(self.end(local, claimed, Event::Ended))
    }

    /// The same, unless the timer runs.
    fn end_waiting_at(&self, local: &mut Local, cell: u32) -> Option<Option<Content<T>>> {
        let claimed = (self.arena.get(cell, &local.pinner.pin())?).claim_waiting_repeat()?;
        Some(self.end(local, claimed, Event::Ended))
    }
}
