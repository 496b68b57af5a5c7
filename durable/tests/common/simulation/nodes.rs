//! Nodes: how they come and go. In a process each is a life, and the next one comes after it.

use super::scene::{KINDS, Windows};
use super::store::{FaultyStore, Sharing};
use super::time::NodeTime;
use super::world::{MS, NodeState, World};
use super::{Backing, Simulation, ledger};
use fastrand::Rng;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wheelwork::ManualClock;
use wheelwork_durable::contract::{SliceLimit, Store};
use wheelwork_durable::{Durable, DurableBuilder, OpenError, RetryPolicy, StoreTime, WindowLimits};

fn one_of<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

impl World {
    /// How often is tried, by chance. The ledger knows it.
    pub fn set_up(&mut self, rng: &mut Rng, kinds: BTreeSet<&'static str>) -> RetryPolicy {
        let bury_after = match rng.u8(..4) {
            0 => MS * rng.u32(..60_000),
            _ => Duration::from_secs(7 * 86_400),
        };
        let attempts_max = rng.u32(1..self.scene.attempts_bound());
        let crashes_max = rng.u32(1..4);
        let retry = RetryPolicy::new()
            .attempts(attempts_max)
            .crash_attempts(crashes_max)
            .first(MS * rng.u32(..500))
            .cap(2_000 * MS);
        self.note(format_args!(
            "{retry:?}; {kinds:?}, others are buried after {bury_after:?}"
        ));
        self.ledger.setup = ledger::Setup {
            attempts_max,
            crashes_max,
            kinds,
            bury_after,
        };
        retry
    }

    /// What a node's system clock shows when it comes. (In a fleet that does not matter.)
    fn next_begin(&mut self) -> SystemTime {
        let now = self.store_time();
        if self.scene.is_fleet() {
            let off = Duration::from_secs(self.rng.u64(..7_200));
            return now + off - Duration::from_secs(3_600);
        }
        if self.nodes.is_empty() {
            return now;
        }
        let away = match self.rng.u8(..8) {
            0 => Duration::from_secs(self.rng.u64(..3_600)),
            1 => self.delay(),
            _ => MS * self.rng.u32(..2_000),
        };
        match self.rng.u8(..10) {
            0 => now - away,
            _ => now + away,
        }
    }

    /// A node is about to start. Returns its number.
    fn add_node(&mut self, time: SystemTime) -> usize {
        let clock = ManualClock::new();
        clock.set_system_time(time);
        let is_fleet = self.scene.is_fleet();
        let store_clock = is_fleet.then(|| {
            let drift_ppm = i128::from(self.rng.i32(-450..450));
            Arc::new(NodeTime::new(clock.clone(), self.base, drift_ppm))
        });
        let mut node = NodeState::new(clock, store_clock);
        if !is_fleet {
            self.base = self.now();
            if let Some(former) = self.nodes.last_mut() {
                // (It may have failed while it started.)
                former.dies();
                node.plan = former.plan.take();
            }
            self.ledger.limits.end_life();
        }
        self.nodes.push(node);
        self.trouble(Duration::ZERO);
        self.nodes.len() - 1
    }
}

impl Simulation {
    /// A node comes. If a process fails while it starts, it is started again.
    pub fn join(&mut self) {
        let time = self.shared.lock().next_begin();
        while !self.try_join(time) {}
    }

    fn try_join(&mut self, time: SystemTime) -> bool {
        let (node, mut rng) = {
            let mut world = self.shared.lock();
            let node = world.add_node(time);
            (node, Rng::with_seed(world.rng.u64(..)))
        };
        let builder = self.builder(node, &mut rng);
        let started = self.shared.run(node, || builder.start());
        let mut world = self.shared.lock();
        let is_refused = world.nodes[node].has_failed;
        match started {
            Ok(durable) => {
                world.nodes[node].handle = Some(durable.client());
                self.timers.push(Some(durable));
            }
            Err(OpenError::Store(_)) if is_refused => {
                self.timers.push(None);
                return world.scene.is_fleet();
            }
            Err(error) => {
                world.ledger.wrong(format_args!("start: {error}"));
                self.timers.push(None);
            }
        }
        true
    }

    fn builder(&self, node: usize, rng: &mut Rng) -> DurableBuilder<FaultyStore> {
        let mut world = self.shared.lock();
        let scene = world.scene;
        let mut kinds: BTreeSet<_> = KINDS.into();
        if !world.has_trouble {
            kinds.insert("unknown");
        }
        if scene.is_fleet() {
            let others = world.awake().len();
            match rng.u8(..12) {
                _ if !world.has_trouble => {}
                0 => drop(kinds.remove("batch")),
                1 => drop(kinds.remove("steady")),
                2 => drop(kinds.remove("shaky")),
                3 if others > 0 => kinds.clear(),
                _ => {}
            }
        }
        let retry = self.retry.unwrap_or_else(|| {
            match rng.u8(..20) {
                _ if !world.has_trouble => {}
                0 | 1 => {
                    kinds.remove("batch");
                }
                2 => kinds.clear(),
                _ => {}
            }
            world.set_up(rng, kinds.clone())
        });
        world.note(format_args!("node {node} has {kinds:?}"));
        world.ledger.kinds_of.insert(node, kinds.clone());
        let Windows {
            ahead_ms,
            rows,
            bytes,
            slice_rows,
            slice_bytes,
        } = scene.windows();
        let ahead = MS * one_of(rng, ahead_ms);
        let (rows, bytes) = (one_of(rng, rows), one_of(rng, bytes));
        let slice = SliceLimit {
            rows: one_of(rng, slice_rows),
            bytes: one_of(rng, slice_bytes),
        };
        let places = NonZeroUsize::new(rng.usize(1..4)).unwrap();
        let is_async = !scene.is_fleet() && rng.bool();
        world.nodes[node].slice = slice;
        world.note(format_args!(
            "node {node} comes: window {ahead:?}, {rows} rows, {bytes} bytes; {slice:?}"
        ));
        let clock = world.nodes[node].clock.clone();
        let bury_after = world.ledger.setup.bury_after;
        let heals = world.heal.u8(..4) > 0;
        world.nodes[node].heals = heals;
        let keep = world.ledger.records.keep;
        drop(world);
        let executor = self.shared.clone();
        let mut builder = Durable::builder(self.store(node))
            .clock(clock)
            .spawner(move |future| executor.spawn(node, future))
            .window(WindowLimits::new().ahead(ahead).rows(rows).bytes(bytes))
            .slices(slice)
            .heals(heals)
            .bury_unhandled_after(bury_after)
            .retry_policy(retry);
        if let Some(keep) = keep {
            builder = builder.keep_done(keep);
        }
        let has_limited = kinds.contains("limited");
        for kind in kinds {
            let shared = self.shared.clone();
            builder = match kind {
                "batch" => builder.on_batch(kind, move |timers| shared.deliver_all(timers, node)),
                "lasting" => {
                    let deliver = move |timer| shared.deliver_lasting(timer, node);
                    let limit = Duration::from_millis(1_500);
                    builder.on_async(kind, deliver).time_limit(kind, limit)
                }
                "limited" if is_async => builder.on_async(kind, move |timer| {
                    let shared = shared.clone();
                    async move { shared.deliver(&timer, node) }
                }),
                _ => builder.on(kind, move |timer| shared.deliver(timer, node)),
            };
        }
        match has_limited {
            true => builder.max_calls("limited", places),
            false => builder,
        }
    }

    fn store(&self, node: usize) -> FaultyStore {
        let (inner, sharing): (Box<dyn Store>, _) = match &self.backing {
            Backing::Alone(open) => (open(), None),
            Backing::Shared(place) => {
                let time = self.shared.lock().nodes[node].time.clone().unwrap();
                let inner = place.node(&format!("node-{node}"), time.clone());
                let making = place.making();
                let sharing = Sharing {
                    time,
                    partitions: making.partitions,
                    claim_ahead: making.claim_ahead,
                };
                (Box::new(inner), Some(sharing))
            }
        };
        FaultyStore {
            inner,
            world: self.shared.clone(),
            node,
            sharing,
            now: StoreTime::MIN,
        }
    }

    /// A node is gone, if it is not yet.
    pub fn bury(&mut self, node: usize) {
        {
            let mut world = self.shared.lock();
            if self.timers[node].is_some() {
                world.trouble(Duration::ZERO);
            }
            world.nodes[node].dies();
            world.nodes[node].is_stopping = true;
            world.nodes[node].handle = None;
            if world.may_wait() {
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

    pub fn crash(&mut self, node: usize) {
        self.shared.lock().note(format_args!("node {node} dies"));
        self.bury(node);
    }

    /// A node leaves, if nothing goes wrong just then.
    pub fn stop(&mut self, node: usize) {
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
            world.trouble(Duration::ZERO);
        }
        let Some(timers) = self.timers[node].take() else {
            return;
        };
        if self.is_fleet() {
            self.shared.lock().nodes[node].plan = None;
        }
        let stopped = self.shared.run(node, || timers.stop());
        let has_failed = {
            let node = &self.shared.lock().nodes[node];
            node.has_failed || node.is_down
        };
        if stopped.is_err() != has_failed {
            self.wrong(format_args!("stop: {stopped:?}"));
        }
        self.shared.run(node, || drop(timers));
        let mut world = self.shared.lock();
        world.check_tickets(node);
        world.trouble(Duration::ZERO);
        drop(world);
        self.bury(node);
    }
}
