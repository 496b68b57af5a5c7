//! Claim: how a cell is armed, and how its content comes out again.
//!
//! Any thread with an id or an entry may try; one wins. This file has the steps ArmWrite to
//! ArmPublish, ClaimLoad to ClaimRead, PutBack, DoomMark and DoomLeave of README.md of this room.

use super::content::{Content, Fill};
use super::state::{Cell, CellRef, DueAt, Filed};
use super::word::{LAG_BITS, Pause, State, Word};
use crate::entry::{DEADLINE_MAX, Entry};
use crate::sync::{Fault, Ordering, broken, ordering};
use std::ptr::NonNull;

/// A timer that was cancelled, or taken away by `stop`.
#[derive(Debug)]
pub(crate) struct Claimed<T> {
    /// `None`: a periodic timer's run is in progress, has the content, and drops it.
    pub(crate) content: Option<Content<T>>,
    /// The entry that is dead now; if the timer was paused, one that never was. `None`: another
    /// thread sends its tombstone, or the entry has left the wheel already.
    pub(crate) filed: Option<Filed>,
    /// The timer's deadline and shard. If it was paused, what is left of it.
    pub(crate) due_at: DueAt,
    /// The cell's index, for the caller to hold. `None`: another thread frees the cell, or the
    /// cell's generations are used up.
    pub(crate) index: Option<u32>,
}

/// A timer that was claimed in the usual case. Its payload is still in the cell.
// (It is one pointer. If it had the payload too, an `Option` of it would take one more register, to
// say whether the payload is there.)
pub(crate) struct FirstClaim<T>(NonNull<Cell<T>>);

impl<T> FirstClaim<T> {
    /// Takes the payload, with the timer's deadline and shard (ClaimRead).
    ///
    /// # Safety
    /// The caller holds the cell's index since the claim.
    #[inline]
    pub(crate) unsafe fn take(self) -> (T, DueAt) {
        // SAFETY: the caller holds an index of the cell's page, so the page stays (RetireGather).
        let cell = unsafe { self.0.as_ref() };
        // SAFETY: ClaimRead. As in `claim_due`. There is one `FirstClaim` for a claim.
        (unsafe { cell.take_payload() }, cell.due_at())
    }
}

/// What a due entry finds.
#[derive(Debug)]
pub(crate) enum DueClaim<T> {
    /// Nothing: its timer is gone, or filed elsewhere.
    Dead,
    /// A timer that fires. The caller holds the cell's index (`index_after`).
    Payload(T),
    /// A periodic timer, whose run may `begin`. It is still ARMED.
    Run,
    /// A timer that was re-armed to a later deadline: the caller sends the entry on to it.
    Later(Filed),
}

/// What the comparison of a due entry with the word of its cell has shown.
pub(super) enum Compared {
    Dead,
    Later(Filed),
    /// The timer is due, and has this deadline.
    Due(DueAt),
}

impl<T> CellRef<'_, T> {
    /// Stores a content and makes it claimable (ArmWrite, ArmPublish). Returns the timer's birth.
    ///
    /// # Safety
    /// The caller holds this cell's index, and gives it up. The winner of the claim has it next.
    #[inline]
    pub(crate) unsafe fn fill<C: Fill<T>>(&self, due_at: DueAt, content: C) -> u64 {
        // Ordering: Relaxed. The holder's own word: it freed the cell, or got the index through the
        // depot.
        let vacant = Word(self.cell.word.load(Ordering::Relaxed));
        let armed = vacant.with_state(State::Armed);
        let armed = if C::REPEATS { armed.repeating() } else { armed };
        self.note_wall(vacant, &content);
        // SAFETY: ArmWrite. The cell is VACANT and the caller holds its index: no other thread
        // touches the content.
        unsafe { self.cell.put_content(content) };
        // Ordering: Relaxed. Published by ArmPublish; a reader of an older word fails at
        // ClaimExchange.
        self.cell.due_at.store(due_at.packed(), Ordering::Relaxed);
        // Ordering: Release (ArmPublish). Pairs with the Acquire of ClaimLoad; publishes content
        // and `due_at`. A store is enough: no other thread writes a VACANT word.
        self.cell
            .word
            .store(armed.0, ordering(Ordering::Release, Fault::ArmRelaxed));
        vacant.generation()
    }

    /// Notes whether the content is a timer by the wall clock.
    #[inline(always)]
    pub(super) fn note_wall<C: Fill<T>>(&self, vacant: Word, content: &C) {
        if content.goes_by_wall() {
            // Ordering: Relaxed. Published by ArmPublish.
            self.pause_side()
                .by_wall
                .store(vacant.generation() + 1, Ordering::Relaxed);
        }
    }

    /// Claims for a due entry (ClaimLoad to ClaimRead) in the usual case: the timer has no lag and
    /// does not repeat. The caller then holds the cell's index (`index_after`). `None`: try
    /// `claim_due`.
    #[inline]
    pub(crate) fn claim_due_plain(&self, entry: Entry) -> Option<T> {
        let word = self.load();
        if !word.is_plain(entry.generation()) || self.due_at().deadline() > entry.deadline() {
            return None;
        }
        self.cell.exchange(word, word.freed()).ok()?;
        // SAFETY: ClaimRead. As in `claim_due`; it is a payload, because the word says that it does
        // not repeat.
        Some(unsafe { self.cell.take_payload() })
    }

    /// Claims for a due entry (ClaimLoad to ClaimRead), or puts it back (PutBack).
    #[inline]
    pub(crate) fn claim_due(&self, entry: Entry) -> DueClaim<T> {
        let mut word = self.load();
        loop {
            let faults = [Fault::ClaimIgnoresGeneration, Fault::ClaimIgnoresDeadline];
            match self.compare(word, entry, faults) {
                Compared::Due(_) if word.repeats() => return DueClaim::Run,
                Compared::Due(_) => {}
                Compared::Dead => return DueClaim::Dead,
                Compared::Later(filed) => return DueClaim::Later(filed),
            }
            if let Err(now) = self.cell.exchange(word, word.freed()) {
                word = now;
                continue;
            }
            // SAFETY: ClaimRead. This thread won this filing's only exchange out of ARMED: no
            // thread writes the content, and no other reads it. ArmWrite put it there, and it is a
            // payload, because the word says that it does not repeat.
            return DueClaim::Payload(unsafe { self.cell.take_payload() });
        }
    }

    /// ClaimCompare. What a due entry may claim of a cell with this word. Puts the entry back
    /// (PutBack) if its timer is due later. `faults` are those that leave out two comparisons: that
    /// of the generation, and that of the deadline.
    #[inline]
    pub(super) fn compare(&self, word: Word, entry: Entry, faults: [Fault; 2]) -> Compared {
        let [no_generation, no_deadline] = faults;
        let is_its_filing = word.generation() == entry.generation() || broken(no_generation);
        if word.state() != State::Armed || !is_its_filing {
            return Compared::Dead;
        }
        let due_at = self.due_at();
        let deadline = due_at.deadline() + word.lag();
        if deadline > entry.deadline() && !broken(no_deadline) {
            return Compared::Later(self.put_back(word, due_at));
        }
        Compared::Due(DueAt::new(deadline.min(DEADLINE_MAX), due_at.shard()))
    }

    /// PutBack. Returns where the entry goes now.
    #[cold]
    fn put_back(&self, word: Word, due_at: DueAt) -> Filed {
        // Ordering: Relaxed. A hint, see `whereabouts`.
        self.side.put_back.store(
            word.generation() << LAG_BITS | word.lag(),
            Ordering::Relaxed,
        );
        // At most the last tick: `due_at` may belong to a later filing, and then the sum may be too
        // great. In that case the entry is dead, wherever it goes.
        self.filed(
            (due_at.deadline() + word.lag()).min(DEADLINE_MAX),
            due_at.shard(),
            word,
        )
    }

    /// Claims in any state from which a timer can be cancelled, if `wanted` accepts the word.
    /// `None`: the timer has fired, was cancelled, or is not wanted.
    #[inline]
    fn claim(&self, wanted: impl Fn(Word) -> bool) -> Option<Claimed<T>> {
        let mut word = self.load();
        loop {
            if !wanted(word) {
                return None;
            }
            let outcome = match word.state() {
                State::Armed => self.claim_armed(word),
                _ => self.claim_other(word)?,
            };
            match outcome {
                Ok(claimed) => return Some(claimed),
                Err(now) => word = now,
            }
        }
    }

    /// Claims a timer that is not ARMED. `None`: it cannot be cancelled any more.
    // (By value: else the usual way would keep its parts in memory.)
    #[cold]
    #[inline(never)]
    fn claim_other(self, word: Word) -> Option<Result<Claimed<T>, Word>> {
        match word.state() {
            State::Held => Some(self.claim_held(word)),
            State::Running => Some(self.claim_running(word)),
            State::Paused => Some(self.claim_paused(word)),
            State::Armed | State::Vacant | State::Doomed | State::Left | State::Ended => None,
        }
    }

    /// Claims an ARMED timer: the content is in the cell, and this thread frees the cell.
    #[inline(always)]
    fn claim_armed(&self, word: Word) -> Result<Claimed<T>, Word> {
        self.cell.exchange(word, word.freed())?;
        let due_at = self.due_at();
        // SAFETY: ClaimRead. As in `claim_due`.
        let content = Some(unsafe { self.cell.take_content(word) });
        let filed = self.whereabouts(word, due_at);
        let index = self.index(word);
        Ok(Claimed {
            content,
            filed: Some(filed),
            due_at: DueAt::new(due_at.deadline() + word.lag(), due_at.shard()),
            index,
        })
    }

    /// DoomMark. Claims a HELD timer: the content is in the cell, and the last thread to leave
    /// frees the cell.
    #[inline(always)]
    fn claim_held(&self, word: Word) -> Result<Claimed<T>, Word> {
        self.cell.exchange(word, word.with_state(State::Doomed))?;
        // SAFETY: DoomMark. The holder moves the timer and leaves the content alone; the cell is
        // not freed before both threads have left.
        let content = Some(unsafe { self.cell.take_content(word) });
        let due_at = self.due_at();
        Ok(Claimed {
            content,
            filed: None,
            due_at,
            index: self.leave(word),
        })
    }

    /// Claims a RUNNING timer: the run has the content, and frees the cell.
    #[inline(always)]
    fn claim_running(&self, word: Word) -> Result<Claimed<T>, Word> {
        // Read before the exchange: after it the run may free the cell, and another timer use it.
        let due_at = self.due_at();
        self.cell.exchange(word, word.with_state(State::Ended))?;
        Ok(Claimed {
            content: None,
            filed: None,
            due_at,
            index: None,
        })
    }

    /// Claims a PAUSED timer. It has no entry; or the thread that pauses it sends its tombstone.
    fn claim_paused(&self, word: Word) -> Result<Claimed<T>, Word> {
        match word.pause_state() {
            Pause::Waits => {
                self.cell.exchange(word, word.freed())?;
                // SAFETY: ClaimRead. As in `claim_due`: no thread runs, pauses or resumes it.
                let content = Some(unsafe { self.cell.take_content(word) });
                let shard = self.due_at().shard();
                // It has no entry. The tombstone of one that never was tells the shard, which may
                // be asleep, that a cell is free: after messages it looks for memory to give back.
                Ok(Claimed {
                    content,
                    filed: Some(self.filed(0, shard, word)),
                    due_at: DueAt::left(self.left_ns(), shard),
                    index: self.index(word),
                })
            }
            Pause::Pausing => self.claim_held(word),
            Pause::Changing => {
                // Before the claim: after it, the cell may be another timer's.
                let due_at = DueAt::left(self.left_ns(), self.due_at().shard());
                Ok(Claimed {
                    due_at,
                    ..self.claim_held(word)?
                })
            }
            Pause::Runs => self.claim_running(word),
        }
    }

    /// DoomLeave. Two threads use a DOOMED cell; the last to leave frees it.
    #[cold]
    pub(super) fn leave(&self, word: Word) -> Option<u32> {
        // Ordering: AcqRel (DoomLeave). Pairs with the other thread's swap. By its Release the
        // first thread says that it has left the cell; by its Acquire the last thread sees that.
        let before = Word(self.cell.word.swap(
            word.with_state(State::Left).0,
            ordering(Ordering::AcqRel, Fault::LeaveRelaxed),
        ));
        if before.state() == State::Left || broken(Fault::LeaveAlone) {
            self.free(word)
        } else {
            None
        }
    }

    /// Makes the cell VACANT. The caller is the only thread that uses it.
    pub(super) fn free(&self, word: Word) -> Option<u32> {
        // Ordering: Release. Pairs with the Acquire of ClaimLoad; publishes what this thread did to
        // the cell before.
        self.cell.word.store(word.freed().0, Ordering::Release);
        self.index(word)
    }

    /// Claims for the holder of an id in the usual case: the timer was never moved and does not
    /// repeat. The caller then holds the cell's index (`index_after`). `None`: try `claim_id`.
    #[inline]
    pub(crate) fn claim_first(&self, birth: u64) -> Option<FirstClaim<T>> {
        let word = Word::new(birth, State::Armed);
        if self.load() != word && !broken(Fault::ClaimIgnoresGeneration) {
            return None;
        }
        self.cell.exchange(word, word.freed()).ok()?;
        Some(FirstClaim(NonNull::from(self.cell)))
    }

    /// Claims for the holder of an id.
    #[inline]
    pub(crate) fn claim_id(&self, birth: u64) -> Option<Claimed<T>> {
        self.claim(|word| self.birth(word) == birth || broken(Fault::ClaimIgnoresGeneration))
    }

    /// The same, unless it is RUNNING.
    #[cold]
    #[inline(never)]
    pub(crate) fn claim_waiting_id(&self, birth: u64) -> Option<Claimed<T>> {
        self.claim(|word| self.birth(word) == birth && !word.runs())
    }

    /// Claims for the holder of an id who wants the payload back. A periodic timer has none, and is
    /// not claimed.
    #[inline]
    pub(crate) fn claim_payload(&self, birth: u64) -> Option<Claimed<T>> {
        self.claim(|word| self.birth(word) == birth && !word.repeats())
    }

    /// Claims the cell's timer if it is periodic, for a drain of the service.
    pub(crate) fn claim_repeat(&self) -> Option<Claimed<T>> {
        self.claim(Word::repeats)
    }

    /// The same, unless it is RUNNING.
    pub(crate) fn claim_waiting_repeat(&self) -> Option<Claimed<T>> {
        self.claim(|word| word.repeats() && !word.runs())
    }

    /// Claims the cell's timer unless it is RUNNING, for a `stop` that fires all timers.
    pub(crate) fn claim_waiting(&self) -> Option<Claimed<T>> {
        self.claim(|word| !word.runs())
    }

    /// Claims the cell's timer, for `stop`.
    pub(crate) fn claim_any(&self) -> Option<Claimed<T>> {
        self.claim(|_| true)
    }
}
