//! Trouble: what is done to the nodes and to the server, and when.

use crate::ledger::Moment;
use fastrand::Rng;

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

/// All kinds, each as often as it is to come up.
const ROUND: [Trouble; 11] = [
    Trouble::Kill,
    Trouble::Kill,
    Trouble::Kill,
    Trouble::PauseLong,
    Trouble::PauseLong,
    Trouble::PauseShort,
    Trouble::Add,
    Trouble::Stop,
    Trouble::ServerKilled,
    Trouble::ServerEnded,
    Trouble::Snapshot,
];

/// Troubles in random order, each of a round before the next round.
pub(crate) struct Plan {
    pub(crate) random: Rng,
    round: Vec<Trouble>,
    left: Vec<Trouble>,
}

impl Plan {
    /// `only`: what there may be; all, if it is empty.
    pub(crate) fn new(seed: u64, only: &[Trouble]) -> Self {
        let is_wanted = |trouble: &Trouble| only.is_empty() || only.contains(trouble);
        Self {
            random: Rng::with_seed(seed),
            round: ROUND.into_iter().filter(is_wanted).collect(),
            left: Vec::new(),
        }
    }

    pub(crate) fn next(&mut self) -> Trouble {
        if self.left.is_empty() {
            self.left = self.round.clone();
            self.random.shuffle(&mut self.left);
        }
        self.left.pop().unwrap_or(Trouble::Kill)
    }
}
