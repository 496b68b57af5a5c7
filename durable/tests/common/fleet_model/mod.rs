//! Model of a fleet: nodes that share a database, one partition of durable timers, its lease.
//! `stateright` tries every order of their steps.
//!
//! # The protocol
//! - LeaseTake: if the lease was released or has run out, it is the node's, with the next epoch.
//!   The answer says what the watermark was, and whether the lease was released.
//! - LeaseRenew: if the epoch is the node's. The node counts its lease from before it sent this.
//! - TakeOverSuspect: if the lease was not released, the rows due by the former watermark get one
//!   attempt more; with all they may have they are buried. (A node charges them later, when their
//!   trials begin, and only some of them. The model has the worst case: all of them, at once.)
//! - ClaimCommit: raises the watermark.
//! - ClaimRead: in a later transaction, reads the rows due by it that were not looked at before.
//! - ScanBelow: reads all rows due by it: some were armed or moved there after ClaimRead.
//! - HandStart: starts the handler of a row that was read, is due, and is not in flight, while the
//!   lease lasts by the node's own clock.
//! - AckFenced, RetryFenced: delete the row, or move it and add an attempt, if the epoch is the one
//!   that it was handed out under.
//! - CancelGuarded: deletes the row, if it is due after the watermark.
//! - LeaseRelease: when all that was handed out is settled, and TakeOverSuspect is not owed.
//!
//! # What it stands for
//! - A move is one transaction, or happens on one node. The order of moves is any.
//! - A node that makes no move is paused, or cut off, or slow.
//! - LeaseTake and LeaseRenew are three moves: sent, executed, answered. For other requests one is
//!   enough: what a node does between is what it might have done before or after.
//! - A node that crashes forgets all. What it had sent, and is executed later, counts as executed
//!   before: nobody sees the difference.
//! - The clocks of the nodes show what the database's shows, unless a bound says otherwise: only
//!   differences count.
//! - In the end the clock stands still, and what nodes have to do they do. Should nobody have the
//!   lease then, it runs out.
//!
//! # Limits
//! One partition: no step concerns two. Two nodes, two timers; times, and the number of crashes,
//! releases, renewals and losses, as [`Bounds`] says. Keys, moves by clients and calendars are left
//! out: a move is a cancel and an arm in one transaction.

mod moves;
mod promises;
mod state;
mod steps;

pub use promises::{Event, Promise};
use state::State;
pub use state::Time;
use stateright::{Model, Property};

/// With this many attempts a timer is buried in place of being handed out.
pub const ATTEMPTS_MAX: u8 = 2;

/// How much there is of each in a model.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The clock stands still from then on. It begins with 1.
    pub end: Time,
    /// How long a lease lasts.
    pub ttl: Time,
    /// A node hands out for less than that by this.
    pub margin: Time,
    /// How far ahead of the clock a watermark is.
    pub ahead: Time,
    /// The times that each timer may be armed for, at any time. None: there is no such timer.
    pub dues: [&'static [Time]; state::TIMERS],
    pub renewals: u8,
    pub releases: u8,
    pub crashes: u8,
    /// Answers that are lost.
    pub losses: u8,
    /// Steps of 1 that the database's clock makes ahead of the nodes' clocks.
    pub clock_steps: u8,
    pub has_cancels: bool,
    pub has_retries: bool,
    /// The handler of this timer ends its process.
    pub killer: Option<usize>,
    /// A node has the database's clock from answers alone.
    pub measures_clock: bool,
}

/// A step that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseFault {
    /// LeaseTake: takes a lease that has not run out.
    TakenEarly,
    /// LeaseTake: the watermark begins anew.
    WatermarkLowered,
    /// LeaseTake: what was read in an earlier epoch is kept.
    FoundKept,
    /// LeaseTake, LeaseRenew: the node counts its lease from the answer.
    LeaseFromAnswer,
    /// LeaseTake, LeaseRenew: the database counts from a transaction that was open before.
    LeaseFromOldTransaction,
    /// LeaseTake, LeaseRenew: the node takes the answer's clock as that of when it sent.
    ClockFromRequest,
    /// LeaseTake, LeaseRenew: the node uses all of its lease.
    MarginLeftOut,
    /// LeaseRenew: the epoch is not looked at, and two nodes have one name.
    RenewUnfenced,
    /// LeaseRenew: the epoch is not looked at. Owners have names of their own.
    RenewWithoutEpoch,
    /// LeaseRenew: renews a lease that has run out, if nobody has taken it.
    RenewLate,
    /// LeaseRelease: some of what was handed out is not settled.
    ReleasedUnsettled,
    /// LeaseRelease: TakeOverSuspect is owed.
    ReleasedUnraised,
    /// LeaseRelease: neither the epoch nor the owner is looked at.
    ReleaseUnfenced,
    /// LeaseRelease: the node goes on to hand out until it hears that the lease is gone.
    HandsOutAfterRelease,
    /// TakeOverSuspect: is left out.
    AttemptsNotRaised,
    /// TakeOverSuspect: the epoch is not looked at.
    RaiseUnfenced,
    /// ClaimCommit: neither the epoch nor the owner is looked at.
    ClaimUnfenced,
    /// ClaimRead: comes before TakeOverSuspect.
    ReadBeforeRaise,
    /// ClaimRead: comes before ClaimCommit.
    ReadBeforeClaim,
    /// ClaimRead, HandStart: do without ClaimCommit.
    HandedBeforeClaim,
    /// ScanBelow: is left out.
    NeverScanned,
    /// ScanBelow: what is settled after the read and before its answer is still found.
    SettledStillFound,
    /// HandStart: hands out what is in flight.
    InFlightNotKept,
    /// HandStart: the node is paused between its look at the clock and the handler's start.
    PausedBeforeStart,
    /// AckFenced: the epoch is not looked at.
    AckUnfenced,
    /// RetryFenced: the epoch is not looked at.
    RetryUnfenced,
    /// CancelGuarded: the watermark is not looked at.
    CancelUnguarded,
    /// CancelGuarded: looks at the watermark in an earlier step, and does not lock it.
    CancelUnlocked,
}

pub struct Fleet {
    pub bounds: Bounds,
    pub fault: Option<LeaseFault>,
}

impl Fleet {
    fn is_broken(&self, fault: LeaseFault) -> bool {
        self.fault == Some(fault)
    }
}

impl Model for Fleet {
    type State = State;
    type Action = moves::Move;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.bounds)]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Self::Action>) {
        self.moves(state, moves);
    }

    fn next_state(&self, last: &State, next: Self::Action) -> Option<State> {
        let mut state = last.clone();
        self.make_move(&mut state, next);
        // With these faults a lease that is over is still used.
        let uses_stale = [
            LeaseFault::FoundKept,
            LeaseFault::RaiseUnfenced,
            LeaseFault::ReleaseUnfenced,
            LeaseFault::RenewUnfenced,
        ];
        let is_stale_used = self.fault.is_some_and(|fault| uses_stale.contains(&fault));
        state.merge_alike(&self.bounds, is_stale_used);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}
