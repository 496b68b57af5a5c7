//! No counter: for systems where it was not held against `Instant`. Each reading of the time is one
//! of `Instant` there.

/// In place of the counter of a clock.
#[derive(Clone, Debug)]
pub(crate) struct NoCounter;

#[expect(clippy::unused_self, reason = "as the other one")]
impl NoCounter {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) const fn held(&self) -> u64 {
        0
    }

    pub(super) const fn reading(&self) -> u64 {
        0
    }

    pub(super) const fn late_ns(&self, _: u64) -> u64 {
        0
    }
}
