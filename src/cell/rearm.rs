//! Re-arm: how a timer is filed anew: by whoever moves its deadline, or by a periodic timer's run. R and U in README.md of this room.

use super::state::{Content, Filed, Place, Slot};
use super::word::{LAG_MAX, State, Word};
use crate::sync::{Fault, Ordering, broken};
use crate::time::Repeat;

/// What a re-arm did.
#[derive(Debug)]
pub(crate) enum Rearmed {
    /// Nothing: there is no such timer, or it runs, or is about to.
    Gone,
    /// The deadline is another one, and nobody need know: the entry will find it. Or another re-arm is in progress, which overrides this one.
    Done { shard: usize },
    /// The old entry is dead, the new one to be sent.
    Refiled { old: Filed, new: Filed },
    /// It was cancelled meanwhile; the old entry is dead.
    Cancelled { old: Filed, index: Option<u32> },
}

impl<T> Slot<'_, T> {
    /// Moves the deadline of a timer that waits, to any tick.
    #[inline]
    pub(crate) fn rearm(&self, birth: u64, deadline: u64) -> Rearmed {
        let mut word = self.load();
        loop {
            if self.birth(word) != birth {
                return Rearmed::Gone;
            }
            match word.state() {
                State::Armed => {}
                // The other one's re-arm takes effect after this one's.
                State::Held => return Rearmed::Done { shard: self.place().shard() },
                _ => return Rearmed::Gone,
            }
            let place = self.place();
            let later = deadline >= place.deadline() + word.lag() && deadline - place.deadline() <= LAG_MAX;
            // R1 or R2.
            let next = if later { word.with_lag(deadline - place.deadline()) } else { word.with_state(State::Held) };
            match self.cell.exchange(word, next) {
                Ok(()) if later => return Rearmed::Done { shard: place.shard() },
                Ok(()) => return self.refile(word, place, deadline),
                Err(now) => word = now,
            }
        }
    }

    /// R3. The cell is HELD, by us.
    fn refile(&self, word: Word, place: Place, deadline: u64) -> Rearmed {
        let old = self.whereabouts(word, place);
        let place = Place::new(deadline, place.shard());
        self.move_to(word, place);
        let again = if broken(Fault::RefileKeepsCount) { word.with_lag(0) } else { word.refiled() };
        match self.cell.exchange(word.with_state(State::Held), again) {
            Ok(()) => Rearmed::Refiled { old, new: self.filed(deadline, place.shard(), again) },
            Err(_) => Rearmed::Cancelled { old, index: self.leave(word) },
        }
    }

    /// Writes place and birth for the next filing: published by the exchange that follows.
    fn move_to(&self, word: Word, place: Place) {
        if let (Some(birth), None) = (word.birth(), word.refiled().birth()) {
            // Ordering: Relaxed. Published by the exchange that sets the last move.
            self.side.birth.store(birth, Ordering::Relaxed);
        }
        // Ordering: Relaxed. As above; a reader of the word before fails at C3.
        self.cell.place.store(place.0, Ordering::Relaxed);
    }

    /// U1. The run of a filing begins: takes the content out. `None`: the timer was cancelled since `claim_due` queued it.
    pub(crate) fn begin(&self, tag: u64) -> Option<Box<Repeat>> {
        let word = self.load();
        let same_filing = word.count() == tag || broken(Fault::RunIgnoresGeneration);
        if word.state() != State::Queued || !same_filing {
            return None;
        }
        // Fails only if the timer was cancelled: nothing else changes what is QUEUED.
        self.cell.exchange(word, word.with_state(State::Running)).ok()?;
        // SAFETY: U1. We won QUEUED's only way to RUNNING, and a cancel leaves the content of a RUNNING cell to its run.
        match unsafe { self.cell.take_content(word) } {
            Content::Repeat(repeat) => Some(repeat),
            Content::Payload(_) => unreachable!("REPEATS is set"),
        }
    }

    /// U2. After a run: files the periodic timer for its next one. If it was cancelled meanwhile, gives the content back and frees the cell.
    ///
    /// # Safety
    /// The caller has begun the run (U1).
    pub(crate) unsafe fn file_again(&self, repeat: Box<Repeat>, place: Place) -> Result<Filed, (Box<Repeat>, Option<u32>)> {
        let word = self.load();
        if word.state() == State::Running {
            // SAFETY: RUNNING: the content was moved out, and is the run's to put back.
            unsafe { self.cell.put_content(repeat) };
            self.move_to(word, place);
            if broken(Fault::RunFilesBlindly) {
                // Ordering: Release. The broken variant: the mark of a cancel is overwritten.
                self.cell.word.store(word.refiled().0, Ordering::Release);
                return Ok(self.filed(place.deadline(), place.shard(), word.refiled()));
            }
            if self.cell.exchange(word, word.refiled()).is_ok() {
                return Ok(self.filed(place.deadline(), place.shard(), word.refiled()));
            }
            // SAFETY: ENDED: nobody but us has to do with the cell. We have just put it there.
            let Content::Repeat(repeat) = (unsafe { self.cell.take_content(word) }) else { unreachable!("REPEATS is set") };
            return Err((repeat, self.free(word)));
        }
        Err((repeat, self.free(word)))
    }

    /// After the last run, or instead of it: frees the cell. Whether the timer was cancelled meanwhile.
    ///
    /// # Safety
    /// The caller has begun the run (U1).
    pub(crate) unsafe fn end(&self) -> (Option<u32>, bool) {
        let word = self.load();
        if word.state() == State::Running && self.cell.exchange(word, word.freed()).is_ok() {
            return (self.index(word), false);
        }
        (self.free(word), true)
    }
}
