//! No counter: for systems where the processor's was not compared with `Instant`. Each reading of
//! the time is one of `Instant` there.

use super::rate::Rate;

/// In place of the counter of a clock.
#[derive(Clone, Debug)]
pub(crate) struct NoCounter;

#[expect(clippy::unused_self, reason = "it has the calls of CycleCounter")]
impl NoCounter {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) const fn rate(&self) -> Option<Rate> {
        None
    }

    pub(super) const fn reading(&self) -> u64 {
        0
    }
}
