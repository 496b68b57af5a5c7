//! Trouble: what is done to processes and to their server.

use crate::clock::now_ns;
use crate::ledger::Moment;
use crate::wire::Kind;

/// The kind that is paused.
pub(crate) const PAUSED: Kind = Kind::Batch;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Trouble {
    /// A node is killed, and another one started.
    Kill,
    /// A node is stopped (SIGSTOP) for longer than its lease, and goes on.
    PauseLong,
    /// The same for a shorter time.
    PauseShort,
    /// A node more.
    Add,
    /// A node is told to stop.
    Stop,
    /// All processes of the server are killed, and it is started again.
    ServerKilled,
    /// The server is told to end at once, and is started again.
    ServerEnded,
    /// Another connection holds a snapshot.
    Snapshot,
    /// A program that lacks a kind is deployed, node by node, and taken back.
    Deploy,
    /// A kind is paused by SQL, and resumed.
    KindPaused,
    /// The primary is killed, and its standby promoted.
    Promote,
    /// The machine itself stood still.
    Stall,
}

impl Trouble {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "node killed",
            Self::PauseLong => "node paused past its lease",
            Self::PauseShort => "node paused",
            Self::Add => "node added",
            Self::Stop => "node stopped",
            Self::ServerKilled => "server killed",
            Self::ServerEnded => "server ended",
            Self::Snapshot => "snapshot held",
            Self::Deploy => "deploy without a kind, and back",
            Self::KindPaused => "kind paused",
            Self::Promote => "standby promoted",
            Self::Stall => "machine stood still",
        }
    }

    pub(crate) fn is_pause(self) -> bool {
        matches!(self, Self::PauseLong | Self::PauseShort)
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) what: Trouble,
    pub(crate) node: Option<u32>,
    pub(crate) from: Moment,
    /// When it was over. Its effects last longer.
    pub(crate) to: Moment,
    /// Of a kill or a pause: the partitions that the node owned.
    pub(crate) partitions: Vec<u16>,
}

impl Happened {
    /// It is over now.
    pub(crate) fn since(from: Moment, what: Trouble, node: Option<u32>) -> Self {
        Self {
            what,
            node,
            from,
            to: now_ns(),
            partitions: Vec::new(),
        }
    }
}
