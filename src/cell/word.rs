//! Word: the bits of a cell's state word. What the states mean: README.md of this room.

const STATE_BITS: u32 = 3;
const REFILED: u64 = 1 << STATE_BITS;
const REPEATS: u64 = REFILED << 1;
const LAG_SHIFT: u32 = STATE_BITS + 2;
const LAG_BITS: u32 = 16;
const COUNT_SHIFT: u32 = LAG_SHIFT + LAG_BITS;
const COUNT_BITS: u32 = 64 - COUNT_SHIFT;

/// The longest lag, in ticks: 65 s at a tick of 1 ms.
pub(super) const LAG_MAX: u64 = (1 << LAG_BITS) - 1;

/// A cell whose count has come so far when it is freed is not used again: 2^42 timers, two days of a tight loop on one cell. What is left is for the filings of its
/// last timer.
pub(super) const COUNT_LAST: u64 = 1 << (COUNT_BITS - 1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Vacant,
    Armed,
    Held,
    Doomed,
    Left,
    Running,
    Ended,
}

/// `count (43 bits) | lag (16) | repeats (1) | refiled (1) | state (3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    #[inline]
    pub(super) fn new(count: u64, state: State) -> Self {
        Self(count << COUNT_SHIFT | state as u64)
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
            _ => State::Ended,
        }
    }

    /// Rises with every filing and every free: names the filing.
    #[inline]
    pub(super) fn count(self) -> u64 {
        self.0 >> COUNT_SHIFT
    }

    /// Ticks from the filed deadline to the timer's.
    #[inline]
    pub(super) fn lag(self) -> u64 {
        self.0 >> LAG_SHIFT & LAG_MAX
    }

    /// Whether the timer is not in its first filing: then its birth is in the side.
    #[inline]
    pub(super) fn is_refiled(self) -> bool {
        self.0 & REFILED != 0
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

    #[inline]
    pub(super) fn with_lag(self, lag: u64) -> Self {
        Self(self.0 & !(LAG_MAX << LAG_SHIFT) | lag << LAG_SHIFT)
    }

    #[inline]
    pub(super) fn repeating(self) -> Self {
        Self(self.0 | REPEATS)
    }

    /// The timer's next filing.
    #[inline]
    pub(super) fn refiled(self) -> Self {
        // The count's bits are the highest: what would go beyond them is gone.
        Self(self.with_lag(0).with_state(State::Armed).0.wrapping_add(1 << COUNT_SHIFT) | REFILED)
    }

    /// The cell's next timer.
    #[inline]
    pub(super) fn freed(self) -> Self {
        Self(Self::new(self.count(), State::Vacant).0.wrapping_add(1 << COUNT_SHIFT))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let states = [State::Vacant, State::Armed, State::Held, State::Doomed, State::Left, State::Running, State::Ended];
        let word = Word::new(5, State::Armed);
        for state in states {
            let all = word.repeating().with_lag(LAG_MAX).with_state(state);
            assert_eq!((all.count(), all.lag(), all.state(), all.repeats(), all.is_refiled()), (5, LAG_MAX, state, true, false));
            let again = all.refiled();
            assert_eq!((again.count(), again.lag(), again.state(), again.repeats(), again.is_refiled()), (6, 0, State::Armed, true, true));
            assert_eq!(again.freed(), Word::new(7, State::Vacant));
        }
        let last = Word::new((1 << COUNT_BITS) - 1, State::Held);
        assert_eq!(last.refiled().count(), 0, "the count goes round, and touches nothing else");
        assert_eq!(last.freed(), Word::new(0, State::Vacant));
    }
}
