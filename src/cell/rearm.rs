//! Re-arm: how a timer is filed anew, by a thread that moves its deadline, or by a periodic timer's
//! run.
//!
//! Any thread with the id may re-arm; the worker that has begun a run owns it. This file has the
//! steps RearmLag to RearmFile, RunBegin, RunFile and RunOnce of README.md of this room.

use super::claim::Compared;
use super::content::Content;
use super::state::{CellRef, DueAt, Filed};
use super::word::{LAG_MAX, State, Word};
use crate::entry::Entry;
use crate::repeat::{Repeat, RunStep};
use crate::sync::{Fault, Ordering, broken};

/// What a re-arm did.
#[derive(Debug)]
pub(crate) enum Rearmed {
    /// Nothing: there is no such timer, or it is RUNNING.
    Gone,
    /// Nothing: the timer is paused. The caller sets what is left.
    Paused,
    /// The deadline has changed, and there is nothing to send: the entry will find the timer. Or
    /// another re-arm is in progress, and overrides this one.
    Done { shard: usize },
    /// The old entry is dead. The caller sends its tombstone and the new entry.
    Refiled { old: Filed, new: Filed },
    /// The timer was cancelled meanwhile. The old entry is dead.
    Cancelled { old: Filed, index: Option<u32> },
}

/// What a due entry of a periodic timer finds.
#[derive(Debug)]
pub(crate) enum RunBegun {
    /// Nothing: its timer is gone, or filed elsewhere.
    Dead,
    /// The timer was moved to a later deadline: the caller sends the entry there.
    Later(Filed),
    /// A run that has begun.
    Run {
        repeat: Box<Repeat>,
        /// The birth of the timer.
        birth: u64,
        /// The deadline of the run.
        due_at: DueAt,
    },
}

/// Why a periodic timer is not filed after its run.
#[derive(Debug)]
pub(crate) enum NotFiled {
    /// It was paused in its run.
    Paused,
    /// It was cancelled in its run: here are its content, and the cell's index for the caller to
    /// hold.
    Ended(Box<Repeat>, Option<u32>),
}

impl<T> CellRef<'_, T> {
    /// Moves the deadline of a timer that waits, to any tick (RearmLag, or RearmHold and
    /// RearmFile).
    #[inline(always)]
    pub(crate) fn rearm(&self, birth: u64, deadline: u64) -> Rearmed {
        self.rearm_if(birth, deadline, |_| true)
    }

    /// The same, if it is due at the tick `from`. A move that comes before RearmHold wins: nothing
    /// happens here. One that finds the cell HELD is lost, though it returns as done: this re-arm
    /// takes effect after it.
    pub(crate) fn rearm_from(&self, birth: u64, from: u64, deadline: u64) -> Rearmed {
        self.rearm_if(birth, deadline, |present| present == from)
    }

    #[inline(always)]
    fn rearm_if(&self, birth: u64, deadline: u64, moves: impl Fn(u64) -> bool) -> Rearmed {
        let mut word = self.load();
        loop {
            if self.birth(word) != birth {
                return Rearmed::Gone;
            }
            match word.state() {
                State::Armed => {}
                // The other re-arm takes effect after this one.
                State::Held => {
                    return Rearmed::Done {
                        shard: self.due_at().shard(),
                    };
                }
                _ => return self.rearm_no_more(word),
            }
            let due_at = self.due_at();
            let present = due_at.deadline() + word.lag();
            if !moves(present) {
                return Rearmed::Gone;
            }
            let later = deadline >= present && deadline - due_at.deadline() <= LAG_MAX;
            // RearmLag or RearmHold.
            let next = if later {
                word.with_lag(deadline - due_at.deadline())
            } else {
                word.with_state(State::Held)
            };
            match self.cell.exchange(word, next) {
                Ok(()) if later => {
                    return Rearmed::Done {
                        shard: due_at.shard(),
                    };
                }
                Ok(()) => return self.refile(word, due_at, deadline),
                Err(now) => word = now,
            }
        }
    }

    /// What becomes of a re-arm of a timer that is neither ARMED nor HELD.
    #[cold]
    #[inline(never)]
    fn rearm_no_more(self, word: Word) -> Rearmed {
        match word.state() {
            State::Paused if broken(Fault::RearmOverPause) => Rearmed::Done {
                shard: self.due_at().shard(),
            },
            State::Paused => Rearmed::Paused,
            _ => Rearmed::Gone,
        }
    }

    /// RearmFile. This thread holds the cell HELD.
    // (Never: a move to a later deadline, which is the usual one, would be called otherwise.)
    #[inline(never)]
    fn refile(&self, word: Word, due_at: DueAt, deadline: u64) -> Rearmed {
        let old = self.whereabouts(word, due_at);
        let due_at = DueAt::new(deadline, due_at.shard());
        self.move_to(word, due_at);
        let again = if broken(Fault::RefileKeepsGeneration) {
            word.with_lag(0)
        } else {
            word.refiled()
        };
        match self.cell.exchange(word.with_state(State::Held), again) {
            Ok(()) => Rearmed::Refiled {
                old,
                new: self.filed(deadline, due_at.shard(), again),
            },
            Err(_) => Rearmed::Cancelled {
                old,
                index: self.leave(word),
            },
        }
    }

    /// Writes `due_at` and birth for the next filing. The exchange that follows publishes them.
    #[inline]
    pub(super) fn move_to(&self, word: Word, due_at: DueAt) {
        self.note_birth(word);
        // Ordering: Relaxed. As the birth; a reader of the earlier word fails at ClaimExchange.
        self.cell.due_at.store(due_at.packed(), Ordering::Relaxed);
    }

    /// Writes the birth for the next filing, if the word will not tell it any more.
    #[inline]
    pub(super) fn note_birth(&self, word: Word) {
        if let (Some(birth), None) = (word.birth(), word.refiled().birth()) {
            // Ordering: Relaxed. Published by the exchange that sets the last move.
            self.side.birth.store(birth, Ordering::Relaxed);
        }
    }

    /// RunBegin. Begins the run of a due entry: takes the content out. Puts the entry back if its
    /// timer was moved to a later deadline.
    #[inline]
    pub(crate) fn begin(&self, entry: Entry) -> RunBegun {
        let mut word = self.load();
        loop {
            let faults = [Fault::RunIgnoresGeneration, Fault::RunIgnoresDeadline];
            let due_at = match self.compare(word, entry, faults) {
                Compared::Due(due_at) if word.repeats() => due_at,
                Compared::Due(_) | Compared::Dead => return RunBegun::Dead,
                Compared::Later(filed) => return RunBegun::Later(filed),
            };
            let birth = self.birth(word);
            if let Err(now) = self.cell.exchange(word, word.with_state(State::Running)) {
                word = now;
                continue;
            }
            // SAFETY: RunBegin. This thread won this filing's only exchange from ARMED to RUNNING,
            // and a cancel leaves the content of a RUNNING cell to its run.
            let Content::Repeat(mut repeat) = (unsafe { self.cell.take_content(word) }) else {
                unreachable!("REPEATS is set")
            };
            repeat.begin_as(word.generation(), birth);
            return RunBegun::Run {
                repeat,
                birth,
                due_at,
            };
        }
    }

    /// RunFile. After a run: files the periodic timer for its next run. If it was paused meanwhile,
    /// keeps `left_ns` instead. If it was cancelled, gives the content back and frees the cell.
    /// `rounded_ns`: by how much the deadline was rounded up, if that is to be noted for pauses.
    ///
    /// # Safety
    /// The caller has begun the run (RunBegin).
    #[inline]
    pub(crate) unsafe fn file_again(
        &self,
        mut repeat: Box<Repeat>,
        due_at: DueAt,
        left_ns: u64,
        rounded_ns: Option<u64>,
    ) -> Result<Filed, NotFiled> {
        loop {
            let word = self.load();
            if word.state() != State::Running {
                // SAFETY: the caller's promise.
                match unsafe { self.file_no_more(word, repeat, left_ns) } {
                    Ok(not_filed) => return Err(not_filed),
                    Err(back) => repeat = back,
                }
                continue;
            }
            let mut again = word.refiled();
            repeat.file_as(again.generation());
            // SAFETY: RUNNING: RunBegin moved the content out, and only the run puts it back.
            unsafe { self.cell.put_content(repeat) };
            self.move_to(word, due_at);
            if let Some(rounded_ns) = rounded_ns {
                again = self.note_rounded(again, rounded_ns);
            }
            if broken(Fault::RunFilesBlindly) {
                // Ordering: Release. The broken variant: the mark of a cancel is overwritten.
                self.cell.word.store(again.0, Ordering::Release);
                return Ok(self.filed(due_at.deadline(), due_at.shard(), again));
            }
            if self.cell.exchange(word, again).is_ok() {
                return Ok(self.filed(due_at.deadline(), due_at.shard(), again));
            }
            // SAFETY: ENDED, or paused in its run: only this thread uses the content, and it has
            // just put it there.
            let Content::Repeat(back) = (unsafe { self.cell.take_content(word) }) else {
                unreachable!("REPEATS is set")
            };
            repeat = back;
        }
    }

    /// RunFile of a timer that was cancelled in its run, or paused. Gives the content back if the
    /// word is another one by now.
    ///
    /// # Safety
    /// The caller has begun the run (RunBegin), and has loaded the word in it.
    #[cold]
    #[inline(never)]
    unsafe fn file_no_more(
        &self,
        word: Word,
        repeat: Box<Repeat>,
        left_ns: u64,
    ) -> Result<NotFiled, Box<Repeat>> {
        if !word.runs() {
            return Ok(NotFiled::Ended(repeat, self.free(word)));
        }
        // SAFETY: the caller's promise.
        unsafe { self.pause_after_run(word, repeat, left_ns) }.map(|()| NotFiled::Paused)
    }

    /// What to do with a run that has begun and whose closure was not called so far: the timer may
    /// have been cancelled or paused since.
    pub(crate) fn run_step(&self) -> RunStep {
        match self.load().state() {
            State::Running => RunStep::Run,
            State::Paused => RunStep::Wait,
            _ => RunStep::End,
        }
    }

    /// After the last run, or instead of it: frees the cell. Returns its index for the caller to
    /// hold, and whether the timer was cancelled meanwhile.
    ///
    /// # Safety
    /// The caller has begun the run (RunBegin).
    pub(crate) unsafe fn end(&self) -> (Option<u32>, bool) {
        loop {
            // SAFETY: the caller's promise.
            if let Some(ended) = unsafe { self.try_end(self.load()) } {
                return ended;
            }
        }
    }

    /// RunOnce: the same before the run. `None`: the timer was paused meanwhile, and stays.
    ///
    /// # Safety
    /// The caller has begun the run (RunBegin).
    pub(crate) unsafe fn end_unless_paused(&self) -> Option<(Option<u32>, bool)> {
        loop {
            let word = self.load();
            if word.state() == State::Paused && !broken(Fault::RunUnawareOfPause) {
                return None;
            }
            // SAFETY: the caller's promise.
            if let Some(ended) = unsafe { self.try_end(word) } {
                return Some(ended);
            }
        }
    }

    /// Frees the cell if its word is still this one. `None`: it is another one.
    ///
    /// # Safety
    /// The caller has begun the run (RunBegin), and has loaded the word in it.
    unsafe fn try_end(&self, word: Word) -> Option<(Option<u32>, bool)> {
        if !word.runs() {
            return Some((self.free(word), true));
        }
        self.cell.exchange(word, word.freed()).ok()?;
        Some((self.index(word), false))
    }
}
