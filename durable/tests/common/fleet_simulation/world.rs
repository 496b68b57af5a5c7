//! World: what the driver of a simulated fleet, its handlers and its stores have in common: the
//! store's clock, the nodes, the chances, the trouble that is planned, and the ledger.

use super::super::simulated::{self, Call, Counts, Fate, Pending, Plan, Records, Said, Scene};
use super::ledger::{Ledger, More};
use super::time::NodeTime;
use super::users::Users;
use fastrand::Rng;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::Target;
use wheelwork_durable::{Delivery, DurableClient, DurableError, Row, SpawnedFuture, When};

pub const KINDS: [&str; 6] = ["steady", "shaky", "batch", "limited", "lasting", "poison"];
pub const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Calls of a store by a node that does not come to rest.
const CALLS_MAX: u32 = 50_000;

pub const MS: Duration = Duration::from_millis(1);

/// A node that is, or was.
pub struct NodeState {
    pub time: Arc<NodeTime>,
    pub clock: ManualClock,
    pub handle: Option<DurableClient>,
    /// It is dead, or its store has failed.
    pub has_failed: bool,
    pub is_stopping: bool,
    /// It stands still until then.
    pub paused: Option<SystemTime>,
    /// Its code runs, further down the stack.
    pub is_running: bool,
    /// Its clock is being moved.
    pub is_driven: bool,
    pub is_in_store: bool,
    pub calls: u32,
    /// Trouble that comes.
    pub plan: Option<Plan>,
    tickets: Vec<Pending>,
    /// Of handlers that have not ended.
    pub futures: Vec<SpawnedFuture>,
}

pub struct World {
    pub rng: Rng,
    /// What the store's clock shows.
    pub now: SystemTime,
    pub lease: Duration,
    /// How far time goes at once. Then each node's clock follows.
    pub quantum: Duration,
    pub ledger: Ledger,
    pub nodes: Vec<NodeState>,
    /// Things go wrong, and handlers make calls.
    pub has_trouble: bool,
    /// When something last went wrong, a node came or left, or something was slow.
    pub trouble_at: SystemTime,
    pub users: Users,
    counts: Counts,
}

/// The world, for all who live in it.
pub type Shared = simulated::Shared<World>;

impl World {
    pub fn is_up(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        !node.has_failed && node.handle.is_some()
    }

    /// Nodes that live and do not stand still.
    pub fn awake(&self) -> Vec<usize> {
        let nodes = 0..self.nodes.len();
        nodes
            .filter(|&node| self.is_up(node) && self.nodes[node].paused.is_none())
            .collect()
    }

    /// Other nodes on which some calls are made, each as often as it is named. They are awake, and
    /// no code of theirs waits further up the stack.
    pub fn others(&mut self, node: usize) -> Vec<usize> {
        let mut others = self.awake();
        others.retain(|&other| other != node && !self.nodes[other].is_running);
        let count = self.rng.usize(..5);
        (0..count)
            .filter_map(|_| self.rng.choice(&others).copied())
            .collect()
    }

    pub fn trouble(&mut self) {
        self.trouble_at = self.trouble_at.max(self.now);
    }

    /// How many nodes run code just now, one further down the stack than the other.
    pub fn depth(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_running).count()
    }

    /// How a call of the store ends.
    pub fn fate(&mut self, call: Call, number: usize) -> Fate {
        let depth = self.depth();
        let node = &mut self.nodes[number];
        if node.has_failed {
            return Fate::Refused;
        }
        node.calls += 1;
        if node.calls > CALLS_MAX {
            self.ledger.wrong("it takes turns without end");
            self.nodes[number].has_failed = true;
            return Fate::Refused;
        }
        if !self.has_trouble {
            return Fate::Good;
        }
        let takes_over = call == Call::Renew && self.ledger.leases.is_some_free(self.now);
        if self.nodes[number].plan.is_none() && takes_over && self.rng.bool() {
            self.nodes[number].plan = Some(self.late_take_over());
        }
        let node = &mut self.nodes[number];
        let Some(fate) = node.plan.as_mut().and_then(|plan| plan.next(call)) else {
            return Fate::Good;
        };
        let is_slow = matches!(fate, Fate::Slow { .. });
        // (Time passes in one place at a time.)
        if is_slow && (depth > 1 || node.is_in_store) {
            return Fate::Good;
        }
        node.plan = None;
        self.note(format_args!("{call:?} of node {number} is fated: {fate:?}"));
        fate
    }

    /// Plans trouble for one of the next calls of a node's store.
    pub fn plan_trouble(&mut self, node: usize) {
        let plan = match self.rng.u8(..10) {
            0..4 => self.late_answer(),
            _ => self.some_trouble(),
        };
        self.nodes[node].plan = Some(plan);
    }

    /// An answer about leases comes when they end, or later.
    fn late_answer(&mut self) -> Plan {
        let calls = [Call::Renew, Call::Renew, Call::Claim];
        let call = calls[self.rng.usize(..3)];
        let after = self.lease.mul_f64(0.8 + self.rng.f64() * 0.6);
        self.late(call, after)
    }

    /// A partition is taken over, and the answer is late.
    fn late_take_over(&mut self) -> Plan {
        let after = match self.rng.bool() {
            true => MS * self.rng.u32(1..60),
            false => self.lease.mul_f64(self.rng.f64()),
        };
        self.late(Call::Renew, after)
    }

    /// The next answer to this call comes late.
    fn late(&mut self, call: Call, after: Duration) -> Plan {
        Plan {
            left: 0,
            only: Some(call),
            fate: Fate::Slow {
                before: Duration::ZERO,
                after,
                stands: self.rng.bool(),
            },
        }
    }

    fn some_trouble(&mut self) -> Plan {
        let left = self.rng.u32(..5);
        let lease = self.lease;
        let fate = match self.rng.u8(..10) {
            0 => Fate::Before { dies: true },
            1 => Fate::After { dies: true },
            _ => {
                let mut wait = || match self.rng.u8(..8) {
                    0..4 => MS * self.rng.u32(..60),
                    4 => lease.mul_f64(0.3 + self.rng.f64() * 1.2),
                    _ => Duration::ZERO,
                };
                Fate::Slow {
                    before: wait(),
                    after: wait(),
                    stands: self.rng.bool(),
                }
            }
        };
        let calls = [Call::Renew, Call::Claim, Call::Commit, Call::Load];
        let only = self.rng.bool().then(|| calls[self.rng.usize(..4)]);
        Plan { left, only, fate }
    }

    pub fn delay(&mut self) -> Duration {
        let max = [1, 5, 50, 400, 1_000, 3_000, 20_000, 100_000];
        let max = max[self.rng.usize(..max.len())];
        MS * self.rng.u32(..max)
    }
}

impl Scene for World {
    type Node = usize;
    type More = More;

    const KEYS: &'static [&'static str] = &KEYS;
    const PATTERNS: &'static [&'static str] = &["* * * * *", "*/3 * * * * *", "*/20 * * * * *"];
    const OTHERS_REVIVE: bool = true;

    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    fn records(&mut self) -> &mut Records<More> {
        &mut self.ledger
    }

    fn tickets(&mut self, node: usize) -> &mut Vec<Pending> {
        &mut self.nodes[node].tickets
    }

    fn who(node: usize) -> String {
        format!("node {node} ")
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        let now = self.now.duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_millis() % 1_000_000_000;
        let (seconds, millis) = (now / 1_000, now % 1_000);
        self.ledger
            .note(format_args!("{seconds}.{millis:03} {what}"));
    }

    fn set_running(&mut self, node: usize, is_running: bool) -> bool {
        std::mem::replace(&mut self.nodes[node].is_running, is_running)
    }

    fn when(&mut self) -> When {
        match self.rng.u8(..12) {
            0 => When::At(self.now - self.delay()),
            1 => When::At(SystemTime::UNIX_EPOCH + self.delay()),
            // Many are due at one time.
            2..4 => match self.some_row(true) {
                Some(row) => When::At(row.due.system_time()),
                None => When::After(MS),
            },
            4 => When::At(self.now + self.delay()),
            _ => When::After(self.delay()),
        }
    }

    fn kind(&mut self) -> &'static str {
        match self.rng.u8(..100) {
            0..35 => "steady",
            35..50 => "shaky",
            50..62 => "batch",
            62..77 => "limited",
            77..97 => "lasting",
            97..98 => "poison",
            _ => "unknown",
        }
    }

    // (A node that dies at each run never comes to its end.)
    fn recurring_kind(kind: &'static str) -> &'static str {
        if kind == "poison" { "steady" } else { kind }
    }

    fn some_row(&mut self, is_stored: bool) -> Option<Row> {
        match self.rng.u8(..5) {
            0 if !is_stored => return self.ledger.any_row(&mut self.rng),
            // (No caller may end or move what was handed out.)
            1 | 2 if !is_stored => {
                let rows: Vec<_> = self.ledger.handed_out().collect();
                if let Some(row) = self.rng.choice(rows) {
                    return Some(row.clone());
                }
            }
            _ => {}
        }
        self.ledger.stored_row(&mut self.rng, |_, _| 0)
    }

    fn check_error(&mut self, node: usize, call: &str, error: &DurableError) {
        let state = &self.nodes[node];
        let is_right = match error {
            DurableError::Store(_) => state.has_failed,
            DurableError::Stopped => state.is_stopping || state.has_failed,
            _ => false,
        };
        if !is_right {
            self.ledger.wrong(format_args!("{call}: {error}"));
        }
    }

    // (It may have been stored by a node that has failed since.)
    fn check_refused(&mut self, _: u64, _: &DurableError) {}

    fn may_be_gone(&mut self, row: &Row) -> bool {
        self.ledger.is_claimed(row)
    }

    fn is_held(&mut self, target: &Target) -> bool {
        self.users.is_held(target, self.now)
    }

    fn may_wait(&mut self) -> bool {
        self.users.may_wait(self.now)
    }

    fn said(&mut self, node: usize, delivery: &Delivery, said: Said) {
        self.ledger.said(node, delivery, said);
    }

    fn dies(&mut self, node: usize, _: &Delivery) {
        self.nodes[node].has_failed = true;
        self.trouble();
        self.note(format_args!("node {node} dies of it"));
    }
}

impl Shared {
    pub fn new(seed: u64, begin: SystemTime) -> Self {
        let mut rng = Rng::with_seed(seed);
        let lease = MS * rng.u32(1_000..10_000);
        Self::of(World {
            // (A lease has a margin of a tenth.)
            quantum: (lease / 40).min(MS * rng.u32(5..60)),
            rng,
            now: begin,
            lease,
            ledger: Ledger::default(),
            nodes: Vec::new(),
            has_trouble: true,
            trouble_at: begin,
            users: Users::new(seed),
            counts: Counts::default(),
        })
    }

    /// A node that is about to start. Returns its number.
    pub fn add(&self, clock: ManualClock, time: Arc<NodeTime>) -> usize {
        let mut world = self.lock();
        world.nodes.push(NodeState {
            time,
            clock,
            handle: None,
            has_failed: false,
            is_stopping: false,
            paused: None,
            is_running: false,
            is_driven: false,
            is_in_store: false,
            calls: 0,
            plan: None,
            tickets: Vec::new(),
            futures: Vec::new(),
        });
        world.nodes.len() - 1
    }

    /// A node's store fails: it is as good as dead.
    pub fn fail(&self, node: usize) {
        let mut world = self.lock();
        world.nodes[node].has_failed = true;
        world.trouble();
        world.note(format_args!("node {node} has lost its store"));
    }
}
