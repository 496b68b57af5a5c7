//! Simulation of a fleet: nodes with durable timers on one store, in one process. All that happens
//! follows from a seed.
//!
//! Each node has a clock of its own, which drifts. The store has its clock, which all go by. Nodes
//! come, stop, die, and stand still past their leases; their stores are slow, and lose answers.
//! Many answers about leases are late: they come when the leases end. The ledger watches the store,
//! the callers and the handlers. In the end the trouble ceases, and all that is left has to be
//! handled. In half of the seeds users have transactions of two isolation levels open
//! (`users.rs`).
//!
//! Nodes run one after the other, each by up to a quantum of time. So two of them may be apart by a
//! quantum, which is less than the margin of a lease.

mod acts;
mod handlers;
mod leases;
mod ledger;
mod passing;
mod store;
mod time;
mod users;
mod world;

use super::shared_memory::{Making, SharedPlace, StoreBreak};
use super::simulated::{Answers, Report, Scene, State};
use fastrand::Rng;
use leases::recovery;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use store::FaultyNode;
use time::NodeTime;
use wheelwork::ManualClock;
use wheelwork_durable::contract::{SliceLimit, Target};
use wheelwork_durable::{Durable, OpenError, Partition, RetryPolicy, StoreTime, WindowLimits};
use world::{KINDS, MS, Shared};

/// What is overdue for longer, while nothing is wrong, was forgotten.
const LATE: Duration = Duration::from_secs(3);

/// The same for what was overdue for long when it came to a node that had lost its lease meanwhile.
const LATE_ALL: Duration = Duration::from_secs(65);

/// In the year 2023.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);

const NODES_MAX: usize = 4;

struct Simulation {
    shared: Shared,
    place: SharedPlace,
    /// By the node's number.
    timers: Vec<Option<Durable>>,
    retry: RetryPolicy,
}

/// Some partition.
fn partition_of_key(key: &str) -> Partition {
    Partition::from(key.bytes().next().unwrap_or_default() % 4)
}

/// Lives through a seed. `Err`: its story, and which promise was broken.
pub fn simulate(seed: u64, broken: Option<StoreBreak>) -> Result<Report, String> {
    let begin = SystemTime::UNIX_EPOCH + BEGIN;
    let shared = Shared::new(seed, begin);
    let (making, retry) = {
        let mut world = shared.lock();
        let making = Making {
            partitions: [4, 4, 7, 16][world.rng.usize(..4)],
            partition_of_key,
            lease: world.lease,
            claim_ahead: MS * world.rng.u32(5..200),
            has_news: world.rng.bool(),
            strikes: true,
            broken,
        };
        let attempts_max = world.rng.u32(1..6);
        let crashes_max = world.rng.u32(1..4);
        let retry = RetryPolicy::new()
            .attempts(attempts_max)
            .crash_attempts(crashes_max)
            .first(MS * world.rng.u32(..500))
            .cap(2_000 * MS);
        world.ledger.attempts_max = attempts_max;
        world.ledger.crashes_max = crashes_max;
        let (partitions, has_news) = (making.partitions, making.has_news);
        let (lease, ahead) = (making.lease, making.claim_ahead);
        world.note(format_args!(
            "{partitions} partitions, leases of {lease:?}, claims {ahead:?} ahead, \
            news: {has_news}; {broken:?}; {retry:?}"
        ));
        (making, retry)
    };
    let mut simulation = Simulation {
        shared: shared.clone(),
        place: SharedPlace::new(making, begin),
        timers: Vec::new(),
        retry,
    };
    let steps = shared.lock().rng.u32(20..120);
    let nodes = shared.lock().rng.u8(2..=3);
    (0..nodes).for_each(|_| simulation.join());
    let is_right = (0..steps).all(|_| simulation.step());
    if is_right {
        simulation.drain();
    }
    for node in 0..simulation.timers.len() {
        simulation.bury(node);
    }
    let mut world = shared.lock();
    let counts = [
        ("stale", world.ledger.stale),
        ("nodes", world.nodes.len() as u64),
        ("leases", world.ledger.leases.taken),
        ("users", world.users.told_so),
        ("conflicts", world.users.conflicts),
        ("held up", world.ledger.held_up),
    ];
    world.ledger.report(&counts)
}

impl Simulation {
    fn wrong(&self, what: impl std::fmt::Display) {
        self.shared.lock().ledger.wrong(what);
    }

    /// A node comes.
    fn join(&mut self) {
        let (node, store, clock, mut rng) = {
            let mut world = self.shared.lock();
            let clock = ManualClock::new();
            // (Its own time of day does not matter.)
            let off = Duration::from_secs(world.rng.u64(..7_200));
            clock.set_system_time(world.now + off - Duration::from_secs(3_600));
            let drift_ppm = i128::from(world.rng.i32(-450..450));
            let time = Arc::new(NodeTime::new(clock.clone(), world.now, drift_ppm));
            let rng = Rng::with_seed(world.rng.u64(..));
            drop(world);
            let node = self.shared.add(clock.clone(), time.clone());
            let inner = self.place.node(&format!("node-{node}"), time);
            let store = FaultyNode {
                inner,
                world: self.shared.clone(),
                node,
            };
            (node, store, clock, rng)
        };
        let ahead = MS * [500, 2_000, 60_000][rng.usize(..3)];
        let rows = [1, 2, 5, 16, 10_000, 10_000][rng.usize(..6)];
        let bytes = [100, 1_000, 1 << 20, 1 << 20][rng.usize(..4)];
        let slice = SliceLimit {
            rows: [1, 7, 4_096][rng.usize(..3)],
            bytes: [200, 1_000, 8 << 20][rng.usize(..3)],
        };
        let places = NonZeroUsize::new(rng.usize(1..4)).unwrap();
        {
            let mut world = self.shared.lock();
            world.trouble();
            world.note(format_args!(
                "node {node} joins: {rows} rows, {bytes} bytes"
            ));
        }
        let mut builder = Durable::builder(store)
            .clock(clock)
            .window(WindowLimits::new().ahead(ahead).rows(rows).bytes(bytes))
            .slices(slice)
            .retry_policy(self.retry);
        for kind in KINDS {
            let shared = self.shared.clone();
            builder = match kind {
                "batch" => builder.on_batch(kind, move |timers| shared.deliver_all(timers, node)),
                "lasting" => {
                    builder.on_async(kind, move |timer| shared.deliver_lasting(timer, node))
                }
                _ => builder.on(kind, move |timer| shared.deliver(timer, node)),
            };
        }
        let shared = self.shared.clone();
        let builder = builder.spawner(move |future| shared.spawn(node, future));
        let builder = builder.max_calls("limited", places);
        let started = self.shared.run(node, || builder.start());
        match started {
            Ok(durable) => {
                self.shared.lock().nodes[node].handle = Some(durable.client());
                self.timers.push(Some(durable));
            }
            Err(OpenError::Store(_)) if self.shared.lock().nodes[node].has_failed => {
                self.timers.push(None);
            }
            Err(error) => {
                self.wrong(format_args!("start: {error}"));
                self.timers.push(None);
            }
        }
    }

    /// A node is gone, if it is not yet.
    fn bury(&mut self, node: usize) {
        {
            let mut world = self.shared.lock();
            if self.timers[node].is_some() {
                world.trouble();
            }
            world.nodes[node].has_failed = true;
            world.nodes[node].handle = None;
            let now = world.now;
            if world.users.may_wait(now) {
                // What is held up is tried, and fails.
                world.nodes[node].clock.jump(MS * 200);
            }
        }
        self.shared.drop_futures(node);
        if let Some(timers) = self.timers[node].take() {
            self.shared.run(node, || drop(timers));
        }
        // Whoever waited has an answer, or died.
        self.shared.lock().check_tickets(node);
    }

    fn crash(&mut self, node: usize) {
        self.shared.lock().note(format_args!("node {node} dies"));
        self.bury(node);
    }

    /// A node leaves, if nothing goes wrong just then.
    fn stop(&mut self, node: usize) {
        // (It would wait for what handlers have said.)
        if !self.end_users() || !self.shared.lock().is_up(node) {
            return;
        }
        // (It would wait for them.)
        self.shared.end_futures(node, true);
        {
            let mut world = self.shared.lock();
            world.note(format_args!("node {node} stops"));
            world.nodes[node].is_stopping = true;
            world.trouble();
        }
        let Some(timers) = self.timers[node].take() else {
            return;
        };
        self.shared.lock().nodes[node].plan = None;
        let stopped = self.shared.run(node, || timers.stop());
        let has_failed = self.shared.lock().nodes[node].has_failed;
        if stopped.is_err() != has_failed {
            self.wrong(format_args!("stop: {stopped:?}"));
        }
        self.shared.run(node, || drop(timers));
        self.shared.lock().trouble();
        self.bury(node);
    }

    fn some_node(&self) -> Option<usize> {
        let mut world = self.shared.lock();
        let awake = world.awake();
        world.rng.choice(awake)
    }

    fn pass(&mut self, by: Duration) {
        self.shared.lock().note(format_args!("{by:?} pass"));
        self.shared.pass(by);
    }

    /// A node stands still for a while.
    fn pause(&mut self, node: usize) {
        let mut world = self.shared.lock();
        let lease = world.lease;
        let time = match world.rng.u8(..4) {
            0 => MS * world.rng.u32(1..500),
            1 => lease * 3,
            _ => lease.mul_f64(0.7 + world.rng.f64() * 0.6),
        };
        world.note(format_args!("node {node} stands still for {time:?}"));
        let until = world.now + time;
        world.nodes[node].paused = Some(until);
        world.trouble_at = world.trouble_at.max(until);
    }

    /// Time until something is due, if that is soon.
    fn to_next(&self) -> Option<Duration> {
        let world = self.shared.lock();
        let now = StoreTime::reading(world.now);
        let dues = world.ledger.stored().map(|timer| timer.row.due);
        let next = dues.filter(|&due| due > now).min()?;
        Some(next.since(now)).filter(|&wait| wait < Duration::from_secs(20))
    }

    /// One step. Returns whether all is right so far.
    fn step(&mut self) -> bool {
        self.users_act();
        let step = {
            let mut world = self.shared.lock();
            for node in &mut world.nodes {
                node.calls = 0;
            }
            world.rng.u8(..100)
        };
        let node = self.some_node();
        if let Some(node) = node {
            let mut world = self.shared.lock();
            if world.rng.u8(..12) == 0 {
                world.plan_trouble(node);
            }
        }
        match (step, node) {
            (0..44, Some(node)) => self.shared.act(node, true),
            (44..52, Some(node)) => self.shared.end_futures(node, false),
            (0..70, _) => {
                let by = {
                    let mut world = self.shared.lock();
                    let max = [2, 20, 500, 3_000, 8_000][world.rng.usize(..5)];
                    MS * world.rng.u32(..max)
                };
                self.pass(by);
            }
            (70..84, _) => {
                let by = self.to_next().unwrap_or(MS);
                let (before, after) = {
                    let mut world = self.shared.lock();
                    (MS * world.rng.u32(..30), MS * world.rng.u32(..4))
                };
                let by = if self.shared.lock().rng.bool() {
                    by.saturating_sub(before)
                } else {
                    by + after
                };
                self.pass(by);
            }
            (84..89, Some(node)) => self.pause(node),
            (89..92, Some(node)) => self.crash(node),
            (92..95, Some(node)) => self.stop(node),
            (95..99, _) => {
                let count = (0..self.timers.len()).filter(|&node| self.shared.lock().is_up(node));
                if count.count() < NODES_MAX {
                    self.join();
                }
            }
            _ => {
                let calm = {
                    let world = self.shared.lock();
                    recovery(world.lease) + LATE + LATE
                };
                self.pass_calmly(calm);
            }
        }
        self.look()
    }

    /// Time passes, and no handler lasts.
    fn pass_calmly(&mut self, by: Duration) {
        self.shared.lock().note(format_args!("{by:?} pass calmly"));
        self.shared.end_all_futures(false);
        let end = self.shared.lock().now + by;
        loop {
            let left = end.duration_since(self.shared.lock().now);
            let left = left.unwrap_or_default();
            if left.is_zero() {
                return;
            }
            self.shared.pass(left.min(300 * MS));
            self.shared.end_all_futures(true);
        }
    }

    /// Looks whether all is right. Nodes that have failed are buried; if none is left, one comes.
    fn look(&mut self) -> bool {
        for node in 0..self.timers.len() {
            let (has_failed, is_awake) = {
                let world = self.shared.lock();
                (
                    world.nodes[node].has_failed,
                    world.nodes[node].paused.is_none(),
                )
            };
            if self.timers[node].is_none() {
                continue;
            }
            if has_failed {
                self.bury(node);
            } else if is_awake {
                self.shared.lock().check_tickets(node);
            }
        }
        while self.is_right() && self.timers.iter().all(Option::is_none) {
            self.join();
            let node = self.timers.len() - 1;
            if self.shared.lock().nodes[node].has_failed {
                self.bury(node);
            }
        }
        let has_futures = self.shared.has_futures();
        let mut world = self.shared.lock();
        if has_futures {
            // (Partitions that are leaving wait for them.)
            world.trouble();
        }
        let settled = world.trouble_at + recovery(world.lease) + LATE;
        if world.now >= settled {
            let since = world.now - LATE;
            let all = world.now - LATE_ALL;
            world.ledger.punctual(StoreTime::reading(since), since, all);
        }
        world.ledger.wrongs.is_empty()
    }

    fn is_right(&self) -> bool {
        self.shared.lock().ledger.wrongs.is_empty()
    }

    /// The trouble ceases. All that is stored is handled, or dies.
    fn drain(&mut self) {
        {
            let mut world = self.shared.lock();
            world.note("the trouble ceases");
            world.has_trouble = false;
            world.trouble();
        }
        self.end_users();
        for _ in 0..120 {
            self.end_recurring();
            if !self.look() {
                return;
            }
            let last = {
                let mut world = self.shared.lock();
                for node in &mut world.nodes {
                    node.calls = 0;
                }
                let stored = world.ledger.stored().filter(|timer| !timer.row.superseded);
                stored.map(|timer| timer.row.due).max()
            };
            let Some(last) = last else {
                return self.end();
            };
            let now = StoreTime::reading(self.shared.lock().now);
            let wait = last.since(now).min(Duration::from_secs(20));
            // (Not in the last moments of a run each time.)
            let more = MS * self.shared.lock().rng.u32(..1_500);
            self.pass_calmly(wait + LATE + more);
        }
        let left = self.shared.lock().ledger.late_tokens();
        self.wrong(format_args!("never handled: {left:?}"));
    }

    /// Cancels what would run for ever.
    fn end_recurring(&self) {
        let Some(node) = self.some_node() else { return };
        let ids = self.shared.lock().ledger.recurring();
        for id in ids {
            let handle = self.shared.lock().nodes[node].handle.clone();
            if let Some(handle) = handle {
                self.shared.end(node, &handle, &Target::Id(id), true, false);
            }
        }
    }

    /// Nothing is left: the store says so too.
    fn end(&mut self) {
        // (What was superseded goes when it is loaded, or when its handler ends.)
        self.pass_calmly(Duration::from_secs(65));
        if !self.look() {
            return;
        }
        let (rows, letters) = self.place.contents();
        let mut world = self.shared.lock();
        let dead = world.ledger.in_state(State::Dead);
        let dead: Vec<_> = dead.map(|timer| timer.row.id).collect();
        let found: Vec<_> = letters.iter().map(|letter| letter.row.id).collect();
        if !rows.is_empty() || found != dead {
            let what = format!("{rows:?} are left, and {found:?} are dead, not {dead:?}");
            world.ledger.wrong(what);
        }
    }
}
