//! State: what is committed, who holds which lock, the nodes, and a ledger that stands outside.

use super::Bounds;

/// Timers of a model.
pub const TIMERS: usize = 2;

/// Nodes of a model. The first has the lease in the beginning.
pub const NODES: usize = 2;

/// Users' transactions of a model.
pub const CLIENTS: usize = 2;

/// A deadline, or a watermark. 0 is before all.
pub type Time = u8;

/// The last deadline. No watermark is later.
pub const LAST: Time = 2;

/// Later than all.
const NEVER: Time = Time::MAX;

/// The row of the partition's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub owner: Option<usize>,
    pub claimed_upto: Time,
}

/// What is committed. A copy of it is a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tables {
    /// The deadlines of the timers that are stored.
    pub rows: [Option<Time>; TIMERS],
    pub lease: Lease,
    pub watermarks: [Option<Time>; NODES],
}

impl Tables {
    /// The effective watermark. An owner without a row is one that may have handed out anything.
    pub fn watermark(&self) -> Time {
        let of_owner = |node: usize| self.watermarks[node].unwrap_or(NEVER);
        let of_owner = self.lease.owner.map_or(0, of_owner);
        self.lease.claimed_upto.max(of_owner)
    }

    /// As if an owner without a row had handed out nothing.
    pub fn watermark_or_none(&self) -> Time {
        let of_owner = self.lease.owner.and_then(|node| self.watermarks[node]);
        self.lease.claimed_upto.max(of_owner.unwrap_or(0))
    }
}

/// A node as the database sees it. This row is only changed under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its time has run out.
    pub is_over: bool,
    pub is_dead: bool,
}

/// A request to live on. Each node has one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Renewal {
    None,
    /// Its transaction has begun, and takes this for the present time: the node's time had run out.
    TrialBegun {
        was_over: bool,
    },
    /// It has succeeded. The answer is on its way.
    Answered,
}

/// A statement that changes the lease, from its snapshot on. Each node has one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    None,
    Takes { seen: Lease, claimed_upto: Time },
    GivesBack { claimed_upto: Time },
}

/// How far a node is with reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    Idle,
    /// Nothing but the snapshot of a statement that reads and probes.
    Sees([Option<Time>; TIMERS]),
    Probed {
        is_free: bool,
    },
    /// Locks the rows that its snapshot had, one after the other.
    Locks([bool; TIMERS]),
}

/// A node, as it sees itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// It may hand out by its own clock.
    pub has_right: bool,
    /// It has heard that its time is over, and makes no move any more.
    pub is_gone: bool,
    pub renewal: Renewal,
    pub change: Change,
    /// It owns the partition, as far as it knows, and former owners left this watermark.
    pub held: Option<Time>,
    pub read: Read,
    /// The gate was free when this watermark was committed. So it is for ever, for these rows.
    pub free_upto: Time,
    /// Rows due by this were read once.
    pub read_upto: Time,
    /// Rows that were read, and are not handed out.
    pub found: [Option<Time>; TIMERS],
    /// Rows that it has handed out since it has held the lease.
    pub handed: [Option<Time>; TIMERS],
}

impl Node {
    const FRESH: Self = Self {
        has_right: true,
        is_gone: false,
        renewal: Renewal::None,
        change: Change::None,
        held: None,
        read: Read::Idle,
        free_upto: 0,
        read_upto: 0,
        found: [None; TIMERS],
        handed: [None; TIMERS],
    };

    /// It is over.
    pub const GONE: Self = Self {
        has_right: false,
        is_gone: true,
        ..Self::FRESH
    };

    /// Forgets a lease, and what was read under it.
    pub fn drop_lease(&mut self) {
        self.held = None;
        self.read = Read::Idle;
        self.free_upto = 0;
        self.read_upto = 0;
        self.found = [None; TIMERS];
        self.handed = [None; TIMERS];
    }
}

/// A lock of a row, by a user's transaction, and what its commit does to the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// The call is not answered.
    Asked,
    Deletes,
    Moves(Time),
    /// The call has said `false`.
    Kept,
}

/// A call that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    pub timer: usize,
    /// Steps that it has made.
    pub steps: u8,
    /// The row's deadline, once it is locked.
    pub due: Time,
    /// The watermark, once it is read.
    pub watermark: Time,
    /// The lease, if a first statement has read it and a second one is to read the watermark.
    pub lease: Option<Lease>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    NotBegun,
    Open,
    Ended,
}

/// A user's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pub stage: Stage,
    pub calls_left: u8,
    /// What its first statement has seen, above READ COMMITTED.
    pub snapshot: Option<Tables>,
    pub call: Option<Call>,
    pub has_gate: bool,
    pub locks: [Option<Lock>; TIMERS],
}

impl Client {
    pub const ENDED: Self = Self {
        stage: Stage::Ended,
        calls_left: 0,
        snapshot: None,
        call: None,
        has_gate: false,
        locks: [None; TIMERS],
    };
}

/// What has happened to a timer, by what users and handlers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    pub is_cancelled: bool,
    pub is_moved: bool,
    /// A locking read has skipped it.
    pub is_skipped: bool,
    /// Who has handed it out last, since it was moved.
    pub handed_by: Option<usize>,
}

/// What some call or step has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub says_false: bool,
    /// A transaction in a snapshot has failed with 40001.
    pub has_failed: bool,
    /// One has committed a `true`.
    pub ends_in_snapshot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub tables: Tables,
    pub members: [Member; NODES],
    pub nodes: [Node; NODES],
    pub clients: [Client; CLIENTS],
    pub ends_left: u8,
    pub renewals_left: u8,
    pub give_backs_left: u8,
    pub pages: [Page; TIMERS],
    pub seen: Seen,
    /// Promises that were broken, a bit each.
    pub broken: u8,
}

impl State {
    pub fn new(bounds: &Bounds, lacks_watermarks: bool) -> Self {
        let lease = Lease {
            owner: Some(0),
            claimed_upto: 0,
        };
        let watermark = (!lacks_watermarks).then_some(0);
        let owner = Node {
            held: Some(0),
            ..Node::FRESH
        };
        let client = |kind: Option<super::Kind>| match kind {
            None => Client::ENDED,
            Some(_) => Client {
                stage: Stage::NotBegun,
                calls_left: bounds.calls,
                ..Client::ENDED
            },
        };
        Self {
            tables: Tables {
                rows: [Some(1), Some(LAST)],
                lease,
                watermarks: [watermark; NODES],
            },
            members: [Member {
                is_over: false,
                is_dead: false,
            }; NODES],
            nodes: [owner, Node::FRESH],
            clients: bounds.clients.map(client),
            ends_left: bounds.ends,
            renewals_left: bounds.renewals,
            give_backs_left: bounds.give_backs,
            pages: [Page {
                is_cancelled: false,
                is_moved: false,
                is_skipped: false,
                handed_by: None,
            }; TIMERS],
            seen: Seen {
                says_false: false,
                has_failed: false,
                ends_in_snapshot: false,
            },
            broken: 0,
        }
    }
}
