//! World: what a simulation's driver, its handlers and its stores have in common: time, the nodes,
//! the chances, the trouble that is planned, and the ledger.

use super::answers::Pending;
use super::ledger::{Ledger, token};
use super::scene::Scene;
use super::time::NodeTime;
use super::trouble::Plan;
use super::users::Users;
use fastrand::Rng;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{SliceLimit, Target, Write};
use wheelwork_durable::{
    Delivery, DurableClient, DurableError, Row, SpawnedFuture, StoreTime, When,
};

pub const MS: Duration = Duration::from_millis(1);

/// In the year 2023.
pub const BEGIN: Duration = Duration::from_secs(1_700_000_000);

/// A node that is, or was. A process has one after the other.
pub struct NodeState {
    pub clock: ManualClock,
    /// What it knows of the store's clock. `None`: its own system clock is the store's.
    pub time: Option<Arc<NodeTime>>,
    /// What a turn takes at once.
    pub slice: SliceLimit,
    pub handle: Option<DurableClient>,
    pub is_dead: bool,
    /// A call of its store has failed, or it is dead.
    pub has_failed: bool,
    pub is_stopping: bool,
    /// A store that has failed is opened again.
    pub heals: bool,
    /// Its writer takes turns: a store that fails before cannot come back.
    pub has_begun: bool,
    /// Its store is away, and may come back.
    pub is_down: bool,
    /// Until then its store does not come back.
    pub away_until: Option<SystemTime>,
    /// How often its store has failed and might come back.
    pub outages: u32,
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
    pub tickets: Vec<Pending>,
    /// Of handlers that have not ended.
    pub futures: Vec<SpawnedFuture>,
}

impl NodeState {
    pub fn new(clock: ManualClock, time: Option<Arc<NodeTime>>) -> Self {
        Self {
            clock,
            time,
            slice: SliceLimit::rows(usize::MAX),
            handle: None,
            is_dead: false,
            has_failed: false,
            is_stopping: false,
            heals: false,
            has_begun: false,
            is_down: false,
            away_until: None,
            outages: 0,
            paused: None,
            is_running: false,
            is_driven: false,
            is_in_store: false,
            calls: 0,
            plan: None,
            tickets: Vec::new(),
            futures: Vec::new(),
        }
    }

    pub fn dies(&mut self) {
        (self.is_dead, self.has_failed) = (true, true);
    }
}

pub struct World {
    pub scene: Scene,
    pub rng: Rng,
    /// In a fleet, what the store's clock shows. In a process, when its life began, by the time
    /// that has passed.
    pub base: SystemTime,
    pub lease: Duration,
    /// How far time goes at once. Then each node's clock follows.
    pub quantum: Duration,
    pub ledger: Ledger,
    pub nodes: Vec<NodeState>,
    /// Things go wrong, and handlers make calls.
    pub has_trouble: bool,
    /// When something last went wrong, a node came or left, something was slow, or a clock was set.
    pub trouble_at: SystemTime,
    pub users: Users,
    /// The chances of slews and of stores that hang: with them the other chances stay as they are,
    /// and most seeds have neither.
    pub rare: Rng,
    pub has_rare: bool,
    /// The chances of outages that do not end a process: with them the others stay as they are.
    pub heal: Rng,
    /// The chances of pauses, in the same way.
    pub rules: Rng,
    pub has_rules: bool,
    /// The chances of limits: with them the others stay as they are, and most seeds have none.
    pub limits: Rng,
    pub has_limits: bool,
    /// How much faster a process's system clock is than time passes, in millionths.
    pub slew_ppm: i32,
    /// The executor of futures is busy: what it gets waits.
    pub is_executor_busy: bool,
    /// Acts that were done in handlers and in the store, and times that the store was slow.
    pub nested: u64,
    /// Timers that callers have named so far.
    tokens: u64,
}

impl World {
    pub fn new(scene: Scene, seed: u64) -> Self {
        let (mut rng, mut rare) = (Rng::with_seed(seed), Rng::with_seed(!seed));
        let mut rules = Rng::with_seed(seed.rotate_left(16) ^ 0x9a05e);
        let mut limits = Rng::with_seed(seed.rotate_left(16) ^ 0x1131);
        let is_fleet = scene.is_fleet();
        let lease = MS * if is_fleet { rng.u32(1_000..10_000) } else { 0 };
        // (A lease has a margin of a tenth.)
        let quantum = is_fleet.then(|| (lease / 40).min(MS * rng.u32(5..60)));
        let begin = SystemTime::UNIX_EPOCH + BEGIN;
        // (Half of the seeds keep records, and the others stay as they are.)
        let mut records = Rng::with_seed(seed.rotate_left(17) ^ 0xd0e5);
        let keep = MS * [0, 3_000, 20_000, 7 * 86_400_000][records.usize(..4)];
        let mut ledger = Ledger::new(scene);
        ledger.records.keep = records
            .bool()
            .then_some(keep)
            .filter(|keep| !keep.is_zero());
        Self {
            scene,
            rng,
            base: begin,
            lease,
            quantum: quantum.unwrap_or_default(),
            ledger,
            nodes: Vec::new(),
            has_trouble: true,
            trouble_at: begin,
            users: Users::new(seed, is_fleet),
            has_rare: !is_fleet && rare.u8(..4) == 0,
            rare,
            heal: Rng::with_seed(seed.rotate_left(32) ^ 0x4ea1),
            has_rules: rules.bool(),
            rules,
            has_limits: limits.u8(..4) == 0,
            limits,
            slew_ppm: 0,
            is_executor_busy: false,
            nested: 0,
            tokens: 0,
        }
    }

    /// By the time that has passed.
    pub fn now(&self) -> SystemTime {
        match self.nodes.last().filter(|_| !self.scene.is_fleet()) {
            Some(node) => self.base + node.clock.elapsed(),
            None => self.base,
        }
    }

    /// What the store's clock shows. A process's system clock is that.
    pub fn store_time(&self) -> SystemTime {
        match self.nodes.last().filter(|_| !self.scene.is_fleet()) {
            Some(node) => node.clock.system_time(),
            None => self.base,
        }
    }

    /// What the store's clock shows when the node's shows what it does.
    pub fn shows(&self, node: usize) -> SystemTime {
        let node = &self.nodes[node];
        let time = node.time.as_ref().map(|time| time.now_exactly());
        time.unwrap_or_else(|| node.clock.system_time())
    }

    /// Sets a process's system clock.
    pub fn set_clock(&mut self, to: SystemTime) {
        if let Some(node) = self.nodes.last() {
            node.clock.set_system_time(to);
        }
    }

    pub fn note(&mut self, what: impl std::fmt::Display) {
        let of = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH);
        let passed = of(self.now()).unwrap_or_default().saturating_sub(BEGIN);
        let shows = of(self.store_time()).unwrap_or_default().as_secs_f64();
        self.ledger
            .note(format_args!("{passed:.3?} ({shows:.3}) {what}"));
    }

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

    /// Something goes wrong now, or after this time.
    pub fn trouble(&mut self, later: Duration) {
        self.trouble_at = self.trouble_at.max(self.now() + later);
    }

    /// How many nodes run code just now, one further down the stack than the other.
    pub fn depth(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_running).count()
    }

    /// A node's store fails, and may come back: in a fleet before its leases have run out, or
    /// later. If it does not, a node of a fleet is as good as dead.
    pub fn fail(&mut self, node: usize, dies: bool) {
        let is_fleet = self.scene.is_fleet();
        let is_long = is_fleet && self.heal.bool();
        let away = is_long.then(|| self.lease.mul_f64(self.heal.f64() * 2.0));
        let away_until = away.map(|away| self.now() + away);
        let state = &mut self.nodes[node];
        if state.heals && state.has_begun && !dies {
            (state.is_down, state.outages) = (true, state.outages + 1);
            state.away_until = away_until;
            self.ledger.outages += 1;
        } else {
            state.has_failed = true;
            state.is_dead |= dies || is_fleet;
        }
        self.trouble(Duration::ZERO);
        self.note(format_args!("node {node} has lost its store"));
    }

    /// The store of a node is back.
    pub fn come_back(&mut self, node: usize) {
        self.nodes[node].is_down = false;
        self.trouble(Duration::ZERO);
        self.note(format_args!("node {node} has its store again"));
    }

    /// A handler begins: what it gets is not paused.
    pub fn check_not_paused(&mut self, delivery: &Delivery) {
        let now = self.now();
        let timer = self.ledger.timers.get(&delivery.id());
        if let Some(row) = timer.map(|timer| timer.row.clone()) {
            self.ledger.demand_not_paused(&row, now, self.trouble_at);
        }
    }

    /// A node dies of a handler.
    pub fn dies(&mut self, node: usize, delivery: &Delivery) {
        self.nodes[node].dies();
        self.trouble(Duration::ZERO);
        let token = token(delivery.payload());
        self.note(format_args!("node {node} dies of {token}"));
    }

    pub fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// By chance a recurring timer that has a key.
    #[cfg(feature = "calendar")]
    pub fn some_recurring(&mut self) -> Option<Row> {
        let rows = self.ledger.stored().map(|timer| &timer.row);
        let rows = rows.filter(|row| row.calendar.is_some() && row.key.is_some());
        let row = self.rng.choice(rows.collect::<Vec<_>>())?.clone();
        self.rng.bool().then_some(row)
    }

    pub fn some_key(&mut self) -> &'static str {
        let keys = self.scene.keys();
        keys[self.rng.usize(..keys.len())]
    }

    pub fn delay(&mut self) -> Duration {
        if self.scene.is_fleet() {
            let max = [1, 5, 50, 400, 1_000, 3_000, 20_000, 100_000];
            let max = max[self.rng.usize(..max.len())];
            return MS * self.rng.u32(..max);
        }
        let max = [1, 5, 50, 1_000, 3_000, 20_000, 120_000, 31_536_000_000];
        let max = max[self.rng.usize(..max.len()).min(self.rng.usize(..9))];
        MS * u32::try_from(self.rng.u64(..max) % 4_000_000_000).unwrap()
    }

    pub fn when(&mut self) -> When {
        let is_fleet = self.scene.is_fleet();
        let now = self.store_time();
        match self.rng.u8(..if is_fleet { 12 } else { 10 }) {
            0 => When::At(now - self.delay()),
            1 if is_fleet => When::At(SystemTime::UNIX_EPOCH + self.delay()),
            // Many are due at one time.
            1..4 => match self.some_row(true) {
                Some(row) => When::At(row.shown().due.system_time()),
                None => When::After(MS),
            },
            4 => When::At(now + self.delay()),
            _ => When::After(self.delay()),
        }
    }

    /// When a timer expires that is due then: few do.
    pub fn not_after(&mut self, when: When) -> Option<When> {
        let more = MS * [0, 1, 60, 2_000, 30_000][self.rng.usize(..5)];
        let expires = match when {
            When::At(due) => When::At(due + more),
            When::After(delay) => When::After(delay + more),
            _ => return None,
        };
        (self.rng.u8(..6) == 0).then_some(expires)
    }

    pub fn kind(&mut self) -> &'static str {
        self.scene.kind(self.rng.u8(..100))
    }

    /// A timer: mostly one that is stored, mostly one that is due soon.
    pub fn some_row(&mut self, is_stored: bool) -> Option<Row> {
        let is_fleet = self.scene.is_fleet();
        let chance = (is_fleet || !is_stored).then(|| self.rng.u8(..5));
        match chance.filter(|_| !is_stored) {
            Some(0) => return self.ledger.any_row(&mut self.rng),
            // (No caller may end or move what was handed out.)
            Some(1 | 2) if is_fleet => {
                let rows: Vec<_> = self.ledger.handed_out().collect();
                if let Some(row) = self.rng.choice(rows) {
                    return Some(row.clone());
                }
            }
            _ => {}
        }
        let from = match is_fleet || self.rng.bool() {
            true => StoreTime::from_millis(0),
            false => StoreTime::reading(self.store_time()),
        };
        self.ledger.stored_row(&mut self.rng, from)
    }

    /// An error of a call is one that the call may have.
    pub fn check_error(&mut self, node: usize, call: &str, error: &DurableError) {
        let state = &self.nodes[node];
        let is_right = match error {
            DurableError::Store(_) => state.has_failed || state.outages > 0,
            DurableError::Unavailable { .. } => {
                state.heals && (state.has_failed || state.outages > 0)
            }
            DurableError::Stopped => state.is_stopping || self.scene.is_fleet() && state.has_failed,
            _ => false,
        };
        if !is_right {
            self.ledger.wrong(format_args!("{call}: {error}"));
        }
    }

    /// A timer was not armed, says this error. (In a fleet it may have been stored by a node that
    /// has failed since.)
    pub fn check_refused(&mut self, token: u64, error: &DurableError) {
        let is_stopped = matches!(error, DurableError::Stopped) && !self.scene.is_fleet();
        let is_refused = is_stopped || matches!(error, DurableError::Unavailable { .. });
        let mut timers = self.ledger.timers.values();
        if is_refused && timers.any(|timer| timer.token == token) {
            let what = format!("{token} is refused, and stored");
            self.ledger.wrong(what);
        }
    }

    /// Whether a caller may be told that a row's last moments had come.
    pub fn may_be_gone(&self, row: &Row) -> bool {
        // (Its owner may release a row meanwhile that is held, and it is claimed at once.)
        self.scene.is_fleet() && (self.ledger.is_claimed(row) || row.held().is_some())
    }

    /// Whether a user's transaction may be in the way of changes of this target.
    pub fn is_held(&mut self, target: &Target) -> bool {
        self.users.is_held(target, self.base)
    }

    /// Whether a call may have no answer yet, because of such a transaction.
    pub fn may_wait(&mut self) -> bool {
        self.users.may_wait(self.base)
    }

    /// The rows that a commit arms have no more bytes than a slice may have, and the last row.
    pub fn check_bytes(&mut self, node: usize, writes: &[Write]) {
        let arms = writes.iter().filter_map(|write| match write {
            Write::Arm(row) => Some(row.bytes()),
            Write::Replace(of) => Some(of.row.bytes()),
            Write::Amend(of) => Some(of.bytes()),

            _ => None,
        });
        let (sum, largest) = arms.fold((0, 0), |(sum, largest), bytes| {
            (sum + bytes, bytes.max(largest))
        });
        let max = self.nodes[node].slice.bytes;
        if sum >= max.saturating_add(largest) && sum > 0 {
            self.ledger
                .wrong(format_args!("a commit of {sum} bytes, and {max} is much"));
        }
    }
}

/// The world, for all who live in it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub fn of(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a node's code.
    pub fn run<T>(&self, node: usize, code: impl FnOnce() -> T) -> T {
        let set_running = |is_running| {
            let state = &mut self.lock().nodes[node];
            std::mem::replace(&mut state.is_running, is_running)
        };
        let former = set_running(true);
        let value = code();
        set_running(former);
        value
    }
}
