//! Claim: how a cell is armed, and how its content comes out of it again: A, C, P and D in README.md of this room.

use super::state::{Content, Filed, Fill, Place, Slot};
use super::word::{State, Word};
use crate::entry::{DEADLINE_MAX, Entry};
use crate::sync::{Fault, Ordering, broken, ordering};

/// A timer that was cancelled, or taken away by `stop`.
#[derive(Debug)]
pub(crate) struct Claimed<T> {
    /// `None`: a periodic timer's run is in progress, has it, and drops it.
    pub(crate) content: Option<Content<T>>,
    /// The entry that waits for the timer in vain. `None`: somebody else sees to it.
    pub(crate) filed: Option<Filed>,
    /// Shard and deadline.
    pub(crate) place: Place,
    /// The cell's, for the caller to hold. `None`: somebody else frees it, or it is used up.
    pub(crate) index: Option<u32>,
}

/// What a due entry finds.
#[derive(Debug)]
pub(crate) enum Due<T> {
    /// Nothing: its timer is gone, or filed elsewhere.
    Dead,
    /// A timer that fires.
    Payload(T, Option<u32>),
    /// A periodic timer, whose run may `begin`: QUEUED, with its content.
    Run(Place),
    /// A timer that was re-armed to a later deadline: the entry goes there.
    Later(Filed),
}

impl<T> Slot<'_, T> {
    /// Stores a payload and makes it claimable (A1, A2). Returns its count.
    ///
    /// # Safety
    /// The caller holds this cell's index, and gives it up: the winner of the claim has it next.
    #[inline]
    pub(crate) unsafe fn arm<C: Fill<T>>(&self, place: Place, content: C) -> u64 {
        // Ordering: Relaxed. The holder's own: it freed the cell, or got the index through the depot.
        let vacant = Word(self.cell.word.load(Ordering::Relaxed));
        let armed = vacant.with_state(State::Armed);
        let armed = if C::REPEATS { armed.repeating() } else { armed };
        // SAFETY: A1. The cell is VACANT and its index is the caller's: nobody else touches the content.
        unsafe { self.cell.put_content(content) };
        // Ordering: Relaxed. Published by A2; a reader of an older word fails at C3.
        self.cell.place.store(place.0, Ordering::Relaxed);
        // Ordering: Release (A2). Pairs with the Acquire of C1; publishes content and place. A store suffices: nobody else writes a
        // VACANT word.
        self.cell.word.store(armed.0, ordering(Ordering::Release, Fault::ArmRelaxed));
        vacant.count()
    }

    /// Claims for a due entry, if the timer was not moved to later and does not repeat: the usual case. `None`: try `claim_due`.
    #[inline]
    pub(crate) fn claim_due_plain(&self, entry: Entry) -> Option<(T, Option<u32>)> {
        let word = self.load();
        if !word.is_plain(entry.tag()) || self.place().deadline() > entry.deadline() {
            return None;
        }
        self.cell.exchange(word, word.freed()).ok()?;
        // SAFETY: C4. As in `claim_due`; it is a payload, since the word says that it does not repeat.
        Some((unsafe { self.cell.take_payload() }, self.index(word)))
    }

    /// Claims for a due entry (C1 to C4), or puts it back (P1).
    pub(crate) fn claim_due(&self, entry: Entry) -> Due<T> {
        let mut word = self.load();
        loop {
            let same_filing = word.count() == entry.tag() || broken(Fault::ClaimIgnoresGeneration);
            if word.state() != State::Armed || !same_filing {
                return Due::Dead;
            }
            let place = self.place();
            let deadline = place.deadline() + word.lag();
            if deadline > entry.deadline() && !broken(Fault::ClaimIgnoresDeadline) {
                return self.put_back(word, place);
            }
            let next = if word.repeats() { word.with_state(State::Queued) } else { word.freed() };
            match self.cell.exchange(word, next) {
                Ok(()) => {}
                Err(now) => {
                    word = now;
                    continue;
                }
            }
            if word.repeats() {
                return Due::Run(Place::new(deadline, place.shard()));
            }
            // SAFETY: C4. We won this filing's only way out of ARMED: nobody writes the content, and nobody else reads it. A1 put it there, and
            // it is a payload, since the word says that it does not repeat.
            return Due::Payload(unsafe { self.cell.take_payload() }, self.index(word));
        }
    }

    /// P1. The entry's new way.
    #[cold]
    fn put_back(&self, word: Word, place: Place) -> Due<T> {
        // Ordering: Relaxed. A hint, see `whereabouts`.
        self.side.put_back.store(word.count() << 16 | word.lag(), Ordering::Relaxed);
        // Not beyond the last tick, should the place be a later filing's: then the entry is dead anyway.
        Due::Later(self.filed((place.deadline() + word.lag()).min(DEADLINE_MAX), place.shard(), word))
    }

    /// Claims for the holder of an id, if `wanted` says so of the word. `None`: the timer has fired, or was cancelled.
    #[inline]
    fn claim(&self, wanted: impl Fn(Word) -> bool) -> Option<Claimed<T>> {
        let mut word = self.load();
        loop {
            if !wanted(word) {
                return None;
            }
            let outcome = match word.state() {
                state @ (State::Armed | State::Queued) => self.cell.exchange(word, word.freed()).map(|()| {
                    let place = self.place();
                    // SAFETY: C4. As in `claim_due`; and QUEUED has one way out for the content too.
                    let content = Some(unsafe { self.cell.take_content(word) });
                    // The entry of what is QUEUED has come.
                    let filed = (state == State::Armed).then(|| self.whereabouts(word, place));
                    let index = self.index(word);
                    Claimed { content, filed, place: Place::new(place.deadline() + word.lag(), place.shard()), index }
                }),
                State::Held => self.cell.exchange(word, word.with_state(State::Doomed)).map(|()| {
                    // SAFETY: D1. The holder moves the timer and leaves the content alone; the cell is not freed before both have left.
                    let content = Some(unsafe { self.cell.take_content(word) });
                    let place = self.place();
                    Claimed { content, filed: None, place, index: self.leave(word) }
                }),
                State::Running => self.cell.exchange(word, word.with_state(State::Ended)).map(|()| Claimed {
                    content: None,
                    filed: None,
                    place: self.place(),
                    index: None,
                }),
                State::Vacant | State::Doomed | State::Left | State::Ended => return None,
            };
            match outcome {
                Ok(claimed) => return Some(claimed),
                Err(now) => word = now,
            }
        }
    }

    /// D2. Of the two that have to do with a doomed cell, whoever leaves last frees it.
    #[cold]
    pub(super) fn leave(&self, word: Word) -> Option<u32> {
        // Ordering: AcqRel (D2). The last one's Acquire sees that the other is done with the cell; the first one's Release says so.
        let before = Word(self.cell.word.swap(word.with_state(State::Left).0, ordering(Ordering::AcqRel, Fault::LeaveRelaxed)));
        if before.state() == State::Left || broken(Fault::LeaveAlone) { self.free(word) } else { None }
    }

    /// Makes the cell VACANT. The caller is the only one who has to do with it.
    pub(super) fn free(&self, word: Word) -> Option<u32> {
        // Ordering: Release. Whoever looks at it next sees what was done before.
        self.cell.word.store(word.freed().0, Ordering::Release);
        self.index(word)
    }

    /// Claims for the holder of an id, if the timer is one that was never moved and does not repeat: the usual case. `None`: try `claim_id`.
    #[inline]
    pub(crate) fn claim_first(&self, birth: u64) -> Option<(T, Place, Option<u32>)> {
        let word = Word::new(birth, State::Armed);
        if self.load() != word && !broken(Fault::ClaimIgnoresGeneration) {
            return None;
        }
        self.cell.exchange(word, word.freed()).ok()?;
        // SAFETY: C4. As in `claim_due`.
        let payload = unsafe { self.cell.take_payload() };
        Some((payload, self.place(), self.index(word)))
    }

    /// Claims for the holder of an id.
    #[inline]
    pub(crate) fn claim_id(&self, birth: u64) -> Option<Claimed<T>> {
        self.claim(|word| self.birth(word) == birth || broken(Fault::ClaimIgnoresGeneration))
    }

    /// Claims for the holder of an id who wants the payload: not a periodic timer.
    #[inline]
    pub(crate) fn claim_payload(&self, birth: u64) -> Option<Claimed<T>> {
        self.claim(|word| self.birth(word) == birth && !word.repeats())
    }

    /// Claims a periodic timer, for a drain.
    pub(crate) fn claim_repeat(&self) -> Option<Claimed<T>> {
        self.claim(Word::repeats)
    }

    /// Claims whatever is armed and no run has, for a `stop` that fires all.
    pub(crate) fn claim_waiting(&self) -> Option<Claimed<T>> {
        self.claim(|word| word.state() != State::Running)
    }

    /// Claims whatever is armed, for `stop`.
    pub(crate) fn claim_any(&self) -> Option<Claimed<T>> {
        self.claim(|_| true)
    }
}
