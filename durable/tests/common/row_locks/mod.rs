//! Model of how cancels and hand-outs meet in PostgreSQL: row by row, and not at the lease.
//! `stateright` tries every order of the steps of two nodes and of users' transactions.
//!
//! # The tables
//! - `timer`: the rows. A user's transaction locks what it ends or moves FOR UPDATE.
//! - `gate`: one row for a partition, which never changes. Its locks alone count.
//! - `lease`: who owns the partition, and `claimed_upto`, the watermark that former owners left.
//! - `watermark`: one row for each node, for all its partitions. A node has it before it owns any.
//! - `node`: until when a node is alive, and whether another node has declared it dead.
//!
//! A partition's effective watermark is the greater of `claimed_upto` and its owner's watermark.
//!
//! # The protocol
//! a user's call that ends or moves a timer, in a transaction of the user's
//! - GateShare: locks the gate FOR SHARE, until the transaction ends.
//! - RowLock: locks the row FOR UPDATE. In a snapshot it fails if the row has changed since.
//! - WatermarkLook: in a later statement, reads the effective watermark. In a snapshot this locks
//!   both rows FOR SHARE, which fails if one has changed since, and lets go of them at once.
//! - CallAnswer: if the row is due after it, it is deleted or moved, and the call says `true`. If
//!   not, the row's lock is released, and it says `false`.
//!
//! a node
//! - WatermarkCommit: raises its watermark.
//! - GateProbe: in a later statement, looks which gates can be locked FOR UPDATE, and lets go. A
//!   gate that was free is not looked at again before the watermark is raised.
//! - ReadPlain: in a still later statement, reads the partition if its gate was free.
//! - ReadLocking: reads it FOR KEY SHARE SKIP LOCKED if it was not. A row that has changed since
//!   the statement's snapshot is checked again.
//! - HandOut: hands out what was read, once, while the node has the right to.
//! - MarkDead: declares another node dead whose time has run out.
//! - TakeOver: in a later statement, takes the lease of a node that is dead, or one that was given
//!   back. Writes the dead node's watermark to `claimed_upto`.
//! - GiveBack: gives up the right first; then writes its own watermark there.
//! - NodeRenew: succeeds if the node is not dead, and its time had not run out when this began.
//!
//! # What it stands for
//! - A move is a statement, or the part of one between its snapshot and a lock; or a commit. The
//!   order of moves is any.
//! - Times are those of deadlines and watermarks: 1 and 2. How long a node has the right to hand
//!   out is no number. By the node's own clock it ends before the node's time runs out by the
//!   database's: `models/fleet.rs` shows how that comes about.
//! - A node that makes no move is paused, or cut off, or has crashed.
//! - In the end what nodes and open transactions have to do they do.
//!
//! # Limits
//! One partition: a row, its gate and its lease concern no other. Two nodes, two timers, two users'
//! transactions; the numbers of calls, renewals, ends of rights and give-backs, as [`Bounds`] says.
//! Acks, retries and arms are left out: of those `models/fleet.rs` has all orders.

mod clients;
mod nodes;
mod promises;
mod state;

pub use promises::{Event, Promise};
use state::{CLIENTS, State};
use stateright::{Model, Property};

/// What a user's transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Cancels, in READ COMMITTED.
    Cancels,
    /// Cancels, in REPEATABLE READ: all its statements see what its first one saw.
    CancelsInSnapshot,
    /// Moves a timer to the other deadline, in READ COMMITTED.
    Moves,
}

impl Kind {
    pub const fn has_snapshot(self) -> bool {
        matches!(self, Self::CancelsInSnapshot)
    }
}

/// How much there is of each in a model.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub clients: [Option<Kind>; CLIENTS],
    /// Calls that each transaction may make.
    pub calls: u8,
    /// How often a node's right to hand out ends, whichever node's it is.
    pub ends: u8,
    pub renewals: u8,
    pub give_backs: u8,
}

/// A step that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockFault {
    /// GateShare: is left out.
    GateLeftOut,
    /// GateShare: comes after RowLock.
    GateAfterRow,
    /// GateShare: comes after WatermarkLook.
    GateLast,
    /// GateShare: is undone with the row's lock when a call says `false`.
    GateLetGo,
    /// RowLock: a move locks the row FOR NO KEY UPDATE, as an update without another lock does.
    MovedWithoutForUpdate,
    /// WatermarkLook: comes before both locks.
    LooksBeforeLocks,
    /// WatermarkLook: is in the statement that locks the row, so its snapshot is older.
    LooksInStatementOfLock,
    /// WatermarkLook: in a snapshot, locks FOR KEY SHARE, which does not fail.
    LooksInOldSnapshot,
    /// WatermarkLook: reads the lease, and then the owner's watermark; one that is missing is none.
    LooksTwice,
    /// WatermarkLook: takes the greatest of all nodes.
    LooksAtAllNodes,
    /// CallAnswer: after `false` the row stays locked.
    FalseKeepsLock,
    /// WatermarkCommit: puts the watermark into a new row, and leaves the old one as it was.
    NextRowAlone,
    /// WatermarkCommit: the first one makes the row; until then a missing one is none.
    WatermarkRowLate,
    /// GateProbe: comes before WatermarkCommit.
    ProbedBeforeCommit,
    /// GateProbe: comes before TakeOver.
    ProbedBeforeTake,
    /// GateProbe: is in the statement that reads, so that the read's snapshot is older.
    ProbedInStatementOfRead,
    /// ReadPlain: at a gate that was not free, too.
    PlainAtLockedGate,
    /// ReadPlain, ReadLocking: never read again what lies below.
    NeverScanned,
    /// TakeOver: the dead node's watermark is not written down.
    TakenUnwritten,
    /// TakeOver: the watermark is read in a snapshot from before MarkDead.
    TakenInOldSnapshot,
    /// TakeOver: without MarkDead, from a node whose time has run out.
    TakenUnmarked,
    /// GiveBack: the watermark is not written down.
    GivenUnwritten,
    /// GiveBack: the node goes on to hand out until it is done.
    GivenBeforeStop,
    /// NodeRenew: whether the node is dead is not looked at.
    RenewsDead,
    /// NodeRenew: whether its time had run out is not looked at.
    RenewsLate,
}

pub struct RowLocks {
    pub bounds: Bounds,
    pub fault: Option<LockFault>,
}

impl RowLocks {
    fn is_broken(&self, fault: LockFault) -> bool {
        self.fault == Some(fault)
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Client(usize, clients::Move),
    Node(usize, nodes::Move),
}

impl Model for RowLocks {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(
            &self.bounds,
            self.is_broken(LockFault::WatermarkRowLate),
        )]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        self.duties(state, moves);
        self.chances_of_clients(state, moves);
        self.chances_of_nodes(state, moves);
    }

    fn next_state(&self, last: &State, next: Move) -> Option<State> {
        let mut state = *last;
        match next {
            Move::Client(client, next) => self.move_client(&mut state, client, next),
            Move::Node(node, next) => self.move_node(&mut state, node, next),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties()
    }
}

impl RowLocks {
    /// What nodes and open transactions do sooner or later.
    fn duties(&self, state: &State, moves: &mut Vec<Move>) {
        self.duties_of_clients(state, moves);
        self.duties_of_nodes(state, moves);
    }

    /// Whether nothing more happens by itself.
    fn is_quiet(&self, state: &State) -> bool {
        let mut moves = Vec::new();
        self.duties(state, &mut moves);
        moves.is_empty()
    }
}
