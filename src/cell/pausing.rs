//! Pause: how a timer is paused and goes on, by any thread with the id.
//!
//! A paused timer has no entry, and keeps what is left in the cell's pause side. This file has the
//! steps PauseHold to PauseFile, ResumeHold to ResumeFile, LeftHold to LeftFile and RunPause of
//! README.md of this room.

use super::content::{Content, Payload};
use super::state::{CellRef, DueAt, Filed, Left};
use super::word::{Pause, State, Word};
use crate::repeat::Repeat;
use crate::sync::{Fault, Ordering, broken, pause};

/// What a pause did.
#[derive(Debug)]
pub(crate) enum Paused {
    /// Nothing: there is no such timer, or it is paused already.
    Unchanged,
    /// The timer's run is in progress. There is none after it.
    InRun,
    /// The old entry is dead. The caller sends its tombstone.
    Waits { old: Filed },
    /// The timer was cancelled meanwhile. The old entry is dead.
    Cancelled { old: Filed, index: Option<u32> },
}

/// What a resume did.
#[derive(Debug)]
pub(crate) enum Resumed {
    /// Nothing: there is no such timer, or it is not paused.
    Unchanged,
    /// The run in which the timer was paused is still in progress, and files it.
    InRun,
    /// The caller sends the new entry.
    Filed(Filed),
    /// The timer was cancelled meanwhile.
    Cancelled { index: Option<u32> },
}

/// What became of a paused timer that was to have something else left.
#[derive(Debug)]
pub(crate) enum LeftSet {
    /// There is no such timer, or it is RUNNING.
    Gone,
    /// It is not paused.
    NotPaused,
    /// It has that left.
    Set { shard: usize },
    /// The timer was cancelled meanwhile.
    Cancelled { index: Option<u32> },
}

impl<T> CellRef<'_, T> {
    /// Pauses a timer. `times` turns its deadline into nanoseconds, and reads the clock. `waits`:
    /// whether to wait for a thread that moves it. (In a process that was forked off there is
    /// none.)
    pub(crate) fn halt(
        &self,
        birth: u64,
        times: impl Fn(u64) -> (u64, u64),
        waits: bool,
    ) -> Paused {
        loop {
            let word = self.load();
            if self.birth(word) != birth {
                return Paused::Unchanged;
            }
            match word.state() {
                State::Armed => {
                    let due_at = self.due_at();
                    let held = word.paused(Pause::Pausing);
                    if self.cell.exchange(word, held).is_ok() {
                        // PauseHold
                        let (deadline_ns, now_ns) = times(due_at.deadline() + word.lag());
                        let rounded_ns = self.rounded_ns(word).unwrap_or(0);
                        let left = Left::until(deadline_ns.saturating_sub(rounded_ns), now_ns);
                        return self.file_paused(word, held, due_at, left);
                    }
                }
                State::Running => {
                    let paused = word.paused(Pause::Runs);
                    if self.cell.exchange(word, paused).is_ok() {
                        return Paused::InRun; // RunPause
                    }
                }
                // A re-arm is in progress. This pause comes after it, and keeps what it asks for.
                State::Held if waits => pause(),
                State::Paused if waits && word.pause_state() == Pause::Changing => pause(),
                _ => return Paused::Unchanged,
            }
        }
    }

    /// PauseFile. This thread holds the cell, PAUSED.
    fn file_paused(&self, word: Word, held: Word, due_at: DueAt, left: Left) -> Paused {
        let old = self.whereabouts(word, due_at);
        let paused = word.refiled().paused(Pause::Waits);
        self.note_birth(word);
        self.note_left(left, paused);
        match self.cell.exchange(held, paused) {
            Ok(()) => Paused::Waits { old },
            Err(_) => Paused::Cancelled {
                old,
                index: self.leave(held),
            },
        }
    }

    /// By how much the deadline of a timer was rounded up that was resumed and not moved since. So
    /// nothing is added up, however often a timer is paused.
    fn rounded_ns(&self, word: Word) -> Option<u64> {
        // Ordering: Relaxed. As `due_at`.
        let noted_ns = || self.pause_side().rounded_ns.load(Ordering::Relaxed);
        word.is_rounded().then(noted_ns)
    }

    /// The same of a run that the caller has begun.
    pub(crate) fn run_rounded_ns(&self) -> Option<u64> {
        self.rounded_ns(self.load())
    }

    /// Notes the rounding of a filing, for the exchange that follows. Returns the filing's word.
    pub(super) fn note_rounded(&self, filed: Word, rounded_ns: u64) -> Word {
        // Ordering: Relaxed. Published by the exchange. If that fails, nobody looks here: the mark
        // is in the word that was not set.
        self.pause_side()
            .rounded_ns
            .store(rounded_ns, Ordering::Relaxed);
        filed.rounded()
    }

    /// Lets a timer go on that is paused. `deadline` turns what is left into the new deadline, and
    /// says by how many nanoseconds it was rounded up.
    pub(crate) fn resume(
        &self,
        birth: u64,
        deadline: impl Fn(Left) -> (u64, u64),
        waits: bool,
    ) -> Resumed {
        loop {
            let word = self.load();
            if self.birth(word) != birth || word.state() != State::Paused {
                return Resumed::Unchanged;
            }
            match word.pause_state() {
                Pause::Waits => {
                    let held = word.paused(Pause::Changing);
                    if self.cell.exchange(word, held).is_ok() {
                        // ResumeHold
                        return self.file_resumed(word, held, deadline(self.left()));
                    }
                }
                Pause::Runs => {
                    if self.cell.exchange(word, word.running()).is_ok() {
                        return Resumed::InRun; // RunPause, undone
                    }
                }
                Pause::Pausing | Pause::Changing if waits => pause(),
                Pause::Pausing | Pause::Changing => return Resumed::Unchanged,
            }
        }
    }

    /// ResumeFile. This thread holds the cell, PAUSED.
    fn file_resumed(&self, word: Word, held: Word, deadline: (u64, u64)) -> Resumed {
        let (deadline, rounded_ns) = deadline;
        let due_at = DueAt::new(deadline, self.due_at().shard());
        self.move_to(word, due_at);
        let armed = self.note_rounded(word.refiled(), rounded_ns);
        if broken(Fault::ResumeFilesBlindly) {
            // Ordering: Release. The broken variant: the mark of a cancel is overwritten.
            self.cell.word.store(armed.0, Ordering::Release);
            return Resumed::Filed(self.filed(deadline, due_at.shard(), armed));
        }
        match self.cell.exchange(held, armed) {
            Ok(()) => Resumed::Filed(self.filed(deadline, due_at.shard(), armed)),
            Err(_) => Resumed::Cancelled {
                index: self.leave(held),
            },
        }
    }

    /// Sets what is left of a timer that is paused (LeftHold, LeftFile).
    pub(crate) fn set_left(&self, birth: u64, left_ns: u64, waits: bool) -> LeftSet {
        loop {
            let word = self.load();
            if self.birth(word) != birth {
                return LeftSet::Gone;
            }
            match word.state() {
                State::Armed | State::Held => return LeftSet::NotPaused,
                State::Paused => {}
                _ => return LeftSet::Gone,
            }
            match word.pause_state() {
                Pause::Waits => {}
                Pause::Pausing | Pause::Changing if waits => {
                    pause();
                    continue;
                }
                Pause::Pausing | Pause::Changing | Pause::Runs => return LeftSet::Gone,
            }
            let held = word.paused(Pause::Changing);
            if self.cell.exchange(word, held).is_err() {
                continue;
            }
            let paused = word.refiled().paused(Pause::Waits);
            self.note_birth(word);
            // (The timer is moved now: the mark of one that is resumed as it was paused stays
            // behind.)
            self.store_left(Left {
                left_ns,
                over_ns: 0,
            });
            return match self.cell.exchange(held, paused) {
                Ok(()) => LeftSet::Set {
                    shard: self.due_at().shard(),
                },
                Err(_) => LeftSet::Cancelled {
                    index: self.leave(held),
                },
            };
        }
    }

    /// RunFile of a timer that was paused in its run: puts the content back, and keeps what is
    /// left. Gives the content back if the word is another one by now.
    ///
    /// # Safety
    /// The caller has begun the run (RunBegin), and `word` was loaded in it.
    #[cold]
    pub(super) unsafe fn pause_after_run(
        &self,
        word: Word,
        repeat: Box<Repeat>,
        left_ns: u64,
    ) -> Result<(), Box<Repeat>> {
        let paused = word.refiled().paused(Pause::Waits);
        // SAFETY: RunBegin moved the content out, and only the run puts it back.
        unsafe { self.cell.put_content(repeat) };
        self.note_birth(word);
        self.note_left(
            Left {
                left_ns,
                over_ns: 0,
            },
            paused,
        );
        if self.cell.exchange(word, paused).is_ok() {
            return Ok(());
        }
        // SAFETY: the run goes on: only this thread uses the content, and it has just put it there.
        let Content::Repeat(repeat) = (unsafe { self.cell.take_content(word) }) else {
            unreachable!("REPEATS is set")
        };
        Err(repeat)
    }

    /// Stores what is left of a timer, for the exchange that follows.
    fn store_left(&self, left: Left) {
        // Ordering: Relaxed. Published by the exchange that follows.
        self.pause_side()
            .left_ns
            .store(left.left_ns, Ordering::Relaxed);
        // Ordering: Relaxed. As above.
        self.pause_side()
            .rounded_ns
            .store(left.over_ns, Ordering::Relaxed);
    }

    /// Notes what is left of a timer, for the word that the exchange which follows will set.
    fn note_left(&self, left: Left, paused: Word) {
        // Ordering: Relaxed. As `due_at`.
        let by_wall = self.pause_side().by_wall.load(Ordering::Relaxed);
        // A timer by the wall clock looks at that as soon as it is resumed.
        let is_by_wall = paused.repeats() && self.birth(paused) + 1 == by_wall;
        self.store_left(if is_by_wall { Left::default() } else { left });
        // Ordering: Relaxed. Published by the exchange that follows.
        self.pause_side()
            .resumed
            .store(paused.refiled().generation(), Ordering::Relaxed);
    }

    /// Whether the timer, whose run the caller has begun, was resumed as it was paused, and was not
    /// moved since.
    pub(crate) fn is_resumed(&self) -> bool {
        let word = self.load();
        // Ordering: Relaxed. As `due_at`.
        let resumed = || self.pause_side().resumed.load(Ordering::Relaxed);
        word.is_rounded() && word.generation() == resumed()
    }

    /// Stores a payload that is paused from the beginning (ArmWrite, ArmPublish). Returns the
    /// timer's birth.
    ///
    /// # Safety
    /// As [`fill`](Self::fill).
    pub(crate) unsafe fn fill_paused(&self, shard: usize, left_ns: u64, payload: T) -> u64 {
        // Ordering: Relaxed. As in `fill`.
        let vacant = Word(self.cell.word.load(Ordering::Relaxed));
        // SAFETY: ArmWrite. As in `fill`.
        unsafe { self.cell.put_content(Payload(payload)) };
        // Ordering: Relaxed. As in `fill`.
        self.cell
            .due_at
            .store(DueAt::new(0, shard).packed(), Ordering::Relaxed);
        self.store_left(Left {
            left_ns,
            over_ns: 0,
        });
        let paused = vacant.paused(Pause::Waits);
        // Ordering: Release (ArmPublish). As in `fill`.
        self.cell.word.store(paused.0, Ordering::Release);
        vacant.generation()
    }
}
