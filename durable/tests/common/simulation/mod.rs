//! Simulation: durable timers on stores that fail, on nodes that die, under clocks that are set or
//! drift. All that happens follows from a seed.
//!
//! A seed is a story: some calls, some time, some trouble. There are two scenes. A process has the
//! store for itself, and is a fleet of one node: when it dies, another life begins, and its system
//! clock is set and slewed. The nodes of a fleet share a store: each has a clock of its own, which
//! drifts, while all go by the store's. Nodes come, stop, die, and stand still past their leases;
//! their stores are slow, and lose answers, many of them about leases when these end. In half of
//! these seeds users have transactions of two isolation levels open (`users.rs`).
//!
//! The ledger watches the store, the callers and the handlers. In the end the trouble ceases, and
//! all that is left has to be handled.
//!
//! Nodes run one after the other, each by up to a quantum of time. So two of them may be apart by a
//! quantum, which is less than the margin of a lease.

mod acts;
mod answers;
mod calls;
mod handlers;
mod ledger;
mod limits;
mod nodes;
mod passing;
mod process;
mod rules;
mod scene;
pub mod seeds;
mod store;
mod time;
mod trouble;
mod users;
mod world;

pub use ledger::Report;
pub use scene::Kept;

use super::shared_memory::{Making, SharedPlace, StoreBreak};
use acts::Place;
use ledger::{FORGOTTEN_WITHIN, recovery};
use scene::{KINDS, Open, Scene, Step};
use std::collections::BTreeSet;
use std::time::Duration;
use wheelwork_durable::contract::{Position, SliceLimit, Target};
use wheelwork_durable::{Durable, DurableId, Partition, RetryPolicy, Row, StoreTime};
use world::{MS, Shared, World};

/// What is overdue for longer, while nothing is wrong, was forgotten. The system's clock is looked
/// at once a second.
const LATE: Duration = Duration::from_secs(3);

/// The same for what was overdue for long when it came to a node that had lost its lease meanwhile.
const LATE_ALL: Duration = Duration::from_secs(65);

const NODES_MAX: usize = 4;

/// Where the timers are kept.
enum Backing {
    Alone(Open),
    Shared(SharedPlace),
}

struct Simulation {
    shared: Shared,
    backing: Backing,
    /// By the node's number.
    timers: Vec<Option<Durable>>,
    /// `None`: each process has its own.
    retry: Option<RetryPolicy>,
}

/// Some partition.
fn partition_of_key(key: &str) -> Partition {
    Partition::from(key.bytes().next().unwrap_or_default() % 4)
}

/// A store for nodes, by chance how.
fn shared_place(world: &mut World, broken: Option<StoreBreak>) -> SharedPlace {
    let making = Making {
        partitions: [4, 4, 7, 16][world.rng.usize(..4)],
        partition_of_key,
        lease: world.lease,
        claim_ahead: MS * world.rng.u32(5..200),
        has_news: world.rng.bool(),
        strikes: true,
        broken,
    };
    world.note(format_args!("{making:?}"));
    SharedPlace::new(making, world.base)
}

/// Lives through a seed. `Err`: its story, and which promise was broken.
pub fn simulate(kept: Kept, seed: u64) -> Result<Report, String> {
    let scene = match kept {
        Kept::Alone(_) => Scene::Process,
        Kept::Shared(_) => Scene::Fleet,
    };
    let mut world = World::new(scene, seed);
    let (backing, retry) = match kept {
        Kept::Alone(open) => (Backing::Alone(open), None),
        Kept::Shared(broken) => {
            let place = shared_place(&mut world, broken);
            let mut rng = world.rng.clone();
            let retry = world.set_up(&mut rng, KINDS.into());
            world.rng = rng;
            (Backing::Shared(place), Some(retry))
        }
    };
    let steps = world.rng.u32(20..120);
    let nodes = if scene.is_fleet() {
        world.rng.u8(2..=3)
    } else {
        1
    };
    let mut simulation = Simulation {
        shared: Shared::of(world),
        backing,
        timers: Vec::new(),
        retry,
    };
    (0..nodes).for_each(|_| simulation.join());
    let is_right = (0..steps).all(|_| simulation.step());
    if is_right {
        simulation.drain();
    }
    for node in 0..simulation.timers.len() {
        simulation.bury(node);
    }
    let mut world = simulation.shared.lock();
    let counts = [
        ("nodes", world.nodes.len() as u64),
        ("users", world.users.told_so),
        ("conflicts", world.users.conflicts),
    ];
    world.ledger.report(&counts)
}

impl Simulation {
    fn is_fleet(&self) -> bool {
        self.shared.lock().scene.is_fleet()
    }

    fn wrong(&self, what: impl std::fmt::Display) {
        self.shared.lock().ledger.wrong(what);
    }

    fn is_right(&self) -> bool {
        self.shared.lock().ledger.wrongs.is_empty()
    }

    /// The node that came last.
    fn last(&self) -> usize {
        self.timers.len() - 1
    }

    fn some_node(&self) -> Option<usize> {
        let mut world = self.shared.lock();
        let awake = world.awake();
        match world.scene.is_fleet() {
            true => world.rng.choice(awake),
            false => awake.last().copied(),
        }
    }

    fn pass(&self, by: Duration) {
        self.shared.lock().note(format_args!("{by:?} pass"));
        self.shared.pass(by);
    }

    /// A node stands still for a while.
    fn pause(&self, node: usize) {
        let mut world = self.shared.lock();
        let lease = world.lease;
        let time = match world.rng.u8(..4) {
            0 => MS * world.rng.u32(1..500),
            1 => lease * 3,
            _ => lease.mul_f64(0.7 + world.rng.f64() * 0.6),
        };
        world.note(format_args!("node {node} stands still for {time:?}"));
        world.nodes[node].paused = Some(world.base + time);
        world.trouble(time);
    }

    /// Time until something is due, if that is sooner than this.
    fn to_next(&self, soon: Duration) -> Option<Duration> {
        let world = self.shared.lock();
        let now = StoreTime::reading(world.store_time());
        let dues = world.ledger.stored().map(|timer| timer.row.due);
        let next = dues.filter(|&due| due > now).min()?;
        Some(next.since(now)).filter(|&wait| wait < soon)
    }

    /// Time passes until something is due. By a process's system clock it may be too early then,
    /// and nobody has noticed. In a fleet it is a little earlier or later.
    fn pass_to_next(&self) {
        let is_fleet = self.is_fleet();
        let by = self.to_next(Duration::from_secs(if is_fleet { 20 } else { 30 }));
        let by = by.unwrap_or(MS);
        let mut world = self.shared.lock();
        let by = match is_fleet {
            true => {
                let (before, after) = (MS * world.rng.u32(..30), MS * world.rng.u32(..4));
                match world.rng.bool() {
                    true => by.saturating_sub(before),
                    false => by + after,
                }
            }
            false => {
                if world.rng.u8(..4) == 0 {
                    let slip = MS * world.rng.u32(1..6);
                    let to = world.store_time() - slip;
                    world.set_clock(to);
                    world.note(format_args!("the clock slips by {slip:?}"));
                }
                by
            }
        };
        drop(world);
        self.pass(by);
    }

    /// The next step, by chance, and on which node. Trouble may be planned for it.
    fn next_step(&self) -> (Step, Option<usize>) {
        let draw = || {
            let mut world = self.shared.lock();
            let steps = world.scene.steps();
            world.rng.u8(..steps)
        };
        let number = self.is_fleet().then(draw);
        let node = self.some_node();
        if let Some(node) = node {
            let mut world = self.shared.lock();
            if world.rng.u8(..12) == 0 {
                world.plan_trouble(node);
            }
        }
        let number = number.unwrap_or_else(draw);
        (self.shared.lock().scene.step(number, node.is_some()), node)
    }

    /// One step. Returns whether all is right so far.
    fn step(&mut self) -> bool {
        self.users_act();
        self.slew_or_hang();
        self.change_limits();
        if !self.is_fleet() && !self.look() {
            return false;
        }
        for node in &mut self.shared.lock().nodes {
            node.calls = 0;
        }
        let (step, node) = self.next_step();
        if let Some(node) = node {
            self.shared.change_some_rule(node);
        }
        let node = node.unwrap_or_default();
        match step {
            Step::Act => self.shared.act(node, Place::Outside),
            Step::EndFuture => self.shared.end_futures(node, false),
            Step::Pass => {
                let by = {
                    let mut world = self.shared.lock();
                    let max = world.scene.passes_ms()[world.rng.usize(..5)];
                    MS * world.rng.u32(..max)
                };
                self.pass(by);
            }
            Step::ToNext => self.pass_to_next(),
            Step::Race => self.race(node),
            Step::SetClock => self.set_clock(),
            Step::Pause => self.pause(node),
            Step::Crash => self.crash(node),
            Step::Stop => self.stop(node),
            Step::Join => {
                let world = self.shared.lock();
                let count = (0..self.timers.len()).filter(|&node| world.is_up(node));
                let has_room = count.count() < NODES_MAX;
                drop(world);
                if has_room {
                    self.join();
                }
            }
            Step::Calm if self.is_fleet() => {
                let calm = recovery(self.shared.lock().lease) + LATE + LATE;
                self.pass_calmly(calm);
            }
            Step::Calm => self.pass(Duration::from_secs(20)),
            Step::Executor => self.wait_for_executor(node),
        }
        self.look()
    }

    /// Time passes, and no handler lasts.
    fn pass_calmly(&self, by: Duration) {
        self.shared.lock().note(format_args!("{by:?} pass calmly"));
        self.shared.end_all_futures(false);
        let end = self.shared.lock().base + by;
        loop {
            let left = end.duration_since(self.shared.lock().base);
            let left = left.unwrap_or_default();
            if left.is_zero() {
                return;
            }
            self.shared.pass(left.min(300 * MS));
            self.shared.end_all_futures(true);
        }
    }

    /// Whether a node is there that hands timers out; when the trouble has ceased, those of all
    /// kinds.
    fn has_handlers(&self) -> bool {
        let world = self.shared.lock();
        let needs_all = !world.has_trouble && world.scene.is_fleet();
        let kind = if needs_all { "unknown" } else { "limited" };
        let is_there = |node: &usize| self.timers[*node].is_some();
        let mut there = (0..self.timers.len()).filter(is_there);
        let is_alone = !world.scene.is_fleet();
        there.any(|node| is_alone || world.ledger.is_of(node, kind))
    }

    /// Looks whether all is right. Nodes that have failed are buried; if none is left, one comes.
    fn look(&mut self) -> bool {
        for node in 0..self.timers.len() {
            if self.timers[node].is_none() {
                continue;
            }
            let (has_failed, is_awake) = {
                let node = &self.shared.lock().nodes[node];
                (node.has_failed, node.paused.is_none())
            };
            if has_failed {
                self.bury(node);
            } else if is_awake {
                self.shared.lock().check_tickets(node);
            }
        }
        while self.is_right() && !self.has_handlers() {
            self.join();
            // (It may die again while it starts.)
            let node = self.last();
            if self.shared.lock().nodes[node].has_failed {
                self.bury(node);
            }
        }
        if !self.is_right() {
            return false;
        }
        let has_futures = self.shared.has_futures();
        let late = self.late();
        let mut world = self.shared.lock();
        let world = &mut *world;
        if world.scene.is_fleet() {
            let awake = world.awake();
            let kinds_of = &world.ledger.kinds_of;
            let looks = |node| kinds_of.get(node).is_none_or(BTreeSet::is_empty);
            let all_look = awake.iter().all(looks);
            if has_futures || all_look {
                // (Partitions that are leaving wait for them. Nobody hands anything out.)
                world.trouble(Duration::ZERO);
            }
            self.look_at_health(world);
        } else if let Some(timers) = self.timers.last().and_then(Option::as_ref)
            && self.look_at_health(world)
        {
            world.ledger.at_rest();
            world.ledger.compare(&timers.stats());
        }
        let now = world.now();
        let recovers = match world.scene {
            Scene::Process => Duration::ZERO,
            Scene::Fleet => recovery(world.lease),
        };
        if now >= world.trouble_at + recovers + LATE {
            let due = StoreTime::reading(world.store_time() - late);
            let since = now - LATE;
            let all = match world.scene {
                Scene::Process => since,
                Scene::Fleet => now - LATE_ALL,
            };
            world.ledger.punctual(due, since, all);
        }
        world.ledger.wrongs.is_empty()
    }

    /// Each node that lives knows whether its store works. Returns whether all do.
    fn look_at_health(&self, world: &mut World) -> bool {
        let mut all_work = true;
        for (node, timers) in self.timers.iter().enumerate() {
            let Some(timers) = timers.as_ref().filter(|_| world.is_up(node)) else {
                continue;
            };
            let (is_down, health) = (world.nodes[node].is_down, timers.health());
            world.ledger.demand(health.is_ready() != is_down, || {
                format!("the store of node {node} is away: {is_down}, and {health:?}")
            });
            all_work &= !is_down;
        }
        if !all_work {
            world.trouble(Duration::ZERO);
        }
        all_work
    }

    /// The trouble ceases. All that is stored is handled, or dies.
    fn drain(&mut self) {
        let is_fleet = self.is_fleet();
        let stops = {
            let mut world = self.shared.lock();
            world.note("the trouble ceases");
            (world.has_trouble, world.has_rare) = (false, false);
            if std::mem::take(&mut world.slew_ppm) != 0 || is_fleet {
                world.trouble(Duration::ZERO);
            }
            // (From now on all kinds have a handler.)
            let mut stored = world.ledger.stored();
            let has_unhandled = stored.any(|timer| !world.ledger.is_handled(&timer.row.kind));
            drop(stored);
            !is_fleet && (world.rng.bool() || has_unhandled)
        };
        self.end_users();
        if stops {
            self.stop(self.last());
            self.join();
        }
        if is_fleet {
            // One node has all kinds from now on. The others stay, or go.
            let all_go = self.shared.lock().rng.bool();
            for node in 0..self.timers.len() * usize::from(all_go) {
                let is_awake = self.shared.lock().awake().contains(&node);
                if is_awake {
                    self.stop(node);
                }
                self.bury(node);
            }
            self.join();
        }
        for _ in 0..200 {
            if !self.look() {
                return;
            }
            self.end_limits();
            // (After a look: a timer that ends each process would never be cancelled before.)
            self.end_recurring();
            self.end_rules();
            let last = {
                let world = self.shared.lock();
                let mut stored: Vec<_> = world.ledger.stored().collect();
                stored.retain(|timer| !is_fleet || !timer.row.superseded);
                let dues = stored.iter().map(|timer| timer.row.clone().shown().due);
                dues.max()
            };
            match last {
                Some(last) => self.pass_to_last(last),
                None => return self.end(),
            }
        }
        let left = self.shared.lock().ledger.tokens_left();
        self.wrong(format_args!("never handled: {left:?}"));
    }

    /// Time passes up to the last deadline, or a part of it.
    fn pass_to_last(&self, last: StoreTime) {
        const SOON: Duration = Duration::from_secs(20);
        let mut world = self.shared.lock();
        for node in &mut world.nodes {
            node.calls = 0;
        }
        if world.scene.is_fleet() {
            let wait = last.since(StoreTime::reading(world.base)).min(SOON);
            // (Not in the last moments of a run each time.)
            let more = MS * world.rng.u32(..1_500);
            drop(world);
            return self.pass_calmly(wait + LATE + more);
        }
        if last.system_time() > world.store_time() + SOON {
            world.set_clock(last.system_time());
            world.trouble(Duration::ZERO);
        }
        drop(world);
        self.pass(2 * LATE);
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
        if self.is_fleet() {
            // (What was superseded goes when it is loaded, or when its handler ends.)
            self.pass_calmly(Duration::from_secs(65));
            if !self.look() {
                return;
            }
            self.look_at_records();
        } else {
            self.look_at_records();
            self.stop(self.last());
        }
        let (rows, found) = self.contents();
        let dead = self.shared.lock().ledger.dead_ids();
        if !rows.is_empty() || found != dead {
            self.wrong(format_args!(
                "{rows:?} are left, and {found:?} are dead, not {dead:?}"
            ));
        }
    }

    /// Records go when their time is over, if that is short.
    fn look_at_records(&self) {
        let keep = self.shared.lock().ledger.records.keep;
        let Some(keep) = keep.filter(|keep| *keep < 10 * FORGOTTEN_WITHIN) else {
            return;
        };
        let wait = keep + FORGOTTEN_WITHIN + LATE;
        match self.is_fleet() {
            true => self.pass_calmly(wait),
            false => self.pass(wait),
        }
        let mut world = self.shared.lock();
        let now = StoreTime::reading(world.store_time());
        world.ledger.records_are_over(now);
    }

    /// All rows, and the ids of dead letters.
    fn contents(&self) -> (Vec<Row>, Vec<DurableId>) {
        let (rows, letters) = match &self.backing {
            Backing::Shared(place) => place.contents(),
            Backing::Alone(open) => {
                let (mut store, all) = (open(), SliceLimit::rows(usize::MAX));
                store.acquire().unwrap();
                let rows = store.load(0, Position::MIN, StoreTime::MAX, all);
                (rows.unwrap(), store.dead(None, all).unwrap())
            }
        };
        let ids = letters.iter().map(|letter| letter.row.id);
        (rows, ids.collect())
    }
}
