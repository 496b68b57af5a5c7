//! State: the store, the nodes, and a ledger that stands outside of both.

use super::Bounds;

/// The most nodes of a model.
pub const NODES_MAX: usize = 3;

/// Calls of the rule that a process has, as the store keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permit {
    pub has: u8,
    pub wants: u8,
    /// Only the order of these numbers counts.
    pub since: u8,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    Sent,
    /// Its transaction has the rule's row, and has computed this.
    Open {
        permit: Permit,
        may_make: u8,
    },
    /// It is committed.
    Answered {
        may_make: u8,
    },
}

/// A node asks for calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    pub most: u8,
    pub running: u8,
    /// When its transaction began.
    pub began: u8,
    /// That was in the round.
    pub is_of_round: bool,
    pub stage: Stage,
}

/// Calls of handlers that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Running {
    /// By whether they were there when the round began, and whether the lease under which they
    /// began is over.
    calls: [[u8; 2]; 2],
}

impl Running {
    pub const fn all(self) -> u8 {
        self.counted() + self.calls[0][1] + self.calls[1][1]
    }

    /// Those that the limit counts: a lease that is over has no calls.
    pub const fn counted(self) -> u8 {
        self.calls[0][0] + self.calls[1][0]
    }

    pub const fn old(self) -> u8 {
        self.calls[1][0] + self.calls[1][1]
    }

    pub const fn begin(&mut self) {
        self.calls[0][0] += 1;
    }

    pub const fn has(self, is_old: bool, is_outside: bool) -> bool {
        self.calls[is_old as usize][is_outside as usize] > 0
    }

    pub const fn end(&mut self, is_old: bool, is_outside: bool) {
        self.calls[is_old as usize][is_outside as usize] -= 1;
    }

    pub const fn lease_ends(&mut self) {
        let [young, old] = self.calls;
        self.calls = [[0, young[0] + young[1]], [0, old[0] + old[1]]];
    }

    pub const fn round_begins(&mut self) {
        let [young, old] = self.calls;
        self.calls = [[0, 0], [young[0] + old[0], young[1] + old[1]]];
    }
}

/// A node, and what the store has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// The number of the rule, as the node has read it.
    pub known: u8,
    /// Calls that it may make.
    pub has: u8,
    /// The store may have something of it: it has to ask, also if it wants nothing.
    pub may_have: bool,
    pub running: Running,
    /// Timers that wait for a call.
    pub waiting: u8,
    /// By its own clock its lease lasts.
    pub has_right: bool,
    pub request: Option<Request>,
    /// The store's row.
    pub permit: Option<Permit>,
    /// By the store's clock its lease has run out.
    pub is_over: bool,
    /// The store has found it dead: it needs another name.
    pub is_dead: bool,
    /// The row of the process that was there before, while that counts as alive.
    pub former: Option<Permit>,
    /// For the round: it has had an answer, and it has begun with what it could begin with.
    pub has_asked: bool,
    pub has_begun: bool,
}

impl Node {
    /// A process that begins, and is known to the store.
    pub const fn new(known: u8) -> Self {
        Self {
            known,
            has: 0,
            may_have: true,
            running: Running {
                calls: [[0, 0], [0, 0]],
            },
            waiting: 0,
            has_right: true,
            request: None,
            permit: None,
            is_over: false,
            is_dead: false,
            former: None,
            has_asked: false,
            has_begun: false,
        }
    }

    /// Calls that it may make by what it knows.
    pub fn here(&self) -> u8 {
        self.has.min(self.known)
    }

    pub fn may_begin(&self) -> bool {
        self.has_right && self.waiting > 0 && self.running.all() < self.here()
    }

    /// Its row counts.
    pub fn live(&self) -> Option<Permit> {
        self.permit.filter(|_| !self.is_over && !self.is_dead)
    }

    /// It has timers for more calls than it has.
    pub fn is_hungry(&self, number: u8) -> bool {
        self.waiting > 0 && self.here() < number
    }
}

/// What a model still may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Left {
    pub changes: u8,
    pub ends: u8,
    pub crashes: u8,
    pub losses: u8,
    pub arms: u8,
    pub cancels: u8,
}

/// What an observer notes. A *round* is over when each node knows the number, has its lease, has
/// asked if it has to, and has begun with a timer if it could, and when all handlers have ended
/// that ran when the round began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ledger {
    /// More calls are under way at no time.
    pub allowed: u8,
    /// Rounds since something happened that need not happen.
    pub rounds: u8,
    /// The first node has had a timer that waits, and no call, since the round began; and for how
    /// many rounds before.
    pub is_starved: bool,
    pub starved: u8,
    /// Some node was hungry, and there were calls that no node used, since the round began; and for
    /// how many rounds before.
    pub is_unused: bool,
    pub unused: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The number of calls of the rule.
    pub number: u8,
    pub nodes: [Node; NODES_MAX],
    pub left: Left,
    pub ledger: Ledger,
}

impl State {
    pub fn new(bounds: &Bounds) -> Self {
        let mut nodes = [Node::new(bounds.number); NODES_MAX];
        for (node, waiting) in nodes.iter_mut().zip(bounds.waiting) {
            node.waiting = waiting;
        }
        Self {
            number: bounds.number,
            nodes,
            left: bounds.left,
            ledger: Ledger {
                allowed: bounds.number,
                rounds: 0,
                is_starved: false,
                starved: 0,
                is_unused: false,
                unused: 0,
            },
        }
    }

    /// Handlers that the limit counts.
    pub fn counted(&self) -> u8 {
        let nodes = self.nodes.iter();
        nodes.map(|node| node.running.counted()).sum()
    }

    /// Calls that are under way, or that nodes may make.
    pub fn used(&self) -> u8 {
        let nodes = self.nodes.iter().filter(|node| node.has_right);
        nodes.map(|node| node.here().max(node.running.all())).sum()
    }

    /// Times that differ in their order alone are the same.
    pub fn merge_alike(&mut self) {
        let mut times = Vec::new();
        self.each_time(|time| times.push(*time));
        times.sort_unstable();
        times.dedup();
        self.each_time(|time| {
            let rank = times.iter().position(|other| other == time);
            *time = rank.unwrap_or_default() as u8;
        });
    }

    /// A time that comes after all others.
    pub fn now(&mut self) -> u8 {
        let mut last = 0;
        self.each_time(|time| last = last.max(*time + 1));
        last
    }

    fn each_time(&mut self, mut each: impl FnMut(&mut u8)) {
        for node in &mut self.nodes {
            for permit in [&mut node.permit, &mut node.former].into_iter().flatten() {
                each(&mut permit.since);
            }
            if let Some(request) = &mut node.request {
                each(&mut request.began);
                if let Stage::Open { permit, .. } = &mut request.stage {
                    each(&mut permit.since);
                }
            }
        }
    }
}
