//! Tally: what the ledger has counted.

/// How much was done in a phase, and how long the child was at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    pub(crate) operations: u64,
    pub(crate) us: u64,
}

/// What the ledger has counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) armed: u64,
    pub(crate) cancelled: u64,
    /// Cancels that have said `false`.
    pub(crate) refused: u64,
    pub(crate) handled: u64,
    /// Handled once more in a later life.
    pub(crate) handled_again: u64,
    /// Cancels that said `true`, though the timer was handled: in an earlier life, whose kill cut
    /// the ack off, or it is an offence too.
    pub(crate) cancelled_after: u64,
    /// Armings, and cancels, without an answer when the child was killed.
    pub(crate) arms_in_doubt: u64,
    pub(crate) cancels_in_doubt: u64,
    /// Armings that turned out to have been done: handled, or found in the store.
    pub(crate) in_doubt_done: u64,
    pub(crate) kills: u64,
    /// Timers that waited when the child was started, at the most.
    pub(crate) waiting_max: u64,
    pub(crate) commits: u64,
    pub(crate) written_bytes: u64,
    /// Until all are armed: arms, and the cancels that were made meanwhile.
    pub(crate) arming: Pace,
    pub(crate) cancelling: Pace,
    /// Handled in one second, at the most.
    pub(crate) handled_per_s_max: u64,
}
