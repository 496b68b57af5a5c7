//! World: what the driver of a simulated fleet, its handlers and its stores have in common: the
//! store's clock, the nodes, the chances, the trouble that is planned, and the ledger.

use super::ledger::{Ledger, Said, State, token};
use super::time::NodeTime;
use fastrand::Rng;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork::durable::{
    Delivery, DurableError, DurableHandle, DurableId, HandlerResult, Row, SpawnedFuture, Target,
    Ticket, When,
};

pub const KINDS: [&str; 6] = ["steady", "shaky", "batch", "limited", "lasting", "poison"];
pub const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Calls of a store by a node that does not come to rest.
const CALLS_MAX: u32 = 50_000;

pub const MS: Duration = Duration::from_millis(1);

/// What is called of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Acquire,
    Release,
    Renew,
    GiveBack,
    Commit,
    Load,
    Claim,
    Look,
}

/// How a call of a store ends.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Good,
    /// The node is dead, or its store has failed before.
    Refused,
    /// It is not made, and the store has failed.
    Before,
    /// It is made, the answer is lost, and the store has failed.
    After,
    /// Time passes before and after it.
    Slow {
        before: Duration,
        after: Duration,
        /// The whole process stands still meanwhile.
        stands: bool,
    },
}

/// An answer that is awaited.
enum Pending {
    Arm(u64, Ticket<DurableId>),
    Cancel(DurableId, usize, Ticket<bool>),
}

/// A node that is, or was.
pub struct NodeState {
    pub time: Arc<NodeTime>,
    pub clock: ManualClock,
    pub handle: Option<DurableHandle>,
    /// It is dead, or its store has failed.
    pub has_failed: bool,
    pub is_stopping: bool,
    /// It stands still until then.
    pub paused: Option<SystemTime>,
    /// Its code runs, further down the stack.
    is_running: bool,
    /// Its clock is being moved.
    is_driven: bool,
    is_in_store: bool,
    pub calls: u32,
    /// Trouble that comes after this number of calls of the store.
    pub plan: Option<(u32, Option<Call>, Fate)>,
    tickets: Vec<Pending>,
    /// Of handlers that have not ended.
    futures: Vec<SpawnedFuture>,
}

pub struct World {
    pub rng: Rng,
    /// What the store's clock shows.
    pub now: SystemTime,
    pub lease: Duration,
    /// Clocks are moved by at most so much at a time.
    pub quantum: Duration,
    pub ledger: Ledger,
    pub nodes: Vec<NodeState>,
    /// Things go wrong, and handlers make calls.
    pub has_trouble: bool,
    /// When something last went wrong, a node came or left, or something was slow.
    pub trouble_at: SystemTime,
    /// Acts that were done in handlers and in the store.
    nested: u64,
    tokens: u64,
}

/// The world, for all who live in it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl World {
    pub fn note(&mut self, what: impl std::fmt::Display) {
        let now = self.now.duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_millis() % 1_000_000_000;
        let (seconds, millis) = (now / 1_000, now % 1_000);
        self.ledger
            .note(format_args!("{seconds}.{millis:03} {what}"));
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

    pub fn trouble(&mut self) {
        self.trouble_at = self.trouble_at.max(self.now);
    }

    /// How a call of the store ends.
    pub fn fate(&mut self, call: Call, number: usize) -> Fate {
        let depth = self.nodes.iter().filter(|node| node.is_running).count();
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
        let fate = match &mut node.plan {
            Some((_, only, _)) if only.is_some_and(|only| only != call) => return Fate::Good,
            Some((0, _, fate)) => *fate,
            Some((left, ..)) => {
                *left -= 1;
                return Fate::Good;
            }
            None => return Fate::Good,
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
        let after = self.rng.u32(..5);
        let lease = self.lease;
        let fate = match self.rng.u8(..10) {
            0 => Fate::Before,
            1 => Fate::After,
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
        self.nodes[node].plan = Some((after, only, fate));
    }

    pub fn delay(&mut self) -> Duration {
        let max = [1, 5, 50, 400, 1_000, 3_000, 20_000, 100_000];
        let max = max[self.rng.usize(..max.len())];
        MS * self.rng.u32(..max)
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

    /// A timer: mostly one that is stored, mostly one that is due soon.
    fn some_row(&mut self, is_stored: bool) -> Option<Row> {
        if !is_stored && self.rng.u8(..5) == 0 {
            let number = self.rng.usize(..self.ledger.timers.len().max(1));
            let timer = self.ledger.timers.values().nth(number)?;
            return Some(timer.row.clone());
        }
        let mut rows: Vec<_> = self.ledger.stored().map(|timer| &timer.row).collect();
        rows.sort_unstable_by_key(|row| row.position());
        if rows.is_empty() {
            return None;
        }
        let number = (0..3).map(|_| self.rng.usize(..rows.len())).min()?;
        Some(rows[number].clone())
    }

    fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// An error of a call is one that the call may have.
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

    fn check_arm(&mut self, node: usize, token: u64, answer: &Result<DurableId, DurableError>) {
        match answer {
            Ok(id) => {
                let timer = self.ledger.timers.get(id);
                if timer.is_none_or(|timer| timer.token != token) {
                    let what = format!("{token} is acknowledged, and was not stored");
                    self.ledger.wrong(what);
                }
            }
            Err(error) => self.check_error(node, "schedule", error),
        }
    }

    fn check_cancelled(
        &mut self,
        node: usize,
        id: DurableId,
        first: usize,
        answer: &Result<bool, DurableError>,
    ) {
        match answer {
            Ok(true) => {
                let ended = self.ledger.ended_since(first, State::Cancelled);
                if !ended.contains(&id) {
                    self.ledger
                        .wrong(format_args!("{id} is told as cancelled, and is not"));
                }
            }
            Ok(false) => {}
            Err(error) => self.check_error(node, "cancel", error),
        }
    }

    /// Looks at the answers that have come. All have, if the node is at rest.
    pub fn check_tickets(&mut self, node: usize) {
        let mut context = Context::from_waker(Waker::noop());
        for pending in std::mem::take(&mut self.nodes[node].tickets) {
            let is_pending = match pending {
                Pending::Arm(token, mut ticket) => match Pin::new(&mut ticket).poll(&mut context) {
                    Poll::Ready(answer) => {
                        self.check_arm(node, token, &answer);
                        false
                    }
                    Poll::Pending => true,
                },
                Pending::Cancel(id, first, mut ticket) => {
                    match Pin::new(&mut ticket).poll(&mut context) {
                        Poll::Ready(answer) => {
                            self.check_cancelled(node, id, first, &answer);
                            false
                        }
                        Poll::Pending => true,
                    }
                }
            };
            if is_pending {
                self.ledger.wrong("a ticket has no answer");
            }
        }
    }
}

/// How a handler ends.
enum End {
    Done,
    Failed,
    Panics,
    Dies,
}

impl Shared {
    pub fn new(seed: u64, begin: SystemTime) -> Self {
        let mut rng = Rng::with_seed(seed);
        let lease = MS * rng.u32(1_000..10_000);
        Self(Arc::new(Mutex::new(World {
            // (A lease has a margin of a tenth.)
            quantum: (lease / 40).min(MS * rng.u32(5..60)),
            rng,
            now: begin,
            lease,
            ledger: Ledger::default(),
            nodes: Vec::new(),
            has_trouble: true,
            trouble_at: begin,
            nested: 0,
            tokens: 0,
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Runs a node's code.
    pub fn run<T>(&self, node: usize, code: impl FnOnce() -> T) -> T {
        let former = std::mem::replace(&mut self.lock().nodes[node].is_running, true);
        let value = code();
        self.lock().nodes[node].is_running = former;
        value
    }

    /// Moves a node's clock to that of the store. `leaps`: past all that is due on the way.
    fn follow(&self, node: usize, leaps: bool) {
        let (clock, behind, is_driven) = {
            let world = self.lock();
            let state = &world.nodes[node];
            let behind = state.time.behind(world.now);
            (state.clock.clone(), behind, state.is_driven)
        };
        if leaps || is_driven {
            clock.jump(behind);
        }
        if is_driven {
            return;
        }
        self.lock().nodes[node].is_driven = true;
        self.run(node, || {
            clock.advance(if leaps { Duration::ZERO } else { behind })
        });
        self.lock().nodes[node].is_driven = false;
    }

    /// Time passes for all.
    pub fn pass(&self, by: Duration) {
        self.pass_but(by, None);
    }

    /// Time passes. The process of one node may stand still.
    fn pass_but(&self, by: Duration, stands: Option<usize>) {
        let end = self.lock().now + by;
        loop {
            let mut nodes = {
                let mut world = self.lock();
                let left = end.duration_since(world.now).unwrap_or_default();
                if left.is_zero() {
                    break;
                }
                let quantum = world.quantum;
                world.now += left.min(quantum);
                let mut nodes: Vec<_> = (0..world.nodes.len())
                    .filter(|&node| world.is_up(node) && Some(node) != stands)
                    .collect();
                world.rng.shuffle(&mut nodes);
                nodes
            };
            nodes.retain(|&node| self.is_awake(node));
            for node in nodes {
                if self.lock().is_up(node) {
                    self.follow(node, false);
                }
            }
        }
        // (What stood still finds that time has passed.)
        if let Some(node) = stands {
            let (clock, behind) = {
                let world = self.lock();
                let state = &world.nodes[node];
                (state.clock.clone(), state.time.behind(world.now))
            };
            clock.jump(behind);
        }
    }

    /// Whether a node's clock goes. One that has stood still for long enough goes on.
    fn is_awake(&self, node: usize) -> bool {
        let mut world = self.lock();
        match world.nodes[node].paused {
            None => return true,
            Some(until) if until > world.now => return false,
            Some(_) => {}
        }
        world.nodes[node].paused = None;
        world.trouble();
        world.note(format_args!("node {node} goes on"));
        drop(world);
        self.follow(node, true);
        true
    }

    /// Time passes while a node's store is at a call.
    pub fn pass_in_store(&self, node: usize, time: Duration, stands: bool) {
        if time.is_zero() {
            return;
        }
        let acts = {
            let mut world = self.lock();
            world.nodes[node].is_in_store = true;
            world.nested += 1;
            let until = world.now + time;
            world.trouble_at = world.trouble_at.max(until);
            world.rng.u8(..3)
        };
        if !stands {
            for _ in 0..acts {
                self.act_in_store(node);
            }
        }
        self.pass_but(time, stands.then_some(node));
        let mut world = self.lock();
        world.nodes[node].is_in_store = false;
    }

    /// A handler begins.
    fn begin(&self, delivery: &Delivery, node: usize) {
        let mut world = self.lock();
        if !world.nodes[node].has_failed {
            let now = world.nodes[node].time.now_exactly();
            world.ledger.began(node, delivery, now);
        }
    }

    /// A handler for one timer.
    pub fn deliver(&self, delivery: &Delivery, node: usize) -> HandlerResult {
        self.begin(delivery, node);
        self.handle(delivery, node)
    }

    fn handle(&self, delivery: &Delivery, node: usize) -> HandlerResult {
        let (end, acts, slow) = {
            let mut world = self.lock();
            if world.nodes[node].has_failed {
                return Ok(());
            }
            let has_trouble = world.has_trouble;
            let end = match (delivery.kind(), world.rng.u8(..10)) {
                ("poison", _) => End::Dies,
                ("shaky", 0..3) | ("batch" | "limited", 0) => End::Failed,
                ("shaky", 3) => End::Panics,
                ("shaky", 4) if has_trouble && world.rng.u8(..10) == 0 => End::Dies,
                _ => End::Done,
            };
            let acts = world.rng.u8(..3) * world.rng.u8(..2);
            let depth = world.nodes.iter().filter(|node| node.is_running).count();
            let is_slow = has_trouble && depth < 2 && world.rng.u8(..25) == 0;
            let slow = is_slow.then(|| match world.rng.u8(..3) {
                0 => world.lease.mul_f64(0.3 + world.rng.f64() * 1.2),
                _ => MS * world.rng.u32(1..300),
            });
            if let Some(slow) = slow {
                world.note(format_args!("  it takes {slow:?}"));
                let until = world.now + slow;
                world.trouble_at = world.trouble_at.max(until);
            }
            (end, if has_trouble { acts } else { 0 }, slow)
        };
        for _ in 0..acts {
            self.act(node, false);
        }
        if let Some(slow) = slow {
            self.pass(slow);
            self.act(node, false);
        }
        let mut world = self.lock();
        if world.nodes[node].has_failed {
            return Ok(());
        }
        match end {
            End::Done => {
                world.ledger.said(node, delivery, Said::Done);
                Ok(())
            }
            End::Failed => {
                world.ledger.said(node, delivery, Said::Failed);
                Err("simulated".into())
            }
            End::Panics => {
                world.ledger.said(node, delivery, Said::Failed);
                drop(world);
                resume_unwind(Box::new("simulated"))
            }
            End::Dies => {
                world.nodes[node].has_failed = true;
                world.trouble();
                world.note(format_args!("node {node} dies of it"));
                Ok(())
            }
        }
    }

    /// A handler that lasts.
    pub fn deliver_lasting(&self, delivery: Delivery, node: usize) -> Lasting {
        self.begin(&delivery, node);
        Lasting {
            shared: self.clone(),
            delivery,
            node,
        }
    }

    /// A node has a future to run.
    pub fn spawn(&self, node: usize, future: SpawnedFuture) {
        self.lock().nodes[node].futures.push(future);
    }

    /// Whether handlers last on some node.
    pub fn has_futures(&self) -> bool {
        let world = self.lock();
        world.nodes.iter().any(|node| !node.futures.is_empty())
    }

    /// Handlers that last end on all nodes, and soon.
    pub fn end_all_futures(&self, are_short: bool) {
        let awake = self.lock().awake();
        for node in awake {
            let trouble_at = self.lock().trouble_at;
            self.end_futures(node, true);
            let mut world = self.lock();
            if are_short && !world.nodes[node].has_failed {
                world.trouble_at = trouble_at;
            }
        }
    }

    /// A handler that lasts ends on this node, or all of them.
    pub fn end_futures(&self, node: usize, all: bool) {
        loop {
            let future = {
                let mut world = self.lock();
                let count = world.nodes[node].futures.len();
                if count == 0 {
                    return;
                }
                // (It has taken a place in the window.)
                world.trouble();
                let number = world.rng.usize(..count);
                world.nodes[node].futures.swap_remove(number)
            };
            self.run(node, || {
                let mut future = future;
                let mut context = Context::from_waker(Waker::noop());
                let _ = future.as_mut().poll(&mut context);
            });
            if !all {
                return;
            }
        }
    }

    /// A node dies, and its handlers with it.
    pub fn drop_futures(&self, node: usize) {
        loop {
            let futures = std::mem::take(&mut self.lock().nodes[node].futures);
            if futures.is_empty() {
                return;
            }
            self.run(node, || drop(futures));
        }
    }

    /// A handler for many.
    pub fn deliver_all(&self, timers: &[Delivery], node: usize) -> Vec<HandlerResult> {
        timers.iter().for_each(|timer| self.begin(timer, node));
        let results = timers.iter().map(|timer| self.handle(timer, node));
        let mut results: Vec<_> = results.collect();
        let mut world = self.lock();
        // Some have no result, and have failed.
        if world.rng.u8(..8) == 0 && !world.nodes[node].has_failed {
            let count = world.rng.usize(..=timers.len());
            for timer in &timers[count..] {
                world.ledger.said(node, timer, Said::Failed);
            }
            results.truncate(count);
        }
        results
    }

    /// A call that does not wait for its answer.
    fn act_in_store(&self, node: usize) {
        let Some(handle) = self.lock().nodes[node].handle.clone() else {
            return;
        };
        self.lock().nested += 1;
        let arms = self.lock().rng.bool();
        if arms {
            self.schedule_ticket(node, &handle);
        } else {
            self.cancel_ticket(node, &handle);
        }
    }

    /// Does something on a node. Outside: nothing else is under way.
    pub fn act(&self, node: usize, is_outside: bool) {
        let (handle, act) = {
            let mut world = self.lock();
            world.nested += u64::from(!is_outside);
            let state = &world.nodes[node];
            if state.has_failed {
                return;
            }
            if state.is_in_store {
                drop(world);
                return self.act_in_store(node);
            }
            (world.nodes[node].handle.clone(), world.rng.u8(..100))
        };
        let Some(handle) = handle else { return };
        match act {
            0..34 => self.schedule(node, &handle),
            34..40 => self.schedule_many(node, &handle),
            40..46 => self.schedule_ticket(node, &handle),
            46..84 => {
                let target = {
                    let mut world = self.lock();
                    match world.rng.u8(..3) {
                        0 => Some(Target::Key(KEYS[world.rng.usize(..KEYS.len())].into())),
                        _ => world.some_row(false).map(|row| Target::Id(row.id)),
                    }
                };
                if let Some(target) = target {
                    self.end(node, &handle, &target, is_outside, act >= 66);
                }
            }
            84..88 => self.cancel_many(node, &handle),
            88..89 => self.cancel_where(node, &handle),
            89..92 => self.schedule_recurring(node, &handle),
            92..96 => self.look(node, &handle),
            _ => self.dead(node, &handle),
        }
    }

    fn new_timer(&self, node: usize) -> (&'static str, When, Option<&'static str>, u64, String) {
        let mut world = self.lock();
        let (kind, when) = (world.kind(), world.when());
        let key = (world.rng.u8(..3) == 0).then(|| KEYS[world.rng.usize(..KEYS.len())]);
        let token = world.next_token();
        let bytes = world.rng.usize(..60);
        let payload = format!("{token} {}", "x".repeat(bytes));
        world.note(format_args!(
            "node {node} arms {token}: {kind}, {key:?}, {when:?}"
        ));
        (kind, when, key, token, payload)
    }

    fn schedule(&self, node: usize, handle: &DurableHandle) {
        let (kind, when, key, token, payload) = self.new_timer(node);
        let answer = self.run(node, || match key {
            Some(key) => handle.key(key).schedule(kind, when, payload),
            None => handle.schedule(kind, when, payload),
        });
        self.lock().check_arm(node, token, &answer);
    }

    #[cfg(not(feature = "calendar"))]
    fn schedule_recurring(&self, node: usize, handle: &DurableHandle) {
        self.schedule(node, handle);
    }

    #[cfg(feature = "calendar")]
    fn schedule_recurring(&self, node: usize, handle: &DurableHandle) {
        use wheelwork::calendar::{Calendar, MissedRuns};
        let (kind, _, key, token, payload) = self.new_timer(node);
        // (A node that dies at each run never comes to its end.)
        let kind = if kind == "poison" { "steady" } else { kind };
        let (pattern, missed) = {
            let mut world = self.lock();
            let missed = match world.rng.u8(..3) {
                0 => MissedRuns::Once,
                1 => MissedRuns::Burst(3),
                _ => MissedRuns::SkipAfter(Duration::from_secs(2)),
            };
            let patterns = ["* * * * *", "*/3 * * * * *", "*/20 * * * * *"];
            let pattern = patterns[world.rng.usize(..3)];
            world.note(format_args!("at {pattern}, missed: {missed:?}"));
            (pattern, missed)
        };
        let calendar = Calendar::cron(pattern).unwrap().zone("UTC").unwrap();
        let calendar = calendar.missed(missed);
        let answer = self.run(node, || match key {
            Some(key) => handle.key(key).schedule_calendar(kind, calendar, payload),
            None => handle.schedule_calendar(kind, calendar, payload),
        });
        self.lock().check_arm(node, token, &answer);
    }

    fn schedule_ticket(&self, node: usize, handle: &DurableHandle) {
        let (kind, when, key, token, payload) = self.new_timer(node);
        let ticket = self.run(node, || match key {
            Some(key) => handle.key(key).schedule_ticket(kind, when, payload),
            None => handle.schedule_ticket(kind, when, payload),
        });
        let mut world = self.lock();
        match ticket {
            Ok(ticket) => world.nodes[node].tickets.push(Pending::Arm(token, ticket)),
            Err(error) => world.check_arm(node, token, &Err(error)),
        }
    }

    fn schedule_many(&self, node: usize, handle: &DurableHandle) {
        let count = self.lock().rng.usize(..12);
        let timers: Vec<_> = (0..count).map(|_| self.new_timer(node)).collect();
        let answer = self.run(node, || {
            let timers = timers.iter();
            handle.schedule_many(
                timers.map(|(kind, when, _, _, payload)| (*kind, *when, payload.as_str())),
            )
        });
        let mut world = self.lock();
        match answer {
            Ok(ids) => {
                for ((.., token, _), id) in timers.iter().zip(&ids) {
                    world.check_arm(node, *token, &Ok(*id));
                }
                if ids.len() != count {
                    world.ledger.wrong("schedule_many: not an id for each");
                }
            }
            Err(error) => world.check_error(node, "schedule_many", &error),
        }
    }

    fn cancel_ticket(&self, node: usize, handle: &DurableHandle) {
        let (id, first) = {
            let mut world = self.lock();
            let Some(row) = world.some_row(false) else {
                return;
            };
            let token = token(&row.payload);
            world.note(format_args!("node {node} cancels {token}, without waiting"));
            (row.id, world.ledger.made.len())
        };
        let ticket = self.run(node, || handle.cancel_ticket(id));
        let mut world = self.lock();
        match ticket {
            Ok(ticket) => {
                let pending = Pending::Cancel(id, first, ticket);
                world.nodes[node].tickets.push(pending);
            }
            Err(error) => world.check_error(node, "cancel", &error),
        }
    }

    /// Cancels a timer, or moves it.
    pub fn end(
        &self,
        node: usize,
        handle: &DurableHandle,
        target: &Target,
        is_outside: bool,
        moves: bool,
    ) {
        let (when, first, nested, stood) = {
            let mut world = self.lock();
            let when = world.when();
            let stood = world
                .ledger
                .find(target)
                .filter(|timer| !timer.row.superseded)
                .map(|timer| timer.row.clone());
            let token = stood.as_ref().map(|row| token(&row.payload));
            let what = match moves {
                true => format!("node {node} moves {target:?} ({token:?}) to {when:?}"),
                false => format!("node {node} cancels {target:?} ({token:?})"),
            };
            world.note(what);
            (when, world.ledger.made.len(), world.nested, stood)
        };
        let answer = self.run(node, || match (target, moves) {
            (Target::Id(id), false) => handle.cancel(*id),
            (Target::Id(id), true) => handle.reschedule(*id, when),
            (Target::Key(key), false) => handle.key(key).cancel(),
            (Target::Key(key), true) => handle.key(key).reschedule(when),
        });
        let mut world = self.lock();
        let is_done = match answer {
            Ok(is_done) => is_done,
            Err(error) => return world.check_error(node, "cancel", &error),
        };
        let made = &world.ledger.made[first..];
        let mut outcomes = made
            .iter()
            .filter_map(|(write, outcome)| came_to(write, outcome, target));
        let is_true = outcomes.any(|outcome| outcome == is_done);
        if !is_true {
            world
                .ledger
                .wrong(format_args!("{target:?}: {is_done} is not what was done"));
        }
        // A `false` outside says that nobody stood there, or that its last moments had come.
        let is_alone = is_outside && world.nested == nested;
        if let Some(row) = stood.filter(|_| !is_done && is_alone)
            && !world.ledger.is_claimed(&row)
        {
            world
                .ledger
                .wrong(format_args!("{target:?}: false, and it was {row:?}"));
        }
    }

    fn cancel_many(&self, node: usize, handle: &DurableHandle) {
        let (ids, first, nested) = {
            let mut world = self.lock();
            let count = world.rng.usize(..6);
            let mut ids: Vec<_> = (0..count)
                .filter_map(|_| Some(world.some_row(false)?.id))
                .collect();
            ids.sort_unstable();
            ids.dedup();
            world.note(format_args!("node {node} cancels {ids:?}"));
            (ids, world.ledger.made.len(), world.nested)
        };
        let answer = self.run(node, || handle.cancel_many(ids.iter().copied()));
        let mut world = self.lock();
        match answer {
            Ok(count) => {
                let ended = world.ledger.ended_since(first, State::Cancelled);
                let found = ended.iter().filter(|id| ids.contains(id)).count();
                if found != count && world.nested == nested {
                    world
                        .ledger
                        .wrong(format_args!("cancel_many: {count} is {found}"));
                }
            }
            Err(error) => world.check_error(node, "cancel_many", &error),
        }
    }

    fn cancel_where(&self, node: usize, handle: &DurableHandle) {
        let (kind, first, nested) = {
            let mut world = self.lock();
            let kind = world.kind();
            world.note(format_args!("node {node} cancels all of {kind}"));
            (kind, world.ledger.made.len(), world.nested)
        };
        let answer = self.run(node, || handle.cancel_where(kind));
        let mut world = self.lock();
        match answer {
            Ok(count) => {
                let found = world.ledger.ended_since(first, State::Cancelled).len();
                if found != count && world.nested == nested {
                    world
                        .ledger
                        .wrong(format_args!("cancel_where: {count} is {found}"));
                }
            }
            Err(error) => world.check_error(node, "cancel_where", &error),
        }
    }

    /// Asks what is there.
    fn look(&self, node: usize, handle: &DurableHandle) {
        let limit = self.lock().rng.usize(..20);
        let rows = self.run(node, || handle.list(.., limit));
        let fleet = self.run(node, || handle.fleet());
        let mut world = self.lock();
        let error = rows.err().or(fleet.err());
        if let Some(error) = error {
            world.check_error(node, "list", &error);
        }
    }

    /// Looks at the dead, revives or discards one of them.
    fn dead(&self, node: usize, handle: &DurableHandle) {
        let letters = match self.run(node, || handle.dead(None, usize::MAX)) {
            Ok(letters) => letters,
            Err(error) => return self.lock().check_error(node, "dead", &error),
        };
        let (id, revives, nested) = {
            let mut world = self.lock();
            let Some(letter) = world.rng.choice(&letters) else {
                return;
            };
            let id = letter.row.id;
            let revives = world.rng.u8(..3) > 0;
            world.note(format_args!("node {node} revives {revives}: {id}"));
            (id, revives, world.nested)
        };
        let was_dead = self.lock().ledger.is_dead(id);
        let answer = self.run(node, || match revives {
            true => handle.retry(id),
            false => handle.discard(id),
        });
        let mut world = self.lock();
        match answer {
            Ok(is_done) => {
                if is_done != was_dead && world.nested == nested {
                    world
                        .ledger
                        .wrong(format_args!("{id} was dead: {was_dead}"));
                }
            }
            Err(error) => world.check_error(node, "retry", &error),
        }
    }
}

/// A handler that lasts. It ends when it is polled.
pub struct Lasting {
    shared: Shared,
    delivery: Delivery,
    node: usize,
}

impl Future for Lasting {
    type Output = HandlerResult;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<HandlerResult> {
        let mut world = self.shared.lock();
        let is_done = world.rng.u8(..4) > 0;
        let said = if is_done { Said::Done } else { Said::Failed };
        world.note(format_args!(
            "  node {} has handled {}: {said:?}",
            self.node,
            token(self.delivery.payload())
        ));
        world.ledger.said(self.node, &self.delivery, said);
        Poll::Ready(if is_done {
            Ok(())
        } else {
            Err("simulated".into())
        })
    }
}

/// Whether a write was one of this target, and came to something.
fn came_to(
    write: &wheelwork::durable::Write,
    outcome: &wheelwork::durable::Outcome,
    target: &Target,
) -> Option<bool> {
    use wheelwork::durable::{Outcome, Write};
    match (write, outcome) {
        (Write::Cancel(of), Outcome::Cancelled(gone)) if of == target => Some(gone.is_some()),
        (Write::Move(of, _), Outcome::Moved(row)) if of == target => Some(row.is_some()),
        _ => None,
    }
}
