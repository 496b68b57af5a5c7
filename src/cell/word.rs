//! Word: the bits of a cell's state word. README.md of this room says what the states mean.
//!
//! Pure functions: no atomics here.

use crate::sync::{Fault, broken};

const STATE_BITS: u32 = 3;
const MOVES_SHIFT: u32 = STATE_BITS;
const MOVES_BITS: u32 = 3;
const ROUNDED: u64 = 1 << (MOVES_SHIFT + MOVES_BITS);
const REPEATS: u64 = ROUNDED << 1;
const LAG_SHIFT: u32 = MOVES_SHIFT + MOVES_BITS + 2;
pub(super) const LAG_BITS: u32 = 18;
const GENERATION_SHIFT: u32 = LAG_SHIFT + LAG_BITS;
const GENERATION_BITS: u32 = 64 - GENERATION_SHIFT;
const _: () = assert!(GENERATION_BITS == crate::entry::GENERATION_BITS);

/// The longest lag, in ticks: 52 s at a tick of 0.2 ms.
pub(super) const LAG_MAX: u64 = (1 << LAG_BITS) - 1;

/// Where the count of moves stops. A timer that was filed anew this often has its birth in the
/// side. (In models that is after the first move.)
pub(super) const MOVES_MAX: u64 = if cfg!(loom) { 1 } else { (1 << MOVES_BITS) - 1 };

/// A cell that has reached this generation when it is freed is not used again: 2^37 timers, an
/// hour of a tight loop on one cell. The generations above are for the filings of its last timer.
pub(super) const GENERATION_LAST: u64 = 1 << (GENERATION_BITS - 1);

/// The state of a cell: the table in README.md of this room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Vacant,
    Armed,
    Held,
    Doomed,
    Left,
    Running,
    Ended,
    Paused,
}

/// What happens to a PAUSED timer. It lies where the lag of an ARMED one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Nothing: it waits to be resumed.
    Waits,
    /// One thread pauses it.
    Pausing,
    /// One thread resumes it, or sets what is left.
    Changing,
    /// It is periodic, and its run is in progress.
    Runs,
}

/// `generation (38 bits) | lag (18) | repeats (1) | rounded (1) | moves (3) | state (3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    #[inline]
    pub(super) fn new(generation: u64, state: State) -> Self {
        debug_assert!(generation >> GENERATION_BITS == 0);
        Self(generation << GENERATION_SHIFT | state as u64)
    }

    #[inline]
    pub(super) fn state(self) -> State {
        match self.0 & ((1 << STATE_BITS) - 1) {
            0 => State::Vacant,
            1 => State::Armed,
            2 => State::Held,
            3 => State::Doomed,
            4 => State::Left,
            5 => State::Running,
            6 => State::Ended,
            _ => State::Paused,
        }
    }

    /// Rises with every filing and every free: it names the filing.
    #[inline]
    pub(super) fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    /// Whether it is ARMED with a payload, has no lag, and has this generation.
    #[inline]
    pub(super) fn is_plain(self, generation: u64) -> bool {
        let moves = ((1 << MOVES_BITS) - 1) << MOVES_SHIFT;
        self.0 & !(moves | ROUNDED) == Self::new(generation, State::Armed).0
    }

    /// Ticks from the filed deadline to the timer's deadline.
    #[inline]
    pub(super) fn lag(self) -> u64 {
        self.0 >> LAG_SHIFT & LAG_MAX
    }

    /// How often the timer was filed anew, up to `MOVES_MAX`.
    #[inline]
    pub(super) fn moves(self) -> u64 {
        self.0 >> MOVES_SHIFT & ((1 << MOVES_BITS) - 1)
    }

    /// The generation of the timer's first filing. `None`: the side has it.
    #[inline]
    pub(super) fn birth(self) -> Option<u64> {
        (self.moves() < MOVES_MAX).then(|| self.generation() - self.moves())
    }

    /// Whether the content is a `Repeat`.
    #[inline]
    pub(super) fn repeats(self) -> bool {
        self.0 & REPEATS != 0
    }

    #[inline]
    pub(super) fn with_state(self, state: State) -> Self {
        Self(self.0 >> STATE_BITS << STATE_BITS | state as u64)
    }

    /// What happens to the timer, which is PAUSED.
    #[inline]
    pub(super) fn pause_state(self) -> Pause {
        debug_assert!(self.state() == State::Paused);
        match self.lag() {
            0 => Pause::Waits,
            1 => Pause::Pausing,
            2 => Pause::Changing,
            _ => Pause::Runs,
        }
    }

    /// The same word, PAUSED.
    #[inline]
    pub(super) fn paused(self, how: Pause) -> Self {
        Self(self.without_lag() | (how as u64) << LAG_SHIFT).with_state(State::Paused)
    }

    /// The word of the run in which it was PAUSED.
    #[inline]
    pub(super) fn running(self) -> Self {
        Self(self.without_lag()).with_state(State::Running)
    }

    #[inline]
    fn without_lag(self) -> u64 {
        self.0 & !(LAG_MAX << LAG_SHIFT)
    }

    /// Whether a run has the content, paused or not.
    #[inline]
    pub(super) fn runs(self) -> bool {
        match self.state() {
            State::Running => true,
            State::Paused => self.pause_state() == Pause::Runs,
            _ => false,
        }
    }

    /// The word of a timer that was moved: its deadline is what somebody asked for.
    #[inline]
    pub(super) fn with_lag(self, lag: u64) -> Self {
        let rounded = if broken(Fault::RearmKeepsRounding) {
            0
        } else {
            ROUNDED
        };
        Self(self.without_lag() & !rounded | lag << LAG_SHIFT)
    }

    #[inline]
    pub(super) fn repeating(self) -> Self {
        Self(self.0 | REPEATS)
    }

    /// The word of a filing of which the pause side has the rounding.
    #[inline]
    pub(super) fn rounded(self) -> Self {
        Self(self.0 | ROUNDED)
    }

    /// Whether the timer was filed by a resume, or by a run after one, and was not moved since.
    #[inline]
    pub(super) fn is_rounded(self) -> bool {
        self.0 & ROUNDED != 0
    }

    /// The word of the timer's next filing. After the highest generation comes `GENERATION_LAST`
    /// again: so the cell stays used up, however often its last timer is filed.
    #[inline]
    pub(super) fn refiled(self) -> Self {
        let move_up = if self.moves() < MOVES_MAX {
            1 << MOVES_SHIFT
        } else {
            0
        };
        let filed = Self(self.without_lag() & !ROUNDED)
            .with_state(State::Armed)
            .0;
        let (next, went_round) = filed.overflowing_add(1 << GENERATION_SHIFT);
        Self((next | u64::from(went_round) << (u64::BITS - 1)) + move_up)
    }

    /// The word of the cell's next timer. (There is none after the highest generation: the cell is
    /// used up.)
    #[inline]
    pub(super) fn freed(self) -> Self {
        Self(
            Self::new(self.generation(), State::Vacant)
                .0
                .wrapping_add(1 << GENERATION_SHIFT),
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let waiting = [State::Vacant, State::Armed, State::Held];
        let states = waiting
            .into_iter()
            .chain([State::Doomed, State::Left, State::Running, State::Ended])
            .chain([State::Paused]);
        let word = Word::new(5, State::Armed);
        for state in states {
            let all = word.repeating().with_lag(LAG_MAX).with_state(state);
            assert_eq!(
                (
                    all.generation(),
                    all.lag(),
                    all.state(),
                    all.repeats(),
                    all.moves()
                ),
                (5, LAG_MAX, state, true, 0)
            );
            let mut again = all;
            for moves in 1..MOVES_MAX + 3 {
                again = again.with_lag(LAG_MAX).with_state(state).refiled();
                assert_eq!(
                    (
                        again.generation(),
                        again.lag(),
                        again.state(),
                        again.repeats()
                    ),
                    (5 + moves, 0, State::Armed, true)
                );
                assert_eq!(
                    (again.moves(), again.birth()),
                    (moves.min(MOVES_MAX), (moves < MOVES_MAX).then_some(5))
                );
                assert_eq!(again.freed(), Word::new(6 + moves, State::Vacant));
            }
        }
        let plain = Word::new(5, State::Armed);
        assert!(
            !plain.repeats() && !plain.with_lag(LAG_MAX).repeats() && plain.repeating().repeats()
        );
        assert_eq!(
            (
                plain.repeating().lag(),
                plain.repeating().moves(),
                plain.repeating().repeating()
            ),
            (0, 0, plain.repeating())
        );
        assert_eq!(
            plain.repeating().with_lag(LAG_MAX).with_lag(0),
            plain.repeating()
        );
        assert!(
            plain.is_plain(5) && plain.refiled().is_plain(6),
            "moved, but filed where it is due"
        );
        assert!(
            !plain.is_plain(4) && !plain.is_plain(6) && !plain.refiled().is_plain(5),
            "another filing"
        );
        assert!(
            !plain.repeating().is_plain(5)
                && !plain.with_lag(1).is_plain(5)
                && !plain.with_state(State::Held).is_plain(5)
        );
        for how in [Pause::Waits, Pause::Pausing, Pause::Changing, Pause::Runs] {
            let paused = plain.repeating().with_lag(LAG_MAX).paused(how);
            assert_eq!(
                (paused.state(), paused.pause_state(), paused.generation()),
                (State::Paused, how, 5)
            );
            assert!(paused.repeats() && !paused.is_plain(5));
            assert_eq!(paused.runs(), how == Pause::Runs);
            assert_eq!((paused.refiled().lag(), paused.refiled().moves()), (0, 1));
        }
        let rounded = plain.repeating().rounded();
        assert!(!plain.is_rounded() && rounded.is_rounded() && rounded.repeats());
        assert_eq!((rounded.lag(), rounded.moves()), (0, 0));
        assert!(plain.rounded().is_plain(5), "filed where it is due");
        assert!(
            rounded.with_state(State::Held).is_rounded()
                && rounded.paused(Pause::Runs).running().is_rounded(),
            "not moved"
        );
        for moved in [rounded.with_lag(0), rounded.with_lag(1), rounded.refiled()] {
            assert!(!moved.is_rounded() && moved.repeats());
        }
        let last = Word::new((1 << GENERATION_BITS) - 1, State::Held);
        assert_eq!(
            (last.refiled().generation(), last.refiled().moves()),
            (GENERATION_LAST, 1),
            "the generation goes round in its upper half, and touches nothing else"
        );
        assert_eq!(last.freed(), Word::new(0, State::Vacant));
    }
}
