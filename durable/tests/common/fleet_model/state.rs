//! State: the database, the nodes, and a ledger that stands outside of both.

use super::Bounds;

/// Timers of a model.
pub const TIMERS: usize = 2;

/// Nodes of a model. They are interchangeable.
pub const NODES: usize = 2;

/// A time of the database's clock. The first is 1, so 0 is before all.
pub type Time = u8;

/// Who has the lease, by the database. A node that starts again after a crash is another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// It was released.
    Nobody,
    Node(usize),
    /// A node that has crashed since.
    Crashed,
}

/// The row of the partition's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub owner: Owner,
    pub epoch: u8,
    pub until: Time,
    /// The watermark.
    pub claimed_upto: Time,
}

/// The row of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    pub due: Time,
    pub attempts: u8,
}

/// What has become of a timer, by what clients and handlers were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    NotArmed,
    Stored,
    Acked,
    Cancelled,
    /// It is a dead letter.
    Buried,
}

/// Whether a timer was handed out since it was armed, or since a retry moved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handed {
    No,
    /// Under this epoch.
    Under(u8),
    /// Under a lease that has run out since, and was taken over.
    Lapsed,
}

/// A timer: its row, and the ledger's page about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    pub row: Option<Row>,
    pub fate: Fate,
    pub handed: Handed,
    /// Handlers that have started.
    pub starts: u8,
    /// A cancel has looked at the watermark, and has let go of the lease's row.
    pub is_looked_at: bool,
}

/// What the database has answered to LeaseTake or LeaseRenew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    pub epoch: u8,
    /// The database's clock, from `sent` on; 0 where nodes need not measure it.
    pub after_sent: Time,
    pub claimed_upto: Time,
    /// Rows may have been handed out and not settled: TakeOverSuspect is owed.
    pub owes_raise: bool,
}

/// A request for a lease, on its way there or back. Each node has one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The epoch that is to be renewed. `None`: the lease is to be taken.
    pub renews: Option<u8>,
    /// The node's clock, read before the request was sent.
    pub sent: Time,
    pub answer: Option<Grant>,
}

/// What a node knows of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    pub epoch: u8,
    /// The last time of the node's clock at which it hands out.
    pub deadline: Time,
    /// The database has this watermark, or a later one.
    pub claimed_upto: Time,
    /// Rows due by this were read. Those that come later are for ScanBelow.
    pub read_upto: Time,
    pub owes_raise: bool,
    /// How far the database's clock is behind the node's at most, as far as the node knows.
    pub behind: i8,
}

/// A process. One that makes no move is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    pub is_alive: bool,
    pub request: Option<Request>,
    pub held: Option<Held>,
    /// Rows that were read under `held`, and wait until they are due.
    pub found: [Option<Row>; TIMERS],
    /// The epoch under which a row was handed out, until its settlement is answered.
    pub running: [Option<u8>; TIMERS],
    /// The epoch under which the node was paused, just before a handler's start.
    pub paused: [Option<u8>; TIMERS],
}

impl Node {
    pub const FRESH: Self = Self {
        is_alive: true,
        request: None,
        held: None,
        found: [None; TIMERS],
        running: [None; TIMERS],
        paused: [None; TIMERS],
    };

    /// Forgets a lease, and what was read under it. What runs goes on.
    pub fn drop_lease(&mut self) {
        self.held = None;
        self.found = [None; TIMERS];
    }

    /// Whether it may hand out at this time of its own clock.
    pub fn has_right(&self, clock: Time) -> bool {
        self.held.is_some_and(|held| clock <= held.deadline)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The database's clock.
    pub now: Time,
    /// How far the database's clock is ahead of the nodes' clocks.
    pub stepped: Time,
    pub lease: Lease,
    pub timers: [Timer; TIMERS],
    pub nodes: [Node; NODES],
    /// How often each may still be.
    pub renewals_left: u8,
    pub releases_left: u8,
    pub crashes_left: u8,
    pub losses_left: u8,
    pub clock_steps_left: u8,
    /// Promises that a move has broken, one bit each.
    pub broken: u16,
}

impl State {
    pub fn new(bounds: &Bounds) -> Self {
        let timer = Timer {
            row: None,
            fate: Fate::NotArmed,
            handed: Handed::No,
            starts: 0,
            is_looked_at: false,
        };
        Self {
            now: 1,
            stepped: 0,
            lease: Lease {
                owner: Owner::Nobody,
                epoch: 1,
                until: 0,
                claimed_upto: 0,
            },
            timers: [timer; TIMERS],
            nodes: [Node::FRESH; NODES],
            renewals_left: bounds.renewals,
            releases_left: bounds.releases,
            crashes_left: bounds.crashes,
            losses_left: bounds.losses,
            clock_steps_left: bounds.clock_steps,
            broken: 0,
        }
    }

    pub fn clock_of_nodes(&self) -> Time {
        self.now - self.stepped
    }

    /// Whether LeaseTake would find the lease to be had.
    pub fn is_takeable(&self) -> bool {
        self.lease.owner == Owner::Nobody || self.lease.until < self.now
    }

    /// Whether a statement of a node that is fenced finds the lease's row.
    pub fn is_owner(&self, node: usize) -> bool {
        let epoch = self.nodes[node].held.map(|held| held.epoch);
        self.lease.owner == Owner::Node(node)
            && epoch == Some(self.lease.epoch)
            && self.lease.until > self.now
    }

    /// Makes states that go on alike the same: the lease's epoch is 1, those that are over are 0,
    /// times that are over are 0, and the nodes are sorted. A node forgets a lease that it can no
    /// longer use.
    pub fn merge_alike(&mut self, bounds: &Bounds, is_stale_used: bool) {
        let (clock, current) = (self.clock_of_nodes(), self.lease.epoch);
        let rename = |epoch: &mut u8| *epoch = u8::from(*epoch == current);
        for node in &mut self.nodes {
            if let Some(request) = &mut node.request {
                request.renews.iter_mut().for_each(rename);
                if let Some(grant) = &mut request.answer {
                    rename(&mut grant.epoch);
                }
                // It grants nothing any more.
                if request.sent + bounds.ttl < clock && !bounds.measures_clock {
                    request.sent = 0;
                }
            }
            if let Some(held) = &mut node.held {
                rename(&mut held.epoch);
                if held.deadline < clock {
                    held.deadline = 0;
                }
                if held.epoch == 0 && held.deadline == 0 && !is_stale_used {
                    node.drop_lease();
                }
            }
            node.running.iter_mut().flatten().for_each(rename);
            node.paused.iter_mut().flatten().for_each(rename);
        }
        for timer in &mut self.timers {
            if let Handed::Under(epoch) = &mut timer.handed {
                rename(epoch);
            }
            if timer.row.is_none() && timer.fate != Fate::Stored {
                timer.handed = Handed::No;
                // Of a dead letter it counts whether somebody has seen it.
                timer.starts = timer.starts.min(u8::from(timer.fate == Fate::Buried));
            }
        }
        self.lease.epoch = 1;
        if self.lease.until < self.now {
            self.lease.until = 0;
        }
        if self.nodes[0] > self.nodes[1] {
            self.nodes.swap(0, 1);
            if let Owner::Node(node) = &mut self.lease.owner {
                *node = 1 - *node;
            }
        }
    }
}
